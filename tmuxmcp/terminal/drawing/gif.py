"""A reel as a GIF that plays for ever. Pure: fonts come as bytes. Needs Pillow, imported when the first one is drawn.

A frame holds only the rectangle that has changed, and of it only the rows: the rest is transparent, and what was there
stays. All frames have one palette.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from tmuxmcp.terminal.drawing.markup import under_cursor
from tmuxmcp.terminal.drawing.picture import PICTURE_MARGIN, Painter
from tmuxmcp.terminal.drawing.reel import Reel, Shot
from tmuxmcp.terminal.drawing.theme import BACKGROUND, FOREGROUND, DrawnStyle, Rgb, drawn_style
from tmuxmcp.terminal.snapshot import BLANK, Cell, Cells, Cursor, Snapshot, Style, runs

FRAME_CELLS, MOST_ROWS = 8_000, 1_000
"""Drawn cells and rows that are kept for the next frame: 6 MB, and 13 MB at 80 columns."""

LONGEST_MS = 655_350
"""Of one frame."""


def gif(reel: Reel, painter: Painter) -> Iterator[bytes]:
    """Draw a reel; gives the file in pieces.

    Raises:
        ImportError: Pillow is not installed.
    """
    brush = _Brush(reel, painter)
    before: Shot | None = None
    yield _head(brush.size, brush.palette)
    for shot in reel.shots:
        yield from _frame(brush, before, shot)
        before = shot
    yield b";"


def _head(size: tuple[int, int], palette: Palette) -> bytes:
    forever = b"!\xff\x0bNETSCAPE2.0\x03\x01\0\0\0"
    return b"GIF89a" + struct.pack("<HHBBB", *size, 0xF7, 0, 0) + palette.data + forever


def _frame(brush: _Brush, before: Shot | None, shot: Shot) -> Iterator[bytes]:
    image, place = brush.whole(shot) if before is None else brush.changed_part(before, shot)
    # In hundredths of a second, and so that no error adds up.
    left_ms = shot.until_ms // 10 * 10 - shot.ms // 10 * 10
    while True:
        yield _encoded(image, place, min(left_ms, LONGEST_MS))
        left_ms -= LONGEST_MS
        if left_ms <= 0:
            return
        image, place = brush.nothing()


def _encoded(image: Any, place: tuple[int, int], duration_ms: int) -> bytes:
    from PIL import GifImagePlugin

    return b"".join(
        GifImagePlugin.getdata(image, place, duration=duration_ms, transparency=TRANSPARENT_INDEX, disposal=1)
    )


class _Brush:
    """Draws rows in the palette's colours."""

    def __init__(self, reel: Reel, painter: Painter) -> None:
        self._reel, self._painter = reel, painter
        self.palette = palette_of(reel)
        self._ground = self.palette.index(BACKGROUND)
        width, height = painter.cell
        self.size = reel.cols * width + 2 * PICTURE_MARGIN, reel.lines * height + 2 * PICTURE_MARGIN
        self._cells: dict[tuple[Cell, int], Any] = {}
        self._rows: dict[int, Any] = {}

    def whole(self, shot: Shot) -> tuple[Any, tuple[int, int]]:
        """All of a shot, with the margin."""
        image = self._new(self.size, self._ground)
        self._put(image, shot, range(self._reel.lines), (PICTURE_MARGIN, PICTURE_MARGIN))
        return image, (0, 0)

    def nothing(self) -> tuple[Any, tuple[int, int]]:
        """A frame that changes nothing."""
        return self._new((1, 1), TRANSPARENT_INDEX), (0, 0)

    def changed_part(self, before: Shot, shot: Shot) -> tuple[Any, tuple[int, int]]:
        """The smallest rectangle with all that differs between two shots, and its place."""
        spans = dict(self._spans(before, shot))
        if not spans:
            return self.nothing()
        top, bottom = min(spans), max(spans) + 1
        left, right = min(start for start, _ in spans.values()), max(end for _, end in spans.values())
        width, height = self._painter.cell
        image = self._new(((right - left) * width, (bottom - top) * height), TRANSPARENT_INDEX)
        self._put(image, shot, spans, (-left * width, -top * height))
        return image, self._painter.corner_of(top, left)

    def _spans(self, before: Shot, shot: Shot) -> Iterator[tuple[int, tuple[int, int]]]:
        """The rows that differ, and from which column to which."""
        for line in range(self._reel.lines):
            columns = (
                [*_differing(self._reel.row(before, line), self._reel.row(shot, line))]
                if _differ(before, shot, line)
                else []
            )
            if before.cursor != shot.cursor:
                columns += [col for each in (before, shot) for col in self._cursor_columns(each, line)]
            if columns:
                yield line, (min(columns), max(columns) + 1)

    def _cursor_columns(self, shot: Shot, line: int) -> range:
        at, cells = self._cursor(shot) if shot.cursor.row == line else (0, ())
        return range(at, at + len(cells))

    def _cursor(self, shot: Shot) -> tuple[int, Cells]:
        return under_cursor(self._reel.row(shot, shot.cursor.row), shot.cursor) if shot.cursor.visible else (0, ())

    def _put(self, image: Any, shot: Shot, lines: Any, origin: tuple[int, int]) -> None:
        """Draw some rows of a shot, and the cursor if it is on one of them."""
        width, height = self._painter.cell
        for line in lines:
            number = shot.rows[line] if line < len(shot.rows) else 0
            image.paste(self._drawn_row(number), (origin[0], origin[1] + line * height))
        at, cells = self._cursor(shot)
        if cells and shot.cursor.row in lines:
            place = origin[0] + at * width, origin[1] + shot.cursor.row * height
            image.paste(self._drawn_cell(cells[0], len(cells)), place)

    def _drawn_row(self, number: int) -> Any:
        image = self._rows.get(number)
        if image is None:
            if len(self._rows) >= MOST_ROWS:
                self._rows.clear()
            width, height = self._painter.cell
            image = self._rows[number] = self._new((self._reel.cols * width, height), self._ground)
            for col, cell in enumerate(self._reel.rows[number]):
                if cell.width and cell != BLANK:
                    image.paste(self._drawn_cell(cell, cell.width), (col * width, 0))
        return image

    def _drawn_cell(self, cell: Cell, cols: int) -> Any:
        image = self._cells.get((cell, cols))
        if image is None:
            if len(self._cells) >= FRAME_CELLS:
                self._cells.clear()
            image = self._cells[cell, cols] = self._in_palette(self._painted(cell, cols))
        return image

    def _painted(self, cell: Cell, cols: int) -> Any:
        row = (cell, *[Cell("", cell.style, 0)] * (cols - 1))
        width, height = self._painter.cell
        image = self._painter.draw(Snapshot(cols, 1, (row,), Cursor(visible=False)))
        return image.crop((PICTURE_MARGIN, PICTURE_MARGIN, PICTURE_MARGIN + cols * width, PICTURE_MARGIN + height))

    def _in_palette(self, image: Any) -> Any:
        from PIL import Image

        pixels = image.tobytes()
        index = self.palette.index
        data = bytes([index((pixels[at], pixels[at + 1], pixels[at + 2])) for at in range(0, len(pixels), 3)])
        return Image.frombytes("P", image.size, data)

    def _new(self, size: tuple[int, int], index: int) -> Any:
        from PIL import Image

        return Image.new("P", size, index)


def _differ(before: Shot, shot: Shot, line: int) -> bool:
    return before.rows[line : line + 1] != shot.rows[line : line + 1]


def _differing(one: Cells, other: Cells) -> Iterator[int]:
    """The columns in which two rows differ; a row that is not there differs in all of them."""
    if len(one) != len(other):
        yield from range(max(len(one), len(other)))
    else:
        yield from (col for col, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)


# ---- The 255 colours of a GIF ----------------------------------------------------------------------------------------
#
# Chosen by the styles that a reel is drawn in, and the nearest of them to any. Pure.

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


def palette_of(reel: Reel) -> Palette:
    """The colours that a reel needs most: first what fills areas, then what is between it and the ink on it."""
    weights = _weights(reel)
    solid = [BACKGROUND, FOREGROUND, *(colour for seen in weights for colour in (seen.ground, seen.ink, seen.line))]
    if len(set(solid)) > TRANSPARENT_INDEX:
        return Palette(_fewer(solid))
    return Palette([*solid, *_between(weights)])


def _weights(reel: Reel) -> list[DrawnStyle]:
    """The looks of all rows, the most frequent first."""
    counted: Counter[Style] = Counter()
    for row in reel.rows.values():
        for run in runs(row):
            counted[run.style] += len(run.cells)
    looks: Counter[DrawnStyle] = Counter()
    for style, count in counted.items():
        looks[drawn_style(style)] += count
    plain = drawn_style(Style())
    return [plain, DrawnStyle(BACKGROUND, FOREGROUND, BACKGROUND), *(seen for seen, _ in looks.most_common())]


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
