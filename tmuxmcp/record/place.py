"""What has to be known of an offset of a log to go on from there as if all before it had been read, too.

A reader may begin anywhere: in the middle of a line, of an escape sequence, of a character, of what a full-screen
program draws. All of it is found by looking back over a bounded part of the log.
"""

from __future__ import annotations

from collections.abc import Callable

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.record.log import LOG_READ_BYTES, RawLog
from tmuxmcp.terminal.snapshot import PLAIN_STYLE, Style
from tmuxmcp.terminal.text.plain import column_behind, first_leave, last_switch, row_behind, unfinished
from tmuxmcp.terminal.widths import OLDEST_VERSION, TmuxVersion

BEGINNING_BYTES = 4096
"""How far back the beginning of a line, of a title or of a sequence is looked for."""

ROW_BYTES = (8 * 1024, 64 * 1024, 512 * 1024)
"""How far back it is looked for what leads to the cursor's row, one after the other (1, 10 and 80 ms)."""

SCREEN_BYTES = 16 * 1024 * 1024
"""How far back the beginning of a full-screen program is looked for (10 ms)."""

STYLE_BYTES = 256 * 1024
"""How far back the style of what is printed is looked for (1 ms, 10 ms where every word is coloured): programs end
their colours soon."""

SWITCH_BYTES = 64
"""Longer than what switches to the other screen."""

_MARK = b"\x1b]133;"
"""Begins a mark of a shell: C stands where a command begins to print."""


@dataclass(frozen=True)
class Place:
    """How a stretch begins."""

    cut: bytes = b""
    """The beginning of a sequence or character whose rest comes first."""
    col: int = 0
    """The cursor's column."""
    inside: bool = False
    """A full-screen program draws there, and has begun before."""
    style: Style = PLAIN_STYLE
    """In which what comes next is printed; known only where it was asked for."""
    offset: int | None = None
    """Where it is, if the cursor's row there counts."""
    begins: bool = False
    """A command begins to print there."""


class Places:
    """Finds places in one log; remembers the last one, so that little is read again."""

    def __init__(
        self, log: RawLog, resized: Callable[[], int] = lambda: 0, version: TmuxVersion = OLDEST_VERSION
    ) -> None:
        """
        Args:
            resized: offset at which the terminal got its size.
            version: of the tmux that counts its columns.
        """
        self._log, self._resized, self.version = log, resized, version
        self._row: tuple[tuple[int, int, int, bool], int | None] | None = None
        """The row that was asked for last."""
        self._from = self._to = 0
        self._inside = False
        """So it is everywhere between these offsets."""

    def at(self, offset: int, cols: int) -> Place:
        """The place at an offset, in a pane of so many columns."""
        begin = max(offset - BEGINNING_BYTES, self._log.head())
        before = self._log.read(begin, max(offset - begin, 0))
        if not before:
            return Place()
        cut = unfinished(before)
        whole = before[: len(before) - cut]
        if self.inside(offset - cut):
            return Place(before[len(whole) :], 0, True)
        newline = whole.rfind(b"\n")
        col = column_behind(whole[newline + 1 :], cols, self.version) if newline >= 0 or begin == 0 else 0
        return Place(before[len(whole) :], col, offset=offset)

    def row_of(self, place: Place, cols: int, rows: int) -> int | None:
        """The cursor's row at a place; None: it is not known, or does not count.

        It does not count where a command goes on to print: that draws over what it has drawn, which is shown again.
        """
        if place.offset is None:
            return None
        asked = (place.offset, cols, rows, place.begins)
        if self._row is None or self._row[0] != asked:
            self._row = asked, self._row_at(*asked)
        return self._row[1]

    def _row_at(self, offset: int, cols: int, rows: int, begins: bool) -> int | None:
        least = max(self._log.head(), self._resized())
        counts = begins or offset == 0 or self._log.read(offset, len(_MARK)) == _MARK
        for size in ROW_BYTES:
            begin = max(offset - size, least)
            before = self._log.read(begin, max(offset - begin, 0))
            if not counts:
                mark = before.rfind(_MARK)
                if before[mark + len(_MARK) :].startswith(b"C"):
                    return None
                counts = mark >= 0
            if counts:
                # Whatever is printed leads from a row to none that is above where it leads to from a row above.
                begun, inside = {0} if begin == 0 else {0, rows - 1}, self.inside(begin)
                found = {row_behind(before, cols, rows, row, inside, self.version) for row in begun}
                if len(found) == 1:
                    return found.pop()
            if begin == least:
                break
        return None

    def inside(self, offset: int) -> bool:
        """Whether a full-screen program draws there, as far as one can look back."""
        if self._from <= offset <= self._to:
            return self._inside
        known = self._to if offset > self._to else 0
        stop = max(known, offset - SCREEN_BYTES, self._log.head())
        found = self._look_back(offset, stop)
        if found is None and stop == known:
            found = self._inside if known else False
            start = self._from if known else 0
        else:
            start = stop if found is None else offset
        if offset > self._to:
            self._from, self._to, self._inside = start, offset, bool(found)
        return bool(found)

    def style_at(self, offset: int) -> Style:
        """The style in which what comes at an offset is printed, as far as one can look back."""
        begin = max(offset - STYLE_BYTES, self._log.head())
        before = self._log.read(begin, max(offset - begin, 0))
        if b"\x1b[" not in before:
            return PLAIN_STYLE
        from tmuxmcp.terminal.text.plain import style_behind  # late: hardly anybody wants colours

        return style_behind(before, inside=self.inside(begin))

    def inside_since(self, start: int, offset: int) -> bool:
        """Whether a full-screen program draws at an offset that began at `start` or behind it."""
        return bool(self._look_back(offset, max(start, offset - SCREEN_BYTES)))

    def behind_drawing(self, start: int, end: int) -> tuple[int, bool]:
        """Where the full-screen program that draws at `start` ends, or how far was looked; whether it still draws."""
        for at in range(start, min(end, start + SCREEN_BYTES), LOG_READ_BYTES):
            data = self._log.read(at, min(LOG_READ_BYTES + SWITCH_BYTES, end - at))
            left = first_leave(data)
            if left is not None:
                return at + left, False
        return min(end, start + SCREEN_BYTES), True

    def _look_back(self, offset: int, stop: int) -> bool | None:
        """What the last switch between `stop` and `offset` says; None: there is none."""
        at, head = offset, self._log.head()
        while at > stop:
            begin = max(at - LOG_READ_BYTES, stop)
            read_from = max(begin - SWITCH_BYTES, head)
            found = last_switch(self._log.read(read_from, at - read_from))
            if found is not None:
                return found
            at = begin
        return None
