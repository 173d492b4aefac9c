"""The text of a stream that only an emulator can draw, with its styles. Pure."""

from __future__ import annotations

from tmuxmcp.terminal.collector import CollectingScreen, Collector
from tmuxmcp.terminal.grid import Row
from tmuxmcp.terminal.styledrows import lines_of
from tmuxmcp.terminal.styledtext import StyledText, StyleLetters


class _StyledScreen(CollectingScreen):
    palette: StyleLetters

    def text_of(self, row: Row) -> str:
        text = row.text()
        letters = "".join([self.palette.letter(cell.style) * len(cell.text) for cell in row])
        return StyledText(text, letters[: len(text)])


class StyledCollector(Collector):
    """A collector that keeps the styles."""

    screen: _StyledScreen

    def __init__(self, cols: int, rows: int, palette: StyleLetters) -> None:
        super().__init__(cols, rows, _StyledScreen)
        self.screen.palette = palette

    @property
    def letter(self) -> str:
        """The style of what is printed next."""
        return self.screen.palette.letter(self.screen.pen.style)

    @letter.setter
    def letter(self, letter: str) -> None:
        self.screen.pen = self.screen.pens.get(self.screen.palette.style(letter))

    def _lines_of(self, rows: list[tuple[str, bool]]) -> str:
        return lines_of(rows)
