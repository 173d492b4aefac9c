"""Shells that nobody gave marks to, each on a terminal of its own, and our texts typed into them as the broker does."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.conftest import SLOW
from tmuxmcp.contract.value import field, replace, value
from tmuxmcp.machine.launch.shells import adopted, adoption
from tmuxmcp.machine.launch.shells.adoption import ShellKind
from tmuxmcp.terminal.marks import Finished, Mark, MarkScanner, ShellState, ShellTrack

NONCE = "00112233aabbccdd"
ANSWER = re.compile(rb"\x1b\]133;P;k=p;aid=([0-9a-f]+);n=1;sh=([^\x00-\x1f;]*)\x07")
REFUSAL = re.compile(rb"\x1b\]133;P;k=x;aid=([0-9a-f]+);n=1;what=([^\x00-\x1f;]*)\x07")


class NoAnswer(AssertionError):
    """The terminal's last bytes tell why."""


@value(frozen=False)
class Marks:
    """What a shell says with one nonce."""

    scanner: MarkScanner
    track: ShellTrack = field(default_factory=ShellTrack)
    all: list[Mark] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)

    def feed(self, data: bytes) -> None:
        for mark in self.scanner.feed(data):
            self.all.append(mark)
            self.track, done = self.track.apply(mark)
            if done:
                self.finished.append(done)


class Terminal:
    """A program on a terminal, and all that it printed."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None) -> None:
        self.log = b""
        self.kind: ShellKind | None = None
        self.marks = Marks(MarkScanner(NONCE, 0))
        self._jobs = 0
        self._answered_at = 0
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(cwd or "/")
                os.execvpe(argv[0], list(argv), dict(env or {}))
            finally:
                os._exit(127)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))

    def close(self) -> None:
        for pid in {self.pid, *self._foreground()}:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        os.close(self.fd)
        os.waitpid(self.pid, 0)

    def _foreground(self) -> set[int]:
        try:
            return {-os.tcgetpgrp(self.fd)} - {0}
        except OSError:
            return set()

    def pump(self, timeout_s: float) -> bool:
        """Read what comes within the time; false: nothing came."""
        if not select.select([self.fd], [], [], timeout_s)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.log += data
        self.marks.feed(data)
        # Programs that ask where the cursor is (busybox) get an answer.
        if b"\x1b[6n" in data:
            os.write(self.fd, b"\x1b[1;1R")
        return bool(data)

    def until(self, test: Callable[[], object], what: str = "", timeout_s: float = 5.0) -> None:
        deadline = time.monotonic() + timeout_s * SLOW
        while not test():
            if time.monotonic() > deadline:
                raise NoAnswer(f"{what}: {self.log[-700:]!r}")
            self.pump(0.02)

    def at_rest(self, quiet_s: float = 0.25) -> None:
        """Wait until nothing more is printed."""
        while self.pump(quiet_s):
            pass

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.fd, data[:512]) :]
            self.pump(0)

    def type(self, text: str, shown: bytes | None = None) -> bytes:
        """Type a line as a person would, and wait until `shown` or nothing more comes; returns what is printed."""
        at = len(self.log)
        self.write(text.encode() + b"\r")
        if shown is not None:
            self.until(lambda: re.search(shown, self.log[at:]), text)
        self.at_rest()
        return self.log[at:]

    def is_free(self) -> bool:
        """Wait until it takes a line that is typed: the answer is not in the line."""
        at = len(self.log)
        self.write(b"printf 'A%sA' =\r")
        self.until(lambda: b"A=A" in self.log[at:].replace(b"=\x1b", b""), "it takes no line")
        self.at_rest()
        return True

    def ask(self, line: bytes | None = None) -> ShellKind:
        """Type the line; returns what the shell says it is."""
        at = len(self.log)
        self.write((line or adoption.line(NONCE)) + b"\r")
        self.until(lambda: ANSWER.search(self.log, at), "no answer")
        found = ANSWER.search(self.log, at)
        assert found
        assert found[1].decode() == NONCE
        self._answered_at = found.end()
        self.kind = adoption.who(found[2].decode())
        return self.kind

    def goes_on(self) -> None:
        """Wait until a shell that was asked shows its next prompt: nothing else is printed after its answer."""
        self.until(lambda: len(self.log) > self._answered_at, "it does not go on")
        self.at_rest()

    def adopt(self, first_number: int = 1, has_devices: bool = True) -> ShellKind:
        kind = self.kind = replace(self.ask(), has_devices=has_devices)
        self.marks = Marks(MarkScanner(NONCE, len(self.log)))
        self.write(adoption.body(kind, NONCE, first_number))
        self.until(lambda: self.marks.track.state is ShellState.PROMPT, "no prompt with marks")
        assert self.marks.track.number == first_number
        self.at_rest(0.05)
        return kind

    @property
    def key(self) -> bytes:
        assert self.kind
        return adopted(self.kind.dialect or "", self.kind.name).key

    def give(self, text: str) -> int:
        """Have the shell run a command; returns where what it prints begins."""
        assert self.kind
        self._jobs += 1
        giving = adoption.give(self.kind, self.key, f"{self._jobs:08x}", text.encode("utf-8", "surrogateescape"))
        return self._given(giving, text)

    def _given(self, giving: adoption.Giving, text: str) -> int:
        at, listened = len(self.log), len(self.marks.all)
        self.write(giving.key)
        if giving.command:
            self.until(lambda: any(mark.why == "g" for mark in self.marks.all[listened:]), f"listens: {text[:80]}")
            self.write(giving.command)
        return at

    def run(self, text: str) -> tuple[str, int]:
        """Output and exit code of a command, by its marks."""
        before = len(self.marks.finished)
        self.give(text)
        self.until(lambda: len(self.marks.finished) > before, f"done: {text[:80]}")
        done = self.marks.finished[-1]
        self.until(lambda: self.marks.track.state is ShellState.PROMPT, "the next prompt")
        start = done.output_end if done.output_start is None else done.output_start
        data = re.sub(rb"\x1b(?:\][^\x07]*\x07|\[[0-?]*[@-~]|\([B0])", b"", self.log[start : done.output_end])
        return data.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", ""), done.status

    def undo(self) -> None:
        """Take the marks out; afterwards the shell is at a prompt without any."""
        assert self.kind
        self._given(adoption.undo(self.kind, self.key, "ffffffff"), "undo")
        self.until(lambda: any(mark.why == "u" for mark in self.marks.all), "undone")
        self.at_rest()
