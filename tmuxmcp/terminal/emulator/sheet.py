"""What is printed and erased on one page, at the cursor of `sheet.py`. Knows no alternate screen and no bytes."""

from __future__ import annotations

import re
from itertools import repeat
from typing import Any

from tmuxmcp.contract.value import replace
from tmuxmcp.terminal.emulator.grid import Grid, Pen, Pens
from tmuxmcp.terminal.snapshot import BLANK, PLAIN_STYLE, Cell, Cursor, SavedCursor
from tmuxmcp.terminal.widths import (
    JOINS_CELLS,
    MAX_CELL,
    OLDEST_VERSION,
    ZERO_WIDTH_JOINER,
    TmuxVersion,
    char_width,
    is_dropped,
    is_full,
    joins,
    makes_wide,
    stands_alone,
)

# ---- Where the cursor is and what moves it: columns, rows, tab stops, the scroll region. Draws nothing ---------------

TAB_COLUMNS = 8


class Position:
    """The cursor; a column one past the last one means that the next character wraps."""

    __slots__ = ("hidden", "shape", "x", "y")

    def __init__(self) -> None:
        self.x = self.y = 0
        self.hidden = False
        self.shape = "block"


class Moves:
    """A cursor on `lines` rows of `columns` columns."""

    columns: int
    lines: int

    def reset_moves(self) -> None:
        """Go home, with the usual tab stops and the whole screen as scroll region."""
        self.cursor = Position()
        self.margins: tuple[int, int] | None = None
        """First and last row of the scroll region, when it is not the whole screen."""
        self.origin = False
        """Rows count from the top of the scroll region."""
        self.tabstops = set(range(TAB_COLUMNS, self.columns, TAB_COLUMNS))

    def shown_cursor(self) -> Cursor:
        """Give the cursor as a snapshot has it."""
        cursor = self.cursor
        wraps = cursor.x >= self.columns
        return Cursor(cursor.y, min(cursor.x, self.columns - 1), not cursor.hidden, wraps, cursor.shape)

    def region(self) -> tuple[int, int]:
        return self.margins or (0, self.lines - 1)

    def to(self, col: int, row: int) -> None:
        """Go there, or as near as the screen goes."""
        self.cursor.x = min(max(col, 0), self.columns - 1)
        self.cursor.y = min(max(row, 0), self.lines - 1)

    def carriage_return(self) -> None:
        self.cursor.x = 0

    def cursor_forward(self, count: int | None = None) -> None:
        self.cursor.x = min(self.cursor.x + (count or 1), self.columns - 1)

    def cursor_back(self, count: int | None = None) -> None:
        self.cursor.x = max(0, self.cursor.x - (count or 1))

    def cursor_up(self, count: int | None = None) -> None:
        top, _ = self.region()
        limit = top if self.cursor.y >= top else 0
        self.to(self.cursor.x, max(limit, self.cursor.y - (count or 1)))

    def cursor_down(self, count: int | None = None) -> None:
        _, bottom = self.region()
        limit = bottom if self.cursor.y <= bottom else self.lines - 1
        self.to(self.cursor.x, min(limit, self.cursor.y + (count or 1)))

    def cursor_up1(self, count: int | None = None) -> None:
        self.cursor.x = 0
        self.cursor_up(count)

    def cursor_down1(self, count: int | None = None) -> None:
        self.cursor.x = 0
        self.cursor_down(count)

    def cursor_to_column(self, column: int | None = None) -> None:
        self.to((column or 1) - 1, self.cursor.y)

    def cursor_to_line(self, line: int | None = None) -> None:
        self.cursor.y = min(self._origin_row(line or 1), self.lines - 1)  # and still wraps at the next character

    def cursor_position(self, line: int | None = None, column: int | None = None) -> None:
        self.to((column or 1) - 1, self._origin_row(line or 1))

    def _origin_row(self, line: int) -> int:
        if self.origin and self.margins:
            top, bottom = self.margins
            return min(line - 1 + top, bottom)
        return line - 1

    def set_margins(self, top: int | None = None, bottom: int | None = None) -> bool:
        """Set the scroll region, rows from 1; an impossible one changes nothing, and the answer is False."""
        first = max(top or 1, 1) - 1
        last = min(self.lines if bottom is None else bottom, self.lines) - 1
        if first >= last:
            return False
        whole = (first, last) == (0, self.lines - 1)
        self.margins = None if whole else (first, last)
        self.cursor.x = self.cursor.y = 0
        return True

    def tab(self) -> None:
        stops = [col for col in self.tabstops if self.cursor.x < col < self.columns]
        self.cursor.x = max(self.cursor.x, min(stops, default=self.columns - 1))

    def tab_back(self, count: int | None = None) -> None:
        self.cursor.x = min(self.cursor.x, self.columns - 1)
        for _ in range(min(count or 1, self.columns)):
            self.cursor.x = max((col for col in self.tabstops if col < self.cursor.x), default=0)

    def set_tab_stop(self) -> None:
        if self.cursor.x < self.columns:
            self.tabstops.add(self.cursor.x)

    def clear_tab_stop(self, how: int = 0) -> None:
        if how == 0:
            self.tabstops.discard(self.cursor.x)
        elif how == 3:
            self.tabstops.clear()

    def set_shape(self, shape: int = 0) -> None:
        """Obey `CSI n SP q`."""
        if shape < len(SHAPE_BY_NUMBER):
            self.cursor.shape = SHAPE_BY_NUMBER[shape]


# ---- The shape of the cursor, as programs ask for it with `CSI n SP q` (DECSCUSR). Pure ------------------------------

SHAPE_BY_NUMBER = ("block", "block", "block", "underline", "underline", "bar", "bar")
"""By the number in the sequence; it does not matter here whether the cursor blinks."""

LONGEST_SEQUENCE = len(b"\x1b[0 q")

_SETS_SHAPE = re.compile(rb"\x1b(?:\[([0-6]?) q|c)")


def last_shape(printed: bytes) -> str | None:
    """The shape that was asked for last, also by a full reset; None: none was."""
    found = _SETS_SHAPE.findall(printed)
    return SHAPE_BY_NUMBER[int(found[-1] or 0)] if found else None


# ----------------------------------------------------------------------------------------------------------------------

LINE_DRAWING = str.maketrans("`afgijklmnopqrstuvwxyz{|}~+,-.0", "◆▒°±␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·→←↑↓█")


class Sheet(Moves):
    """A grid, and a pen at a cursor."""

    keeps_scrolled = False
    """Rows that scroll off are wanted."""
    tmux: TmuxVersion | None = None
    """The version of tmux that counts its columns; None: that is not known."""
    version: TmuxVersion = OLDEST_VERSION
    """Columns are counted as by this one."""
    widens = True
    """What joins a cell can make it wide."""

    def __init__(self) -> None:
        self.pens = Pens()

    def reset_page(self) -> None:
        """Start empty, with the terminal's own colours."""
        self.reset_moves()
        self.grid = self.new_grid()
        self.pen: Pen = self.pens.get(PLAIN_STYLE)
        self.inserts = False
        """What is printed moves the rest of the row to the right."""
        self.wraps = True
        """After the last column the text goes on in the next row."""
        self.drawing = (False, False)
        """Whether G0 and G1 draw lines."""
        self.shifted = 0
        """The character set in use: 0 or 1."""
        self.last_char = ""
        """What `CSI b` repeats: the ASCII character printed just before it."""

    def count_as(self, tmux: TmuxVersion | None) -> None:
        """Count columns as this version of tmux."""
        self.tmux, self.version = tmux, tmux or OLDEST_VERSION

    def new_grid(self) -> Grid:
        """An empty grid of its size."""
        return Grid(self.columns, self.lines)

    @property
    def only_scrolls(self) -> bool:
        """Plain text now does nothing but go down and scroll."""
        return (
            self.margins is None
            and not self.drawing[self.shifted]
            and not self.inserts
            and self.wraps
            and not self.origin
        )

    def set_charset(self, slot: int, drawing: bool) -> None:
        """Make G0 or G1 the set of line drawing characters, or text."""
        self.drawing = (drawing, self.drawing[1]) if slot == 0 else (self.drawing[0], drawing)

    # Printing

    def draw(self, data: str) -> None:
        """Write printable characters at the cursor."""
        last = data[-1]
        if self.drawing[self.shifted]:
            data = data.translate(LINE_DRAWING)
        if not self.inserts and (data.isascii() or self._all_stand_alone(data)):
            self._draw_narrow(data)
        else:
            self._draw_chars(data)
        self.last_char = last if last.isascii() else ""

    def _draw_chars(self, text: str) -> None:
        """Print characters one by one: each may be wide, or join the one before."""
        if self.version >= JOINS_CELLS:
            for char in text:
                if not self._combines(char):
                    self._draw_char(char, False)
            return
        joined = False
        for char in text:
            if char != ZERO_WIDTH_JOINER:
                self._draw_char(char, joined)
            joined = char == ZERO_WIDTH_JOINER

    def _all_stand_alone(self, data: str) -> bool:
        """Whether each character takes a column of its own."""
        version = self.version
        if not all(map(stands_alone, data, repeat(version))):
            return False
        return version < JOINS_CELLS or data[0].isascii() or not self._cell_before().endswith(ZERO_WIDTH_JOINER)

    def _draw_narrow(self, text: str) -> None:
        cursor, columns = self.cursor, self.columns
        if not self.wraps:
            if cursor.x >= columns:
                return
            text = self._within_row(text)
        cell = self.pen.__getitem__
        pos, length = 0, len(text)
        while pos < length:
            if cursor.x >= columns:
                self._wrap()
            start = cursor.x
            run = text[pos : pos + columns - start]
            end = start + len(run)
            row = self.grid.rows[cursor.y]
            if row[start][2] == 0:
                row.split_wide(start)
            if end < columns and row[end][2] == 0:
                row.split_wide(end)
            row[start:end] = map(cell, run)
            cursor.x = end
            pos += end - start
        self._stay_in_row()

    def _stay_in_row(self) -> None:
        if not self.wraps:
            self.cursor.x = min(self.cursor.x, self.columns - 1)

    def _within_row(self, text: str) -> str:
        """Without wrapping, each character too many overwrites the last column."""
        room = self.columns - self.cursor.x
        return text if len(text) <= room else text[: room - 1] + text[-1]

    def _draw_char(self, char: str, joined: bool) -> None:
        """Print a character, or add it to the one before: what takes no column, and what follows a joiner."""
        width = char_width(char, self.version)
        if width == 0:
            if not is_dropped(char, self.version):
                self._join(char, joined)
            return
        cursor = self.cursor
        if joined and cursor.x > 0 and not char.isascii():
            self._join(char, joined)
            return
        if self._drops(width):
            return
        if self.inserts:
            self.grid.insert_cells(cursor.y, cursor.x, width, BLANK)
        if cursor.x + width > self.columns:
            self._wrap()
        self._put(char, width)
        self._stay_in_row()

    def _drops(self, width: int) -> bool:
        """Whether a character of this width finds no place."""
        return width > self.columns or (not self.wraps and self.cursor.x + width > self.columns)

    def _put(self, char: str, width: int) -> None:
        cursor = self.cursor
        row, start, end = self.grid.rows[cursor.y], cursor.x, cursor.x + width
        row.split_wide(start)
        row.split_wide(end)
        if width == 1:
            row[start] = self.pen[char]
        else:
            row[start:end] = Cell(char, self.pen.style, 2), Cell("", self.pen.style, 0)
        cursor.x = end

    def _wrap(self) -> None:
        self.grid.rows[self.cursor.y].wrapped = min(self.cursor.x, self.columns)
        self.cursor.x = 0
        self._down(BLANK)

    def _before_cursor(self) -> int:
        col = self.cursor.x - 1
        return col - (self.grid.rows[self.cursor.y][col].width == 0)

    def _cell_before(self) -> str:
        """What stands in the cell before the cursor, and ends there; nothing at column 0."""
        col = self._before_cursor()
        row = self.grid.rows[self.cursor.y]
        return row[col].text if self.cursor.x > 0 and col + row[col].width == self.cursor.x else ""

    def _combines(self, char: str) -> bool:
        """As tmux does it since 3.4: add a character to the cell before the cursor, if it belongs there.

        Whether it is done with: what has no column is lost where it cannot be added.
        """
        version = self.version
        if char.isascii() or is_dropped(char, version):
            return not char.isascii()
        lone = char_width(char, version) == 0
        cell = self._cell_before()
        if not cell:
            return lone
        if not lone and not (joined := joins(cell, char, version)):
            return joined is None
        if is_full(cell, char, version):
            return lone
        self._join(char, False)
        if self.widens and makes_wide(cell, char, version):
            self._widen()
        return True

    def _widen(self) -> None:
        """Make the cell before the cursor wide; 3.4 has the right half one column too far."""
        cursor, row, col = self.cursor, self.grid.rows[self.cursor.y], self.cursor.x - 1
        if row[col].width != 1:
            return
        if cursor.x >= self.columns:
            cursor.x -= self.version < (3, 7)
            return
        half = cursor.x + (self.version < (3, 5))
        row.split_wide(half + 1)
        if half == cursor.x:
            row[col] = row[col]._replace(width=2)
        if half < self.columns:
            row[half] = Cell("", row[col].style, 0)
        cursor.x += 1

    def _join(self, char: str, joined: bool) -> None:
        """Add a character to the cell before the cursor; at column 0 there is none."""
        if self.cursor.x == 0:
            return
        row, col = self.grid.rows[self.cursor.y], self._before_cursor()
        text = row[col].text + ZERO_WIDTH_JOINER * joined + char
        if len(text) <= MAX_CELL:
            row[col] = row[col]._replace(text=text)

    def repeat(self, count: int | None = None) -> None:
        """Print the last character again, within the row."""
        room = self.columns - self.cursor.x
        if self.last_char and room > 0:
            self.draw(self.last_char * min(count or 1, room))

    def sgr(self, params: str) -> None:
        """Change the pen by the parameters of `CSI ... m`."""
        pen = self.pen.after.get(params)
        self.pen = self.pens.after(self.pen, params) if pen is None else pen

    def set_link(self, address: str) -> None:
        """Have an address behind what is printed from now on; empty: none."""
        self.pen = self.pens.get(self.pen.style._replace(link=address))

    def begin_output(self) -> None:
        """A shell says that its command begins to print: that shows nothing."""

    # Lines and scrolling

    def index(self) -> None:
        self._down(self.pen.blank)

    def _down(self, blank: Cell) -> None:
        """Go to the next row; what scrolls in is of the pen's background, but not when a line wraps."""
        _, bottom = self.region()
        if self.cursor.y == bottom:
            self._scroll_up(1, blank)
        elif self.cursor.y < self.lines - 1:
            self.cursor.y += 1

    def next_line(self) -> None:
        self.cursor.x = 0
        self.index()

    def reverse_index(self) -> None:
        top, _ = self.region()
        if self.cursor.y == top:
            self.scroll_down(1)
        elif self.cursor.y > 0:
            self.cursor.y -= 1

    def backspace(self) -> None:
        cursor = self.cursor
        if cursor.x > 0:
            cursor.x -= 1
        elif cursor.y > 0 and self.grid.rows[cursor.y - 1].wrapped:
            self.to(self.columns - 1, cursor.y - 1)

    def scroll_up(self, count: int | None = None) -> None:
        self._scroll_up(count or 1, self.pen.blank)

    def _scroll_up(self, count: int, blank: Cell) -> None:
        """Scroll the region; its top rows go to the scrollback wherever the region lies, as in tmux."""
        top, bottom = self.region()
        self.grid.delete_rows(top, bottom, count, blank)

    def scroll_down(self, count: int | None = None) -> None:
        top, bottom = self.region()
        for _ in range(min(count or 1, self.lines)):
            self.grid.insert_rows(top, bottom, 1, self.pen.blank)

    def insert_lines(self, count: int | None = None) -> None:
        self.grid.insert_rows(self.cursor.y, self._last_moved(), count or 1, self.pen.blank)

    def delete_lines(self, count: int | None = None) -> None:
        top, bottom = self.cursor.y, self._last_moved()
        self.grid.delete_rows(top, bottom, count or 1, self.pen.blank)
        self.grid.break_before(top)
        self.grid.break_before(max(top, bottom + 1 - (count or 1)))

    def _last_moved(self) -> int:
        """The last row that moves with the cursor's; outside the region all do, in tmux."""
        top, bottom = self.region()
        return bottom if top <= self.cursor.y <= bottom else self.lines - 1

    def start_over(self) -> None:
        """Show nothing but an empty bottom row with the cursor on it, as after a screenful of newlines."""
        self.grid = self.new_grid()
        self.grid.rows[-1] = self.grid.row_of(self.pen.blank)
        self.cursor.x, self.cursor.y = 0, self.lines - 1
        self.last_char = ""

    # Erasing and editing

    def erase_characters(self, count: int | None = None) -> None:
        self.grid.erase(self.cursor.y, self.cursor.x, self.cursor.x + (count or 1), self.pen.blank)

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        x, y, blank = self.cursor.x, self.cursor.y, self.pen.blank
        if how == 0:
            self.grid.erase(y, x, self.columns, blank)
        elif how == 1:
            self.grid.erase(y, 0, x + 1, blank)
        elif how == 2:
            self.grid.erase(y, 0, self.columns, blank)

    def erase_rows(self, start: int, end: int) -> None:
        """Blank rows from `start` to before `end`."""
        for y in range(start, end):
            self.grid.erase(y, 0, self.columns, self.pen.blank)

    def insert_characters(self, count: int | None = None) -> None:
        self.grid.insert_cells(self.cursor.y, self.cursor.x, count or 1, self.pen.blank)

    def delete_characters(self, count: int | None = None) -> None:
        self.grid.delete_cells(self.cursor.y, self.cursor.x, count or 1, self.pen.blank)

    def alignment_display(self) -> None:
        letter = BLANK._replace(text="E")
        self.grid.rows[:] = [self.grid.row_of(letter) for _ in range(self.lines)]
        self.cursor.x = self.cursor.y = 0
        self.margins = None


# ---- The two pages of a terminal -------------------------------------------------------------------------------------
#
# Main and alternate, with its modes and saved cursors. Keeps no bytes, draws no cells.

IRM, DECOM, DECAWM, DECTCEM = 4, 6 << 5, 7 << 5, 25 << 5
"""Modes; private ones are shifted left by 5, as in pyte."""

_MOUSE_MODES = frozenset(mode << 5 for mode in (1000, 1002, 1003))
"""Ways to report the mouse: one of them at most is on."""

_KEPT_MODES = frozenset({IRM, 34, *(mode << 5 for mode in (1, 6, 7, 12, 25, 1004, 1005, 1006, 2004)), *_MOUSE_MODES})
"""Modes that are remembered: the others mean nothing to tmux."""


class Pages(Sheet):
    """A sheet that can be laid aside for another one."""

    mode: set[int]
    title: str

    def __init__(self) -> None:
        super().__init__()
        self.bell_count = 0

    def reset(self) -> None:
        """Forget everything; pyte calls this before anything else."""
        self.reset_page()
        self.mode = {DECAWM, DECTCEM}
        self.title = self.icon_name = ""
        self.under: Grid | None = None
        """The main screen, while the alternate one is shown."""
        self.saved: SavedCursor | None = None
        """The cursor that `ESC 8` restores."""
        self._saved_by_alternate: SavedCursor | None = None

    def hard_reset(self) -> None:
        """Do what `ESC c` says: tmux scrolls up what was shown, stays in the alternate screen and keeps the title."""
        self._keep_cleared()
        under, saved, title, shape = self.under, self._saved_by_alternate, self.title, self.cursor.shape
        self.reset()
        self.under, self._saved_by_alternate, self.title, self.cursor.shape = under, saved, title, shape

    @property
    def alternate(self) -> bool:
        return self.under is not None

    # Erasing what was shown, which a scrollback keeps

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        y = self.cursor.y
        if how == 2 or (how == 0 and y == self.cursor.x == 0):
            if not self._keep_cleared():
                self.erase_rows(0, self.lines)
        elif how == 0:
            self.grid.erase(y, self.cursor.x, self.columns, self.pen.blank)
            self.erase_rows(y + 1, self.lines)
        elif how == 1:
            self.grid.erase(y, 0, self.cursor.x + 1, self.pen.blank)
            self.erase_rows(0, y)

    def _keep_cleared(self) -> bool:
        """Scroll all that is shown into the scrollback, as tmux does on `clear`; False: nobody wants a scrollback."""
        return False

    # Saved cursors

    def _snap(self) -> SavedCursor:
        cursor = self.cursor
        return SavedCursor(cursor.y, cursor.x, self.pen.style, self.origin, self.drawing, self.shifted)

    def _unsnap(self, saved: SavedCursor) -> None:
        self.to(saved.col, saved.row)
        self.pen = self.pens.get(saved.pen)
        self.drawing, self.shifted = saved.drawing, saved.shifted
        self._set_modes(self.mode | {DECOM} if saved.origin else self.mode - {DECOM})

    def save_cursor(self) -> None:
        self.saved = self._snap()  # one slot, not pyte's unbounded stack

    def restore_cursor(self) -> None:
        self._unsnap(self.saved or SavedCursor(0, 0))

    def end_links(self) -> None:
        """Have no address behind what is printed from now on, also after a saved cursor is restored."""
        self.set_link("")
        self.saved, self._saved_by_alternate = (
            saved and replace(saved, pen=saved.pen._replace(link=""))
            for saved in (self.saved, self._saved_by_alternate)
        )

    # Modes

    def _set_modes(self, modes: set[int]) -> None:
        self.mode = modes
        self.inserts, self.wraps, self.origin = IRM in modes, DECAWM in modes, DECOM in modes
        self.cursor.hidden = DECTCEM not in modes

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
            self.to(0, 0)
        else:
            changed = {mode << 5 if private else mode} & _KEPT_MODES
            others = _MOUSE_MODES if private and (changed & _MOUSE_MODES or (mode == 1001 and not on)) else frozenset()
            self._set_modes((self.mode - changed - others) | (changed if on else set()))
            if private and mode == 6:
                self.cursor_position()

    def _enter_alternate(self, save_cursor: bool) -> None:
        if self.alternate:
            return
        if save_cursor:
            self._saved_by_alternate = SavedCursor(self.cursor.y, self.cursor.x, self.pen.style)
        elif self._saved_by_alternate:  # tmux saves the pen each time, the cursor only when asked to
            self._saved_by_alternate = replace(self._saved_by_alternate, pen=self.pen.style)
        self.under, self.grid = self.grid, self.new_grid()

    def _leave_alternate(self, restore_cursor: bool) -> None:
        if self.under:
            self.grid, self.under = self.under, None
            saved = self._saved_by_alternate
            self.grid.fit(self.columns, self.lines, min(saved.row, len(self.grid.rows) - 1) if saved else 0)
        self.to(self.cursor.x, self.cursor.y)  # no longer about to wrap
        if restore_cursor and self._saved_by_alternate:  # tmux does so on the main screen too
            self.to(self._saved_by_alternate.col, self._saved_by_alternate.row)
            self.pen = self.pens.get(self._saved_by_alternate.pen)

    def bell(self, *args: Any) -> None:
        self.bell_count += 1
