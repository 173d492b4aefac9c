"""Ways to give an agent a shell, put the same questions: `scripts/bench ways [NAME ...]`.

Each way is written as well as its kind can be: none is asked for what its kind does not claim, but each answer must be
exact. An answer is right when the output is what the command printed (no echo, no prompt, nothing missing), when the
exit code is the command's, and when it does not say "done" of what still works.
"""

from __future__ import annotations

import argparse
import os
import re
import selectors
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks.common import workshop
from benchmarks.wire import Wire

TIMEOUT_S = 6.0
MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class Answer:
    """What a way says of a command."""

    output: str = ""
    code: int | None = None
    done: bool = True
    """False: it says that the command still works, or that it cannot tell."""
    asks: bool = False
    """It says that the command waits for input."""
    refused: bool = False
    """It says that it did not run it."""


class Way(Protocol):
    """One shell."""

    def run(self, command: str, timeout_s: float = TIMEOUT_S) -> Answer:
        """Run one command."""

    def type(self, text: str) -> None:
        """Type a line to what asks for it; whoever cannot raises."""

    def killed(self) -> None:
        """Kill what serves the shell, not the shell, and serve it again."""

    def close(self) -> None:
        """End everything."""


# ---- the ways ----------------------------------------------------------------------------------


class Tmuxmcp:
    """`run` over MCP."""

    def __init__(self, home: Path, env: dict[str, str]) -> None:
        self.env = env
        self.wire = self._serve()
        made = self.wire.call("create_session", program="bash", cwd=str(home))
        self.session_id = made["structuredContent"]["session_id"]

    def _serve(self) -> Wire:
        return Wire([sys.executable, "-m", "tmuxmcp", "serve", "--max-bytes", str(MOST_BYTES)], self.env)

    def run(self, command: str, timeout_s: float = TIMEOUT_S) -> Answer:
        arguments = {"command": command, "session_id": self.session_id, "timeout_ms": int(timeout_s * 1000)}
        result = self.wire.request("tools/call", {"name": "run", "arguments": arguments})
        if result.get("isError"):
            return Answer(refused=True, done=False)
        told: dict[str, Any] = result["structuredContent"]
        asks = not told["completed"] and told["outcome"] == "ready"
        return Answer(told["output"], told["exit_code"], told["completed"], asks)

    def type(self, text: str) -> None:
        self.wire.call("send", session_id=self.session_id, text=text, enter=True)

    def killed(self) -> None:
        self.wire.process.kill()
        self.wire.close()
        self.wire = self._serve()

    def close(self) -> None:
        self.wire.close()


class NewProcess:
    """A process for each command: `bash -c`."""

    def __init__(self, home: Path, env: dict[str, str]) -> None:
        self.home, self.env = home, env

    def run(self, command: str, timeout_s: float = TIMEOUT_S) -> Answer:
        with subprocess.Popen(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.env,
            cwd=self.home,
            start_new_session=True,
        ) as process:
            try:
                printed = process.communicate(timeout=timeout_s)[0]
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return Answer(done=False)
            code = process.returncode
            return Answer(printed.decode(errors="replace"), 128 - code if code < 0 else code)

    def type(self, text: str) -> None:
        raise NotImplementedError

    def killed(self) -> None: ...

    def close(self) -> None: ...


class Pipe:
    """A shell that lives on pipes, and a marker printed after each command."""

    def __init__(self, home: Path, env: dict[str, str]) -> None:
        self.home, self.env = home, env
        self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.env,
            cwd=self.home,
            bufsize=0,
            start_new_session=True,
        )
        self.count = 0

    def run(self, command: str, timeout_s: float = TIMEOUT_S) -> Answer:
        self.count += 1
        marker = f"__done_{self.count}_"
        self._write(f"{command}\nprintf '{marker}%d\\n' $?\n")
        assert self.process.stdout
        printed, deadline = b"", time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not (found := re.search(rb"%b(\d+)\n" % marker.encode(), printed)):
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    return Answer(printed.decode(errors="replace"), done=False)
                if not (piece := os.read(self.process.stdout.fileno(), 1 << 16)):
                    self._start()
                    return Answer(printed.decode(errors="replace"), done=False)
                printed += piece
        return Answer(printed[: found.start()].decode(errors="replace"), int(found[1]))

    def _write(self, text: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(text.encode())

    def type(self, text: str) -> None:
        self._write(text + "\n")

    def killed(self) -> None:
        self.close()
        self._start()

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


class Screen:
    """A shell in tmux, `send-keys`, and `capture-pane` once it has been still for 0.3 s; the code by `echo $?`."""

    STILL_S = 0.3

    def __init__(self, home: Path, env: dict[str, str]) -> None:
        socket = home / f"{time.monotonic_ns()}.sock"
        self.tmux = ["tmux", "-S", str(socket), "-f", os.devnull]
        start = ["new-session", "-d", "-s", "ways", "-x", "80", "-y", "24", "-c", str(home), "PS1='$ ' bash --norc"]
        subprocess.run([*self.tmux, *start], env=env, check=True)
        self._captured()

    def _ask(self, *words: str) -> str:
        return subprocess.run([*self.tmux, *words], capture_output=True, text=True, check=True).stdout

    def _capture(self) -> str:
        return self._ask("capture-pane", "-p", "-J", "-S", "-2000", "-t", "ways").rstrip()

    def _captured(self, timeout_s: float = TIMEOUT_S) -> tuple[str, bool]:
        """The text once it is still, and whether it became so."""
        text, since, deadline = self._capture(), time.monotonic(), time.monotonic() + timeout_s
        while time.monotonic() - since < self.STILL_S:
            if time.monotonic() > deadline:
                return text, False
            time.sleep(0.02)
            if (now := self._capture()) != text:
                text, since = now, time.monotonic()
        return text, True

    def run(self, command: str, timeout_s: float = TIMEOUT_S) -> Answer:
        self._ask("send-keys", "-t", "ways", "-l", "--", command)
        self._ask("send-keys", "-t", "ways", "Enter")
        text, done = self._captured(timeout_s)
        if not done:
            return Answer(text, done=False)
        output = self._after(text, command)
        self._ask("send-keys", "-t", "ways", "-l", "--", "echo $?")
        self._ask("send-keys", "-t", "ways", "Enter")
        code = self._after(self._captured()[0], "echo $?").strip()
        return Answer(output, int(code) if code.isdigit() else None)

    def _after(self, text: str, command: str) -> str:
        """What stands between the last echo of the command and the prompt."""
        printed = text.rpartition(f"$ {command}")[2].removeprefix("\n")
        return printed.rpartition("$")[0] if printed.endswith("$") else printed

    def type(self, text: str) -> None:
        self._ask("send-keys", "-t", "ways", "-l", "--", text)
        self._ask("send-keys", "-t", "ways", "Enter")

    def killed(self) -> None: ...

    def close(self) -> None:
        self._ask("kill-server")


class ScreenMarker(Screen):
    """A shell in tmux, a marker typed after each command, and `capture-pane` until it is there."""

    count = 0

    def run(self, command: str, timeout_s: float = TIMEOUT_S) -> Answer:
        ScreenMarker.count += 1
        marker = f"__done_{self.count}_"
        line = f"{command}; echo {marker}$?"
        self._ask("send-keys", "-t", "ways", "-l", "--", line)
        self._ask("send-keys", "-t", "ways", "Enter")
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            text = self._capture()
            if found := re.search(rf"{marker}(\d+)$", text, re.MULTILINE):
                return Answer(text[: found.start()].rpartition(line)[2].removeprefix("\n"), int(found[1]))
            time.sleep(0.01)
        return Answer(done=False)


WAYS: dict[str, tuple[str, Callable[[Path, dict[str, str]], Way]]] = {
    "tmuxmcp": ("**tmuxmcp** `run`", Tmuxmcp),
    "process": ("a process for each command", NewProcess),
    "pipe": ("a shell on pipes, a marker after each command", Pipe),
    "marker": ("tmux, a marker typed after each command", ScreenMarker),
    "still": ("tmux, the screen once it is still", Screen),
}


# ---- the questions -----------------------------------------------------------------------------

Question = Callable[[Way, Path], bool]


def prints(command: str, text: str, code: int = 0) -> Question:
    """The answer is exactly this, with that exit code."""

    def right(way: Way, home: Path) -> bool:
        answer = way.run(command)
        return answer.done and (answer.output, answer.code) == (text, code)

    return right


def ends_with(command: str, text: str) -> Question:
    """The answer ends with this; what a screen or a shell prints before it does not matter."""

    def right(way: Way, home: Path) -> bool:
        answer = way.run(command)
        return answer.done and answer.code == 0 and answer.output.endswith(text)

    return right


def unclosed(way: Way, home: Path) -> bool:
    """A command that is not complete is refused or fails, and the next one runs."""
    answer = way.run('echo "abc')
    return (answer.refused or (answer.done and answer.code not in (0, None))) and way.run("echo on").output == "on\n"


def kept(way: Way, home: Path) -> bool:
    """A directory and a variable last until the next command."""
    way.run("cd /usr; export SEASON=autumn")
    return way.run('echo "$PWD $SEASON"').output == "/usr autumn\n"


def asked(way: Way, home: Path) -> bool:
    """It says that a command waits for input, which can be typed."""
    if not way.run(f"read -p 'name? ' name; touch {home}/asked-$name", 2).asks:
        return False
    way.type("Bo")
    return appears(home / "asked-Bo")


def late(way: Way, home: Path) -> bool:
    """It says that a command still works, lets it, and runs the next one."""
    answer = way.run(f"sleep 3; touch {home}/late", 1)
    return not answer.done and appears(home / "late") and way.run("echo on").output == "on\n"


def outlived(way: Way, home: Path) -> bool:
    """A command and its shell go on while what serves them is killed."""
    way.run(f"SEASON=winter; sleep 2; touch {home}/outlived", 0.5)
    way.killed()
    return appears(home / "outlived") and way.run("echo $SEASON").output == "winter\n"


def appears(path: Path) -> bool:
    deadline = time.monotonic() + TIMEOUT_S
    while not path.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def numbers(count: int) -> str:
    return "".join(f"{number}\n" for number in range(1, count + 1))


QUESTIONS: dict[str, Question] = {
    "a word": prints("echo hello", "hello\n"),
    "nothing": prints("true", ""),
    "an exit code": prints("(exit 3)", "", 3),
    "a signal": lambda way, home: way.run("sh -c 'kill $$'").code == 143,
    "40 lines": prints("seq 40", numbers(40)),
    "5,000 lines": prints("seq 5000", numbers(5000)),
    "600 kB": prints("seq 100000", numbers(100_000)),
    "a line of 300": prints("printf 'x%.0s' $(seq 300); echo", "x" * 300 + "\n"),
    "no newline": prints("printf abc", "abc"),
    "two lines": prints("echo a\necho b", "a\nb\n"),
    "a here document": prints("cat <<END\nfirst\n  second\nEND", "first\n  second\n"),
    "a semicolon": prints("echo a;", "a\n"),
    "a comment": prints("echo a # comment", "a\n"),
    "20 kB of command": prints(f"echo '{'word ' * 4000}' | wc -w", "4000\n"),
    "other scripts": prints("echo 'naïve 漢字 🎉'", "naïve 漢字 🎉\n"),
    "quotes": prints("""echo "it's" '"$x"' \\\\""", 'it\'s "$x" \\\n'),
    "an exclamation": prints('echo "wow!x"', "wow!x\n"),
    "empty lines": prints("printf 'a\\n\\n\\nb\\n\\n'", "a\n\n\nb\n\n"),
    "standard error": prints("echo out; echo err >&2", "out\nerr\n"),
    "silence for 2 s": prints("sleep 2; echo late", "late\n"),
    "lines like prompts": prints("printf '$ \\n# \\n>>> \\nend\\n'", "$ \n# \n>>> \nend\n"),
    "a cleared screen": ends_with("clear; echo gone", "gone\n"),
    "a job left behind": ends_with("sleep 9 > /dev/null 2>&1 & echo on", "on\n"),
    "a terminal": prints("test -t 0 && test -t 1", ""),
    "a directory and a variable kept": kept,
    "an unclosed quote": unclosed,
    "a question": asked,
    "a command that takes longer": late,
    "a server that is killed": outlived,
}


# ---- the table ---------------------------------------------------------------------------------


@dataclass
class Score:
    """What came of one way."""

    wrong: list[str]
    median_ms: float
    large_s: float | None
    """10 MB, complete; None: they were not."""


def score(make: Callable[[Path, dict[str, str]], Way], count: int) -> Score:
    """Put it every question; after a wrong answer the next one goes to a new shell."""
    wrong: list[str] = []
    with workshop() as (_, env):
        home = Path(env["HOME"])
        way = make(home, env)
        for name, question in QUESTIONS.items():
            right = False
            with suppress(NotImplementedError, ValueError, subprocess.CalledProcessError):
                right = question(way, home)
            if not right:
                wrong.append(name)
                way.close()
                way = make(home, env)
        taken = []
        for _ in range(count):
            begun = time.perf_counter()
            way.run("true")
            taken.append((time.perf_counter() - begun) * 1000)
        begun = time.perf_counter()
        whole = way.run("head -c 10000000 /dev/zero | tr '\\0' x").output == "x" * 10_000_000
        way_s = time.perf_counter() - begun
        way.close()
    return Score(wrong, statistics.median(taken), way_s if whole else None)


def main() -> int:
    parser = argparse.ArgumentParser("scripts/bench ways", description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", choices=[*WAYS, []], help="which ways; all")
    parser.add_argument("--count", type=int, default=50, metavar="N", help="how often `true` is run for its time")
    options = parser.parse_args()
    print("| way | exact answers | `true` | 10 MB |\n|---|---|---|---|", flush=True)
    found: dict[str, Score] = {}
    for name in options.names or WAYS:
        heading, make = WAYS[name]
        found[name] = each = score(make, options.count)
        whole = f"{each.large_s:.1f} s" if each.large_s is not None else "not complete"
        right = len(QUESTIONS) - len(each.wrong)
        print(f"| {heading} | {right} of {len(QUESTIONS)} | {each.median_ms:.1f} ms | {whole} |", flush=True)
    print()
    for name, each in found.items():
        print(f"{name}: not {', '.join(each.wrong)}" if each.wrong else f"{name}: all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
