"""Ends a foreign program with this process, also where that is killed with `kill -9`. Only on Linux.

From its start until it is tied, a millisecond or two, nothing ends it yet. PR_SET_PDEATHSIG would need a step of ours
before the program, and goes by the thread that started it, not the process.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from contextlib import suppress


class Lifeline:
    """A pipe into which nobody writes. When its writing end is closed, which only we have, the kernel kills."""

    def __init__(self) -> None:
        """Make it; who starts the program lets it inherit `inherited`."""
        self._fds: tuple[int, ...] = ()
        if sys.platform == "linux":
            with suppress(OSError):  # there is no descriptor left: so be it
                self._fds = os.pipe()

    @property
    def inherited(self) -> tuple[int, ...]:
        """The reading end, which the program has to keep open."""
        return self._fds[:1]

    def tie(self, owner: int) -> None:
        """Say who is killed: a process, or, as a negative number, a process group."""
        if self._fds and sys.platform == "linux":
            with suppress(OSError):  # a kernel that does not know it
                fcntl.fcntl(self._fds[0], fcntl.F_SETOWN, owner)
                fcntl.fcntl(self._fds[0], fcntl.F_SETSIG, signal.SIGKILL)
                fcntl.fcntl(self._fds[0], fcntl.F_SETFL, os.O_ASYNC)  # a signal when the pipe changes: fcntl(2)

    def close(self) -> None:
        """Let go without killing anybody."""
        if self._fds:
            with suppress(OSError):
                fcntl.fcntl(self._fds[0], fcntl.F_SETFL, 0)
        for fd in self._fds:
            os.close(fd)
        self._fds = ()
