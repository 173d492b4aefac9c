"""A terminal with a program, and somebody at it who types and looks."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Self

from tests.conftest import SLOW
from tests.kit import forks
from tests.kit.person import press

SOON_S = 20 * SLOW


class Terminal:
    """A terminal of the test's own; what a program shows there is read when somebody looks."""

    def __init__(self, start: Callable[[int], forks.Fork | subprocess.Popen], size: tuple[int, int] = (80, 24)):
        """Open one.

        Args:
            start: is given the program's end of the terminal.
            size: columns and rows.
        """
        self.fd, inner = pty.openpty()
        termios.tcsetwinsize(inner, size[::-1])
        self.before = termios.tcgetattr(inner)  # while nobody has changed it
        self.process = start(inner)
        os.close(inner)
        self.seen = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        if self.fd >= 0:
            os.close(self.fd)

    def type(self, text: str) -> None:
        press(self.fd, text.encode())

    def read(self, seconds: float = SOON_S) -> bool:
        """Take what is there; False at the end."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 1 << 16)
        except OSError:  # Linux says EIO when the other side is closed
            data = b""
        self.seen += data.decode(errors="replace")
        return bool(data)

    def until(self, text: str) -> str:
        deadline = time.monotonic() + SOON_S
        while text not in self.seen:
            assert self.read(0.1), self.seen
            assert time.monotonic() < deadline, self.seen
        return self.seen

    def to_the_end(self) -> str:
        deadline = time.monotonic() + SOON_S
        while self.read(0.1):
            assert time.monotonic() < deadline, self.seen
        return self.seen

    def end(self) -> int:
        """The program's status, once it has ended."""
        self.to_the_end()
        return self.process.wait(SOON_S)


@contextmanager
def watching(command: str, rows: int, cols: int, shell: tuple[str, ...] = ("/bin/sh",)) -> Iterator[tuple[int, int]]:
    """The command in a terminal of its own; gives its process id and the terminal's other end."""
    pid, master = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", LANG="C.UTF-8")
        os.execvp(shell[0], [*shell, "-c", f"exec {command}"])
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
    os.kill(pid, signal.SIGWINCH)
    os.set_blocking(master, False)
    try:
        yield pid, master
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(master)


def drain(master: int) -> bytes:
    data = b""
    try:
        while piece := os.read(master, 65536):
            data += piece
    except (BlockingIOError, OSError):
        pass
    return data


def drawn_until(master: int, text: bytes) -> bytes:
    """What a terminal is shown until this comes."""
    seen, deadline = b"", time.monotonic() + 10 * SLOW
    while text not in seen:
        assert time.monotonic() < deadline, seen[-1000:]
        if select.select([master], [], [], 0.1)[0]:
            with suppress(BlockingIOError):
                seen += os.read(master, 1 << 16)
    return seen
