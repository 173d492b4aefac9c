"""Half an hour of many clients, while brokers, programs and sinks are killed and tmux stalls: `scripts/bench soak`.

Each client has a session, and calls what it likes: commands that are to be exact in output and exit code, programs that
print much, Python, interrupts, pictures, searches, other sizes, the session made anew. Each command appends its number
to a file beside, which is the oracle: it says what has run, whatever an answer says. A call whose broker was killed is
made again with its `request_id`, at another broker.

An answer is *exact*, or *honest* (it says that it does not know, or an error says that nothing ran, and nothing did),
or *wrong*. At the end everything is taken away, and what is left of it is counted: processes, descriptors, files.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import psutil

from benchmarks.common import workshop
from benchmarks.service import Rpc, serving

BROKERS = 3
TRIES = 20
"""How often a call is made again whose broker was killed."""

NOT_RUN = {"SESSION_BUSY", "SESSION_NOT_FOUND", "SESSION_EXITED", "SESSION_EXISTS", "MAX_SESSIONS", "NOT_A_SHELL"}
"""Errors that say that nothing was run."""

NOT_KNOWN = {"OUTCOME_UNKNOWN", "TMUX_ERROR", "TMUX_UNAVAILABLE", "TIMEOUT"}
"""Errors after which it may have run, or not."""


class Refused(Exception):
    """A call was answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code = error["code"]


class Brokers:
    """Several servers of one state directory, each made anew when it was killed."""

    def __init__(self, env: dict[str, str]) -> None:
        self._env, self._lock = env, threading.Lock()
        self._open: list[tuple[ExitStack, subprocess.Popen[bytes], int]] = [self._start() for _ in range(BROKERS)]

    def _start(self) -> tuple[ExitStack, subprocess.Popen[bytes], int]:
        stack = ExitStack()
        process, port = stack.enter_context(serving(self._env | {"TMUXMCP_MAX_CALLS": "1000"}))
        assert process.stderr
        threading.Thread(target=process.stderr.read, daemon=True).start()
        return stack, process, port

    def ports(self) -> list[int]:
        with self._lock:
            return [port for _, _, port in self._open]

    def pids(self) -> list[int]:
        with self._lock:
            return [process.pid for _, process, _ in self._open]

    def kill(self, number: int) -> None:
        with self._lock:
            _, process, _ = self._open[number]
        process.kill()
        process.wait()

    def start_again(self, number: int) -> None:
        with self._lock:
            stack, _, _ = self._open[number]
        with suppress(ValueError):  # its standard error is read elsewhere
            stack.close()
        with self._lock:
            self._open[number] = self._start()

    def close(self) -> None:
        for stack, process, _ in self._open:
            process.terminate()
            process.wait(10)
            with suppress(ValueError):
                stack.close()


class Client(threading.Thread):
    """One client with one session; counts how its calls ended."""

    def __init__(self, number: int, brokers: Brokers, side: Path, until: float, seed: int) -> None:
        super().__init__()
        self._name, self._brokers, self._side, self._until = f"c{number}", brokers, side, until
        self._rng = random.Random(f"{seed}-{number}")
        self._count, self._asked = 0, 0
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.ran: dict[str, bool | None] = {}
        """By the number of a command: whether it has run by what was answered; None: that was not told."""

    def run(self) -> None:
        choices: list[tuple[int, Callable[[], None]]] = [
            (60, self._command),
            (6, self._large),
            (8, self._python),
            (6, self._interrupt),
            (5, lambda: self._other("resize", rows=self._rng.randint(5, 60), cols=self._rng.randint(20, 200))),
            (5, lambda: self._other("search", pattern="out")),
            (3, lambda: self._other("screenshot", format="svg")),
            (5, lambda: self._other("read", view="screen")),
            (2, lambda: self._other("list_sessions")),
            (2, self._anew),
        ]
        weights, calls = zip(*choices, strict=True)
        self._anew()
        while time.monotonic() < self._until:
            call = self._rng.choices(calls, weights)[0]
            try:
                call()
            except Refused as error:
                self.counts[f"refused {error.code}"] += 1
                if error.code == "INTERNAL":
                    self.wrong.append(f"{self._name}: {error}")
                if error.code in ("SESSION_NOT_FOUND", "SESSION_EXITED"):
                    self._anew()
                elif error.code in ("SESSION_BUSY", "NOT_A_SHELL"):
                    self._interrupted()

    def _call(self, method: str, *, again: bool = False, **params: Any) -> Any:
        """A call that is made again at another broker if its own was killed."""
        if again:
            self._asked += 1
            params["request_id"] = f"{self._name}-{self._asked:08d}"
        for _ in range(TRIES):
            try:
                answer = Rpc(self._rng.choice(self._brokers.ports())).call(method, **params)
            except (OSError, HTTPException, ValueError):
                self.counts["broker was gone"] += 1
                time.sleep(0.2)
                continue
            if "error" in answer:
                raise Refused(answer["error"]["data"])
            return answer["result"]
        raise Refused({"code": "TIMEOUT", "message": "no broker answered"})

    def _anew(self) -> None:
        with suppress(Refused):
            self._call("destroy_session", session_id=self._name, force=True)
        for _ in range(TRIES):
            with suppress(Refused):
                self._call("create_session", name=self._name, program="bash")
                return
            time.sleep(0.2)

    def _interrupted(self) -> None:
        with suppress(Refused):
            self._call("send", session_id=self._name, key="C-c", read="none")
        with suppress(Refused):
            self._call("read", session_id=self._name, wait_for="ready", timeout_ms=2000)

    def _exact(self, body: str, output: str, code: int, sent_max: int = 8192) -> None:
        """A command that is to be exact."""
        self._count += 1
        number = f"{self._name}-{self._count}"
        command = f"echo {number} >> {self._side}; {body}; (exit {code})"
        try:
            told = self._call(
                "run", again=True, session_id=self._name, command=command, timeout_ms=20_000, max_bytes=sent_max
            )
        except Refused as error:
            self.ran[number] = False if error.code in NOT_RUN else None
            raise
        if told["exit_code"] is None or told["note"]:  # it says what it does not know
            self.ran[number] = None
            self.counts[f"honest: {told['outcome']}, {(told['note'] or '')[:60]}"] += 1
            return
        self.ran[number] = True
        if (told["output"], told["exit_code"]) == (output, code):
            self.counts["exact"] += 1
        else:
            self.wrong.append(f"{number}: {command!r}: {told['exit_code']} {told['output'][:200]!r}")

    def _command(self) -> None:
        text, code = f"out {self._rng.random()}", self._rng.randint(0, 120)
        self._exact(f"sleep {self._rng.choice(['0', '0', '0.05', '0.3'])}; echo '{text}'", f"{text}\n", code)

    def _large(self) -> None:
        lines = self._rng.randint(1000, 60_000)
        output = "".join(f"{number}\n" for number in range(1, lines + 1))
        self._exact(f"seq {lines}", output, self._rng.randint(0, 9), 1 << 20)

    def _python(self) -> None:
        first, second = self._rng.randint(1, 1 << 40), self._rng.randint(1, 1 << 40)
        self._exact(f"python3 -c 'print({first} * {second})'", f"{first * second}\n", 0)

    def _interrupt(self) -> None:
        told = self._call("run", session_id=self._name, command="sleep 30", timeout_ms=300)
        if told["outcome"] == "timeout":
            self._call("signal", session_id=self._name, signal="INT")
            ended = self._call("read", session_id=self._name, wait_for="command", timeout_ms=5000)["command"]
            if ended and ended["text"] == "sleep 30" and ended["exit_code"] not in (130, None):
                self.wrong.append(f"{self._name}: interrupted, {ended}")
            self.counts["interrupted" if ended else "honest: no end was told"] += 1

    def _other(self, method: str, **params: Any) -> None:
        if method != "list_sessions":
            params["session_id"] = self._name
        self._call(method, **params)
        self.counts[method] += 1


def _faults(brokers: Brokers, state_dir: Path, until: float, every_s: float, seed: int) -> Counter[str]:
    """Kill and stall until the time is over; say what and how often."""
    rng, done = random.Random(seed), Counter[str]()
    while time.monotonic() < until:
        time.sleep(rng.uniform(0.5, 1.5) * every_s)
        fault = rng.choice(["broker", "broker", "sink", "sink", "program", "tmux stalls", "broker while tmux stalls"])
        number = rng.randrange(BROKERS)
        if fault.endswith("tmux stalls"):
            with suppress(psutil.Error, OSError, ValueError):
                tmux = int((state_dir / "tmux.pid").read_text())
                os.kill(tmux, signal.SIGSTOP)
                time.sleep(rng.uniform(0.1, 2))
                if fault.startswith("broker"):  # nobody reads what tmux still answers
                    brokers.kill(number)
                os.kill(tmux, signal.SIGCONT)
        if fault.startswith("broker"):
            brokers.kill(number)
            brokers.start_again(number)
        if fault in ("sink", "program"):
            found = [each for each in _ours(state_dir) if (each.info["name"] == "dd") == (fault == "sink")]
            sinks = [each for each in found if fault == "sink" or each.info["name"] == "bash"]
            if sinks:
                with suppress(psutil.Error):
                    rng.choice(sinks).kill()
        done[fault] += 1
    return done


def _ours(state_dir: Path) -> list[psutil.Process]:
    """Processes whose arguments or open files name the state directory: sinks, launchers, shells."""
    found = []
    for each in psutil.process_iter(["name", "cmdline"]):
        with suppress(psutil.Error, OSError):
            named = str(state_dir) in " ".join(each.info["cmdline"] or [])
            if named or any(str(state_dir) in os.readlink(link) for link in Path(f"/proc/{each.pid}/fd").iterdir()):
                found.append(each)
    return found


def _left(state_dir: Path, brokers: Brokers) -> dict[str, int]:
    """What is there when no session is."""
    servers = [psutil.Process(pid) for pid in brokers.pids()]
    helpers = {child.pid for server in servers for child in server.children(recursive=True)}
    nobodys = [each for each in _ours(state_dir) if each.pid not in helpers and each.pid not in brokers.pids()]
    return {
        "processes of no broker": len(nobodys),
        "processes that brokers have started": len(helpers),
        "descriptors of brokers, most": max(server.num_fds() for server in servers),
        "threads of brokers, most": max(server.num_threads() for server in servers),
        "temporary files": sum(1 for file in state_dir.rglob("*.tmp*")),
    }


def main() -> int:
    """Soak, and say what came of it; the exit status is 1 where an answer was wrong or something was left."""
    parser = argparse.ArgumentParser(prog="scripts/bench soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, metavar="N", help="how long (30)")
    parser.add_argument("--clients", type=int, default=20, metavar="N", help="clients at once (20)")
    parser.add_argument("--every", type=float, default=8, metavar="SECONDS", help="between two faults (8)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of what clients do, and of the faults (1)")
    options = parser.parse_args()
    with workshop() as (state_dir, env):
        side = state_dir.parent / "side"
        side.touch()
        brokers = Brokers(env)
        Rpc(brokers.ports()[0]).call("list_sessions")
        before = _left(state_dir, brokers)
        until = time.monotonic() + options.minutes * 60
        clients = [Client(number, brokers, side, until, options.seed) for number in range(options.clients)]
        for client in clients:
            client.start()
        faults = _faults(brokers, state_dir, until, options.every, options.seed)
        for client in clients:
            client.join(120)
        names = [row["session_id"] for row in Rpc(brokers.ports()[0]).call("list_sessions")["result"]["sessions"]]
        for name in names:
            Rpc(brokers.ports()[0]).call("destroy_session", session_id=name, force=True)
        time.sleep(5)  # brokers that were just started still look around
        after = _left(state_dir, brokers)
        lines = Counter(side.read_text().split())
        brokers.close()
    wrong = [each for client in clients for each in client.wrong]
    wrong += [f"{number} ran {count} times" for number, count in lines.items() if count > 1]
    for client in clients:
        wrong += [f"{n}: said to have run, and did not" for n, ran in client.ran.items() if ran and not lines[n]]
        wrong += [f"{n}: said not to have run, and did" for n, ran in client.ran.items() if ran is False and lines[n]]
        if client.is_alive():
            wrong.append(f"{client.name} hangs")
    counts = sum((client.counts for client in clients), Counter[str]())
    print(f"faults: {dict(faults)}\n\n" + "\n".join(f"{count:8} {what}" for what, count in counts.most_common()))
    print(f"\n{sum(lines.values())} commands ran; {len(wrong)} wrong answers\n" + "\n".join(wrong[:50]))
    print("\nleft, before and after:")
    for what, count in after.items():
        print(f"{before[what]:8} {count:8} {what}")
    leaked = after["processes of no broker"] > before["processes of no broker"] or after["temporary files"]
    return int(bool(wrong or leaked))


if __name__ == "__main__":
    sys.exit(main())
