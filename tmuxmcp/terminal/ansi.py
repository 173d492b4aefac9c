"""Raw bytes of a pane in, clean text with its colours out: the text of `plain`, with `CSI m` where the style changes.

No other sequence ever leaves here, and each line begins and ends in the terminal's own style: a text can be cut at any
line's end, and colours nothing behind it. Pure: bytes in, text out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tmuxmcp.terminal.plain import Cleaner, PlainText, drawn_by, parts
from tmuxmcp.terminal.sgr import restyled
from tmuxmcp.terminal.snapshot import PLAIN_STYLE, Style
from tmuxmcp.terminal.styledforward import styled_forward
from tmuxmcp.terminal.styledrows import StyledRows
from tmuxmcp.terminal.styledtext import StyleLetters, joined, sanitized
from tmuxmcp.terminal.textgrid import Unusual

if TYPE_CHECKING:
    from tmuxmcp.terminal.styledcollector import StyledCollector


def ansi(
    data: bytes, cols: int, rows: int = 24, *, col: int = 0, inside: bool | None = None, style: Style = PLAIN_STYLE
) -> PlainText:
    """Give the text that `plain` gives, with its colours.

    Args:
        style: the style before it, as `style_behind` gives it; the rest is as in `plain`.
    """
    cleaner = _StyledCleaner(cols, rows, style)
    found = parts(data, cols, rows, col=col, inside=inside, cleaner=cleaner)
    text, shown = sanitized(joined([part.text for part in found]))
    return PlainText(cleaner.palette.drawn(text), shown)


class _StyledCleaner(Cleaner):
    """Makes styled text of each stretch."""

    def __init__(self, cols: int, rows: int, style: Style) -> None:
        super().__init__(cols, rows)
        self.palette = StyleLetters()
        self._letter = self.palette.letter(style)
        self._indent = 0
        """Blanks that come next and are of no style: nobody printed them."""

    def indent(self, col: int) -> bytes:
        self._indent = col
        return super().indent(col)

    def forward(self, data: bytes) -> str:
        if not data:
            return ""
        text, self._letter = styled_forward(data, self.cols, self.palette, self._letter, self._indent)
        self._indent = 0
        return text

    def drawn(self, data: bytes, pos: int, limit: int) -> tuple[str, int]:
        try:
            found = self._drawn_by(StyledRows(self.cols, self.rows, self.palette), data, pos, limit)
        except Unusual:
            from tmuxmcp.terminal.styledcollector import StyledCollector  # late: most output needs no emulator

            found = self._drawn_by(StyledCollector(self.cols, self.rows, self.palette), data, pos, limit)
        self._indent = 0
        return found

    def _drawn_by(self, collector: StyledRows | StyledCollector, data: bytes, pos: int, limit: int) -> tuple[str, int]:
        collector.feed(data[pos : pos + self._indent])
        collector.letter = self._letter
        found = drawn_by(collector, data, pos + self._indent, limit, self.rows)
        self._letter = collector.letter
        return found

    def skip(self, data: bytes, start: int, end: int, inside: bool) -> None:
        before = self.palette.style(self._letter)
        self._letter = self.palette.letter(style_behind(data[start:end], before, inside=inside))
        self._indent = 0


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
