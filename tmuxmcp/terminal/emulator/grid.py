"""Rows of cells that can be edited: no cursor, no modes. Cells are shared values; see `snapshot.py`.

Every row has as many cells as the grid has columns. The cells of one style come from a `Pen`, so that drawing is
looking them up.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from tmuxmcp.terminal.emulator.sgr import restyled
from tmuxmcp.terminal.snapshot import BLANK, Cell, Style

_MAX_PENS, _MAX_CELLS, _MAX_CHANGES, _MAX_PARAMS = 64, 512, 64, 64
_TEXT_OF = itemgetter(0)


class Pen(dict[str, Cell]):
    """The cells of one style, by character."""

    __slots__ = ("after", "blank", "style")

    def __init__(self, style: Style) -> None:
        super().__init__()
        self.style = style
        self.after: dict[str, Pen] = {}
        """The pens that came of this one, by the parameters of `CSI ... m`."""
        self.blank = BLANK if style.bg is None else Cell(" ", Style(bg=style.bg))
        """What erasing leaves."""

    def __missing__(self, char: str) -> Cell:
        if len(self) >= _MAX_CELLS:
            self.clear()
        cell = self[char] = Cell(char, self.style)
        return cell


class Pens:
    """A pen for each style, as many as are usual at one time."""

    def __init__(self) -> None:
        self._pens: dict[Style, Pen] = {}

    def get(self, style: Style) -> Pen:
        pen = self._pens.get(style)
        if pen is None:
            if len(self._pens) >= _MAX_PENS:
                for old in self._pens.values():
                    old.after.clear()  # they hold one another
                self._pens.clear()
            pen = self._pens[style] = Pen(style)
        return pen

    def after(self, pen: Pen, params: str) -> Pen:
        """Give the pen that `CSI params m` makes of this one."""
        changed = self.get(restyled(pen.style, params))
        if len(params) <= _MAX_PARAMS:
            if len(pen.after) >= _MAX_CHANGES:
                pen.after.clear()
            pen.after[params] = changed
        return changed


class Row(list[Cell]):
    """One row of cells."""

    __slots__ = ("wrapped",)

    def __init__(self, cells: Iterable[Cell], wrapped: int = 0) -> None:
        super().__init__(cells)
        self.wrapped = wrapped
        """How many columns of text go on in the next row, no newline having been printed; 0 when none do."""

    def text(self) -> str:
        """Give the text, without the blanks after it unless it goes on in the next row."""
        if self.wrapped:
            return "".join(map(_TEXT_OF, self[: self.wrapped]))
        return "".join(map(_TEXT_OF, self)).rstrip(" ")

    def is_blank(self) -> bool:
        return not "".join(map(_TEXT_OF, self)).strip(" ")

    def split_wide(self, col: int) -> None:
        """Blank both halves of a wide character that an edit at this column cuts in two; no colour of it stays."""
        if 0 < col < len(self) and self[col].width == 0:
            self[col] = BLANK
            if self[col - 1].width == 2:  # else it is a half that tmux 3.4 put one column too far
                self[col - 1] = BLANK

    def fit(self, cols: int) -> None:
        """Cut or lengthen."""
        self.split_wide(cols)
        del self[cols:]
        self.extend([BLANK] * (cols - len(self)))
        self.wrapped = min(self.wrapped, cols)


class Grid:
    """`rows` of `cols` cells, top first; a list, because a list scrolls in one step."""

    def __init__(self, cols: int, rows: int) -> None:
        self.cols = cols
        self.rows = [Row([BLANK] * cols) for _ in range(rows)]
        self.continues = True
        """The top row may go on what scrolled off above it."""

    def row_of(self, blank: Cell) -> Row:
        return Row([blank] * self.cols)

    def break_before(self, y: int) -> None:
        """Make this row the start of a line: the text before it no longer goes on in it."""
        if y > 0:
            self.rows[y - 1].wrapped = 0
        else:
            self.continues = False

    def delete_rows(self, top: int, bottom: int, count: int, blank: Cell) -> None:
        """Move the rows up to `bottom` up over `count` rows from `top`."""
        count = min(count, bottom - top + 1)
        del self.rows[top : top + count]
        first = bottom - count + 1
        self.rows[first:first] = [self.row_of(blank) for _ in range(count)]

    def insert_rows(self, top: int, bottom: int, count: int, blank: Cell) -> None:
        """Move the rows from `top` down; those past `bottom` are lost."""
        count = min(count, bottom - top + 1)
        self.break_before(top)
        self.break_before(top + count)
        del self.rows[bottom - count + 1 : bottom + 1]
        self.rows[top:top] = [self.row_of(blank) for _ in range(count)]

    def erase(self, y: int, start: int, end: int, blank: Cell) -> None:
        """Blank the columns from `start` to before `end`."""
        row, end = self.rows[y], min(end, self.cols)
        if start >= end:
            return
        row.split_wide(start)
        row.split_wide(end)
        if (start, end) == (0, self.cols):
            row.wrapped = 0
            self.break_before(y)
        row[start:end] = [blank] * (end - start)

    def insert_cells(self, y: int, col: int, count: int, blank: Cell) -> None:
        row = self.rows[y]
        if col < self.cols:
            row.split_wide(col)
            count = min(count, self.cols - col)
            row[col:col] = [blank] * count
            row.split_wide(self.cols)
            del row[self.cols :]

    def delete_cells(self, y: int, col: int, count: int, blank: Cell) -> None:
        row = self.rows[y]
        if col < self.cols:
            count = min(count, self.cols - col)
            row.split_wide(col)
            row.split_wide(col + count)
            del row[col : col + count]
            row.extend([blank] * count)

    def fit(self, cols: int, rows: int, cursor_y: int) -> None:
        """Change the size without wrapping anew.

        Rows go first below the cursor, then at the top, as in tmux; new ones come at the bottom.
        """
        surplus = len(self.rows) - rows
        below = min(max(surplus, 0), len(self.rows) - 1 - cursor_y)
        del self.rows[len(self.rows) - below :]
        del self.rows[: max(surplus - below, 0)]
        self.cols = cols
        for row in self.rows:
            row.fit(cols)
        self.rows.extend(self.row_of(BLANK) for _ in range(rows - len(self.rows)))
