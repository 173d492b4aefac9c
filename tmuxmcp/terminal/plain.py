"""Raw bytes of a pane in, clean logical lines out: what a command printed, as a person would copy it.

Most output only ever moves forward, and needs no emulator: one regex takes out the escape sequences, and only
lines that go back over themselves (progress bars, typed lines) are replayed, one screen row at a time. Raw bytes
hold no wrapping newlines, so lines come out whole at any width. Control and invisible characters never leave
here. Pure: bytes in, text out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tmuxmcp.terminal.widths import MAX_CELL, ZERO_WIDTH_JOINER, char_width


@dataclass(frozen=True)
class PlainText:
    """Text that is safe to show."""

    text: str
    sanitized: bool
    """Some character was invisible or could have reordered the text, and stands there as `<U+202E>`."""


def plain(data: bytes, cols: int, rows: int = 24) -> PlainText:
    """Give the text that a command printed, as logical lines joined by newlines.

    Lines that were only printed are kept exactly: trailing spaces, tabs, empty lines, and whether the last one
    ended. Lines that were edited are shown in their last state, without trailing spaces.

    Args:
        data: a piece of output; it is taken to begin at column 0.
        cols: the pane's width, which says where a carriage return in a long line leads back to.
        rows: the pane's height, for text that moves up and down.
    """
    cols, rows = max(cols, 1), max(rows, 1)
    text = _without_full_screen(data, cols, rows) if needs_grid(data) else _linear(data, cols)
    return PlainText(*sanitize(text))


def needs_grid(data: bytes) -> bool:
    """Say whether the text moves up or down, so that only a screen can tell what became of it."""
    return _VERTICAL.search(data) is not None


_VERTICAL = re.compile(
    rb"""\x1b(?!\[[0-9;:]*+[Km])(?:    # the most frequent sequences fail fast
        \[[0-9;:]*+[ABEFHLMSTdfgrsu] # cursor up, down, to a line; lines in and out; scrolling; tab stops; saved cursor
      | \[0*[12]J                    # erase in display; without a number it finds nothing below to erase
      | \[(?:[0-9]+;)*4h             # insert mode
      | \[\?(?:[0-9]+;)*(?:47|1047|1049)(?:;[0-9]+)*[hl]
      | [()]0                        # line drawing
      | [78DEHMc]                    # saved cursor, index, next line, tab stop, reverse index, reset
    )""",
    re.VERBOSE,
)
_ALTERNATE = re.compile(rb"\x1b(?:\[\?(?:[0-9]+;)*(?:47|1047|1049)(?:;[0-9]+)*([hl])|c)")


def begun_full_screen(data: bytes) -> int:
    """Offset at which a full-screen program begins that has not ended in `data`; behind its end when there is none."""
    begun = len(data)
    for switch in _ALTERNATE.finditer(data):
        if switch[1] != b"h":
            begun = len(data)
        elif begun == len(data):
            begun = switch.start()
    return begun


# --- full-screen programs and cleared screens ---------------------------------------------------------

# What was shown before these is scrolled away whole, and what comes after begins on an empty screen.
_CLEAR = re.compile(rb"\x1b\[(?:1?;?1?)?[Hf]\x1b\[[02]?J|\x1b\[2J\x1b\[(?:1?;?1?)?[Hf]|\x1bc")
_ADDRESSED = re.compile(rb"\x1b\[[0-9]+;[0-9]+H")


def _without_full_screen(data: bytes, cols: int, rows: int) -> str:
    texts = [""]
    for full_screen, part in _stretches(data):
        if not full_screen:
            goes_on, *cleared = [_main_screen(shown, cols, rows) for shown in _CLEAR.split(part)]
            texts[-1] += goes_on
            texts += cleared
        elif part:
            texts += f"[full-screen program: {len(part):,} bytes of screen drawing left out]\n", ""
    return _on_lines_of_their_own(texts)


def _on_lines_of_their_own(texts: list[str]) -> str:
    ended = [text + "\n" if text and not text.endswith("\n") else text for text in texts[:-1]]
    return "".join([*ended, *texts[-1:]])


def _stretches(data: bytes) -> Iterator[tuple[bool, bytes]]:
    """Cut at each switch between the main and the alternate screen; True: drawn on the alternate one."""
    pos, full_screen = 0, False
    for switch in _ALTERNATE.finditer(data):
        enters = switch[1] == b"h"
        if pos == 0 and switch[1] == b"l" and _ADDRESSED.search(data, 0, switch.start()):
            full_screen = True  # left, but entered before this piece began
        if enters != full_screen:
            yield full_screen, data[pos : switch.start()]
            pos, full_screen = switch.end(), enters
    yield full_screen, data[pos:]


# --- text that moves up and down ----------------------------------------------------------------------


def _main_screen(data: bytes, cols: int, rows: int) -> str:
    """Draw the stretches around vertical moves on a screen; the rest cannot be reached by them."""
    pieces: list[str] = []
    pos = 0
    while move := _VERTICAL.search(data, pos):
        start = _lines_back(data, pos, move.start(), rows)
        pieces.append(_linear(data[pos:start], cols))
        drawn, pos = _draw(data, start, cols, rows)
        pieces.append(drawn)
    pieces.append(_linear(data[pos:], cols))
    return "".join(pieces)


def _lines_back(data: bytes, first: int, pos: int, count: int) -> int:
    """Go back from `pos` over `count` newlines, but not before `first`."""
    for _ in range(count):
        pos = data.rfind(b"\n", first, pos)
        if pos < 0:
            return first
    return pos + 1


def _draw(data: bytes, pos: int, cols: int, rows: int) -> tuple[str, int]:
    """Draw from `pos` until plain text goes on below everything, and say where that is."""
    from tmuxmcp.terminal.collector import Collector  # late: most output needs no emulator

    collector = Collector(cols, rows)
    while pos < len(data):
        end = _last_move(data, pos, rows)
        collector.feed(data[pos:end])
        pos = end
        for _ in range(rows):
            if pos == len(data) or collector.settled:
                return collector.text(), pos
            end = data.find(b"\n", pos) + 1 or len(data)
            collector.feed(data[pos:end])
            pos = end
    return collector.text(), pos


def _last_move(data: bytes, pos: int, rows: int) -> int:
    """Where the vertical moves end that come so soon after each other that no screenful lies between them."""
    end = pos
    for move in _VERTICAL.finditer(data, pos):
        if end > pos and data.count(b"\n", end, move.start()) > 2 * rows:
            break
        end = move.end()
    return end if end > pos else len(data)


# --- text that only moves forward ---------------------------------------------------------------------

# Where tmux lets a sequence end; an unfinished one at the end of the piece goes too. What moves or erases within
# its line is kept for the editor.
_SEQUENCE = re.compile(
    rb"""\x1b(?:
        \[[0-9;:]*m
      | \[(?!0*J|[0-9;:]*[@CDGKPXZ`b])[0-?]*[ -/]*[@-~]?
      | \][^\x07\x1b\x18\x1a]*(?:\x07|\x1b\\|[\x18\x1a])?                 # OSC
      | P[^\x1b]*+(?:\x1b[^\\][^\x1b]*+)*+(?:\x1b\\|\x1b\Z)?              # DCS: only ESC \ ends it
      | [X^_k][^\x1b\x18\x1a]*(?:\x1b\\|[\x18\x1a])?                      # SOS, PM, APC, title
      | (?!\[)[ -/]*[0-~]?
    )""",
    re.VERBOSE,
)
_DROPPED = bytes(code for code in range(0x20) if code not in b"\b\t\n\r\x1b") + b"\x7f"
_EDITED = re.compile(rb"[\r\x08\x1b]")
_ERASE_RIGHT = re.compile(rb"\x1b\[0*[JK]")


def _linear(data: bytes, cols: int) -> str:
    if b"\x1b" in data:
        data = _SEQUENCE.sub(b"", data)
    data = data.translate(None, _DROPPED).replace(b"\r\n", b"\n")
    data = _without_idle_erasing(data)
    pieces: list[str] = []
    pos = 0
    while hit := _EDITED.search(data, pos):
        start = data.rfind(b"\n", pos, hit.start()) + 1 or pos
        end = data.find(b"\n", hit.end())
        end = len(data) if end < 0 else end
        pieces += _decode(data[pos:start]), _edited_line(data[start:end], cols)
        pos = end
    pieces.append(_decode(data[pos:]))
    return "".join(pieces)


def _without_idle_erasing(data: bytes) -> bytes:
    """Drop "erase to the right" where nothing moved back: grep and gcc print it at every coloured word."""
    if b"\x1b" in data and b"\r" not in data and b"\b" not in data:
        return _ERASE_RIGHT.sub(b"", data)
    return data


def _edited_line(line: bytes, cols: int) -> str:
    line = _without_idle_erasing(line.strip(b"\r"))
    if not _EDITED.search(line):
        return _decode(line)
    text = _overlaid(line, cols)
    if text is None:
        editor = _LineEditor(cols)
        editor.feed(line)
        text = editor.text()
    return text.rstrip(" ")


def _overlaid(line: bytes, cols: int) -> str | None:
    """Lay the states of a simple progress bar over each other; None where that would not do."""
    if not line.isascii() or b"\x1b" in line or b"\b" in line or b"\t" in line:
        return None
    states = line.split(b"\r")
    if max(map(len, states)) > cols:
        return None
    shown = b""
    for state in reversed(states):  # a longer, older one sticks out to the right
        shown += state[len(shown) :]
    return shown.decode()


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


_EDIT = re.compile(rb"(?P<text>[^\x00-\x1f]+)|(?P<control>[\r\b\t])|\x1b\[(?P<count>[0-9]*)[0-9;:]*(?P<final>[@-~])")


class _LineEditor:
    """Replay one logical line on rows of the pane's width."""

    def __init__(self, cols: int) -> None:
        self._cols = cols
        self._row: list[str] = []
        """The cursor's row, a cell each; a wide character is followed by an empty one."""
        self._rows = [self._row]
        self._at = 0
        self._col = 0

    def text(self) -> str:
        return "".join(["".join(row) for row in self._rows])

    def feed(self, line: bytes) -> None:
        for token in _EDIT.finditer(line):
            if token["text"]:
                self._put(_decode(token["text"]))
            elif token["control"]:
                self._control(token["control"])
            else:
                count = int(token["count"][:6] or b"0")
                _EDITS[token["final"]](self, count)

    def _control(self, control: bytes) -> None:
        if control == b"\r":
            self._col = 0
        elif control == b"\t":
            self._col = min((self._col // 8 + 1) * 8, self._cols - 1)
        elif self._col > 0:
            self._col -= 1
        elif self._at > 0:  # back over the edge, as in tmux
            self._to_row(self._at - 1, self._cols - 1)

    def _to_row(self, at: int, col: int) -> None:
        if at == len(self._rows):
            self._rows.append([])
        self._row, self._at, self._col = self._rows[at], at, col

    def _put(self, text: str) -> None:
        if not text.isascii():
            for char in text:
                self._put_char(char)
            return
        pos = 0
        while pos < len(text):
            self._wrap_for(1)
            part = text[pos : pos + self._cols - self._col]
            self._write(list(part))
            pos += len(part)

    def _put_char(self, char: str) -> None:
        if self._joins(char):
            self._join(char)
        else:
            width = char_width(char)
            self._wrap_for(width)
            self._write([char, ""][:width])

    def _wrap_for(self, width: int) -> None:
        if self._col + width > self._cols and self._col > 0:
            self._to_row(self._at + 1, 0)

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

    def _joins(self, char: str) -> bool:
        col = self._before_cursor()
        after_joiner = col >= 0 and self._row[col].endswith(ZERO_WIDTH_JOINER)
        return char_width(char) == 0 or (after_joiner and not char.isascii())

    def _join(self, char: str) -> None:
        col = self._before_cursor()
        if col < 0 or len(self._row[col]) >= MAX_CELL:
            return
        if char != ZERO_WIDTH_JOINER or not self._row[col].isascii():
            self._row[col] += char

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


_EDITS = {
    b"@": _LineEditor._insert_chars,
    b"C": _LineEditor._forward,
    b"D": _LineEditor._back,
    b"G": _LineEditor._to_column,
    b"J": _LineEditor._erase,  # with 0 only; the others need the grid
    b"K": _LineEditor._erase,
    b"P": _LineEditor._delete_chars,
    b"X": _LineEditor._erase_chars,
    b"Z": _LineEditor._tab_back,
    b"`": _LineEditor._to_column,
    b"b": _LineEditor._repeat,
}

# --- control and invisible characters -----------------------------------------------------------------

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe00-\ufe0f"
_INVISIBLE = (
    "\x80-\x9f\u00ad\u061c\u180e"
    "\u200b\u200e\u200f\u2028-\u202e"  # zero-width space, direction marks, line separators, embeddings
    "\u2060-\u206f\ufeff\ufff9-\ufffb"  # word joiner, isolates, byte order mark, annotations
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef"  # tags, variation selectors supplement
)
_SUSPECT = re.compile(f"[{_INVISIBLE}{_JOINERS}{_SELECTORS}]")
_VISIBLE = f"[^\x00-\x20{_INVISIBLE}{_JOINERS}{_SELECTORS}]"
_VISIBLE_NOT_ASCII = f"[^\x00-\x7f{_INVISIBLE}{_JOINERS}{_SELECTORS}]"
# Joiners stay inside emoji, Persian and Indic words; one selector of text or emoji style stays after a character.
_HIDDEN = re.compile(
    f"[{_INVISIBLE}\ufe00-\ufe0d]"
    f"|(?<!{_VISIBLE})[\ufe0e\ufe0f]"
    f"|(?<!{_VISIBLE_NOT_ASCII})(?<![\ufe0e\ufe0f])[{_JOINERS}]"
    f"|[{_JOINERS}](?!{_VISIBLE_NOT_ASCII})"
)


def sanitize(text: str) -> tuple[str, bool]:
    """Drop control characters but newline and tab, and show invisible ones as `<U+202E>`.

    Returns:
        the text, and whether an invisible character was shown.
    """
    text = _CONTROL.sub("", text)
    if text.isascii() or not _SUSPECT.search(text):
        return text, False
    text, count = _HIDDEN.subn(_name, text)
    return text, count > 0


def _name(match: re.Match[str]) -> str:
    return f"<U+{ord(match[0]):04X}>"
