"""A Snapshot as SVG or HTML: text that can be searched and copied, no scripts, nothing fetched. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby
from typing import NamedTuple

from tmuxmcp.terminal.drawing.theme import BACKGROUND, FOREGROUND, DrawnStyle, Rgb, drawable, drawn_style, hexadecimal
from tmuxmcp.terminal.emulator.grid import SGR, restyled
from tmuxmcp.terminal.film.film import Film
from tmuxmcp.terminal.snapshot import PLAIN_STYLE, Cell, Cells, Cursor, Snapshot, Style, StyleRun, runs
from tmuxmcp.terminal.text.logtext import film_text

CELL_WIDTH, CELL_HEIGHT, SVG_FONT_SIZE, BASELINE, SVG_MARGIN = 9, 18, 15, 14, 10
"""Of an SVG, in its own units; whole numbers, so that no seams show between cells."""

FONT_FAMILIES = "'DejaVu Sans Mono', 'JetBrains Mono', Menlo, Consolas, 'Liberation Mono', 'Noto Sans Mono', monospace"

UNDERLINE_DASHES = {"dotted": "1.5 1.5", "dashed": "4 2", "curly": "3 1"}


def svg_size(cols: int, rows: int) -> tuple[int, int]:
    """Width and height of the SVG, in its own units."""
    return cols * CELL_WIDTH + 2 * SVG_MARGIN, rows * CELL_HEIGHT + 2 * SVG_MARGIN


def with_cursor(snapshot: Snapshot) -> tuple[Cells, ...]:
    """The rows, with the cell under a cursor that can be seen turned around, or underlined as its shape says."""
    cursor = snapshot.cursor
    if not cursor.visible or cursor.row >= snapshot.rows:
        return snapshot.grid
    row = snapshot.grid[cursor.row]
    at, turned = under_cursor(row, cursor)
    row = (*row[:at], *turned, *row[at + len(turned) :])
    return (*snapshot.grid[: cursor.row], row, *snapshot.grid[cursor.row + 1 :])


def under_cursor(row: Cells, cursor: Cursor) -> tuple[int, Cells]:
    """The column of the cell under a cursor, and how that is drawn; no cells where the row has none there."""
    if cursor.col >= len(row):
        return cursor.col, ()
    at = cursor.col - (row[cursor.col].width == 0 and cursor.col > 0)
    style = row[at].style
    turned = (
        style._replace(reverse=not style.reverse) if cursor.shape == "block" else style._replace(underline="double")
    )
    return at, tuple(cell._replace(style=turned) for cell in row[at : at + max(row[at].width, 1)])


# ---- SVG ---------------------------------------------------------------------------------------


def svg(snapshot: Snapshot) -> str:
    """Draw the screen as SVG: each word stands at the place of its cells, whatever font there is."""
    parts = [svg_head(*svg_size(snapshot.cols, snapshot.rows), snapshot.title)]
    for number, row in enumerate(with_cursor(snapshot)):
        parts += svg_row(row, SVG_MARGIN + number * CELL_HEIGHT)
    return "\n".join([*parts, "</svg>", ""])


def svg_head(width: int, height: int, title: str) -> str:
    """What an SVG begins with: its size, its title and its ground."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        f' role="img" font-family="{FONT_FAMILIES}" font-size="{SVG_FONT_SIZE}" direction="ltr"'
        f' unicode-bidi="bidi-override">\n'
        f"<title>{escape(drawable(title) or 'Terminal')}</title>\n"
        f'<rect width="{width}" height="{height}" rx="6" fill="{hexadecimal(BACKGROUND)}"/>'
    )


def svg_ground(cols: int) -> str:
    """The terminal's own ground under the first cells of a row."""
    return (
        f'<rect x="{SVG_MARGIN}" width="{cols * CELL_WIDTH}" height="{CELL_HEIGHT}" fill="{hexadecimal(BACKGROUND)}"/>'
    )


def svg_row(row: Cells, top: int) -> Iterator[str]:
    """The elements of a row."""
    for run in runs(row):
        yield from _svg_run(run, top, drawn_style(run.style))


def _svg_run(run: StyleRun, top: int, seen: DrawnStyle) -> Iterator[str]:
    left, width = _x(run.col), len(run.cells) * CELL_WIDTH
    if seen.ground != BACKGROUND:
        size = f'width="{width}" height="{CELL_HEIGHT}"'
        yield f'<rect x="{left}" y="{top}" {size} fill="{hexadecimal(seen.ground)}"/>'
    for word in drawn_words(run):
        place = f'x="{_x(word.col)}" y="{top + BASELINE}" textLength="{word.cols * CELL_WIDTH}"'
        attributes = f'lengthAdjust="spacingAndGlyphs" fill="{hexadecimal(seen.ink)}"{_font(run.style)}'
        yield f"<text {place} {attributes}>{escape(word.text)}</text>"
    for y, colour, dashes in _lines(run.style, seen):
        stroke = f'stroke="{hexadecimal(colour)}"' + (f' stroke-dasharray="{dashes}"' if dashes else "")
        yield f'<path d="M{left} {top + y:g}h{width}" {stroke}/>'


class DrawnWord(NamedTuple):
    """A stretch of a run that is drawn in one go."""

    col: int
    text: str
    cols: int
    simple: bool
    """Each character is a cell of its own; else all of it is one cell."""


def drawn_words(run: StyleRun) -> Iterator[DrawnWord]:
    """What a run has to draw: its stretches without blanks; wide cells and those of several characters alone."""
    col = run.col
    for kind, group in groupby(run.cells, key=_kind):
        cells = list(group)
        if kind == "simple":
            yield DrawnWord(col, "".join([cell.text for cell in cells]), len(cells), True)
        elif kind == "alone":
            for at, cell in enumerate(cells, col):
                if text := drawable(cell.text).strip():
                    yield DrawnWord(at, text, cell.width, False)
        col += len(cells)


def _kind(cell: Cell) -> str:
    if not cell.width:
        return "alone"  # it goes with the one before it
    if cell.text.isspace():
        return "blank"
    simple = cell.width == 1 and len(cell.text) == 1 and drawable(cell.text) == cell.text
    return "simple" if simple else "alone"


def _font(style: Style) -> str:
    return (' font-weight="bold"' if style.bold else "") + (' font-style="italic"' if style.italic else "")


def _lines(style: Style, seen: DrawnStyle) -> Iterator[tuple[float, Rgb, str]]:
    """Height, colour and dashes of the lines over, through and under a text."""
    if style.overline:
        yield 0.5, seen.ink, ""
    if style.strike:
        yield 9.5, seen.ink, ""
    if style.underline:
        yield 15.5, seen.line, UNDERLINE_DASHES.get(style.underline, "")
    if style.underline == "double":
        yield 17.5, seen.line, ""


def _x(col: int) -> int:
    return SVG_MARGIN + col * CELL_WIDTH


# ---- HTML --------------------------------------------------------------------------------------

SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
CSS_UNDERLINES = {"single": "solid", "double": "double", "curly": "wavy", "dotted": "dotted", "dashed": "dashed"}


def html(snapshot: Snapshot) -> str:
    """Draw the screen as a page of its own."""
    cells = "i{font-style:inherit;display:inline-block;height:18px;vertical-align:bottom}"
    lines = ["".join([_html_run(run) for run in runs(row)]) for row in with_cursor(snapshot)]
    return _html_head(snapshot.title, "pre", cells=cells) + "\n".join(lines) + "</pre></body></html>\n"


def _html_head(title: str, wrapping: str, *, size: str = "", cells: str = "") -> str:
    """What a page begins with; `size` and `cells`: further rules of the whole text, and of its cells."""
    rules = (
        f"margin:0;padding:10px;{size}background:{hexadecimal(BACKGROUND)};color:{hexadecimal(FOREGROUND)};"
        f"font:14px/18px {FONT_FAMILIES};white-space:{wrapping};direction:ltr;unicode-bidi:bidi-override"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{SVG_POLICY}">'
        f"<title>{escape(drawable(title) or 'Terminal')}</title>"
        f"<style>pre{{{rules}}}{cells}body{{margin:0}}</style></head>\n<body><pre>"
    )


def _html_run(run: StyleRun) -> str:
    text = "".join([_html_cell(cell) for cell in run.cells])
    rules = css(run.style, drawn_style(run.style))
    return f'<span style="{rules}">{text}</span>' if rules else text


def _html_cell(cell: Cell) -> str:
    text = escape(drawable(cell.text)) or (" " if cell.width else "")
    if cell.text.isascii():
        return text
    return f'<i style="width:{cell.width}ch">{text}</i>'  # whatever font has it, it is as wide as its cells


def css(style: Style, seen: DrawnStyle) -> str:
    """The rules of a style, but for what is the page's own."""
    rules = [f"color:{hexadecimal(seen.ink)}"] if seen.ink != FOREGROUND else []
    rules += [f"background:{hexadecimal(seen.ground)}"] if seen.ground != BACKGROUND else []
    rules += ["font-weight:bold"] if style.bold else []
    rules += ["font-style:italic"] if style.italic else []
    lines = [
        *(["overline"] if style.overline else []),
        *(["line-through"] if style.strike else []),
        *(["underline"] if style.underline else []),
    ]
    if lines:
        kind = CSS_UNDERLINES.get(style.underline, "solid")
        rules.append(f"text-decoration:{' '.join(lines)} {kind} {hexadecimal(seen.line)}")
    return ";".join(rules)


# ---- The text of a film as a page of HTML with its colours -----------------------------------------------------------
#
# It can be searched and copied, and fetches nothing. Pure.


def as_html(film: Film) -> Iterator[bytes]:
    """Give the page, a piece at a time."""
    head = _html_head(film.title, "pre-wrap;overflow-wrap:anywhere", size="min-height:100vh;box-sizing:border-box;")
    yield head.encode("utf-8", "replace")
    for piece in film_text(film, colours=True):
        yield coloured(piece).encode("utf-8", "replace")
    yield b"</pre></body></html>\n"


def coloured(text: str) -> str:
    """Text with SGR sequences as HTML; it begins in the terminal's own style."""
    made, style = [], PLAIN_STYLE
    parts = SGR.split(text)
    for part, params in zip(parts[::2], [*parts[1::2], ""], strict=True):
        if part:
            rules = css(style, drawn_style(style))
            made.append(f'<span style="{rules}">{escape(part)}</span>' if rules else escape(part))
        style = restyled(style, params)
    return "".join(made)
