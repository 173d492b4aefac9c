"""Rows of cells that can be edited: no cursor, no modes. Cells are shared values; see `snapshot.py`.

Every row has as many cells as the grid has columns. The cells of one style come from a `Pen`, so that drawing is
looking them up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from tmuxmcp.terminal.snapshot import BLANK, PLAIN_STYLE, UNDERLINES, Cell, Colour, Style

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

    def __init__(self, cells: Iterable[Cell]) -> None:
        super().__init__(cells)
        self.wrapped = 0
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


# ---- What `CSI ... m` makes of a style, as tmux reads it. Pure -------------------------------------------------------

SGR = re.compile(r"\x1b\[([0-9;:]*)m")
"""The sequence that changes the style; its parameters in a group."""

MAX_NUMBER = 9999
"""Larger parameters count as this much."""

_CODE_EFFECTS: dict[int, dict[str, Any]] = {
    0: {name: value for name, value in PLAIN_STYLE._asdict().items() if name != "link"},
    1: {"bold": True},
    2: {"faint": True},
    3: {"italic": True},
    4: {"underline": "single"},
    5: {"blink": True},
    6: {"blink": True},
    7: {"reverse": True},
    8: {"conceal": True},
    9: {"strike": True},
    21: {"underline": "double"},
    22: {"bold": False, "faint": False},
    23: {"italic": False},
    24: {"underline": ""},
    25: {"blink": False},
    27: {"reverse": False},
    28: {"conceal": False},
    29: {"strike": False},
    39: {"fg": None},
    49: {"bg": None},
    53: {"overline": True},
    55: {"overline": False},
    59: {"underline_colour": None},
    **{code: {"fg": code - 30} for code in range(30, 38)},
    **{code: {"bg": code - 40} for code in range(40, 48)},
    **{code: {"fg": code - 82} for code in range(90, 98)},
    **{code: {"bg": code - 92} for code in range(100, 108)},
}
_COLOUR_PARAMETERS = {38: "fg", 48: "bg", 58: "underline_colour"}


MAX_PARAMS, MAX_FIELDS = 63, 23
"""Characters and numbers of the parameters; a sequence with more does nothing."""

_HUGE_NUMBER = re.compile(r"(?<![0-9])0*[1-9][0-9]{9}")


def obeyed(params: str) -> bool:
    """Whether tmux obeys a sequence with these parameters at all."""
    return len(params) <= MAX_PARAMS and params.count(";") < MAX_FIELDS and not _HUGE_NUMBER.search(params)


def number(digits: str) -> int:
    """Read a parameter; an empty one is 0."""
    digits = digits.lstrip("0")[:6]
    return min(int(digits), MAX_NUMBER) if digits.isdigit() else 0


def restyled(style: Style, params: str) -> Style:
    """Give the style after `CSI params m`; what cannot be read changes nothing."""
    changes: dict[str, Any] = {}
    if not obeyed(params):
        return style
    fields = params.split(";")
    pos = 0
    while pos < len(fields):
        field = fields[pos]
        pos += 1
        if ":" in field:
            changes |= _with_colons(field.split(":"))
        elif (code := number(field)) in _COLOUR_PARAMETERS:
            colour, used = _colour(fields[pos : pos + 4])
            pos += used
            changes |= {} if colour == () else {_COLOUR_PARAMETERS[code]: colour}
        else:
            changes |= _CODE_EFFECTS.get(code, {})
    return style._replace(**changes)


def _colour(fields: list[str]) -> tuple[Colour | tuple[()], int]:
    """Read what follows 38, 48 or 58: the colour, `()` for none, and how many fields it took."""
    match fields:
        case ["5", index, *_] if index:
            return (number(index) if number(index) < 256 else None), 2
        case ["5", *_]:
            return None, 2
        case ["2", r, g, b] if all(part and number(part) < 256 for part in (r, g, b)):
            return (number(r), number(g), number(b)), 4
    return (), 1


def _with_colons(parts: list[str]) -> dict[str, Any]:
    match parts:
        case ["4", kind] if kind and number(kind) < len(UNDERLINES):
            return {"underline": UNDERLINES[number(kind)]}
        case ["38" | "48" | "58" as code, "5", index, *_]:
            return {_COLOUR_PARAMETERS[int(code)]: _colour(["5", index])[0]}
        case ["38" | "48" | "58" as code, "2", *rest] if len(rest) >= 3:
            # 2:r:g:b, or 2:colour space:r:g:b
            colour, _ = _colour(["2", *(rest if len(rest) == 3 else rest[1:4])])
            return {} if colour == () else {_COLOUR_PARAMETERS[int(code)]: colour}
    return {}
