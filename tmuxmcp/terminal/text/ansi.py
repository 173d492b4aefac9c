"""Raw bytes of a pane in, clean text with its colours out: the text of `plain`, with `CSI m` where the style changes.

No other sequence ever leaves here, and each line begins and ends in the terminal's own style: a text can be cut at any
line's end, and colours nothing behind it. Pure: bytes in, text out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tmuxmcp.terminal.emulator.render import sgr
from tmuxmcp.terminal.emulator.sgr import SGR, restyled
from tmuxmcp.terminal.snapshot import PLAIN_STYLE, Style
from tmuxmcp.terminal.text.forward import OTHER_THAN_STYLES, decode
from tmuxmcp.terminal.text.plain import Cleaner, PlainText, parts
from tmuxmcp.terminal.text.styledtext import UNSTYLED, StyledText, StyleLetters, joined, sanitized
from tmuxmcp.terminal.widths import OLDEST_VERSION, TmuxVersion

if TYPE_CHECKING:
    from tmuxmcp.terminal.text.textscreen import TextScreen

_STYLED_LINE_END = re.compile(rb"\r(?=(?:\r|\x1b\[[0-9;:]*m)*\x1b\[[0-9;:]*m\r*\n)")
"""A return before a line's end, with styles in between."""


def ansi(
    data: bytes,
    cols: int,
    rows: int = 24,
    *,
    col: int = 0,
    row: int = 0,
    inside: bool | None = None,
    style: Style = PLAIN_STYLE,
    version: TmuxVersion = OLDEST_VERSION,
) -> PlainText:
    """Give the text that `plain` gives, with its colours.

    Args:
        style: the style before it, as `style_behind` gives it; the rest is as in `plain`.
    """
    cleaner = StyledCleaner(cols, rows, row, style, version)
    found = parts(data, cols, rows, col=col, inside=inside, cleaner=cleaner)
    text, shown = sanitized(joined([part.text for part in found]))
    return PlainText(cleaner.palette.drawn(text), shown, cleaner.drew_above)


class StyledCleaner(Cleaner):
    """Makes styled text of each stretch."""

    palette: StyleLetters

    def __init__(
        self,
        cols: int,
        rows: int,
        row: int = 0,
        style: Style = PLAIN_STYLE,
        version: TmuxVersion = OLDEST_VERSION,
    ) -> None:
        super().__init__(cols, rows, row, version)
        self.palette = StyleLetters()
        self._style = sgr(PLAIN_STYLE, style).encode()
        self._letter = self.palette.letter(style)
        """The style of what is printed next."""

    def skip(self, data: bytes, start: int, end: int, inside: bool) -> None:
        before = self.palette.style(self._letter)
        self._letter = self.palette.letter(style_behind(data[start:end], before, inside=inside))

    def _without_sequences(self, data: bytes) -> bytes:
        if b"\x1b" not in data:
            return data
        data = OTHER_THAN_STYLES.sub(b"", data)
        return _STYLED_LINE_END.sub(b"", data) if b"\r\x1b" in data else data

    def _level(self, data: bytes) -> str:
        text = decode(data)
        if self._letter == UNSTYLED and b"\x1b" not in data:
            return text
        first, *parts = SGR.split(text)
        letters = [self._letter, *self.palette.after(self._letter, parts[::2])]
        self._letter = letters[-1]
        return StyledText.of_runs(letters, [first, *parts[1::2]])

    def _screen(self, rows: int, row: int) -> TextScreen:
        screen = super()._screen(rows, row)
        screen.pen = screen.pens.get(self.palette.style(self._letter))
        return screen

    def _text_of(self, screen: TextScreen) -> str:
        self._letter = self.palette.letter(screen.pen.style)
        return super()._text_of(screen)

    def _joined(self, pieces: list[str]) -> str:
        return joined(pieces)


_RESTYLING_SEQUENCE = re.compile(
    rb"""\x1b(?:
        \[(?P<params>[0-9;:]*)m
      | (?P<string>P[^\x1b]*+(?:\x1b[^\\][^\x1b]*+)*+(?:\x1b\\|\x1b?\Z))   # within it, nothing counts
      | \[\?(?P<modes>(?:[0-9]+;)*(?:47|1047|1049)(?:;[0-9]+)*)(?P<switch>[hl])
      | (?P<save>7|\[0*s) | (?P<restore>8|\[0*u) | (?P<reset>c)
    )""",
    re.VERBOSE,
)


def style_behind(data: bytes, style: Style = PLAIN_STYLE, *, inside: bool = False) -> Style:
    """Give the style of the main screen behind some bytes.

    Args:
        style: the one before them.
        inside: a full-screen program was drawing before them; what it draws changes no style of the main screen.
    """
    saved, under = PLAIN_STYLE, style
    for found in _RESTYLING_SEQUENCE.finditer(data):
        kind = found.lastgroup
        if kind == "params":
            style = restyled(style, found["params"].decode())
        elif kind == "save":
            saved = style
        elif kind == "restore":
            style = saved
        elif kind == "reset":
            style, inside = PLAIN_STYLE, False
        elif kind == "switch" and (found["switch"] == b"h") != inside:
            inside = not inside
            if inside:
                under = style
            elif b"1049" in found["modes"]:
                style = under
    return under if inside else style
