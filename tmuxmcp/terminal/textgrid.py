"""Rows of text that can be printed on, erased, moved and scrolled, as strings: no styles, no sequences. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tmuxmcp.terminal.sgr import SGR
from tmuxmcp.terminal.widths import char_width

RIGHT_HALF = "\0"
"""The right half of a wide character; no text has it."""


class Unusual(Exception):
    """A sequence or character that is not drawn here."""


class TextGrid:
    """Rows of text, a cursor and a scroll region; it does what `sheet.py` and `grid.py` do with cells."""

    def __init__(self, cols: int, rows: int) -> None:
        self._cols, self._lines = cols, rows
        self._rows = [""] * rows
        """Without the blanks behind them."""
        self._wrapped = [0] * rows
        """How many columns of each row's text go on in the next row."""
        self._x = self._y = 0
        self._top, self._bottom = 0, rows - 1
        self._saved = (0, 0)
        self._left: list[tuple[str, bool]] = []
        self._continues = True
        """The top row may go on what scrolled off above it."""

    def _put(self, text: str) -> None:
        if "\x1b" in text:
            text = SGR.sub("", text)
        if text.isascii():
            start, row = self._x, self._rows[self._y]
            end = start + len(text)
            if end < self._cols and RIGHT_HALF not in row:  # what nearly all text is: as few steps as can be
                self._rows[self._y] = row[:start].ljust(start) + text + row[end:] if row else " " * start + text
                self._x = end
                return
            self._put_narrow(text)
        else:
            widths = [char_width(char) for char in text]
            if 0 in widths:
                raise Unusual
            if 2 not in widths:
                self._put_narrow(text)
            else:
                for char, width in zip(text, widths, strict=True):
                    (self._put_narrow if width == 1 else self._put_wide)(char)
        if self._x == self._cols:  # what comes next says whether the line goes on
            self._wrapped[self._y] = 0

    def _put_narrow(self, text: str) -> None:
        while text:
            if self._x >= self._cols:
                self._wrap()
            room = self._cols - self._x
            self._write(text[:room])
            text = text[room:]

    def _put_wide(self, char: str) -> None:
        if self._cols < 2:
            return
        if self._x + 2 > self._cols:
            self._wrap()
        self._write(char + RIGHT_HALF)

    def _write(self, part: str) -> None:
        start, row = self._x, self._rows[self._y]
        end = self._x = start + len(part)
        if RIGHT_HALF in row:
            row = _split(_split(row, start), end)
        if len(row) > start:
            self._rows[self._y] = row[:start] + part + row[end:]
        else:
            self._rows[self._y] = row.ljust(start) + part

    def _wrap(self) -> None:
        self._wrapped[self._y] = min(self._x, self._cols)
        self._x = 0
        self._down()

    def _read(self, y: int) -> tuple[str, bool]:
        row, wrapped = self._rows[y], self._wrapped[y]
        text = row.ljust(wrapped)[:wrapped] if wrapped else row.rstrip(" ")
        return (text.replace(RIGHT_HALF, "") if RIGHT_HALF in text else text), wrapped > 0

    def _settle(self) -> None:
        """End the last line that scrolled off, when what stood below it is gone."""
        if not self._continues:
            self._continues = True
            if self._left:
                self._left[-1] = (self._left[-1][0], False)

    def _leave(self, start: int, end: int) -> None:
        self._settle()
        self._left += map(self._read, range(start, end))

    def _break_before(self, y: int) -> None:
        """Make this row the start of a line: the text before it no longer goes on in it."""
        if y > 0:
            self._wrapped[y - 1] = 0
        else:
            self._continues = False

    def _delete(self, top: int, bottom: int, count: int) -> None:
        for rows, blank in ((self._rows, ""), (self._wrapped, 0)):
            del rows[top : top + count]
            rows[bottom + 1 - count : bottom + 1 - count] = [blank] * count  # type: ignore[list-item]  # text or number

    def _insert(self, top: int, bottom: int, count: int) -> None:
        count = min(count, bottom - top + 1)
        self._break_before(top)
        self._break_before(top + count)
        for rows, blank in ((self._rows, ""), (self._wrapped, 0)):
            del rows[bottom + 1 - count : bottom + 1]
            rows[top:top] = [blank] * count  # type: ignore[list-item]  # text or number

    def _down(self) -> None:
        if self._y == self._bottom:
            if not self._continues:
                self._settle()
            self._left.append(self._read(self._top))
            del self._rows[self._top], self._wrapped[self._top]
            self._rows.insert(self._bottom, "")
            self._wrapped.insert(self._bottom, 0)
        elif self._y < self._lines - 1:
            self._y += 1

    def _scroll_up(self, count: int = 0, *_: int) -> None:
        count = min(count or 1, self._bottom - self._top + 1)
        self._leave(self._top, self._top + count)
        self._delete(self._top, self._bottom, count)

    def _erase(self, y: int, start: int, end: int) -> None:
        end, row = min(end, self._cols), self._rows[y]
        if start >= end:
            return
        if (start, end) == (0, self._cols):
            self._wrapped[y] = 0
            self._break_before(y)
        if RIGHT_HALF in row:
            row = _split(_split(row, start), end)
        self._rows[y] = row[:start] + " " * (min(end, len(row)) - start) + row[end:]

    def _erase_rows(self, start: int, end: int) -> None:
        for y in range(start, end):
            self._erase(y, 0, self._cols)

    def _keep_cleared(self) -> None:
        used = [y for y, row in enumerate(self._rows) if row.strip(" ")]
        if used:
            self._wrapped[used[-1]] = 0
            self._leave(0, used[-1] + 1)

    def _edit(self, change: Callable[[str, int, int], str], count: int, cut: bool) -> None:
        x, row = self._x, self._rows[self._y]
        if x < self._cols and x < len(row):
            count = min(count, self._cols - x)
            row = _split(row, x)
            row = change(_split(row, x + count) if cut else row, x, count)
            self._rows[self._y] = _split(row, self._cols)[: self._cols]


def _split(row: str, col: int) -> str:
    """Blank both halves of a wide character that an edit at this column cuts in two."""
    if 0 < col < len(row) and row[col] == RIGHT_HALF:
        return row[: col - 1] + "  " + row[col + 1 :]
    return row


def logical_lines(rows: Sequence[tuple[str, bool]], joined: Callable[[list[str]], str] = "".join) -> list[str]:
    """Join rows that were broken at the width: each its text, and whether it goes on in the next."""
    lines: list[str] = []
    parts: list[str] = []
    for text, wrapped in rows:
        parts.append(text)
        if not wrapped:
            lines.append(joined(parts).rstrip(" "))
            parts = []
    if parts:
        lines.append(joined(parts).rstrip(" "))
    return lines
