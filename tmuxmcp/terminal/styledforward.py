"""Text that only moves forward, or back within its line, with its styles: the same text as `forward` gives.

Each `CSI m` becomes a NUL, which no text has, and the letter of the style behind it. So all else is done to the text as
if the sequences were not there. Pure.
"""

from __future__ import annotations

import re

from tmuxmcp.terminal.forward import DROPPED_BYTES, EDITING_BYTE, IGNORED_SEQUENCE, forward, without_idle_erasing
from tmuxmcp.terminal.lineedit import LineEditor, decode
from tmuxmcp.terminal.sgr import SGR
from tmuxmcp.terminal.styledtext import UNSTYLED, StyledText, StyleLetters, joined, styled

_OTHER_SEQUENCE = re.compile(rb"\x1b(?!\[[0-9;:]*m)" + IGNORED_SEQUENCE.pattern.removeprefix(rb"\x1b"), re.VERBOSE)
_SGR_BYTES = re.compile(SGR.pattern.encode())
_CUT_BEFORE = re.compile(rb"m[\x80-\xbf]")
_LINE_END = re.compile(rb"\r(\0*)\n")
# A character goes on behind a change, or joins what comes behind it: the change counts from before it.
_CUT_CHARACTER = re.compile(
    rb"([\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})(\0+)(?=[\x80-\xbf])|(\xe2\x80\x8d)(\0+)"
)


def styled_forward(data: bytes, cols: int, palette: StyleLetters, letter: str, indent: int = 0) -> tuple[str, str]:
    """Give the text of bytes without vertical moves, and the letter of the style behind them.

    Args:
        letter: the style of what is printed next.
        indent: so many blanks at the beginning have none.
    """
    if b"\x1b" in data:
        data = _OTHER_SEQUENCE.sub(b"", data)
    if letter == UNSTYLED and b"\x1b" not in data:
        return forward(data, cols), letter
    data = data.translate(None, DROPPED_BYTES)
    return _only_forward(data, palette, letter, indent) or _edited(data, cols, palette, letter, indent)


def _only_forward(data: bytes, palette: StyleLetters, letter: str, indent: int) -> tuple[str, str] | None:
    """The same of what never goes back within its line; None where it does."""
    data = without_idle_erasing(data.replace(b"\r\n", b"\n"))
    if b"\r" in data or b"\b" in data or not (data.isascii() or _CUT_BEFORE.search(data) is None):
        return None
    first, *parts = SGR.split(decode(data))
    changes = parts[::2]
    if data.count(b"\x1b") != len(changes):
        return None
    letters = [UNSTYLED, letter, *palette.after(letter, changes)]
    return StyledText.of_runs(letters, [first[:indent], first[indent:], *parts[1::2]]), letters[-1]


def _edited(data: bytes, cols: int, palette: StyleLetters, letter: str, indent: int) -> tuple[str, str]:
    changes = [params.decode() for params in _SGR_BYTES.findall(data)]
    data = _SGR_BYTES.sub(b"\0", data)
    data = _LINE_END.sub(rb"\1\n", data[:indent] + b"\0" + data[indent:])
    letters = [UNSTYLED, letter, *palette.after(letter, changes)]
    return _MarkedBytes(letters).text(without_idle_erasing(data), cols), letters[-1]


def _with_whole_characters(data: bytes) -> bytes:
    found = 0 if data.isascii() else 1
    while found:
        data, found = _CUT_CHARACTER.subn(rb"\2\4\1\3", data)
    return data


class _MarkedBytes:
    """Turns bytes with marks into text, from their beginning to their end."""

    def __init__(self, letters: list[str]) -> None:
        self._letters = letters
        """Of the style before each mark, and of the one behind the last."""
        self._at = 0

    def text(self, data: bytes, cols: int) -> str:
        """All of the text; `forward.py` does the same."""
        pieces: list[str] = []
        pos = 0
        while hit := EDITING_BYTE.search(data, pos):
            start = data.rfind(b"\n", pos, hit.start()) + 1 or pos
            end = data.find(b"\n", hit.end())
            end = len(data) if end < 0 else end
            pieces += self._next(data[pos:start]), self._edited_line(data[start:end], cols)
            pos = end
        return joined([*pieces, self._next(data[pos:])])

    def _next(self, data: bytes) -> str:
        """The text of what comes next."""
        text = self._from(self._at, data)
        self._at += data.count(0)
        return text

    def _from(self, at: int, data: bytes) -> str:
        parts = decode(_with_whole_characters(data)).split("\0")
        return StyledText.of_runs(self._letters[at : at + len(parts)], parts)

    def _edited_line(self, line: bytes, cols: int) -> str:
        line = without_idle_erasing(_without_outer_returns(line))
        if not EDITING_BYTE.search(line):
            return self._next(line)
        text = self._overlaid(line, cols)
        if text is None:
            text = self._replayed(line, cols)
        self._at += line.count(0)
        return text

    def _overlaid(self, line: bytes, cols: int) -> str | None:
        if not line.isascii() or b"\x1b" in line or b"\b" in line or b"\t" in line:
            return None
        at, states = self._at, []
        for state in line.split(b"\r"):
            states.append((at, state, len(state) - state.count(0)))
            at += state.count(0)
        if max(size for _, _, size in states) > cols:
            return None
        shown = ""
        for at, state, size in reversed(states):
            if size > len(shown):
                shown = shown + self._from(at, state)[len(shown) :]
        return shown.rstrip(" ")

    def _replayed(self, line: bytes, cols: int) -> str:
        editor = _StyledEditor(cols)
        for number, part in enumerate(_with_whole_characters(line).split(b"\0")):
            editor.letter = self._letters[self._at + number]
            editor.feed(part)
        return editor.text()


def _without_outer_returns(line: bytes) -> bytes:
    inner = line.strip(b"\r\0")
    start = line.find(inner)
    before, behind = line[:start], line[start + len(inner) :]
    return b"\0" * before.count(0) + inner + b"\0" * behind.count(0)


class _StyledEditor(LineEditor):
    """A line editor whose cells are styled text."""

    letter = UNSTYLED
    """The style of what is printed next."""

    def _write(self, cells: list[str]) -> None:
        super()._write(cells if self.letter == UNSTYLED else [styled(cell, self.letter) for cell in cells])

    def _join(self, col: int, text: str) -> None:
        cell = self._row[col]
        super()._join(col, text)
        if isinstance(cell, StyledText):
            self._row[col] = styled(str(self._row[col]), cell.letters[0])

    def _joined(self, cells: list[str]) -> str:
        return joined(cells)
