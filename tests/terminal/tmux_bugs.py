"""What tmux 3.3a does and our screen does not, on purpose: each difference can be switched on by its name.

A stream that is not shown alike is explained when a screen with these differences shows what tmux does.
`docs/reference/tmux-differences.md` tells of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from unittest.mock import patch

from tmuxmcp.terminal.emulator.grid import Row
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.sheet import LINE_DRAWING
from tmuxmcp.terminal.emulator.stream import Stream
from tmuxmcp.terminal.snapshot import BLANK, Cell
from tmuxmcp.terminal.widths import MAX_CELL, ZERO_WIDTH_JOINER, char_width, is_dropped

BUGS = frozenset({"insert characters", "insert lines", "half erased", "half overwritten", "joiner", "long cluster"})
CLUSTER_BYTES = 21
"""What a cell of tmux 3.3a holds."""
LINES = frozenset(chr(code).translate(LINE_DRAWING) for code in LINE_DRAWING)
"""A cell of tmux holds a letter and that it is drawn as a line."""


def with_bugs(data: bytes, cols: int, rows: int, bugs: Iterable[str] = BUGS) -> Screen:
    """The screen of a tmux with these bugs."""
    screen = BuggyScreen(cols, rows, frozenset(bugs))
    if "half erased" in screen.bugs:
        with patch.object(Row, "split_wide", lambda row, col: None):
            Stream(screen).feed(data)
    else:
        Stream(screen).feed(data)
    return screen


def as_captured(row: Iterable[Cell], cols: int) -> Row:
    """Read a row with half characters as `capture-pane` prints it, which knows none."""
    screen = Screen(cols * 2, 1)
    for style, cells in groupby(row, lambda cell: cell.style):
        screen.pen = screen.pens.get(style)
        if text := "".join([cell.text for cell in cells]):
            screen.draw(text)
    screen.resize(columns=cols)
    return screen.buffer[0]


class BuggyScreen(Screen):
    """A screen that has the bugs of tmux."""

    def __init__(self, columns: int, lines: int, bugs: frozenset[str]) -> None:
        self.bugs = bugs
        self._joiner = False
        super().__init__(columns, lines)

    def _row(self) -> Row:
        return self.grid.rows[self.cursor.y]

    def draw(self, data: str) -> None:
        drawing = self.drawing[self.shifted]
        at_once = not drawing and not self.inserts and self.wraps
        for simple, chars in groupby(data, lambda char: at_once and char.isascii()):
            if simple:
                self._joiner &= "joiner" in self.bugs
                self._draw_run("".join(chars))
            else:
                for char in chars:
                    self._draw_one(char, char.translate(LINE_DRAWING) if drawing else char)
        self.last_char = data[-1] if data[-1].isascii() else ""
        self._joiner &= "joiner" in self.bugs

    def _draw_run(self, text: str) -> None:
        while text:
            if self.cursor.x >= self.columns:
                self._wrap()
            start, row = self.cursor.x, self._row()
            part, text = text[: self.columns - start], text[self.columns - start :]
            self._clear_back(row, start, "half overwritten" not in self.bugs)
            self.cursor.x += len(part)
            row[start : self.cursor.x] = map(self.pen.__getitem__, part)
            self._clear_on(row, self.cursor.x)

    def _draw_one(self, char: str, shown: str) -> None:
        if char == ZERO_WIDTH_JOINER:
            self._joiner = True
            return
        width = char_width(shown)
        if width == 0 and is_dropped(char):
            return
        joined, self._joiner = self._joiner, False
        if "joiner" not in self.bugs:
            joined = joined and self.cursor.x > 0 and not char.isascii()
        if width == 0 or joined:
            self._combine([ZERO_WIDTH_JOINER, char] if joined else [char])
            return
        if self._drops(width):
            return
        if self.inserts:
            self._insert_cells(width, BLANK)
        if self.cursor.x + width > self.columns:
            self._wrap()
        self._put(shown, width)
        self._stay_in_row()

    def _combine(self, added: list[str]) -> None:
        row = self._row()
        col = max((col for col in range(self.cursor.x) if row[col].text), default=-1)
        draws = col >= 0 and row[col].text[0] in LINES
        for text in added if col >= 0 else []:
            text = row[col].text + (text.translate(LINE_DRAWING) if draws else text)
            if len(text.encode()) <= CLUSTER_BYTES if "long cluster" in self.bugs else len(text) <= MAX_CELL:
                row[col] = row[col]._replace(text=text)

    def _put(self, char: str, width: int) -> None:
        row, start, end = self._row(), self.cursor.x, self.cursor.x + width
        half = row[start].width == 0
        if half:
            self._clear_back(row, start, True)
        if width != 1 or row[start].width != 1 or half:
            self._clear_on(row, end)
        row[start:end] = [Cell(char, self.pen.style, width), Cell("", self.pen.style, 0)][:width]
        self.cursor.x = end

    def _clear_back(self, row: Row, col: int, to_first: bool) -> None:
        """Clear the character whose right half is here."""
        while col > 0 and row[col].width == 0:
            row[col] = BLANK
            col -= 1
            if row[col].width == 2 and (col > 0 or to_first):
                row[col] = BLANK

    def _clear_on(self, row: Row, col: int) -> None:
        """Clear the right halves from here on."""
        while col < self.columns and row[col].width == 0:
            row[col] = BLANK
            col += 1

    def insert_characters(self, count: int | None = None) -> None:
        if "insert characters" in self.bugs:
            self._insert_cells(count or 1, self.pen.blank)
        else:
            super().insert_characters(count)

    def _insert_cells(self, count: int, blank: Cell) -> None:
        """Move cells to the right and blank where they were, but not what lies between."""
        row, start = self._row(), self.cursor.x
        count = min(count, self.columns - start)
        row.split_wide(start)
        row.split_wide(self.columns - count)
        moved = row[start : self.columns - count]
        if start == self.columns - 1:
            row[start] = blank
        elif count > 0:
            row[start : start + len(moved)] = [blank] * len(moved)
            row[start + count :] = moved

    def insert_lines(self, count: int | None = None) -> None:
        top, bottom = self.region()
        y = self.cursor.y
        if "insert lines" not in self.bugs or top <= y <= bottom:
            super().insert_lines(count)
            return
        count = min(count or 1, self.lines - y)
        moved = self.grid.rows[y : self.lines - count]
        if moved:
            self.grid.break_before(y)
            self.grid.break_before(y + count)
            self.grid.rows[y : y + len(moved)] = [self.grid.row_of(self.pen.blank) for _ in moved]
            self.grid.rows[y + count :] = moved
