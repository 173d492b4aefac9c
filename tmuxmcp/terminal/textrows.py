"""The text of a stream that moves up and down, drawn on rows that are strings: no styles, and only what is usual.

Says `Unusual` where `collector.py` has to draw it; where it draws, both give the same text, and this is many times as
fast. Pure: bytes in, text out; no emulator.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from functools import lru_cache

from tmuxmcp.terminal.textgrid import TextGrid, Unusual, logical_lines

# No possessive quantifiers: before Python 3.11.5 they take what stands behind them, in named groups.
_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f-\x9f]+(?:\x1b\[[0-9;:]{0,63}m[^\x00-\x1f\x7f-\x9f]*)*)(?P<end>\r\n)?"
    r"|(?P<newline>\r\n)"
    r"|\x1b\[(?P<style>[0-9;:]{0,63})m"
    r"|(?P<order>\x1b\[[0-9;]{0,9}[A-HJKLMPSTXZ`@dfrsu]|[\x08-\x0d]|\x1b[78DEM])"
    # Nothing to the text: other controls, questions, keys, the cursor's look, colours and titles.
    r"|[\x00-\x07\x0f-\x17\x19\x1c-\x1f\x7f-\x9f]+"
    r"|\x1b\[(?:[<=>][0-9;]{0,63}[@-~]|\?[0-9;]{0,63}\$?[@-gi-km-~]|[0-9;]{0,63}[acntq]|[0-9]? q)"
    r"|\x1b\[\?(?:1|12|25|100[0-6]|2004|2026)[hl]|\x1b\[[24]?0?l"
    r"|\x1b(?:[=>\\]|[()]B)|\x1b\][^\x00-\x1f]{0,4096}(?:\x07|\x1b\\)"
    r"|(?P<unusual>(?s:.))"
)
_UNFINISHED_SEQUENCE = re.compile(r"\x1b(?:\[[<=>?]?[0-9;:]{0,63}[ $]?|\][^\x00-\x1f]{0,4096}\x1b?|[()])?\Z")


class TextRows(TextGrid):
    """Bytes that move up and down, drawn on rows of text."""

    def __init__(self, cols: int, rows: int) -> None:
        super().__init__(cols, rows)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        """The start of a sequence, of a few KiB at most."""

    def feed(self, data: bytes) -> None:
        """Draw bytes, cut anywhere.

        Raises:
            Unusual: something is not drawn here, and part of the data may have been.
        """
        text, self._pending = self._pending + self._decoder.decode(data), ""
        for token in _TOKEN.finditer(text):
            kind = token.lastgroup
            if kind == "end":
                self._put(token["text"])
                self._next_line()
            elif kind == "text":
                self._put(token["text"])
            elif kind == "newline":
                self._next_line()
            elif kind == "order":
                obey, numbers = _order(token["order"])
                obey(self, *numbers)
            elif kind == "style":
                self._restyle(token["style"])
            elif kind == "unusual":
                if not _UNFINISHED_SEQUENCE.match(text, token.start()):
                    raise Unusual
                self._pending = text[token.start() :]
                return

    @property
    def settled(self) -> bool:
        """The cursor begins a line below everything, so that plain text goes on as on an empty screen."""
        if self._x or (self._top, self._bottom) != (0, self._lines - 1):
            return False
        return not any(row.strip(" ") for row in self._rows[self._y :])

    def text(self) -> str:
        """Give the logical lines so far, without trailing blanks; a newline at the end says that the last ended."""
        self._settle()
        used = [y for y, row in enumerate(self._rows) if row.strip(" ")]
        shown = range(max([self._y, *used]) + 1)
        return self._lines_of([*self._left, *map(self._read, shown)])

    def _lines_of(self, rows: list[tuple[str, bool]]) -> str:
        return "\n".join(logical_lines(rows))

    def _restyle(self, params: str) -> None:
        """Obey `CSI params m`: text without styles does nothing, here and in the next two."""

    def _save_style(self) -> None: ...

    def _restore_style(self) -> None: ...

    def _up(self) -> None:
        if self._y == self._top:
            self._insert(self._top, self._bottom, 1)
        elif self._y > 0:
            self._y -= 1

    def _next_line(self) -> None:
        self._x = 0
        self._down()

    def _scroll_down(self, count: int = 0, *_: int) -> None:
        self._insert(self._top, self._bottom, count or 1)

    def _last_moved(self) -> int:
        return self._bottom if self._top <= self._y <= self._bottom else self._lines - 1

    def _insert_lines(self, count: int = 0, *_: int) -> None:
        self._insert(self._y, self._last_moved(), count or 1)

    def _delete_lines(self, count: int = 0, *_: int) -> None:
        top, bottom = self._y, self._last_moved()
        self._delete(top, bottom, min(count or 1, bottom - top + 1))
        self._break_before(top)
        self._break_before(max(top, bottom + 1 - (count or 1)))

    def _to(self, col: int, row: int) -> None:
        self._x = min(max(col, 0), self._cols - 1)
        self._y = min(max(row, 0), self._lines - 1)

    def _carriage_return(self) -> None:
        self._x = 0

    def _backspace(self) -> None:
        if self._x > 0:
            self._x -= 1
        elif self._y > 0 and self._wrapped[self._y - 1]:
            self._to(self._cols - 1, self._y - 1)

    def _tab(self) -> None:
        self._x = max(self._x, min((self._x // 8 + 1) * 8, self._cols - 1))

    def _tab_back(self, count: int = 0, *_: int) -> None:
        self._x = max(0, (min(self._x, self._cols - 1) - 1) // 8 + 1 - (count or 1)) * 8

    def _cursor_up(self, count: int = 0, *_: int) -> None:
        self._x = min(self._x, self._cols - 1)
        self._y = max(self._top if self._y >= self._top else 0, self._y - (count or 1))

    def _cursor_down(self, count: int = 0, *_: int) -> None:
        self._x = min(self._x, self._cols - 1)
        self._y = min(self._bottom if self._y <= self._bottom else self._lines - 1, self._y + (count or 1))

    def _cursor_up_to_start(self, count: int = 0, *_: int) -> None:
        self._x = 0
        self._cursor_up(count)

    def _cursor_down_to_start(self, count: int = 0, *_: int) -> None:
        self._x = 0
        self._cursor_down(count)

    def _forward(self, count: int = 0, *_: int) -> None:
        self._x = min(self._x + (count or 1), self._cols - 1)

    def _back(self, count: int = 0, *_: int) -> None:
        self._x = max(0, self._x - (count or 1))

    def _to_column(self, col: int = 0, *_: int) -> None:
        self._to((col or 1) - 1, self._y)

    def _to_line(self, line: int = 0, *_: int) -> None:
        self._y = min((line or 1) - 1, self._lines - 1)

    def _to_position(self, line: int = 0, col: int = 0, *_: int) -> None:
        self._to((col or 1) - 1, (line or 1) - 1)

    def _save(self, *_: int) -> None:
        self._saved = (self._x, self._y)
        self._save_style()

    def _restore(self, *_: int) -> None:
        self._to(*self._saved)
        self._restore_style()

    def _region(self, top: int = 0, bottom: int | None = None, *_: int) -> None:
        first = max(top, 1) - 1
        last = min(self._lines if bottom is None else bottom, self._lines) - 1
        if first < last:
            self._top, self._bottom = first, last
            self._x = self._y = 0

    def _erase_characters(self, count: int = 0, *_: int) -> None:
        self._erase(self._y, self._x, self._x + (count or 1))

    def _erase_in_line(self, how: int = 0, *_: int) -> None:
        if how < 3:
            self._erase(self._y, self._x if how == 0 else 0, self._x + 1 if how == 1 else self._cols)

    def _erase_in_display(self, how: int = 0, *_: int) -> None:
        if how == 2 or (how == 0 and self._x == self._y == 0):
            self._keep_cleared()
            self._erase_rows(0, self._lines)
        elif how == 0:
            self._erase_in_line(0)
            self._erase_rows(self._y + 1, self._lines)
        elif how == 1:
            self._erase_in_line(1)
            self._erase_rows(0, self._y)

    def _insert_characters(self, count: int = 0, *_: int) -> None:
        self._edit(lambda row, x, count: row[:x] + " " * count + row[x:], count or 1, cut=False)

    def _delete_characters(self, count: int = 0, *_: int) -> None:
        self._edit(lambda row, x, count: row[:x] + row[x + count :], count or 1, cut=True)


_SEQUENCE_HANDLERS: dict[str, Callable[..., None]] = {
    "@": TextRows._insert_characters,
    "A": TextRows._cursor_up,
    "B": TextRows._cursor_down,
    "C": TextRows._forward,
    "D": TextRows._back,
    "E": TextRows._cursor_down_to_start,
    "F": TextRows._cursor_up_to_start,
    "G": TextRows._to_column,
    "H": TextRows._to_position,
    "J": TextRows._erase_in_display,
    "K": TextRows._erase_in_line,
    "L": TextRows._insert_lines,
    "M": TextRows._delete_lines,
    "P": TextRows._delete_characters,
    "S": TextRows._scroll_up,
    "T": TextRows._scroll_down,
    "X": TextRows._erase_characters,
    "Z": TextRows._tab_back,
    "`": TextRows._to_column,
    "d": TextRows._to_line,
    "f": TextRows._to_position,
    "r": TextRows._region,
    "s": TextRows._save,
    "u": TextRows._restore,
}
_ESCAPE_HANDLERS: dict[str, Callable[[TextRows], None]] = {
    "7": TextRows._save,
    "8": TextRows._restore,
    "D": TextRows._down,
    "E": TextRows._next_line,
    "M": TextRows._up,
}
_CONTROL_HANDLERS: dict[str, Callable[[TextRows], None]] = {
    "\b": TextRows._backspace,
    "\t": TextRows._tab,
    **dict.fromkeys("\n\x0b\x0c", TextRows._down),
    "\r": TextRows._carriage_return,
}


@lru_cache(maxsize=1024)  # programs print the same ones over and over
def _order(order: str) -> tuple[Callable[..., None], tuple[int, ...]]:
    """What a control character or a sequence asks for, and its numbers."""
    if order.startswith("\x1b["):
        return _SEQUENCE_HANDLERS[order[-1]], tuple([int(field or 0) for field in order[2:-1].split(";")])
    return (_ESCAPE_HANDLERS[order[1]] if order[0] == "\x1b" else _CONTROL_HANDLERS[order]), ()
