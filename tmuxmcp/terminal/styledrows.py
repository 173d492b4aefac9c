"""Text that moves up and down, with its styles: the same rows as those of plain text, of styled strings. Pure."""

from __future__ import annotations

from tmuxmcp.terminal.sgr import SGR
from tmuxmcp.terminal.styledtext import UNSTYLED, StyledText, StyleLetters, joined, styled
from tmuxmcp.terminal.textgrid import logical_lines
from tmuxmcp.terminal.textrows import TextRows


class StyledRows(TextRows):
    """Bytes that move up and down, drawn on rows of styled text."""

    def __init__(self, cols: int, rows: int, palette: StyleLetters) -> None:
        super().__init__(cols, rows)
        self._palette = palette
        self.letter = UNSTYLED
        """The style of what is printed next."""
        self._saved_letter = UNSTYLED

    def _put(self, text: str) -> None:
        if "\x1b" not in text:
            super()._put(styled(text, self.letter))
            return
        parts = SGR.split(text)
        letters = [self.letter, *self._palette.after(self.letter, parts[1::2])]
        self.letter = letters[-1]
        super()._put(StyledText.of_runs(letters, parts[::2]))

    def _restyle(self, params: str) -> None:
        self.letter = self._palette.after(self.letter, [params])[-1]

    def _save_style(self) -> None:
        self._saved_letter = self.letter

    def _restore_style(self) -> None:
        self.letter = self._saved_letter

    def _erase(self, y: int, start: int, end: int) -> None:
        """Blank columns: they keep the background of the style, as in a terminal."""
        super()._erase(y, start, end)
        blank, end = self._palette.blank(self.letter), min(end, self._cols)
        if blank != UNSTYLED and start < end:
            row = self._rows[y]
            self._rows[y] = row[:start].ljust(start) + styled(" " * (end - start), blank) + row[end:]

    def _lines_of(self, rows: list[tuple[str, bool]]) -> str:
        return lines_of(rows)


def lines_of(rows: list[tuple[str, bool]]) -> str:
    """Join rows to lines, and lines to a text."""
    lines = logical_lines(rows, joined)
    return joined([part for line in lines for part in ("\n", line)][1:])
