"""GIFs: read back by Pillow, each frame is the picture of its screen, for its time."""

from __future__ import annotations

import io

import pytest
from PIL import Image, ImageChops, ImageSequence, ImageStat

from tests.kit.films import film_of, printed, recorded
from tests.terminal.test_frames import made
from tmuxmcp.machine import fonts
from tmuxmcp.terminal.drawing.gif import LONGEST_MS, gif, palette_of
from tmuxmcp.terminal.drawing.picture import Painter
from tmuxmcp.terminal.drawing.reel import LAST_MS, reel
from tmuxmcp.terminal.drawing.theme import BACKGROUND
from tmuxmcp.terminal.film.film import Film, FilmOutput, FilmResize

SMOOTH = 40
"""How far a colour of a letter's smooth edge may be from what it is in a PNG."""

COLORS = 256
"""As many as a GIF has."""

FAINT = 2
"""How far colours may be on average."""


@pytest.fixture(scope="module")
def painter() -> Painter:
    return Painter(fonts.find())


def drawn(film: Film, painter: Painter) -> list[tuple[Image.Image, int]]:
    """The frames and how long each is shown, as a reader has them."""
    image = Image.open(io.BytesIO(b"".join(gif(reel(film, 10), painter))))
    assert image.info["loop"] == 0
    return [(frame.convert("RGB"), frame.info["duration"]) for frame in ImageSequence.Iterator(image)]


@pytest.mark.parametrize("name", ["vim", "htop", "emoji", "mc-colour"])
def test_each_frame_is_the_picture_of_its_screen(painter: Painter, name: str) -> None:
    found, frames = drawn(recorded(name), painter), made(recorded(name))
    assert len(found) == len(frames)
    for (image, _), frame in zip(found, frames, strict=True):
        painted = painter.draw(frame.snapshot)
        difference = ImageChops.difference(image, painted)
        if painted.convert("RGB").getcolors(COLORS):
            assert max(most for _, most in difference.getextrema()) <= SMOOTH, frame.ms
        else:  # a font with pictures in many colours
            assert max(ImageStat.Stat(difference).mean) <= FAINT, frame.ms
    assert [duration for _, duration in found[:-1]] == [frame.until_ms - frame.ms for frame in frames[:-1]]
    assert found[-1][1] == LAST_MS


def test_a_frame_holds_what_has_changed(painter: Painter) -> None:
    film = printed(*[(ms, b"\x1b[2;%dHx" % (ms // 100)) for ms in range(100, 1500, 100)])
    sizes = [len(piece) for piece in gif(reel(film, 10), painter)]
    assert len(sizes) > 14
    assert max(sizes[2:]) < 150


def test_a_smaller_screen_leaves_nothing_of_the_larger(painter: Painter) -> None:
    film = film_of([FilmOutput(0, b"one\r\ntwo\r\nthree"), FilmResize(1000, 8, 2)], end_ms=2000)
    (large, _), (small, _) = drawn(film, painter)
    assert large.size == small.size
    width, height = painter.cell
    assert [colour for _, colour in small.crop((0, 8 + 2 * height, *small.size)).getcolors()] == [BACKGROUND]
    assert [colour for _, colour in small.crop((8 + 8 * width, 0, *small.size)).getcolors()] == [BACKGROUND]


def test_a_long_pause_is_as_long(painter: Painter) -> None:
    film = printed((0, b"a"), (2_000_004, b"b"), end_ms=2_000_010)
    assert [duration for _, duration in drawn(film, painter)] == [*[LONGEST_MS] * 3, 2_000_000 - 3 * LONGEST_MS, 2000]


def test_more_colours_than_there_is_room_for(painter: Painter) -> None:
    cells = b"".join(b"\x1b[48;2;%d;%d;%dm " % (n % 256, n * 7 % 256, n * 3 % 256) for n in range(0, 2000, 2))
    film = Film(film_of([], 0, 50, 20).start, 0, 100, [FilmOutput(0, cells)])
    found = reel(film, 10)
    assert len(palette_of(found).colours) == 255
    image, painted = drawn(film, painter)[0][0], painter.draw(made(film)[0].snapshot)
    differences = ImageChops.difference(image, painted).getextrema()
    assert max(most for _, most in differences) < 64
