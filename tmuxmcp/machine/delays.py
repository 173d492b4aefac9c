"""Whether this process was held up: it computed, waited for a processor, or was stopped, when something else was due.

What happens while a process is held up, it sees too late, and all at once; who dates what it sees has to know that.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

HELD_UP_S = 0.05
"""A delay below this is none."""

REMEMBERED_S = 0.1
"""After a delay it takes so long until all is seen that happened meanwhile."""


class Delays:
    """The delays of the thread that makes it; asked whenever something is seen, it costs a few microseconds."""

    def __init__(self) -> None:
        self._fd = -1
        with suppress(OSError):  # a kernel that keeps no such account
            self._fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        self._busy_s = self._account()
        self._held_at = float("-inf")
        self._beat_due = float("inf")

    def _account(self) -> float:
        """Seconds in which this thread computed or waited for a processor, in all."""
        if self._fd >= 0:
            computed, waited = os.pread(self._fd, 100, 0).split()[:2]
            return (int(computed) + int(waited)) / 1e9
        return time.thread_time()

    def lately(self) -> bool:
        """Whether there was a delay since this was last asked, or shortly before."""
        busy_s = self._account()
        if busy_s - self._busy_s >= HELD_UP_S:
            self.note()
        self._busy_s = busy_s
        self.woke(self._beat_due)
        return time.monotonic() - self._held_at < REMEMBERED_S

    def note(self) -> None:
        """Note a delay that ends now."""
        self._held_at = time.monotonic()

    def woke(self, due: float) -> None:
        """Note when a sleep ended that should have ended at `due` (`time.monotonic`)."""
        if time.monotonic() - due >= HELD_UP_S:
            self.note()

    def beat(self, next_s: float) -> None:
        """Expect to be called again within so many seconds; an overdue beat is a delay, also before it comes."""
        self.woke(self._beat_due)
        self._beat_due = time.monotonic() + next_s

    def close(self) -> None:
        """Let go of the account."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


class _WentOn:
    """The handler of SIGCONT, of which a process has one: it tells all who mind, and whoever had the signal before."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self.delays: set[Delays] = set()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        for each in tuple(self.delays):
            each.note()
        if callable(self.before):
            self.before(number, frame)


@contextmanager
def minding_stops(delays: Delays) -> Iterator[None]:
    """While this is open, note when this process was stopped (SIGSTOP) and goes on; in the main thread.

    A handler is told at once: a task that is told comes after whatever the process sees first as it goes on.
    """
    found = signal.getsignal(signal.SIGCONT)
    handler = found if isinstance(found, _WentOn) else _WentOn(found)
    signal.signal(signal.SIGCONT, handler)
    handler.delays.add(delays)
    try:
        yield
    finally:
        handler.delays.discard(delays)
        in_place = signal.getsignal(signal.SIGCONT) is handler  # the program may have put its own there meanwhile
        if in_place and not handler.delays:
            signal.signal(signal.SIGCONT, signal.SIG_DFL if handler.before is None else handler.before)
