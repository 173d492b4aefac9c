"""Rows of text that can be edited as those of `grid.py`: strings of a character a column, styled or not. Pure.

A capture of tmux 3.3a is what counts here, so its faults are here, too: a wide character of which one half is erased or
overwritten, and what `CSI @` leaves (`docs/reference/tmux-differences.md`).
"""

from __future__ import annotations

from tmuxmcp.terminal.emulator.grid import Grid
from tmuxmcp.terminal.snapshot import BLANK, Cell
from tmuxmcp.terminal.text.styledtext import StyledText, StyleLetters, joined, styled

RIGHT_HALF = "\0"
"""The right half of a wide character; no text has it."""

_FIRST_CLUSTER, _LAST_CLUSTER = 0x100000, 0x10FFFD
"""The private characters of the last plane stand for what is more than one character in a column."""


class TextRow:
    """One row of text."""

    __slots__ = ("text", "used", "wrapped")

    def __init__(self, text: str = "") -> None:
        self.text = text
        """Without the blanks behind it, or with some."""
        self.used = 0
        """Columns up to which it was printed on since it was empty, also where that is erased."""
        self.wrapped = 0
        """Not 0: it goes on in the next row, no newline having been printed."""

    def is_blank(self) -> bool:
        return not self.text.strip(" ")


class Clusters:
    """What is more than one character in a column, each with a character that stands for it."""

    def __init__(self) -> None:
        self._stands_for: dict[str, str] = {}
        self._cells: dict[str, str] = {}

    def cell(self, text: str) -> str:
        """The one character for a cell of this text."""
        if len(text) == 1 and ord(text) < _FIRST_CLUSTER:
            return text
        cell = self._cells.get(text)
        if cell is None:
            code = _FIRST_CLUSTER + len(self._cells)
            if code > _LAST_CLUSTER:
                return text[0]
            cell = self._cells[text] = chr(code)
            self._stands_for[cell] = text
        return cell

    def text(self, cell: str) -> str:
        """The text of a cell."""
        return self._stands_for.get(cell, cell)

    def spelled(self, row: str) -> str:
        """The text of many cells."""
        if RIGHT_HALF in row:
            row = row.replace(RIGHT_HALF, "")
        if not self._cells or max(row, default="") < chr(_FIRST_CLUSTER):
            return row
        if isinstance(row, StyledText):
            return joined([styled(self.text(str(cell)), cell.letters) for cell in row])
        return "".join(map(self.text, row))


class TextGrid(Grid):
    """`rows` rows of `cols` columns, top first."""

    rows: list[TextRow]  # type: ignore[assignment]  # of strings, where a grid has cells

    def __init__(self, cols: int, rows: int, palette: StyleLetters | None) -> None:
        self.cols = cols
        self.rows = [TextRow() for _ in range(rows)]
        self.continues = True
        self.above = 0
        """Rows at the top that are none of the text: they were there before it."""
        self._palette = palette

    def _space(self, blank: Cell) -> str:
        if blank is BLANK or self._palette is None:
            return " "
        return styled(" ", self._palette.letter(blank.style))

    def _blanks(self, count: int, blank: Cell) -> str:
        space = self._space(blank)
        return StyledText(" " * count, space.letters * count) if isinstance(space, StyledText) else " " * count

    def row_of(self, blank: Cell) -> TextRow:  # type: ignore[override]  # as `rows`
        return TextRow() if blank is BLANK else TextRow(self._blanks(self.cols, blank))

    def delete_rows(self, top: int, bottom: int, count: int, blank: Cell) -> None:
        super().delete_rows(top, bottom, count, blank)
        if top < self.above <= bottom + 1:
            self.above = max(top, self.above - count)

    def insert_rows(self, top: int, bottom: int, count: int, blank: Cell) -> None:
        super().insert_rows(top, bottom, count, blank)
        if top < self.above <= bottom + 1:
            self.above = min(self.above + count, bottom + 1)

    def fit(self, cols: int, rows: int, cursor_y: int) -> None:
        """A text is of one size."""

    def erase(self, y: int, start: int, end: int, blank: Cell) -> None:
        row, end = self.rows[y], min(end, self.cols)
        if start >= end:
            return
        if (start, end) == (0, self.cols):
            row.used = row.wrapped = 0
            self.break_before(y)
        text = row.text
        if blank is BLANK and end >= len(text):
            row.text = text[:start]
        else:
            row.text = text[:start].ljust(start) + self._blanks(end - start, blank) + text[end:]

    def insert_cells(self, y: int, col: int, count: int, blank: Cell) -> None:
        row, count = self.rows[y], min(count, self.cols - col)
        if count <= 0:
            return
        text = row.text.ljust(self.cols)
        moved = text[col : self.cols - count]
        if col == self.cols - 1:
            row.text = text[:col] + self._space(blank)
        elif moved:  # what lies between the two places of the moved text is not erased
            text = text[:col] + self._blanks(len(moved), blank) + text[col + len(moved) :]
            row.text, row.used = text[: col + count] + moved, self.cols

    def delete_cells(self, y: int, col: int, count: int, blank: Cell) -> None:
        row, kept = self.rows[y], self.cols - max(count, 0)
        if count > 0 and kept > col:
            text = row.text.ljust(self.cols)
            row.text = text[:col] + text[col + count :] + self._blanks(count, blank)
            row.used = max(row.used, kept)
        elif count > 0:
            self.erase(y, col, self.cols, blank)


def cleared_before(text: str, col: int) -> tuple[str, int]:
    """Blank the right halves that end in this column, and say in which column the character before them stands."""
    while 0 < col < len(text) and text[col] == RIGHT_HALF:
        text = with_blank(text, col)
        col -= 1
    return text, col


def cleared_behind(text: str, col: int) -> str:
    """Blank the right halves that begin in this column: what they belong to was overwritten."""
    while col < len(text) and text[col] == RIGHT_HALF:
        text = with_blank(text, col)
        col += 1
    return text


def with_blank(text: str, col: int) -> str:
    return text[:col] + " " + text[col + 1 :]
