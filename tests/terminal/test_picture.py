from __future__ import annotations

import io

import pytest
from PIL import Image

from tests.terminal.test_markup import screen, text, wide
from tmuxmcp.machine import fonts
from tmuxmcp.terminal.drawing.picture import FONT_SIZE, MOST_PIXELS, PICTURE_MARGIN, Painter, png, size_for
from tmuxmcp.terminal.drawing.theme import BACKGROUND, FOREGROUND
from tmuxmcp.terminal.snapshot import Cursor, Snapshot, Style

Rgb = tuple[int, int, int]
INK, GROUND = (255, 0, 0), (0, 0, 255)
SEEN = Style(fg=INK, bg=GROUND)


@pytest.fixture(scope="module")
def painter() -> Painter:
    return Painter(fonts.find())


class Shot:
    """A drawn screen, cell by cell."""

    def __init__(self, painter: Painter, snapshot: Snapshot) -> None:
        data, width, height = png(snapshot, painter)
        self.data, self.painter = data, painter
        self.image = Image.open(io.BytesIO(data))
        assert self.image.size == (width, height)

    def pixels(self, row: int, col: int) -> dict[Rgb, int]:
        """How many pixels of a cell have each colour."""
        left, top = self.painter.corner_of(row, col)
        width, height = self.painter.cell
        found = self.image.crop((left, top, left + width, top + height)).getcolors(100_000)
        return {colour: count for count, colour in found}

    def colours(self, row: int, col: int) -> set[Rgb]:
        return set(self.pixels(row, col))


def test_size_is_that_of_the_cells(painter: Painter):
    shot = Shot(painter, screen([], [], [], cols=20))
    width, height = painter.cell
    assert shot.image.size == (20 * width + 2 * PICTURE_MARGIN, 3 * height + 2 * PICTURE_MARGIN)
    assert shot.colours(2, 19) == {BACKGROUND}


def test_ink_and_ground_fill_their_cell_and_no_other(painter: Painter):
    shot = Shot(painter, screen([*text("  "), *text("M", SEEN), *text("  ")]))
    assert {INK, GROUND} <= shot.colours(0, 2)
    assert shot.colours(0, 1) == shot.colours(0, 3) == {BACKGROUND}


def test_full_block_fills_its_cell(painter: Painter):
    pixels = Shot(painter, screen(text("█", Style(fg=INK)))).pixels(0, 0)
    assert pixels[INK] > 0.9 * sum(pixels.values())  # but for the smoothing of its edges


def test_lines_of_a_box_meet(painter: Painter):
    shot = Shot(painter, screen(text("───"), cols=3))
    left, top = painter.corner_of(0, 0)
    width, height = painter.cell
    line = shot.image.crop((left, top, left + 3 * width, top + height))
    rows = [{line.getpixel((x, y)) for x in range(line.width)} for y in range(line.height)]
    assert any(BACKGROUND not in row for row in rows)


def test_wide_character_takes_two_columns(painter: Painter):
    shot = Shot(painter, screen([*wide("日", SEEN), *text("x")]))
    assert GROUND in shot.colours(0, 0)
    assert GROUND in shot.colours(0, 1)
    assert all(any(red > 100 for red, _, _ in shot.colours(0, col)) for col in (0, 1))
    assert GROUND not in shot.colours(0, 2)


@pytest.mark.parametrize(
    "style", [Style(bold=True), Style(italic=True), Style(underline="double"), Style(strike=True), Style(overline=True)]
)
def test_attributes_are_seen(painter: Painter, style: Style):
    plain, styled = (Shot(painter, screen(text("mm", each))) for each in (Style(), style))
    assert plain.data != styled.data


def test_cursor_is_drawn(painter: Painter):
    shot = Shot(painter, screen(text("a"), cursor=Cursor(0, 3)))
    assert shot.colours(0, 3) == {FOREGROUND}
    assert Shot(painter, screen(text("a"))).colours(0, 3) == {BACKGROUND}


def test_the_same_screen_gives_the_same_file(painter: Painter):
    shot = screen([*text("same"), *wide("👩\u200d💻")])
    assert png(shot, painter)[0] == png(shot, Painter(fonts.find()))[0]


def test_characters_that_no_font_has_and_odd_ones_are_no_trouble(painter: Painter):
    odd = ["\U0001f9ff", "\u0627", "\ue000", "\U000e0041", "\u0301", "\x07", "👨\u200d👩\u200d👧"]
    Shot(painter, screen([cell for char in odd for cell in wide(char)], cols=20))


def test_a_large_screen_is_drawn_smaller():
    assert size_for(80, 24) == FONT_SIZE
    size = size_for(500, 500)
    assert size < FONT_SIZE
    painter = Painter(fonts.find(), size=size)
    assert 500 * 500 * painter.cell[0] * painter.cell[1] < 1.5 * MOST_PIXELS
