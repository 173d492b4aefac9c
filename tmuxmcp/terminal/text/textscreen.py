"""The text of a stream that moves the cursor about: rows that scrolled off, then what the screen shows. Pure.

The text of a command is the rows of the terminal from the one in which it began to print to its end, as a capture of
tmux has them. So it is drawn as the terminal draws it, by the same code as screens are (`emulator/stream.py`,
`emulator/sheet.py`), on rows of strings in place of cells: that is several times as fast. With a
palette the strings have styles; nothing else differs, and so the text is the same with styles and without.
"""

from __future__ import annotations

from itertools import groupby

from tmuxmcp.terminal.emulator.grid import Grid
from tmuxmcp.terminal.emulator.sheet import LINE_DRAWING, TAB_COLUMNS, Pages
from tmuxmcp.terminal.emulator.stream import Stream
from tmuxmcp.terminal.snapshot import BLANK, PLAIN_STYLE, Cell
from tmuxmcp.terminal.text.styledtext import StyledText, StyleLetters, joined, letters_of, styled
from tmuxmcp.terminal.widths import (
    MAX_CELL,
    OLDEST_VERSION,
    ZERO_WIDTH_JOINER,
    TmuxVersion,
    char_width,
)


class TextScreen(Pages):
    """A terminal of which the text is wanted that a program prints on it."""

    keeps_scrolled = True
    grid: TextGrid
    under: TextGrid | None

    def __init__(
        self,
        cols: int,
        rows: int,
        row: int = 0,
        palette: StyleLetters | None = None,
        version: TmuxVersion = OLDEST_VERSION,
    ) -> None:
        """Begin on an empty screen.

        Args:
            row: where the text begins; what is drawn above it is none of the text.
            palette: the text gets styles.
            version: of the tmux that counts its columns.
        """
        super().__init__()
        self.count_as(version)
        self.columns, self.lines = max(cols, 1), max(rows, 1)
        self._palette = palette
        self._clusters = Clusters()
        self._left: list[tuple[str, bool]] = []
        """Text of each row that is no longer on the screen, and whether it goes on in the next."""
        self.drew_above = False
        """Something was printed above the row in which the text begins."""
        self._usual_stops = set(range(TAB_COLUMNS, self.columns, TAB_COLUMNS))
        self._stream = Stream(self, errors="replace")  # type: ignore[arg-type]  # it is asked for no snapshot
        self.reset()
        self.cursor.y = self.grid.above = min(row, self.lines - 1)
        for above in self.grid.rows[: self.grid.above]:
            above.used = 1  # something stands there, nobody knows what

    def new_grid(self) -> TextGrid:
        return TextGrid(self.columns, self.lines, self._palette)

    def reset_page(self) -> None:
        before = getattr(self, "grid", None)
        super().reset_page()
        if before:
            self.grid.above, self.grid.continues = before.above, before.continues

    def feed(self, data: bytes) -> None:
        """Draw bytes, cut anywhere."""
        self._stream.feed(data)

    def end(self) -> None:
        """Nothing comes any more: what begins a character stands for itself."""
        self._stream.feed(b"", final=True)

    # What became of it

    @property
    def settled(self) -> bool:
        """The cursor begins a line below everything, so that plain text goes on as on an empty screen."""
        cursor = self.cursor
        return (
            cursor.x == 0
            and cursor.y >= self.grid.above
            and self.only_scrolls
            and self.drawing == (False, False)
            and not self.alternate
            and self.tabstops == self._usual_stops
            and all(row.is_blank() for row in self.grid.rows[cursor.y :])
            and not any(row.wrapped for row in self.grid.rows[max(cursor.y - 1, 0) :])
            and not self._stream.unfinished
        )

    def text(self) -> str:
        """Give the logical lines so far, without trailing blanks; a newline at the end says that the last ended."""
        self._settle()
        grid = self.under or self.grid
        shown = len(grid.rows)
        least = grid.above if self.alternate else self.cursor.y + 1
        while shown > least and grid.rows[shown - 1].is_blank():
            shown -= 1
        return self._lines_of([*self._left, *map(self._read, grid.rows[grid.above : shown])])

    def text_to_cursor(self) -> str:
        """Give the logical lines of the screen down to the row that the cursor is in, with blank ones above them."""
        return self._lines_of(list(map(self._read, self.grid.rows[: self.cursor.y + 1])))

    def _lines_of(self, rows: list[tuple[str, bool]]) -> str:
        lines, parts = list[str](), list[str]()
        for text, goes_on in rows:
            parts.append(text)
            if not goes_on:
                lines.append(joined(parts).rstrip(" "))
                parts = []
        if parts:
            lines.append(joined(parts).rstrip(" "))
        return joined(lines, "\n")

    def _read(self, row: TextRow) -> tuple[str, bool]:
        goes_on = row.wrapped > 0
        text = row.text[: row.used].ljust(row.used) if goes_on else row.text.rstrip(" ")
        return self._clusters.spelled(text), goes_on

    def _leave(self, start: int, end: int) -> None:
        """Keep rows that scroll off the screen or are cleared."""
        if self.alternate:
            return
        grid = self.grid
        if start < grid.above:
            start = min(grid.above, end)
        self._settle()
        self._left += map(self._read, grid.rows[start:end])

    def _settle(self) -> None:
        """End the last line that scrolled off, when what stood below it is gone."""
        main = self.under or self.grid
        if not main.continues:
            main.continues = True
            if self._left:
                self._left[-1] = (self._left[-1][0], False)

    def _keep_cleared(self) -> bool:
        grid = self.grid
        if self.alternate:
            return False
        count = max((y + 1 for y, row in enumerate(grid.rows) if row.used), default=0)
        self._leave(0, count)
        above = max(grid.above - count, 0)
        self.grid = self.new_grid()
        self.grid.above = above
        self.grid.continues = count == self.lines  # a fault of tmux: then what comes goes on the last row
        return True

    # Printing

    def draw(self, data: str) -> None:
        if self.grid.above and self.cursor.y < self.grid.above and data.strip(" "):
            self.drew_above = True
        last = data[-1]
        drawing = self.drawing[self.shifted]
        if drawing:
            data = data.translate(LINE_DRAWING)
        if drawing or self.inserts or not self.wraps:
            self._draw_chars(data)
        elif data.isascii():
            self._draw_run(data)
        else:
            for simple, chars in groupby(data, str.isascii):
                (self._draw_run if simple else self._draw_chars)("".join(chars))
        self.last_char = last if last.isascii() else ""

    def _styled(self, text: str) -> str:
        return text if self._palette is None else styled(text, self._palette.letter(self.pen.style))

    def _draw_run(self, text: str) -> None:
        cursor, columns = self.cursor, self.columns
        if self._palette is not None:
            text = self._styled(text)
        while text:
            if cursor.x >= columns:
                self._wrap()
            start, row = cursor.x, self.grid.rows[cursor.y]
            part, text = text[: columns - start], text[columns - start :]
            end = cursor.x = start + len(part)
            if end > row.used:
                row.used = end
            before = row.text
            if RIGHT_HALF in before:
                before, col = cleared_before(before, start)
                if 0 < col < start and self._width(before[col]) == 2:
                    before = with_blank(before, col)
                row.text = cleared_behind(before[:start].ljust(start) + part + before[end:], end)
            elif before:
                row.text = before[:start].ljust(start) + part + before[end:]
            else:
                row.text = " " * start + part

    def _width(self, cell: str) -> int:
        return 0 if cell == RIGHT_HALF else char_width(self._clusters.text(cell)[0], self.version)

    def _put(self, char: str, width: int) -> None:
        cursor = self.cursor
        row, start = self.grid.rows[cursor.y], cursor.x
        end = cursor.x = start + width
        text = row.text.ljust(end)
        half = text[start] == RIGHT_HALF
        if half:
            text = with_blank(*cleared_before(text, start))
        if half or width != 1 or self._width(text[start]) != 1:
            text = cleared_behind(text, end)
        cells = self._clusters.cell(char) + RIGHT_HALF * (width - 1)
        row.text = text[:start] + self._styled(cells) + text[end:]
        if not (char == " " == text[start] and self._leaves_out_blanks):
            row.used = max(row.used, end)

    @property
    def _leaves_out_blanks(self) -> bool:
        """Whether tmux prints no blanks where there is nothing else."""
        return not (self.wraps or self.inserts or self.drawing[self.shifted]) and self.pen.style == PLAIN_STYLE

    def _cell_before(self) -> str:
        text, col = self.grid.rows[self.cursor.y].text.ljust(self.cursor.x), self.cursor.x - 1
        if col > 0 and text[col] == RIGHT_HALF:
            col -= 1
        if col < 0 or text[col] == RIGHT_HALF:
            return ""
        halved = col + 1 == self.cursor.x and text[col + 1 : col + 2] == RIGHT_HALF
        if halved and (self.version >= (3, 5) or self._width(text[col]) == 2):
            return ""  # the cursor is between the halves
        return self._clusters.text(str(text[col]))

    def _widen(self) -> None:
        cursor, row, col = self.cursor, self.grid.rows[self.cursor.y], self.cursor.x - 1
        text = row.text.ljust(cursor.x + 2)
        if text[col] == RIGHT_HALF:
            return
        if cursor.x >= self.columns:
            cursor.x -= self.version < (3, 7)
            return
        half = cursor.x + (self.version < (3, 5))
        if half < self.columns:
            row.text = text[:half] + styled(RIGHT_HALF, letters_of(text[col])) + text[half + 1 :]
        cursor.x += 1
        row.used = max(row.used, cursor.x)

    def _join(self, char: str, joined: bool) -> None:
        row, col = self.grid.rows[self.cursor.y], self.cursor.x - 1
        text = row.text.ljust(col + 1)
        while col >= 0 and text[col] == RIGHT_HALF:
            col -= 1
        if col < 0:
            return
        cell = text[col]
        cluster = self._clusters.text(str(cell)) + ZERO_WIDTH_JOINER * joined + char
        if len(cluster) <= MAX_CELL:
            row.text = text[:col] + styled(self._clusters.cell(cluster), letters_of(cell)) + text[col + 1 :]

    def set_link(self, address: str) -> None:
        """Addresses behind text are not shown, nor is a title."""

    def set_title(self, param: str) -> None: ...

    def begin_output(self) -> None:
        """Begin a line of its own, also behind a row that a line editor has filled: there tmux joins the two."""
        if self.cursor.x == 0:
            self.grid.break_before(self.cursor.y)

    # Lines

    def _down(self, blank: Cell) -> None:
        grid, cursor = self.grid, self.cursor
        if self.margins is not None or self.under is not None or grid.above or not grid.continues:
            super()._down(blank)
        elif cursor.y < self.lines - 1:
            cursor.y += 1
        else:  # the same in fewer steps: nearly all that scrolls does so
            self._left.append(self._read(grid.rows.pop(0)))
            grid.rows.append(grid.row_of(blank))

    def _scroll_up(self, count: int, blank: Cell) -> None:
        top, bottom = self.region()
        self._leave(top, min(top + count, bottom + 1))
        self.grid.delete_rows(top, bottom, count, blank)

    def insert_lines(self, count: int | None = None) -> None:
        """With two faults of tmux: outside the scroll region, rows between the two places of what is moved stay."""
        (top, bottom), y, grid = self.region(), self.cursor.y, self.grid
        if top <= y <= bottom:
            super().insert_lines(count)
            grid.break_before(y + max(bottom + 1 - y - (count or 1), 0))
            return
        number = min(count or 1, self.lines - y)
        moved = grid.rows[y : self.lines - number]
        if moved:
            grid.break_before(y)
            grid.break_before(y + number)
            grid.rows[y : y + len(moved)] = [grid.row_of(self.pen.blank) for _ in moved]
            grid.rows[y + number :] = moved

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        cursor, blank = self.cursor, self.pen.blank
        if how < 3 and (self.grid.rows[cursor.y].used or blank is not BLANK):  # else tmux does nothing
            start, end = (cursor.x if how == 0 else 0), (cursor.x + 1 if how == 1 else self.columns)
            self.grid.erase(cursor.y, start, end, blank)

    def alignment_display(self) -> None:
        for row in self.grid.rows:
            row.text, row.used, row.wrapped = "E" * self.columns, self.columns, 0
        self.drew_above = self.drew_above or self.grid.above > 0
        self.cursor.x = self.cursor.y = 0
        self.margins = None


# ---- Rows of text that can be edited as those of `grid.py` -----------------------------------------------------------
#
# Strings of a character a column, styled or not. Pure.
#
# A capture of tmux 3.3a is what counts here, so its faults are here, too: a wide character of which one half is erased
# or overwritten, and what `CSI @` leaves (`docs/reference/tmux-differences.md`).

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
