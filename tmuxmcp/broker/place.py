"""What has to be known of an offset of a log to go on from there as if all before it had been read, too.

A reader may begin anywhere: in the middle of a line, of an escape sequence, of a character, of what a full-screen
program draws. All of it is found by looking back over a bounded part of the log.
"""

from __future__ import annotations

from dataclasses import dataclass

from tmuxmcp.broker.log import PIECE, RawLog
from tmuxmcp.terminal.plain import column_behind, first_leave, last_switch, unfinished

LINE_BYTES = 4096
"""How far back the beginning of a line, of a title or of a sequence is looked for."""

SCREEN_BYTES = 16 * 1024 * 1024
"""How far back the beginning of a full-screen program is looked for (10 ms)."""

SWITCH_BYTES = 64
"""Longer than what switches to the other screen."""


@dataclass(frozen=True)
class Place:
    """How a stretch begins."""

    cut: bytes = b""
    """The beginning of a sequence or character whose rest comes first."""
    col: int = 0
    """The cursor's column."""
    inside: bool = False
    """A full-screen program draws there, and has begun before."""


class Places:
    """Finds places in one log; remembers the last one, so that little is read again."""

    def __init__(self, log: RawLog) -> None:
        self._log = log
        self._known = 0
        self._inside = False

    def at(self, offset: int, cols: int) -> Place:
        """The place at an offset, in a pane of so many columns."""
        begin = max(offset - LINE_BYTES, 0)
        before = self._log.read(begin, offset - begin)
        if not before:
            return Place()
        cut = unfinished(before)
        whole = before[: len(before) - cut]
        if self.inside(offset - cut):
            return Place(before[len(whole) :], 0, True)
        newline = whole.rfind(b"\n")
        col = column_behind(whole[newline + 1 :], cols) if newline >= 0 or begin == 0 else 0
        return Place(before[len(whole) :], col)

    def inside(self, offset: int) -> bool:
        """Whether a full-screen program draws there, as far as one can look back."""
        inside = self._look_back(offset)
        if offset > self._known:
            self._known, self._inside = offset, inside
        return inside

    def behind_drawing(self, start: int, end: int) -> tuple[int, bool]:
        """Where the full-screen program that draws at `start` ends, or how far was looked; whether it still draws."""
        for at in range(start, min(end, start + SCREEN_BYTES), PIECE):
            data = self._log.read(at, min(PIECE + SWITCH_BYTES, end - at))
            left = first_leave(data)
            if left is not None:
                return at + left, False
        return min(end, start + SCREEN_BYTES), True

    def _look_back(self, offset: int) -> bool:
        known, state = (self._known, self._inside) if self._known <= offset else (0, False)
        at, stop = offset, max(known, offset - SCREEN_BYTES, self._log.head())
        while at > stop:
            begin = max(at - PIECE, stop)
            data = self._log.read(begin, min(at + SWITCH_BYTES, offset) - begin)
            found = last_switch(data)
            if found is not None:
                return found
            at = begin
        return state if stop <= known else False
