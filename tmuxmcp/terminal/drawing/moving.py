"""A reel as an SVG that moves: no scripts, nothing fetched; text that can be searched and copied. Pure.

Each row of the screen is one `use` whose reference changes in time (SMIL), and each row of text that differs is drawn
once, in `defs`. So a film of an hour has as many elements on the page as one screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from tmuxmcp.terminal.drawing.markup import (
    CELL_HEIGHT,
    CELL_WIDTH,
    SVG_MARGIN,
    svg_ground,
    svg_head,
    svg_row,
    under_cursor,
)
from tmuxmcp.terminal.drawing.reel import NO_ROW, Reel, Shot
from tmuxmcp.terminal.drawing.theme import DARK_THEME, Theme
from tmuxmcp.terminal.snapshot import Cells

CellChange = tuple[int, str]
"""A time in milliseconds, and what a thing is from then on."""

NO_DRAWING = "n"
"""Id of what draws nothing."""


def moving_svg(reel: Reel, theme: Theme = DARK_THEME) -> Iterator[str]:
    """Write a reel as SVG that plays for ever; where SVG does not move, its last frame is seen."""
    width, height = reel.cols * CELL_WIDTH + 2 * SVG_MARGIN, reel.lines * CELL_HEIGHT + 2 * SVG_MARGIN
    yield svg_head(width, height, reel.title, theme) + f'\n<defs>\n<g id="{NO_DRAWING}"/>\n'
    ids = {NO_ROW: NO_DRAWING}
    for number, row in reel.rows.items():
        if number != NO_ROW:
            ids[number] = f"r{number:x}"
            yield _defined(ids[number], row, theme)
    drawn: dict[Cells, str] = {}
    cursor = [_cursor(shot, reel, drawn) for shot in reel.shots]
    for cells, name in drawn.items():
        yield _defined(name, cells, theme, opaque=True)
    yield "</defs>\n"
    for line in range(reel.lines):
        changes = [(shot.ms, ids[shot.rows[line]] if line < len(shot.rows) else NO_DRAWING) for shot in reel.shots]
        yield _row(changes, SVG_MARGIN + line * CELL_HEIGHT, reel.duration_ms)
    yield _moved(cursor, reel)
    yield "</svg>\n"


def _defined(name: str, row: Cells, theme: Theme, opaque: bool = False) -> str:
    ground = svg_ground(len(row), theme) if opaque else ""
    return f'<g id="{name}">{ground}' + "".join(svg_row(row, 0, theme)) + "</g>\n"


def _row(changes: Sequence[CellChange], top: int, duration_ms: int) -> str:
    changes = differing(changes)
    if {value for _, value in changes} == {NO_DRAWING}:
        return ""
    names = [(ms, f"#{name}") for ms, name in changes]
    return f'<use y="{top}" href="{names[-1][1]}">' + _animated("animate", "href", names, duration_ms) + "</use>\n"


def _cursor(shot: Shot, reel: Reel, drawn: dict[Cells, str]) -> tuple[str, int, int]:
    """What is drawn of the cursor, and the place of its cell; the drawings are collected."""
    cursor = shot.cursor
    row = reel.row(shot, cursor.row)
    at, cells = under_cursor(row, cursor) if cursor.visible else (0, ())
    if not cells:
        return NO_DRAWING, 0, 0
    return drawn.setdefault(cells, f"c{len(drawn):x}"), at * CELL_WIDTH, SVG_MARGIN + cursor.row * CELL_HEIGHT


def _moved(cursor: Sequence[tuple[str, int, int]], reel: Reel) -> str:
    """The cursor: its drawing is at the left end of a row, and moved from there."""
    times = [shot.ms for shot in reel.shots]
    names = differing([(ms, f"#{name}") for ms, (name, _, _) in zip(times, cursor, strict=True)])
    places = differing([(ms, f"{x} {y}") for ms, (_, x, y) in zip(times, cursor, strict=True)])
    moves = _animated("animateTransform", 'transform" type="translate', places, reel.duration_ms)
    shown = _animated("animate", "href", names, reel.duration_ms)
    return f'<use transform="translate({places[-1][1]})" href="{names[-1][1]}">{shown}{moves}</use>\n'


def differing(changes: Sequence[CellChange]) -> list[CellChange]:
    """Only those changes that change something."""
    return [next(group) for _, group in groupby(changes, key=lambda change: change[1])]


def _animated(element: str, attribute: str, changes: Sequence[CellChange], duration_ms: int) -> str:
    if len(changes) < 2:
        return ""
    values = ";".join([value for _, value in changes])
    times = ";".join([f"{ms / duration_ms:.6f}".rstrip("0").rstrip(".").removeprefix("0") or "0" for ms, _ in changes])
    return (
        f'<{element} attributeName="{attribute}" values="{values}" keyTimes="{times}"'
        f' calcMode="discrete" dur="{duration_ms}ms" repeatCount="indefinite"/>'
    )
