"""The 255 colours of a GIF, chosen by the styles that a reel is drawn in, and the nearest of them to any. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from tmuxmcp.terminal.drawing.reel import Reel
from tmuxmcp.terminal.drawing.theme import DrawnStyle, Rgb, Theme, drawn_style
from tmuxmcp.terminal.snapshot import Style, runs

TRANSPARENT_INDEX = 255
"""The index of what stays as it was; the other 255 are colours."""

SMOOTHING_COLOURS = 4
"""Colours between ink and ground, as smooth letters have them, where there is room."""

COARSE_BITS = 3
"""Colours beyond the table that differ in so many last bits of a channel are one: so the nearest is sought seldom."""


class Palette:
    """A table of colours."""

    def __init__(self, colours: Iterable[Rgb]) -> None:
        self.colours = [*dict.fromkeys(colours)][:TRANSPARENT_INDEX]
        self._index = {colour: index for index, colour in enumerate(self.colours)}
        self._near: dict[Rgb, int] = {}

    @property
    def data(self) -> bytes:
        """Red, green and blue of all 256."""
        return bytes([value for colour in self.colours for value in colour]).ljust(768, b"\0")

    def index(self, colour: Rgb) -> int:
        """The index of a colour, or of the nearest."""
        found = self._index.get(colour)
        return self._nearest(colour) if found is None else found

    def _nearest(self, colour: Rgb) -> int:
        red, green, blue = colour
        coarse = red >> COARSE_BITS, green >> COARSE_BITS, blue >> COARSE_BITS
        found = self._near.get(coarse)
        if found is None:
            distances = [_far(other, colour) for other in self.colours]
            found = self._near[coarse] = distances.index(min(distances))
        return found


def _far(one: Rgb, other: Rgb) -> int:
    red, green, blue = one[0] - other[0], one[1] - other[1], one[2] - other[2]
    return 2 * red * red + 4 * green * green + 3 * blue * blue  # as an eye has it


def palette_of(reel: Reel, theme: Theme) -> Palette:
    """The colours that a reel needs most: first what fills areas, then what is between it and the ink on it."""
    weights = _weights(reel, theme)
    solid = [theme.bg, theme.fg, *(colour for seen in weights for colour in (seen.ground, seen.ink, seen.line))]
    if len(set(solid)) > TRANSPARENT_INDEX:
        return Palette(_fewer(solid))
    return Palette([*solid, *_between(weights)])


def _weights(reel: Reel, theme: Theme) -> list[DrawnStyle]:
    """The looks of all rows, the most frequent first."""
    counted: Counter[Style] = Counter()
    for row in reel.rows.values():
        for run in runs(row):
            counted[run.style] += len(run.cells)
    looks: Counter[DrawnStyle] = Counter()
    for style, count in counted.items():
        looks[drawn_style(style, theme)] += count
    plain = drawn_style(Style(), theme)
    return [plain, DrawnStyle(theme.bg, theme.fg, theme.bg), *(seen for seen, _ in looks.most_common())]


def _between(looks: list[DrawnStyle]) -> Iterator[Rgb]:
    for seen in islice(looks, TRANSPARENT_INDEX):
        for step in range(1, SMOOTHING_COLOURS + 1):
            share = step / (SMOOTHING_COLOURS + 1)
            red, green, blue = (round(b + (a - b) * share) for a, b in zip(seen.ink, seen.ground, strict=True))
            yield red, green, blue


def _fewer(colours: list[Rgb]) -> list[Rgb]:
    """As many colours as there is room for, spread over all of these."""
    from PIL import Image

    image = Image.new("RGB", (len(colours), 1))
    image.putdata(colours)
    values = image.quantize(TRANSPARENT_INDEX, dither=Image.Dither.NONE).getpalette() or []
    return [(values[at], values[at + 1], values[at + 2]) for at in range(0, len(values) - 2, 3)]
