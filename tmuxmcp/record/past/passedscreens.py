"""Screens that replays have passed, in the memory of the process that replays: a second look near by begins there.

A value that is kept costs a tenth of a millisecond; packed for the broker, it would cost up to fifty.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from tmuxmcp.terminal.snapshot import Snapshot

PASSED_CELLS = 200_000
"""Of all screens that are kept: a hundred usual ones, of at most 50 MB where each cell is another one."""

APART_S = 0.03
"""Processor time from one to the next."""


class PassedScreens:
    """The screens passed last, of any session."""

    def __init__(self) -> None:
        self._cells = 0
        self._screens: OrderedDict[tuple[str, int, int], Snapshot] = OrderedDict()
        """By session, offset, and how much had happened up to there: one more event makes a screen wrong."""

    def keep(self, session: str, screen: Snapshot, happened: int) -> None:
        """Keep one more; the oldest ones give way."""
        at = (session, screen.offset, happened)
        before = self._screens.pop(at, None)
        self._screens[at] = screen
        self._cells += _cells(screen) - (_cells(before) if before else 0)
        while self._cells > PASSED_CELLS and self._screens:
            self._cells -= _cells(self._screens.popitem(last=False)[1])

    def nearest(self, session: str, begin: int, end: int, happened: Sequence[int]) -> Snapshot | None:
        """The last one behind `begin` and up to `end`; None: that is no better.

        Args:
            happened: offsets of all that had happened up to `end`.
        """
        fits = [
            at for at in self._screens if at[0] == session and begin < at[1] <= end and at[2] == count(happened, at[1])
        ]
        return self._screens[max(fits)] if fits else None


def count(happened: Sequence[int], offset: int) -> int:
    """How much had happened at an offset."""
    return sum(each <= offset for each in happened)


def _cells(screen: Snapshot) -> int:
    return screen.cols * screen.rows * (2 if screen.alternate else 1)
