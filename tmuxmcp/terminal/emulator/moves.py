"""Where the cursor is and what moves it: columns, rows, tab stops, the scroll region. Draws nothing."""

from __future__ import annotations

from tmuxmcp.terminal.emulator.cursorshape import SHAPE_BY_NUMBER
from tmuxmcp.terminal.snapshot import Cursor

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
