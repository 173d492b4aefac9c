"""The colours of a picture: what a terminal's palette looks like, and what a style makes of it. Pure."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from tmuxmcp.contract.value import value
from tmuxmcp.terminal.snapshot import Colour, Style
from tmuxmcp.terminal.widths import ZERO_WIDTH_JOINER

Rgb = tuple[int, int, int]

FOREGROUND: Rgb = (215, 218, 224)
BACKGROUND: Rgb = (22, 25, 31)
"""The terminal's own colours."""

PALETTE: tuple[Rgb, ...] = (
    *((29, 33, 41), (224, 85, 97), (140, 194, 101), (209, 143, 82)),
    *((74, 165, 240), (193, 98, 222), (66, 179, 194), (200, 204, 212)),
    *((107, 113, 125), (255, 97, 110), (165, 224, 117), (240, 164, 93)),
    *((77, 196, 255), (222, 115, 255), (76, 209, 224), (255, 255, 255)),
)
"""The first sixteen colours."""


def rgb(colour: Colour, default: Rgb) -> Rgb:
    """What a colour looks like: the palette, the cube of 6x6x6, 24 greys, or itself."""
    match colour:
        case None:
            return default
        case int() if colour < 16:
            return PALETTE[colour]
        case int() if colour < 232:
            red, green, blue = (colour - 16) // 36, (colour - 16) // 6 % 6, (colour - 16) % 6
            return _level(red), _level(green), _level(blue)
        case int():
            grey = 8 + (colour - 232) * 10
            return grey, grey, grey
    return colour


def _level(step: int) -> int:
    return 55 + step * 40 if step else 0


def hexadecimal(colour: Rgb) -> str:
    """A colour as SVG and CSS write it."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


@value
class DrawnStyle:
    """A style as it is drawn."""

    ink: Rgb
    ground: Rgb
    line: Rgb
    """Colour of underlines."""


@lru_cache(maxsize=4096)
def drawn_style(style: Style) -> DrawnStyle:
    """What colours a style is drawn with."""
    ink, ground = rgb(style.fg, FOREGROUND), rgb(style.bg, BACKGROUND)
    if style.reverse:
        ink, ground = ground, ink
    if style.faint:
        ink = _between(ink, ground)
    if style.conceal:
        ink = ground
    return DrawnStyle(ink, ground, ink if style.conceal else rgb(style.underline_colour, ink))


def _between(one: Rgb, other: Rgb) -> Rgb:
    return (one[0] + other[0]) // 2, (one[1] + other[1]) // 2, (one[2] + other[2]) // 2


def drawable(text: str) -> str:
    """A cell's text without what is no part of a picture: control characters, direction marks, half characters."""
    if text.isascii() and text.isprintable():
        return text
    return "".join([char for char in text if char == ZERO_WIDTH_JOINER or not _unseen(char)])


def _unseen(char: str) -> bool:
    # XML cannot hold the last two characters of a plane.
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") or ord(char) & 0xFFFE == 0xFFFE
