"""Films as pictures that move, with what that needs of this machine: Pillow and fonts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tmuxmcp.contract.errors import Unsupported
from tmuxmcp.machine import fonts
from tmuxmcp.terminal.drawing.gif import gif
from tmuxmcp.terminal.drawing.picture import Painter, size_for
from tmuxmcp.terminal.drawing.reel import Reel, moving_svg, reel
from tmuxmcp.terminal.film.film import Film

SVG_PER_SECOND, GIF_PER_SECOND = 25, 10
"""Pictures of one second at most: each one of a GIF takes room and time, those of an SVG share their rows."""


Wound = Callable[[Reel], None]
"""Told of the pictures, before they are drawn."""


def as_svg(film: Film, wound: Wound) -> Iterator[bytes]:
    """Give an SVG that moves, without scripts."""
    shots = reel(film, SVG_PER_SECOND)
    wound(shots)
    return (piece.encode("utf-8", "replace") for piece in moving_svg(shots))


def as_gif(film: Film, wound: Wound) -> Iterator[bytes]:
    """Give a GIF that plays for ever.

    Raises:
        Unsupported: Pillow or a font is missing.
    """
    try:
        import PIL  # noqa: F401 - only to say what is missing
    except ImportError:
        raise Unsupported(
            "GIF needs Pillow, which cannot be imported.",
            hint="Have a person install tmuxmcp again, with what it depends on. The format svg needs nothing.",
        ) from None
    shots = reel(film, GIF_PER_SECOND)
    wound(shots)
    yield from gif(shots, Painter(fonts.find(), size=size_for(shots.cols, shots.lines)))
