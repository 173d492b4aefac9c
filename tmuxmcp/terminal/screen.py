"""What a terminal shows after any bytes: pyte's screen, made fast, harmless and like tmux's.

pyte 0.8.2 raises on real output, has no alternate screen, prints what it should swallow and moves about 1 MB/s.
`Screen` keeps its interface (`buffer[row][col]`, `cursor`, `mode`, `dirty`, `display`) and replaces what it does;
`Stream` replaces its parser. Where terminals differ, tmux 3.3a decides: programs in a pane are told that they run
in tmux. Nothing here raises on any bytes, and no state grows without a bound. `Collector` keeps the rows that
scroll off, for text that moves up and down. Pure: no I/O; questions to the terminal stay unanswered, because tmux
has already answered them.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyte
from pyte import graphics
from pyte.modes import DECAWM, DECOM, DECTCEM, IRM
from pyte.screens import Char, Cursor, Margins

from tmuxmcp.terminal.widths import MAX_CELL, ZERO_WIDTH_JOINER, char_width

BLANK = Char(" ")

MAX_TITLE = 4096
"""Characters kept of an operating system command; nothing but the title is read from one."""

MAX_SEQUENCE = 4096
"""Characters of the longest control sequence obeyed; tmux itself stops at 64 of parameters."""

MAX_NUMBER = 9999
"""Larger parameters count as this much."""

_MAX_STYLES, _MAX_CACHED, _MAX_MEMO = 128, 1024, 4096

# --- colours and styles -------------------------------------------------------------------------------

_NAMES = [graphics.FG_ANSI[code] for code in range(30, 38)]
_COLOURS: list[str] = [*_NAMES, *("bright" + name for name in _NAMES), *graphics.FG_BG_256[16:]]


def _number(digits: str) -> int:
    digits = digits.lstrip("0")[:6]
    return min(int(digits), MAX_NUMBER) if digits.isdigit() else 0


def _colour(numbers: list[int]) -> str | None:
    """Read what follows 38, 48 or 58: `5;n` or `2;r;g;b`."""
    match numbers:
        case [5, n, *_] if n < len(_COLOURS):
            return _COLOURS[n]
        case [2, r, g, b, *_]:
            return f"{r & 255:02x}{g & 255:02x}{b & 255:02x}"
    return None


def _styled(attrs: Char, params: str) -> Char:
    """Give the attributes after `CSI params m`."""
    changes: dict[str, Any] = attrs._asdict()
    fields = params.split(";")
    pos = 0
    while pos < len(fields):
        if ":" in fields[pos]:
            _apply_colon(changes, fields[pos])
            pos += 1
            continue
        code = _number(fields[pos])
        pos += 1
        if code in (38, 48, 58):
            kind = _number(fields[pos]) if pos < len(fields) else 0
            length = {5: 2, 2: 4}.get(kind, 1)
            _set_colour(changes, code, _colour([_number(field) for field in fields[pos : pos + length]]))
            pos += length
        else:
            _apply_code(changes, code)
    return Char(**changes)


def _apply_code(changes: dict[str, Any], code: int) -> None:
    if code == 0:
        changes.update(BLANK._asdict())
    elif code == 21:  # double underline
        changes["underscore"] = True
    elif code in graphics.TEXT:
        change = graphics.TEXT[code]
        changes[change[1:]] = change[0] == "+"
    elif code in (39, 49):
        changes["fg" if code == 39 else "bg"] = "default"
    elif code // 10 in (3, 4) and code % 10 < 8:
        changes["fg" if code < 40 else "bg"] = _COLOURS[code % 10]
    elif code // 10 in (9, 10) and code % 10 < 8:
        changes["fg" if code < 100 else "bg"] = _COLOURS[8 + code % 10]


def _apply_colon(changes: dict[str, Any], field: str) -> None:
    code, *rest = [_number(part) for part in field.split(":")]
    if code == 4:
        changes["underscore"] = rest[0] != 0
    elif code in (38, 48):
        if rest[0] == 2:  # 2:r:g:b, or 2:colour space:r:g:b
            rest = [2, *rest[-3:]] if len(rest) >= 4 else []
        _set_colour(changes, code, _colour(rest))


def _set_colour(changes: dict[str, Any], code: int, colour: str | None) -> None:
    if colour is not None and code != 58:  # the colour of an underline is not kept
        changes["fg" if code == 38 else "bg"] = colour


class _Cells(dict[str, Char]):
    """The cells of one style, by character."""

    def __init__(self, attrs: Char) -> None:
        self._attrs = attrs

    def __missing__(self, char: str) -> Char:
        if len(self) >= _MAX_CACHED:
            self.clear()
        cell = self[char] = self._attrs._replace(data=char)
        return cell


# --- the screen ---------------------------------------------------------------------------------------


class Row(dict[int, Char]):
    """One row of cells by column; columns that are not there are blank."""

    __slots__ = ("wrapped",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.wrapped = False
        """The text goes on in the next row: no newline was printed."""

    def __missing__(self, col: int) -> Char:
        return BLANK

    def text(self) -> str:
        if not self:
            return ""
        return "".join([self[col].data for col in range(max(self) + 1)])

    def is_blank(self) -> bool:
        return not self.text().strip(" ")


@dataclass(frozen=True)
class _Saved:
    row: int
    col: int
    attrs: Char
    origin: bool
    drawing: tuple[bool, bool]
    shifted: int


class Screen(pyte.Screen):
    """A `pyte.Screen` that behaves like tmux's and never raises."""

    columns: int
    lines: int
    buffer: list[Row]  # type: ignore[assignment]  # a list scrolls in one step, pyte's dict in one a row
    dirty: set[int]
    mode: set[int]
    """Private modes are shifted left by 5, as in pyte."""
    tabstops: set[int]
    title: str
    keeps_scrolled = False
    """Rows that scroll off are wanted, so that the stream may not skip them."""

    def __init__(self, columns: int, lines: int) -> None:
        self.bell_count = 0
        self._styles: dict[Char, _Cells] = {}
        self._memo: dict[tuple[Char, str], Char] = {}
        super().__init__(max(columns, 1), max(lines, 1))

    def reset(self) -> None:
        """Forget everything; pyte calls this before anything else."""
        self.buffer = [Row() for _ in range(self.lines)]
        self.cursor = Cursor(0, 0)
        self.margins = None
        self.mode = {DECAWM, DECTCEM}
        self.tabstops = set(range(8, self.columns, 8))
        self.title = self.icon_name = ""
        self.drawing = [False, False]
        """Whether G0 and G1 draw lines."""
        self.shifted = 0
        self.alternate = False
        self._main: list[Row] = []
        self._saved: _Saved | None = None
        self._saved_by_alternate: _Saved | None = None
        self.last_char = ""
        """What `CSI b` repeats: the ASCII character printed just before it."""
        self._all_dirty()

    def hard_reset(self) -> None:
        """Do what `ESC c` says; tmux keeps what was shown."""
        self._leave_alternate(restore_cursor=False)
        self._keep_cleared()
        self.reset()

    @property
    def default_char(self) -> Char:
        return BLANK

    @property
    def display(self) -> list[str]:
        """`lines` strings of `columns` cells."""
        columns = range(self.columns)
        return ["".join([row[col].data for col in columns]) for row in self.buffer]

    @property
    def main_rows(self) -> list[Row]:
        """The rows of the main screen, also while the alternate one is shown."""
        return self._main if self.alternate else self.buffer

    @property
    def only_scrolls(self) -> bool:
        """Plain text now does nothing but go down and scroll."""
        return (
            self.margins is None
            and not self.drawing[self.shifted]
            and IRM not in self.mode
            and DECAWM in self.mode
            and DECOM not in self.mode
        )

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Change the size without wrapping anew; rows go first below the cursor, then at the top, as in tmux."""
        lines = max(lines or self.lines, 1)
        columns = max(columns or self.columns, 1)
        if (lines, columns) == (self.lines, self.columns):
            return
        self._fit_lines(lines)
        for row in self.buffer:
            for col in [col for col in row if col >= columns]:
                del row[col]
        self.tabstops = {col for col in self.tabstops if col < columns}
        self.tabstops.update(range((self.columns // 8 + 1) * 8, columns, 8))
        self.lines, self.columns, self.margins = lines, columns, None
        self.cursor.x = min(self.cursor.x, columns - 1)
        self.cursor.y = min(self.cursor.y, lines - 1)
        self._all_dirty()

    def _fit_lines(self, lines: int) -> None:
        rows, cursor = self.buffer, self.cursor
        surplus = len(rows) - lines
        below = min(max(surplus, 0), len(rows) - 1 - cursor.y)
        del rows[len(rows) - below :]
        above = max(surplus - below, 0)
        self._rows_left(rows[:above])
        del rows[:above]
        rows.extend(Row() for _ in range(lines - len(rows)))

    def _rows_left(self, rows: list[Row]) -> None:
        """Take note of rows that scrolled off or were cleared, top first."""

    def _break_before(self, y: int) -> None:
        """Make this row the start of a line: the text before it no longer goes on in it."""
        if y > 0:
            self.buffer[y - 1].wrapped = False

    def _all_dirty(self) -> None:
        self.dirty.update(range(self.lines))

    def _blank(self) -> Char:
        background = self.cursor.attrs.bg
        return BLANK if background == "default" else BLANK._replace(bg=background)

    def _blank_row(self) -> Row:
        if self.cursor.attrs.bg == "default":
            return Row()
        return Row(dict.fromkeys(range(self.columns), self._blank()))

    def _cells(self, attrs: Char) -> _Cells:
        cells = self._styles.get(attrs)
        if cells is None:
            if len(self._styles) >= _MAX_STYLES:
                self._styles.clear()
            cells = self._styles[attrs] = _Cells(attrs)
        return cells

    # Drawing

    def draw(self, data: str) -> None:
        """Write printable characters at the cursor."""
        if self.drawing[self.shifted]:
            data = data.translate(_LINE_DRAWING)
        if data.isascii() and IRM not in self.mode:
            self._draw_ascii(data)
        else:
            for char in data:
                self._draw_char(char)

    def _draw_ascii(self, text: str) -> None:
        cursor, columns = self.cursor, self.columns
        if DECAWM not in self.mode:
            if cursor.x >= columns:
                return
            text = self._within_row(text)
        cell = self._cells(cursor.attrs).__getitem__
        pos, length = 0, len(text)
        while pos < length:
            if cursor.x >= columns:
                self._wrap()
            start = cursor.x
            run = text[pos : pos + columns - start]
            end = start + len(run)
            row = self.buffer[cursor.y]
            if row:
                self._split_wide(row, start)
                self._split_wide(row, end)
            row.update(zip(range(start, end), map(cell, run), strict=True))
            self.dirty.add(cursor.y)
            cursor.x = end
            pos += len(run)
        self._stay_in_row()
        self.last_char = text[-1]

    def _stay_in_row(self) -> None:
        if DECAWM not in self.mode:
            self.cursor.x = min(self.cursor.x, self.columns - 1)

    def _within_row(self, text: str) -> str:
        """Without wrapping, each character too many overwrites the last column."""
        room = self.columns - self.cursor.x
        return text if len(text) <= room else text[: room - 1] + text[-1]

    def _draw_char(self, char: str) -> None:
        width = char_width(char)
        if width == 0:
            self._join(char)
            return
        cursor = self.cursor
        if cursor.x > 0 and not char.isascii() and self._joins_next() and self._join(char):
            return
        if IRM in self.mode:
            self.insert_characters(width)
        if cursor.x + width > self.columns:
            if width > self.columns or DECAWM not in self.mode:
                return
            self._wrap()
        row, start = self.buffer[cursor.y], cursor.x
        if row:
            self._split_wide(row, start)
            self._split_wide(row, start + width)
        cells = self._cells(cursor.attrs)
        row[start] = cells[char]
        if width == 2:
            row[start + 1] = cells[""]
        cursor.x = start + width
        self._stay_in_row()
        self.dirty.add(cursor.y)
        self.last_char = char if char.isascii() else ""

    def _wrap(self) -> None:
        self.buffer[self.cursor.y].wrapped = True
        self.cursor.x = 0
        self.index()

    def _before_cursor(self) -> int:
        col: int = self.cursor.x - 1
        return col - 1 if col > 0 and self.buffer[self.cursor.y][col].data == "" else col

    def _joins_next(self) -> bool:
        data: str = self.buffer[self.cursor.y][self._before_cursor()].data
        return data.endswith(ZERO_WIDTH_JOINER)

    def _join(self, char: str) -> bool:
        """Add a character to the cell before the cursor; at column 0 there is none."""
        if self.cursor.x == 0:
            return False
        row, col = self.buffer[self.cursor.y], self._before_cursor()
        cell = row[col]
        self.last_char = ""
        if char == ZERO_WIDTH_JOINER and cell.data.isascii():
            return True
        if len(cell.data) < MAX_CELL:
            row[col] = cell._replace(data=(cell.data or " ") + char)
            self.dirty.add(self.cursor.y)
        return True

    @staticmethod
    def _split_wide(row: Row, col: int) -> None:
        """Blank both halves of a wide character that an edit at this column cuts in two."""
        cell = row.get(col)
        if cell is not None and cell.data == "" and col > 0:
            row[col - 1] = row[col - 1]._replace(data=" ")
            row[col] = cell._replace(data=" ")

    def repeat(self, count: int | None = None) -> None:
        """Print the last character again, within the row."""
        room = self.columns - self.cursor.x
        if self.last_char and room > 0:
            self.draw(self.last_char * min(count or 1, room))

    # Lines and scrolling

    def _region(self) -> tuple[int, int]:
        return self.margins or (0, self.lines - 1)

    def index(self) -> None:
        _, bottom = self._region()
        if self.cursor.y == bottom:
            self.scroll_up(1)
        elif self.cursor.y < self.lines - 1:
            self.cursor.y += 1

    linefeed = index

    def next_line(self) -> None:
        self.cursor.x = 0
        self.index()

    def reverse_index(self) -> None:
        top, _ = self._region()
        if self.cursor.y == top:
            self.scroll_down(1)
        elif self.cursor.y > 0:
            self.cursor.y -= 1

    def scroll_up(self, count: int | None = None) -> None:
        """Scroll the region; its top rows go to the scrollback wherever the region lies, as in tmux."""
        top, bottom = self._region()
        self._rows_left(self.buffer[top : min(top + (count or 1), bottom + 1)])
        self._delete_rows(top, bottom, count or 1)

    def scroll_down(self, count: int | None = None) -> None:
        top, bottom = self._region()
        for _ in range(min(count or 1, self.lines)):
            self._insert_rows(top, bottom, 1)

    def insert_lines(self, count: int | None = None) -> None:
        self._insert_rows(self.cursor.y, self._last_moved(), count or 1)

    def delete_lines(self, count: int | None = None) -> None:
        top, bottom = self.cursor.y, self._last_moved()
        self._delete_rows(top, bottom, count or 1)
        self._break_before(top)
        self._break_before(max(top, bottom + 1 - (count or 1)))

    def _last_moved(self) -> int:
        """The last row that moves with the cursor's; outside the region all do, in tmux."""
        top, bottom = self._region()
        return bottom if top <= self.cursor.y <= bottom else self.lines - 1

    def _delete_rows(self, top: int, bottom: int, count: int) -> None:
        count = min(count, bottom - top + 1)
        rows = self.buffer
        del rows[top : top + count]
        rows[bottom - count + 1 : bottom - count + 1] = [self._blank_row() for _ in range(count)]
        self.dirty.update(range(top, bottom + 1))

    def _insert_rows(self, top: int, bottom: int, count: int) -> None:
        count = min(count, bottom - top + 1)
        rows = self.buffer
        self._break_before(top)
        self._break_before(top + count)
        del rows[bottom - count + 1 : bottom + 1]
        rows[top:top] = [self._blank_row() for _ in range(count)]
        self.dirty.update(range(top, bottom + 1))

    def set_margins(self, top: int | None = None, bottom: int | None = None) -> None:
        first = max(top or 1, 1) - 1
        last = min(self.lines if bottom is None else bottom, self.lines) - 1
        if first >= last:
            return
        whole = (first, last) == (0, self.lines - 1)
        self.margins = None if whole else Margins(first, last)
        self.cursor.x = self.cursor.y = 0

    def start_over(self) -> None:
        """Show nothing but an empty bottom row with the cursor on it, as after a screenful of newlines."""
        self.buffer[:] = [*(Row() for _ in range(self.lines - 1)), self._blank_row()]
        self.cursor.x, self.cursor.y = 0, self.lines - 1
        self.last_char = ""
        self._all_dirty()

    # Erasing and editing

    def _erase(self, y: int, start: int, end: int) -> None:
        row, end = self.buffer[y], min(end, self.columns)
        if start >= end:
            return
        self._split_wide(row, start)
        self._split_wide(row, end)
        if (start, end) == (0, self.columns):
            row.wrapped = False
            self._break_before(y)
        if self.cursor.attrs.bg != "default":
            row.update(dict.fromkeys(range(start, end), self._blank()))
        elif (start, end) == (0, self.columns):
            row.clear()
        elif row.wrapped:  # the blanks are part of the line
            row.update(dict.fromkeys(range(start, end), BLANK))
        else:
            for col in range(start, end):
                row.pop(col, None)
        self.dirty.add(y)

    def erase_characters(self, count: int | None = None) -> None:
        self._erase(self.cursor.y, self.cursor.x, self.cursor.x + (count or 1))

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        x, y = self.cursor.x, self.cursor.y
        if how == 0:
            self._erase(y, x, self.columns)
        elif how == 1:
            self._erase(y, 0, x + 1)
        elif how == 2:
            self._erase(y, 0, self.columns)

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        y = self.cursor.y
        if how == 2 or (how == 0 and y == self.cursor.x == 0):
            self._clear()
        elif how == 0:
            self.erase_in_line(0)
            self._erase_rows(range(y + 1, self.lines))
        elif how == 1:
            self.erase_in_line(1)
            self._erase_rows(range(y))

    def _clear(self) -> None:
        self._keep_cleared()
        self._erase_rows(range(self.lines))

    def _keep_cleared(self) -> None:
        """Scroll what is about to be wiped into the scrollback, as tmux does on `clear`."""
        used = [y for y, row in enumerate(self.buffer) if not row.is_blank()]
        if used and not self.alternate:
            kept = self.buffer[: used[-1] + 1]
            kept[-1].wrapped = False
            self._rows_left(kept)

    def _erase_rows(self, rows: Iterable[int]) -> None:
        for y in rows:
            self._erase(y, 0, self.columns)

    def _edit_row(self, edit: Callable[[list[Char], int], list[Char]]) -> None:
        """Replace the cursor's row by what `edit(cells, col)` makes of it."""
        row, col = self.buffer[self.cursor.y], self.cursor.x
        if col >= self.columns:
            return
        self._split_wide(row, col)
        cells = edit([row[x] for x in range(self.columns)], col)
        row.clear()
        row.update(enumerate(cells[: self.columns]))
        self._split_wide_at_edges(row, col)
        self.dirty.add(self.cursor.y)

    def _split_wide_at_edges(self, row: Row, col: int) -> None:
        last = row[self.columns - 1]
        if len(last.data) > 0 and char_width(last.data[0]) == 2:
            row[self.columns - 1] = last._replace(data=" ")
        if row[col].data == "":
            row[col] = row[col]._replace(data=" ")

    def insert_characters(self, count: int | None = None) -> None:
        blanks = [self._blank()] * min(count or 1, self.columns)
        self._edit_row(lambda cells, col: [*cells[:col], *blanks, *cells[col:]])

    def delete_characters(self, count: int | None = None) -> None:
        blanks = [self._blank()] * min(count or 1, self.columns)
        self._edit_row(lambda cells, col: [*cells[:col], *cells[col + len(blanks) :], *blanks])

    def alignment_display(self) -> None:
        letter = BLANK._replace(data="E")
        self.buffer[:] = [Row(dict.fromkeys(range(self.columns), letter)) for _ in range(self.lines)]
        self.cursor.x = self.cursor.y = 0
        self.margins = None
        self._all_dirty()

    # The cursor; a column one past the last one means that the next character wraps

    def carriage_return(self) -> None:
        self.cursor.x = 0

    def backspace(self) -> None:
        cursor = self.cursor
        if cursor.x > 0:
            cursor.x -= 1
        elif cursor.y > 0 and self.buffer[cursor.y - 1].wrapped:
            self._to(self.columns - 1, cursor.y - 1)

    def tab(self) -> None:
        stops = [col for col in self.tabstops if self.cursor.x < col < self.columns]
        self.cursor.x = max(self.cursor.x, min(stops, default=self.columns - 1))

    def tab_back(self, count: int | None = None) -> None:
        for _ in range(min(count or 1, self.columns)):
            self.cursor.x = max((col for col in self.tabstops if col < self.cursor.x), default=0)

    def cursor_forward(self, count: int | None = None) -> None:
        self.cursor.x = min(self.cursor.x + (count or 1), self.columns - 1)

    def cursor_back(self, count: int | None = None) -> None:
        self.cursor.x = max(0, self.cursor.x - (count or 1))

    def cursor_up(self, count: int | None = None) -> None:
        top, _ = self._region()
        limit = top if self.cursor.y >= top else 0
        self._to(self.cursor.x, max(limit, self.cursor.y - (count or 1)))

    def cursor_down(self, count: int | None = None) -> None:
        _, bottom = self._region()
        limit = bottom if self.cursor.y <= bottom else self.lines - 1
        self._to(self.cursor.x, min(limit, self.cursor.y + (count or 1)))

    def cursor_up1(self, count: int | None = None) -> None:
        self.cursor.x = 0
        self.cursor_up(count)

    def cursor_down1(self, count: int | None = None) -> None:
        self.cursor.x = 0
        self.cursor_down(count)

    def cursor_to_column(self, column: int | None = None) -> None:
        self._to((column or 1) - 1, self.cursor.y)

    def cursor_to_line(self, line: int | None = None) -> None:
        self.cursor.y = min(self._origin_row(line or 1), self.lines - 1)  # and still wraps at the next character

    def cursor_position(self, line: int | None = None, column: int | None = None) -> None:
        self._to((column or 1) - 1, self._origin_row(line or 1))

    def _origin_row(self, line: int) -> int:
        if DECOM in self.mode and self.margins:
            return int(min(line - 1 + self.margins.top, self.margins.bottom))
        return line - 1

    def _to(self, col: int, row: int) -> None:
        self.cursor.x = min(max(col, 0), self.columns - 1)
        self.cursor.y = min(max(row, 0), self.lines - 1)

    def _snap(self) -> _Saved:
        cursor = self.cursor
        drawing = (self.drawing[0], self.drawing[1])
        return _Saved(cursor.y, cursor.x, cursor.attrs, DECOM in self.mode, drawing, self.shifted)

    def _unsnap(self, saved: _Saved) -> None:
        self._to(saved.col, saved.row)
        self.cursor.attrs = saved.attrs
        self.drawing, self.shifted = list(saved.drawing), saved.shifted
        (self.mode.add if saved.origin else self.mode.discard)(DECOM)

    def save_cursor(self) -> None:
        self._saved = self._snap()  # one slot, not pyte's unbounded stack

    def restore_cursor(self) -> None:
        self._unsnap(self._saved or _Saved(0, 0, BLANK, False, (False, False), 0))

    # Modes

    def set_mode(self, *modes: int, private: bool = False, **kwargs: Any) -> None:
        for mode in modes:
            self._switch(mode, private, on=True)

    def reset_mode(self, *modes: int, private: bool = False, **kwargs: Any) -> None:
        for mode in modes:
            self._switch(mode, private, on=False)

    def _switch(self, mode: int, private: bool, on: bool) -> None:
        if private and mode in (47, 1047, 1049):
            (self._enter_alternate if on else self._leave_alternate)(mode == 1049)
        elif private and mode == 3:  # a width of 132 columns is refused, but clears
            self.erase_in_display(2)
            self._to(0, 0)
        else:
            (self.mode.add if on else self.mode.discard)(mode << 5 if private else mode)
            if private and mode == 6:
                self.cursor_position()
            self.cursor.hidden = DECTCEM not in self.mode

    def _enter_alternate(self, save_cursor: bool) -> None:
        if self.alternate:
            return
        if save_cursor:
            self._saved_by_alternate = self._snap()
        self._main, self.alternate = self.buffer, True
        self.buffer = [Row() for _ in range(self.lines)]
        self._all_dirty()

    def _leave_alternate(self, restore_cursor: bool) -> None:
        if self.alternate:
            self.buffer, self._main, self.alternate = self._main, [], False
            del self.buffer[self.lines :]
            self.buffer.extend(Row() for _ in range(self.lines - len(self.buffer)))
            self._all_dirty()
        if restore_cursor and self._saved_by_alternate:  # tmux does so on the main screen too
            self._unsnap(self._saved_by_alternate)

    def soft_reset(self) -> None:
        self.mode = {DECAWM, DECTCEM}
        self.margins = self._saved = None
        self.cursor.attrs, self.cursor.hidden = BLANK, False

    def sgr(self, params: str) -> None:
        """Change the attributes by the parameters of `CSI ... m`."""
        attrs = self.cursor.attrs
        changed = self._memo.get((attrs, params))
        if changed is None:
            changed = _styled(attrs, params)
            if len(self._memo) >= _MAX_MEMO:
                self._memo.clear()
            if len(params) <= 64:
                self._memo[attrs, params] = changed
        self.cursor.attrs = changed

    def bell(self, *args: Any) -> None:
        self.bell_count += 1


_LINE_DRAWING = str.maketrans("`afgijklmnopqrstuvwxyz{|}~+,-.0", "◆▒°±␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·→←↑↓█")

# --- the stream ---------------------------------------------------------------------------------------

# What is complete and usual; the rest of the escapes goes to `_escape`.
_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f-\x9f]++)"
    r"|(?P<newline>\r\n)"
    r"|\x1b\[(?P<sgr>[0-9;:]{0,64}+)m"
    r"|\x1b\[(?P<prefix>[<=>?]?)(?P<params>[0-9;]{0,64}+)(?P<final>[@-~])"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f])"
    r"|(?P<ignored>[\x7f-\x9f]+)"  # C1 in UTF-8 is nothing to tmux
)
_ESCAPE = re.compile(r"\x1b([^\x18\x1a\x1b0-~]*+)([0-~\x18\x1a\x1b])")
_CSI = re.compile(r"([^\x18\x1a\x1b@-~]*+)([@-~\x18\x1a\x1b])")
_CSI_BODY = re.compile(r"([<=>?]?)([0-9;:]*+)([ -/]*+)\Z")

# Inside a string: all of it that is there. tmux ends a DCS at `ESC \` only, the others at any escape too.
_STRING = {
    "P": re.compile(r"(?:[^\x1b]|\x1b[^\\])*+", re.DOTALL),
    "]": re.compile(r"[^\x07\x18\x1a\x1b]*+"),
    "[": re.compile(r"[^\x18\x1a\x1b@-~]*+"),  # a control sequence too long to obey
    **dict.fromkeys("X^_k", re.compile(r"[^\x18\x1a\x1b]*+")),
}

# Text that can only go down and scroll, at any size.
_LINEAR = re.compile(r"(?:[^\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]++|\x1b\[[0-9;]*+[mK])*+")
_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_SKIP_FROM = 2048
"""Characters of linear text from which looking for the part to skip pays."""


class Stream:
    """Feed bytes to a screen, cut anywhere."""

    def __init__(self, screen: Screen, errors: str = "ignore") -> None:
        """Attach to a screen; invalid UTF-8 is dropped, as tmux does, or replaced with `errors="replace"`."""
        self._screen = screen
        self._decode = codecs.getincrementaldecoder("utf-8")(errors).decode
        self._pending = ""
        """The start of an escape sequence, at most `MAX_SEQUENCE` characters."""
        self._string = ""
        """The opener of the string that we are in."""
        self._body = ""
        self._controls = _controls(screen)
        self._escapes = _escapes(screen)
        self._sequences = _sequences(screen)

    def feed(self, data: bytes) -> None:
        text, self._pending = self._pending + self._decode(data), ""
        pos = self._in_string(text, 0) if self._string else 0
        screen, match = self._screen, _TOKEN.match
        draw, sgr, index = screen.draw, screen.sgr, screen.index
        next_skip = pos
        while pos < len(text):
            if pos >= next_skip:
                pos = self._skip(text, pos)
                next_skip = pos + 4 * _SKIP_FROM
            token = match(text, pos)
            if token is None:
                pos = self._escape(text, pos)
                if not self._pending:
                    screen.last_char = ""
                continue
            pos = token.end()
            kind = token.lastgroup
            if kind == "text":
                draw(token["text"])
                continue
            if kind == "sgr":
                sgr(token["sgr"])
            elif kind == "newline":
                screen.cursor.x = 0
                index()
            elif kind == "final":
                self._sequence(token["prefix"] + token["final"], token["params"])
            elif kind == "control":
                self._control(token["control"])
            screen.last_char = ""

    def _skip(self, text: str, pos: int) -> int:
        """Leave out what will have scrolled off: of text that only scrolls, the last rows alone are seen."""
        screen = self._screen
        if len(text) - pos < _SKIP_FROM or screen.keeps_scrolled or not screen.only_scrolls:
            return pos
        linear = _LINEAR.match(text, pos)
        assert linear is not None  # it matches the empty text
        cut = linear.end()
        for _ in range(screen.lines):
            cut = text.rfind("\n", pos, cut)
            if cut < 0:
                return pos
        if cut - pos < _SKIP_FROM // 2 or text[cut - 1] != "\r":
            return pos
        since = max(text.rfind("\x1b[0m", pos, cut), text.rfind("\x1b[m", pos, cut), pos)
        for change in _SGR.finditer(text, since, cut):
            screen.sgr(change[1])
        screen.start_over()
        return cut + 1

    def _control(self, char: str) -> None:
        if handler := self._controls.get(char):
            handler()

    def _escape(self, text: str, pos: int) -> int:
        """Obey the escape sequence at `pos` and say where it ends."""
        escape = _ESCAPE.match(text, pos)
        if escape is None:
            self._pending = text[pos : pos + MAX_SEQUENCE]
            return len(text)
        body, final = escape.groups()
        intermediates = self._obey_controls(body)
        if final == "\x1b":
            return escape.end() - 1
        if final == "[" and not intermediates:
            return self._csi(text, escape.end())
        if final in _STRING and not intermediates:
            self._string = final
            return self._in_string(text, escape.end())
        if handler := self._escapes.get(intermediates + final):
            handler()
        return escape.end()

    def _csi(self, text: str, pos: int) -> int:
        """Obey the control sequence whose parameters begin at `pos`."""
        sequence = _CSI.match(text, pos)
        if sequence is None:
            if len(text) - pos > MAX_SEQUENCE:
                self._string = "["
            else:
                self._pending = "\x1b[" + text[pos:]
            return len(text)
        body, final = sequence.groups()
        if len(body) <= MAX_SEQUENCE:
            parts = _CSI_BODY.match(self._obey_controls(body))
            if final >= "@" and parts is not None:
                prefix, params, intermediates = parts.groups()
                self._sequence(prefix + intermediates + final, params)
        return sequence.end() - (final == "\x1b")

    def _obey_controls(self, body: str) -> str:
        """Obey control characters inside a sequence and give the rest of it."""
        if body.isascii() and body.isprintable():
            return body
        for char in body:
            if char < " ":
                self._control(char)
        return "".join([char for char in body if " " <= char < "\x7f"])

    def _in_string(self, text: str, pos: int) -> int:
        """Swallow the string that we are in, as far as it goes."""
        inside = _STRING[self._string].match(text, pos)
        assert inside is not None  # it matches the empty text
        end = inside.end()
        if self._string == "]":
            self._body = (self._body + text[pos:end])[:MAX_TITLE]
        if end == len(text):
            return end
        if text[end] != "\x1b":
            end += 1
        elif end + 1 == len(text):
            self._pending = "\x1b"
            return end + 1
        elif text[end + 1] == "\\" and self._string != "[":
            end += 2
        self._leave_string()
        return end

    def _leave_string(self) -> None:
        if self._string == "]":
            code, _, title = self._body.partition(";")
            if code in ("0", "2"):
                self._screen.set_title(title)
        self._string = self._body = self._screen.last_char = ""

    def _sequence(self, name: str, params: str) -> None:
        if name == "m":
            self._screen.sgr(params)
        elif ":" not in params and (handler := self._sequences.get(name)):
            handler([_number(field) if field else None for field in params.split(";")])


def _controls(screen: Screen) -> dict[str, Callable[[], None]]:
    def shift(charset: int) -> Callable[[], None]:
        return lambda: setattr(screen, "shifted", charset)

    return {
        **dict.fromkeys("\n\x0b\x0c", screen.index),
        "\x07": screen.bell,
        "\b": screen.backspace,
        "\t": screen.tab,
        "\r": screen.carriage_return,
        "\x0e": shift(1),
        "\x0f": shift(0),
    }


def _escapes(screen: Screen) -> dict[str, Callable[[], None]]:
    def charset(slot: int, drawing: bool) -> Callable[[], None]:
        return lambda: screen.drawing.__setitem__(slot, drawing)

    return {
        "7": screen.save_cursor,
        "8": screen.restore_cursor,
        "D": screen.index,
        "E": screen.next_line,
        "H": screen.set_tab_stop,
        "M": screen.reverse_index,
        "c": screen.hard_reset,
        "#8": screen.alignment_display,
        "(0": charset(0, True),
        "(B": charset(0, False),
        ")0": charset(1, True),
        ")B": charset(1, False),
    }


def _sequences(screen: Screen) -> dict[str, Callable[[list[int | None]], None]]:
    def first(method: Callable[[int | None], None]) -> Callable[[list[int | None]], None]:
        return lambda params: method(params[0])

    def kind(method: Callable[[int], None]) -> Callable[[list[int | None]], None]:
        return lambda params: method(params[0] or 0)

    return {
        "@": first(screen.insert_characters),
        "A": first(screen.cursor_up),
        "B": first(screen.cursor_down),
        "C": first(screen.cursor_forward),
        "D": first(screen.cursor_back),
        "E": first(screen.cursor_down1),
        "F": first(screen.cursor_up1),
        "G": first(screen.cursor_to_column),
        "H": lambda params: screen.cursor_position(*params[:2]),
        "J": kind(screen.erase_in_display),
        "K": kind(screen.erase_in_line),
        "L": first(screen.insert_lines),
        "M": first(screen.delete_lines),
        "P": first(screen.delete_characters),
        "S": first(screen.scroll_up),
        "T": first(screen.scroll_down),
        "X": first(screen.erase_characters),
        "Z": first(screen.tab_back),
        "`": first(screen.cursor_to_column),
        "b": first(screen.repeat),
        "d": first(screen.cursor_to_line),
        "f": lambda params: screen.cursor_position(*params[:2]),
        "g": kind(screen.clear_tab_stop),
        "h": lambda params: screen.set_mode(*filter(None, params)),
        "l": lambda params: screen.reset_mode(*filter(None, params)),
        "?h": lambda params: screen.set_mode(*filter(None, params), private=True),
        "?l": lambda params: screen.reset_mode(*filter(None, params), private=True),
        "r": lambda params: screen.set_margins(*params[:2]),
        "s": lambda params: screen.save_cursor(),
        "u": lambda params: screen.restore_cursor(),
        "!p": lambda params: screen.soft_reset(),
    }


# --- the collector ------------------------------------------------------------------------------------


class _CollectingScreen(Screen):
    keeps_scrolled = True

    def __init__(self, columns: int, lines: int) -> None:
        self.left: list[tuple[str, bool]] = []
        """Text of each row that is no longer on the screen, and whether it goes on in the next."""
        super().__init__(columns, lines)

    def _rows_left(self, rows: list[Row]) -> None:
        if not self.alternate:
            self.left.extend((row.text(), row.wrapped) for row in rows)

    def _break_before(self, y: int) -> None:
        super()._break_before(y)
        if y == 0 and self.left and not self.alternate:
            self.left[-1] = (self.left[-1][0], False)


class Collector:
    """The text of a stream that moves up and down: rows that scrolled off, then what the screen shows."""

    def __init__(self, cols: int, rows: int) -> None:
        self.screen = _CollectingScreen(cols, rows)
        self._stream = Stream(self.screen, errors="replace")

    def feed(self, data: bytes) -> None:
        self._stream.feed(data)

    @property
    def settled(self) -> bool:
        """The cursor begins a line below everything, so that plain text goes on as on an empty screen."""
        screen = self.screen
        below = screen.buffer[screen.cursor.y :]
        return (
            screen.cursor.x == 0
            and screen.only_scrolls
            and not screen.alternate
            and all(row.is_blank() for row in below)
        )

    def text(self) -> str:
        """Give the logical lines so far, without trailing blanks; a newline at the end says that the last ended."""
        return "\n".join(_logical(self.screen.left + self._shown()))

    def _shown(self) -> list[tuple[str, bool]]:
        rows = self.screen.main_rows
        used = [y for y, row in enumerate(rows) if not row.is_blank()]
        cursor = -1 if self.screen.alternate else self.screen.cursor.y
        return [(row.text(), row.wrapped) for row in rows[: max([cursor, *used]) + 1]]


def _logical(rows: list[tuple[str, bool]]) -> list[str]:
    """Join rows that were broken at the width."""
    lines: list[str] = []
    parts: list[str] = []
    for text, wrapped in rows:
        parts.append(text)
        if not wrapped:
            lines.append("".join(parts).rstrip(" "))
            parts = []
    if parts:
        lines.append("".join(parts).rstrip(" "))
    return lines
