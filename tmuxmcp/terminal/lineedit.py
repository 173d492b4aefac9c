"""One logical line that was edited in place, replayed: progress bars, spinners, typed and corrected commands.

Rows are as wide as the pane, because a carriage return in a long line leads back to its last row. Pure.
"""

from __future__ import annotations

import re

from tmuxmcp.terminal.widths import MAX_CELL, ZERO_WIDTH_JOINER, char_width

_EDIT = re.compile(rb"(?P<text>[^\x00-\x1f]+)|(?P<control>[\r\b\t])|\x1b\[(?P<count>[0-9]*)[0-9;:]*(?P<final>[@-~])")


class LineEditor:
    """Replays one logical line on rows of the pane's width."""

    def __init__(self, cols: int) -> None:
        self._cols = cols
        self._row: list[str] = []
        """The cursor's row, a cell each; a wide character is followed by an empty one."""
        self._rows = [self._row]
        self._own: set[int] = set()
        """Rows that no longer go on from the one above: they were erased whole, which ends that one for tmux."""
        self._at = 0
        self._col = 0

    @property
    def col(self) -> int:
        """The cursor's column; the pane's width behind a full row."""
        return self._col

    def text(self) -> str:
        """The line as it stands now, without trailing blanks; several, where a row of it was erased whole."""
        rows = list(map(self._joined, self._rows))
        for at in self._own:
            rows[at - 1] = rows[at - 1].rstrip(" ") + "\n"
        return self._joined(rows).rstrip(" ")

    def _joined(self, cells: list[str]) -> str:
        return "".join(cells)

    def feed(self, line: bytes) -> None:
        """Take bytes that hold no newline, and no other sequences than those that `_EDIT_HANDLERS` names."""
        for token in _EDIT.finditer(line):
            if token["text"]:
                self._put(decode(token["text"]))
            elif token["control"]:
                self._control(token["control"])
            else:
                count = int(token["count"][:6] or b"0")
                _EDIT_HANDLERS[token["final"]](self, count)

    def _control(self, control: bytes) -> None:
        if control == b"\r":
            self._col = 0
        elif control == b"\t":
            self._col = min((self._col // 8 + 1) * 8, self._cols - 1)
        elif self._col > 0:
            self._col -= 1
        elif self._at > 0 and self._at not in self._own:  # back over the edge, as in tmux
            self._to_row(self._at - 1, self._cols - 1)

    def _to_row(self, at: int, col: int) -> None:
        if at == len(self._rows):
            self._rows.append([])
        self._row, self._at, self._col = self._rows[at], at, col

    def _put(self, text: str) -> None:
        if not text.isascii():
            joined = False
            for char in text:
                if char != ZERO_WIDTH_JOINER:
                    self._put_char(char, joined)
                joined = char == ZERO_WIDTH_JOINER
            return
        pos = 0
        while pos < len(text):
            self._wrap_for(1)
            part = text[pos : pos + self._cols - self._col]
            self._write(list(part))
            pos += len(part)

    def _put_char(self, char: str, joined: bool) -> None:
        """Print a character, or add it to the one before: what takes no column, and what follows a joiner."""
        width, before = char_width(char), self._before_cursor()
        if width == 0 or (joined and before >= 0 and not char.isascii()):
            if before >= 0:
                self._join(before, ZERO_WIDTH_JOINER * joined + char)
        else:
            self._wrap_for(width)
            self._write([char, ""][:width])

    def _wrap_for(self, width: int) -> None:
        if self._col + width > self._cols and self._col > 0:
            self._to_row(self._at + 1, 0)
            self._own.discard(self._at)

    def _write(self, cells: list[str]) -> None:
        row, start = self._row, self._col
        end = start + len(cells)
        row.extend(" " * (start - len(row)))
        self._split_wide(start)
        self._split_wide(end)
        row[start:end] = cells
        self._col = end

    def _split_wide(self, col: int) -> None:
        """Blank both halves of a wide character that an edit at this column cuts in two."""
        row = self._row
        if 0 < col < len(row) and row[col] == "":
            row[col - 1] = row[col] = " "

    def _before_cursor(self) -> int:
        """The column of the character before the cursor; -1: there is none."""
        col = min(self._col, len(self._row)) - 1
        return col - 1 if col > 0 and self._row[col] == "" else col

    def _join(self, col: int, text: str) -> None:
        if len(self._row[col]) + len(text) <= MAX_CELL:
            self._row[col] += text

    def _forward(self, count: int) -> None:
        self._col = min(self._col + max(count, 1), self._cols - 1)

    def _back(self, count: int) -> None:
        self._col = max(0, self._col - max(count, 1))

    def _to_column(self, count: int) -> None:
        self._col = min(max(count, 1), self._cols) - 1

    def _tab_back(self, count: int) -> None:
        col = min(self._col, self._cols - 1)
        self._col = max(0, (col - 1) // 8 - max(count, 1) + 1) * 8 if col else 0

    def _erase(self, count: int) -> None:
        whole = count == 2 or (count == 0 and self._col == 0)
        if whole and self._at > 0 and self._row != [" "]:  # shells go to the next row by a blank that they erase
            self._own.add(self._at)
        if whole and self._at + 1 < len(self._rows):
            self._own.add(self._at + 1)
        if count == 0:
            self._split_wide(self._col)
            del self._row[self._col :]
        elif count == 1:
            end = min(self._col + 1, len(self._row))
            self._split_wide(end)
            self._row[:end] = " " * end
        elif count == 2:
            self._row.clear()

    def _erase_chars(self, count: int) -> None:
        start = self._col
        end = min(start + max(count, 1), len(self._row))
        self._split_wide(start)
        self._split_wide(end)
        self._row[start:end] = " " * (end - start)

    def _delete_chars(self, count: int) -> None:
        end = self._col + max(count, 1)
        self._split_wide(self._col)
        self._split_wide(end)
        del self._row[self._col : end]

    def _insert_chars(self, count: int) -> None:
        self._split_wide(self._col)
        self._row[self._col : self._col] = " " * min(max(count, 1), self._cols)
        self._split_wide(self._cols)
        del self._row[self._cols :]

    def _repeat(self, count: int) -> None:
        col = self._before_cursor()
        if col >= 0 and self._row[col].isascii():
            self._put(self._row[col] * min(max(count, 1), self._cols - self._col))


_EDIT_HANDLERS = {
    b"@": LineEditor._insert_chars,
    b"C": LineEditor._forward,
    b"D": LineEditor._back,
    b"G": LineEditor._to_column,
    b"J": LineEditor._erase,  # with 0 only; the others need the grid
    b"K": LineEditor._erase,
    b"P": LineEditor._delete_chars,
    b"X": LineEditor._erase_chars,
    b"Z": LineEditor._tab_back,
    b"`": LineEditor._to_column,
    b"b": LineEditor._repeat,
}


def decode(data: bytes) -> str:
    """Bytes as text; what is not UTF-8 becomes U+FFFD."""
    return data.decode("utf-8", "replace")
