"""A Snapshot as a PNG. Pure: the fonts come as bytes. Needs Pillow, which is imported when the first one is drawn."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from tmuxmcp.contract.value import field, value
from tmuxmcp.terminal.drawing.markup import drawn_words, with_cursor
from tmuxmcp.terminal.drawing.theme import BACKGROUND, Rgb, drawn_style
from tmuxmcp.terminal.snapshot import Snapshot, Style, StyleRun, runs

FONT_SIZE, SMALLEST_SIZE = 15, 6
"""At 15 pixels the cells of usual fonts are 9 wide, to a hundredth: blocks and lines meet."""

PICTURE_MARGIN = 8
MOST_PIXELS = 12_000_000
"""A larger screen is drawn with a smaller font."""

BITMAP_SIZE = 109
"""Pixels of the one size that fonts of coloured bitmaps have (Noto Color Emoji)."""

NO_CHARACTER = "\U0010ffff"


@value
class FontFile:
    """A font, and which of its weights where it has several."""

    name: str
    read: Callable[[], bytes] = field(compare=False)
    weight: int | None = None


@value
class Fonts:
    """The fonts that a picture is drawn with."""

    regular: FontFile
    """Monospaced: it gives the cells their size."""
    bold: FontFile | None = None
    italic: FontFile | None = None
    bold_italic: FontFile | None = None
    others: Sequence[FontFile] = ()
    """For characters that those do not have; the first that has one."""

    def of(self, style: Style) -> FontFile:
        """The font of a style, as far as there is one."""
        if style.bold and style.italic and self.bold_italic:
            return self.bold_italic
        if style.bold and self.bold:
            return self.bold
        return self.italic if style.italic and self.italic else self.regular


class _Face:
    """A font at one size."""

    def __init__(self, file: FontFile, size: int) -> None:
        from PIL import ImageFont

        self.bitmap = False
        data = file.read()
        try:
            self.font: Any = ImageFont.truetype(io.BytesIO(data), size)
        except OSError:
            self.font = ImageFont.truetype(io.BytesIO(data), BITMAP_SIZE)
            self.bitmap = True
        if file.weight is not None:
            self.font.set_variation_by_axes([file.weight])
        self._has: dict[str, bool] = {}

    @cached_property
    def _missing(self) -> tuple[object, bytes]:
        return self._mask(NO_CHARACTER)

    def _mask(self, char: str) -> tuple[object, bytes]:
        mask = self.font.getmask(char)
        return mask.size, bytes(mask)

    def has(self, char: str) -> bool:
        """Whether it has a glyph for a character."""
        known = self._has.get(char)
        if known is None:
            known = self._has[char] = self._mask(char) != self._missing
        return known


class Painter:
    """Draws screens of any size with some fonts at one size; keep it for the next one."""

    def __init__(self, fonts: Fonts, size: int = FONT_SIZE) -> None:
        self.fonts = fonts
        self.size = size
        self._faces: dict[FontFile, _Face] = {}
        regular = self._face(fonts.regular).font
        self.ascent, descent = regular.getmetrics()
        self.cell = max(round(regular.getlength("M")), 1), max(self.ascent + descent, 1)
        """Width and height of a cell, in pixels."""

    def draw(self, snapshot: Snapshot) -> Any:
        """Draw a screen; gives a `PIL.Image`."""
        from PIL import Image, ImageDraw

        width, height = self.cell
        size = snapshot.cols * width + 2 * PICTURE_MARGIN, snapshot.rows * height + 2 * PICTURE_MARGIN
        image = Image.new("RGB", size, BACKGROUND)
        canvas = ImageDraw.Draw(image)
        for number, row in enumerate(with_cursor(snapshot)):
            for run in runs(row):
                self._run(image, canvas, run, number)
        return image

    def corner_of(self, row: int, col: int) -> tuple[int, int]:
        """The left upper corner of a cell."""
        return PICTURE_MARGIN + col * self.cell[0], PICTURE_MARGIN + row * self.cell[1]

    def _run(self, image: Any, canvas: Any, run: StyleRun, row: int) -> None:
        seen = drawn_style(run.style)
        left, top = self.corner_of(row, run.col)
        right, bottom = left + len(run.cells) * self.cell[0], top + self.cell[1]
        if seen.ground != BACKGROUND:
            canvas.rectangle((left, top, right - 1, bottom - 1), fill=seen.ground)
        for word in drawn_words(run):
            if word.simple:
                for col, char in enumerate(word.text, word.col):
                    self._glyph(image, canvas, char, run.style, (row, col), 1, seen.ink)
            else:
                self._glyph(image, canvas, word.text, run.style, (row, word.col), word.cols, seen.ink)
        for y, colour in self._lines(run.style, seen.ink, seen.line):
            canvas.line((left, top + y, right - 1, top + y), fill=colour)

    def _glyph(
        self, image: Any, canvas: Any, text: str, style: Style, place: tuple[int, int], cols: int, ink: Rgb
    ) -> None:
        face = self._with(text[0], style)
        left, top = self.corner_of(*place)
        if face is None:
            right, bottom = left + self.cell[0] * max(cols, 1) - 2, top + self.ascent
            canvas.rectangle((left + 1, top + 2, right, bottom), outline=ink)
        elif face.bitmap:
            self._bitmap(image, face, text, (left, top), cols)
        else:
            canvas.text((left, top + self.ascent), text, font=face.font, fill=ink, anchor="ls", embedded_color=True)

    def _bitmap(self, image: Any, face: _Face, text: str, place: tuple[int, int], cols: int) -> None:
        """Draw a character of a font that has one size only, made to fit its cells."""
        from PIL import Image, ImageDraw

        box = face.font.getbbox(text)
        drawn = Image.new("RGBA", (max(int(box[2]), 1), max(int(box[3]), 1)))
        ImageDraw.Draw(drawn).text((0, 0), text, font=face.font, embedded_color=True)
        drawn = drawn.crop(drawn.getbbox() or (0, 0, 1, 1))
        room = self.cell[0] * max(cols, 1), self.cell[1]
        scale = min(room[0] / drawn.width, room[1] / drawn.height)
        small = drawn.resize((max(int(drawn.width * scale), 1), max(int(drawn.height * scale), 1)))
        at = place[0] + (room[0] - small.width) // 2, place[1] + (room[1] - small.height) // 2
        image.paste(small, at, small)

    def _with(self, char: str, style: Style) -> _Face | None:
        """The font that has a character: of its style, else any; None if none has it."""
        in_turn = (self.fonts.of(style), self.fonts.regular, *self.fonts.others)
        return next((face for face in map(self._face, in_turn) if face.has(char)), None)

    def _face(self, file: FontFile) -> _Face:
        face = self._faces.get(file)
        if face is None:
            face = self._faces[file] = _Face(file, self.size)
        return face

    def _lines(self, style: Style, ink: Rgb, line: Rgb) -> Iterator[tuple[int, Rgb]]:
        if style.overline:
            yield 0, ink
        if style.strike:
            yield round(self.ascent * 0.68), ink
        if style.underline:
            yield min(self.ascent + 2, self.cell[1] - 1), line
        if style.underline == "double":
            yield min(self.ascent + 4, self.cell[1] - 1), line


def size_for(cols: int, rows: int) -> int:
    """Size of the font with which a screen stays within `MOST_PIXELS`."""
    size = FONT_SIZE
    while size > SMALLEST_SIZE and cols * rows * size * size * 0.75 > MOST_PIXELS:
        size -= 1
    return size


def png(snapshot: Snapshot, painter: Painter) -> tuple[bytes, int, int]:
    """Draw a screen; gives the file, its width and its height.

    Raises:
        ImportError: Pillow is not installed.
    """
    image = painter.draw(snapshot)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=False, compress_level=6)
    return file.getvalue(), image.width, image.height
