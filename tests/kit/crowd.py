"""Many people look at a session, each in a terminal of their own: `python -m tests.kit.crowd N COLS ROWS ARGV...`.

A process apart from the test, so that the terminals are read while the test waits. It says `ready` once each has been
drawn to, and ends with its standard input, its people with it.
"""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress


def person(argv: Sequence[str], cols: int, rows: int) -> tuple[int, int]:
    """Start one; give the process id and the terminal's other end, which does not block."""
    pid, master = pty.fork()
    if pid == 0:
        termios.tcsetwinsize(0, (rows, cols))
        os.environ.update(TERM="xterm-256color", LANG="C.UTF-8")
        os.execvp(argv[0], argv)
    os.set_blocking(master, False)
    return pid, master


def main(count: int, cols: int, rows: int, argv: Sequence[str]) -> None:
    """Have so many look until standard input ends."""
    people = [person(argv, cols, rows) for _ in range(count)]
    poll = select.poll()
    poll.register(0, select.POLLIN)
    for _, master in people:
        poll.register(master, select.POLLIN)
    drawn: set[int] = set()
    try:
        while True:
            for fd, _ in poll.poll():
                if fd == 0:
                    return
                try:
                    os.read(fd, 1 << 16)
                except BlockingIOError:
                    continue
                except OSError:
                    poll.unregister(fd)
                    continue
                if fd not in drawn:
                    drawn.add(fd)
                    if len(drawn) == count:
                        print("ready", flush=True)
    finally:
        for pid, _ in people:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@contextmanager
def crowd(argv: Sequence[str], count: int, cols: int = 80, rows: int = 24) -> Iterator[None]:
    """While this is open, so many people run a command, each in a terminal of this size."""
    words = [sys.executable, "-m", "tests.kit.crowd", *map(str, (count, cols, rows)), *argv]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        try:
            assert process.stdout.readline() == b"ready\n"
            yield
        finally:
            process.stdin.close()
            process.wait(30)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), sys.argv[4:])
