"""The text of a stream that moves up and down: rows that scrolled off, then what the screen shows. Pure."""

from __future__ import annotations

from tmuxmcp.terminal.grid import Row
from tmuxmcp.terminal.screen import Screen
from tmuxmcp.terminal.stream import Stream
from tmuxmcp.terminal.textgrid import logical_lines


class CollectingScreen(Screen):
    """A screen that remembers what scrolled off it."""

    keeps_scrolled = True

    def __init__(self, columns: int, lines: int) -> None:
        self.left: list[tuple[str, bool]] = []
        """Text of each row that is no longer on the screen, and whether it goes on in the next."""
        super().__init__(columns, lines)

    def draw(self, data: str) -> None:
        super().draw(data)
        if self.cursor.x == self.columns:  # what comes next says whether the line goes on
            self.buffer[self.cursor.y].wrapped = 0

    def rows_left(self, rows: list[Row]) -> None:
        if not self.alternate:
            self.settle()
            self.left.extend((self.text_of(row), bool(row.wrapped)) for row in rows)

    def text_of(self, row: Row) -> str:
        """Give the text of a row."""
        return row.text()

    def settle(self) -> None:
        """End the last line that scrolled off, when what stood below it is gone."""
        main = self.under or self.grid
        if not main.continues:
            main.continues = True
            if self.left:
                self.left[-1] = (self.left[-1][0], False)


class Collector:
    """The text of a stream that moves up and down: rows that scrolled off, then what the screen shows."""

    def __init__(self, cols: int, rows: int, kind: type[CollectingScreen] = CollectingScreen) -> None:
        self.screen = kind(cols, rows)
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
        self.screen.settle()
        return self._lines_of(self.screen.left + self._screen_rows())

    def _lines_of(self, rows: list[tuple[str, bool]]) -> str:
        return "\n".join(logical_lines(rows))

    def _screen_rows(self) -> list[tuple[str, bool]]:
        rows = self.screen.main_rows
        used = [y for y, row in enumerate(rows) if not row.is_blank()]
        cursor = -1 if self.screen.alternate else self.screen.cursor.y
        return [(self.screen.text_of(row), bool(row.wrapped)) for row in rows[: max([cursor, *used]) + 1]]
