"""Every step is delayed at random around commands: what is answered is what the file and the log prove.

Each command leaves its number in a file, so that what it did is known whatever is answered. The seed is in the
failure's text; `TMUXMCP_TEST_SEED` gives it again. The longer form runs with `TMUXMCP_TEST_MANY=1`.
"""

from __future__ import annotations

import os
import random
import re
import termios
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import psutil
import pytest

from tests.conftest import SLOW, eventually, no_first_run
from tests.kit.delays import Delays
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import IncompleteCommand, SessionBusy, TimedOut, TmuxMcpError
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.sessions.session import Session

MANY = bool(os.environ.get("TMUXMCP_TEST_MANY"))
COMMANDS = 3400 if MANY else 36
"""For each shell."""
SESSIONS = 3
"""At once."""
SEED = int(os.environ.get("TMUXMCP_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)
PATIENCE_MS = int(60_000 * SLOW)


def told(sent: r.SendResult) -> r.ReadResult:
    """What `send` saw after it had typed."""
    assert sent.result
    return sent.result


class Trial:
    """One session of which everything is delayed, and what was false in the answers about it."""

    def __init__(self, brokers: list[Broker], name: str, program: str, directory: Path, rng: random.Random) -> None:
        self.brokers, self.name, self.program, self.rng = brokers, name, program, rng
        self.did = directory / f"did-{name}"
        self.did.touch()
        self.number = 0
        self.false: list[str] = []
        self.unknown: Counter[str] = Counter()

    @property
    def broker(self) -> Broker:
        """One of the brokers: they share the session."""
        return self.rng.choice(self.brokers)

    @property
    def session(self) -> Session:
        return self.brokers[0].registry.sessions[self.name]

    def began(self, number: int) -> int:
        return self.did.read_text().split().count(str(number))

    def check(self, true: bool, what: str, answer: object) -> None:
        if not true:
            self.false.append(f"{self.name} {self.number} {what}: {answer!r}; it began {self.began(self.number)} times")

    def processes(self) -> list[list[int]]:
        """What may stand still for a moment. Not what runs in the shell: that would be job control."""
        session = self.session
        found = [[int((session.directory.path.parent.parent / "tmux.pid").read_text())]]
        with suppress(OSError, ValueError, IndexError, psutil.Error):
            sink = psutil.Process(int(session.directory.sink.read_text().split()[0]))
            found += [[sink.pid, *(child.pid for child in sink.children())]] * 3
        if session.pane:
            found.append([session.pane.leader])
        return [*found, *([[session.pid]] if session.pid else [])]

    # ---- what is tried ---------------------------------------------------------------------------

    async def exact(self) -> None:
        """A command with some output and a status."""
        n, status, lines = self.number, self.rng.randrange(100), self.rng.choice([1, 1, 1, 30, 3000])
        ran = await self.run(f"echo {n} >>{self.did}; seq {lines}; sh -c 'exit {status}'", max_bytes=1 << 20)
        if ran:
            output = "".join(f"{each}\n" for each in range(1, lines + 1))
            self.check((ran.output, ran.exit_code) == (output, status), f"{lines} lines, status {status}", ran)

    async def several_lines(self) -> None:
        ran = await self.run(f"echo {self.number} >>{self.did}\necho one\nprintf two")
        if ran:
            self.check((ran.output, ran.exit_code) == ("one\ntwo", 0), "several lines", ran)

    async def directory(self) -> None:
        where = self.rng.choice(["/usr", "/tmp", "/"])
        ran = await self.run(f"echo {self.number} >>{self.did}; cd {where}")
        if ran:
            self.check((ran.output, ran.exit_code, ran.cwd) == ("", 0, where), f"cd {where}", ran)

    async def incomplete(self) -> None:
        """A quote is open: nothing runs."""
        try:
            answer: object = await self.broker.run(
                f"echo {self.number} >>{self.did}; echo 'open", session_id=self.name, timeout_ms=PATIENCE_MS
            )
        except (IncompleteCommand, SessionBusy) as error:
            answer = error
        await self.at_rest()
        self.check(self.began(self.number) == 0 and isinstance(answer, IncompleteCommand), "an open quote", answer)

    async def timed_out(self) -> None:
        """A command that goes on longer than its caller waits, and is interrupted."""
        n = self.number
        line = f"echo {n} >>{self.did}; sleep 300; echo end{n} >>{self.did}"
        try:
            ran = await self.broker.run(line, session_id=self.name, timeout_ms=30)
        except (SessionBusy, TimedOut) as error:  # its shell stood still, or showed no prompt in this time
            await self.at_rest()
            self.check(self.began(n) == 0, "a command that was not run", error)
            self.unknown[error.code] += 1
            return
        self.check(not ran.completed and ran.exit_code is None, "a command that goes on", ran)
        # Between fork and exec a child handles the signal as its shell does, which drops it.
        await eventually(lambda: self.began(n) and self.sleeps(), 30)
        await self.broker.signal("INT", session_id=self.name)
        read = await self.broker.read(session_id=self.name, wait_for="ready", timeout_ms=PATIENCE_MS)
        self.check(read.outcome == "ready" and not self.sleeps(), "ready after INT", read)

    async def asks(self) -> None:
        """A program that asks, and is answered."""
        n = self.number
        ran = await self.run(f"echo {n} >>{self.did}; sh -c 'printf name:; read x; echo got $x; exit 9'", ends=False)
        if not ran:
            return
        self.check((ran.outcome, ran.completed, ran.exit_code) == ("ready", False, None), "a question", ran)
        self.check(ran.output == "name:", "the question", ran)
        sent = await self.broker.send(f"x{n}", enter=True, session_id=self.name, timeout_ms=PATIENCE_MS)
        self.check(f"got x{n}" in told(sent).content, "the answer to a question", sent)

    async def secret(self) -> None:
        """A program that asks for a secret: it is not told to be there before the terminal hides it."""
        n, word = self.number, f"hidden{self.rng.randrange(1 << 40)}"
        command = f"echo {n} >>{self.did}; sh -c 'printf word:; stty -echo; read x; stty echo; echo ${{#x}}'"
        ran = await self.run(command, ends=False)
        if not ran:
            return
        self.check((ran.outcome, ran.mode) == ("ready", "password") and self.hides(), "a secret", ran)
        sent = await self.broker.send(word, enter=True, session_id=self.name, timeout_ms=PATIENCE_MS)
        self.check(str(len(word)) in told(sent).content, "after a secret", sent)
        found = await self.broker.search(word, session_id=self.name)
        self.check(not found.matches, "a secret in the log", found)

    async def typed(self) -> None:
        """A line typed by `send`: ready is said when it is over."""
        n = self.number
        line = f"sleep 0.0{self.rng.randrange(10)}; echo {n} >>{self.did}; echo said{n}"
        sent = await self.broker.send(line, enter=True, session_id=self.name, timeout_ms=PATIENCE_MS)
        self.check(self.began(n) == 1 and told(sent).outcome == "ready", "a typed line", sent)
        said = re.search(rf"^said{n}$", told(sent).content, re.MULTILINE)
        # Its shell may stand still just then.
        self.check(bool(said) and told(sent).mode in ("shell_prompt", "stopped"), "what a typed line printed", sent)

    # ---- what they have in common ----------------------------------------------------------------

    async def run(self, command: str, ends: bool = True, max_bytes: int = 8192) -> r.RunResult | None:
        """Run it; None: what became of it is said to be unknown, and why is counted."""
        ran = await self.broker.run(command, session_id=self.name, timeout_ms=PATIENCE_MS, max_bytes=max_bytes)
        if ran.note and "annot be told" in ran.note:
            self.unknown[ran.note] += 1
            await self.at_rest()
            return None
        self.check(self.began(self.number) == 1 and ran.completed == ends, f"run {command!r}", ran)
        return ran

    async def at_rest(self) -> None:
        await self.broker.read("new", session_id=self.name, wait_for="ready", timeout_ms=PATIENCE_MS)

    def sleeps(self) -> bool:
        with suppress(psutil.Error):
            return any(child.name() == "sleep" for child in psutil.Process(self.session.pid).children())
        return False

    def hides(self) -> bool:
        terminal = os.open(self.session.live().tty, os.O_RDONLY | os.O_NOCTTY)
        try:
            return not termios.tcgetattr(terminal)[3] & termios.ECHO
        finally:
            os.close(terminal)

    async def try_all(self, many: int) -> None:
        tries: list[Callable[[], Awaitable[None]]] = [self.exact] * 5
        tries += [self.several_lines, self.directory, self.incomplete, self.timed_out, self.asks]
        tries += [self.secret, *[self.typed] * 4]
        for self.number in range(1000, 1000 + many):
            tried = self.rng.choice(tries)
            try:
                await tried()
            except TmuxMcpError as error:
                self.false.append(f"{self.name} {self.number} {tried.__name__}: {error!r}")
                await self.at_rest()


@pytest.mark.parametrize("program", ["bash", "zsh", "fish"])
async def test_no_delay_makes_an_answer_false(state_dir: Path, home: Path, tmp_path: Path, program: str) -> None:
    delays = Delays(SEED)
    no_first_run(home)
    settings = BrokerSettings(state_dir=state_dir, program=program, max_wait_ms=PATIENCE_MS)
    begun = time.monotonic()
    with delays.everywhere():
        async with Broker.open(settings) as one, Broker.open(settings) as two:
            trials = []
            for at in range(SESSIONS):
                await one.create_session(name=f"{program}{at}", ready_timeout_ms=PATIENCE_MS)
                await two.get_session(f"{program}{at}")
                rng = random.Random(f"{SEED} {at}")
                trials.append(Trial([one, two], f"{program}{at}", program, tmp_path, rng))
            async with anyio.create_task_group() as around:
                for trial in trials:
                    around.start_soon(delays.stand_still, trial.processes)
                async with anyio.create_task_group() as tried:
                    for trial in trials:
                        tried.start_soon(trial.try_all, COMMANDS // SESSIONS)
                around.cancel_scope.cancel()
    unknown = sum((trial.unknown for trial in trials), Counter[str]())
    print(f"seed {SEED}, {program}: {time.monotonic() - begun:.0f} s, said to be unknown: {unknown}")
    false = [each for trial in trials for each in trial.false]
    assert not false, f"seed {SEED}:\n" + "\n".join(false)
    for trial in trials:
        twice = [number for number, times in Counter(trial.did.read_text().split()).items() if times > 1]
        assert twice == [], f"seed {SEED}"
