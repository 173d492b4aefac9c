"""The frames of a film, all of them, in bounded memory: rows that repeat are kept once. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from tmuxmcp.contract.value import replace, value
from tmuxmcp.terminal.drawing.markup import (
    CELL_HEIGHT,
    CELL_WIDTH,
    SVG_MARGIN,
    svg_ground,
    svg_head,
    svg_row,
    svg_size,
    under_cursor,
)
from tmuxmcp.terminal.film.film import Film
from tmuxmcp.terminal.film.frames import Frame, Rate, frames
from tmuxmcp.terminal.snapshot import BLANK, Cells, Cursor, runs

MOST_FRAMES = 5_000
"""With more, neighbours become one, and the rate is halved: twenty minutes of unbroken change have 4 a second."""

MOST_WEIGHT = 1_500_000
"""The same, by what the rows that differ weigh: a cell 1, a change of style `STYLE_WEIGHT`. 14,000 usual rows."""

STYLE_WEIGHT = 8

LAST_MS = 2_000
"""The last frame is shown for so long at least, before it all begins again."""

NO_ROW = 0
"""The number of a row that is blank; and of one that a smaller screen does not have."""


@value
class Shot:
    """A frame by the numbers of its rows."""

    ms: int
    until_ms: int
    rows: tuple[int, ...]
    cursor: Cursor


@value
class Reel:
    """The frames of a film; iterated over as often as wanted."""

    shots: Sequence[Shot]
    """Rising in time, from 0; each lasts until the next begins."""
    rows: dict[int, Cells]
    """By number; those of a smaller screen are shorter."""
    cols: int
    lines: int
    """Columns and rows of the largest screen."""
    title: str
    interval_ms: float
    """The shortest time between two frames."""
    merged: bool
    """There were too many frames: the interval is longer than what was asked for."""

    @property
    def duration_ms(self) -> int:
        return self.shots[-1].until_ms

    def row(self, shot: Shot, line: int) -> Cells:
        """A row of a shot; no cells where it has none."""
        return self.rows[shot.rows[line]] or (BLANK,) * self.cols if line < len(shot.rows) else ()


def reel(film: Film, per_second: float) -> Reel:
    """Take a film apart into frames, at most so many a second."""
    rate = Rate.per_second(per_second)
    winder = _Winder(rate)
    for frame in frames(film, rate):
        winder.add(frame)
    return winder.reel(film.title, merged=rate.interval_ms > 1000 / per_second)


class _Winder:
    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._shots: list[Shot] = []
        self._numbers: dict[Cells, int] = {}
        self._next = NO_ROW + 1
        self._weight = 0
        self._last: tuple[tuple[Cells, ...], tuple[int, ...]] = (), ()
        self._cols = self._lines = 1

    def add(self, frame: Frame) -> None:
        snapshot = frame.snapshot
        self._cols, self._lines = max(self._cols, snapshot.cols), max(self._lines, snapshot.rows)
        before, numbers = self._last
        same = (*zip(before, numbers, strict=True), *[((), NO_ROW)] * len(snapshot.grid))
        rows = tuple(
            number if row == old else self._number(row) for row, (old, number) in zip(snapshot.grid, same, strict=False)
        )
        self._last = snapshot.grid, rows
        self._append(Shot(frame.ms, frame.until_ms, rows, snapshot.cursor))
        while len(self._shots) > MOST_FRAMES or (self._weight > MOST_WEIGHT and len(self._shots) > 1):
            self._thin()

    def _number(self, row: Cells) -> int:
        number = self._numbers.get(row)
        if number is None:
            if all(cell == BLANK for cell in row):
                number = NO_ROW
            else:
                number, self._next = self._next, self._next + 1
                self._weight += _weight(row)
            self._numbers[row] = number
        return number

    def _append(self, shot: Shot) -> None:
        """Add a shot; one that begins too soon takes the place of the last one."""
        last = self._shots[-1] if self._shots else None
        if last and shot.ms < last.ms + self._rate.interval_ms:
            self._shots[-1] = replace(shot, ms=last.ms)
        elif last and (shot.rows, shot.cursor) == (last.rows, last.cursor):
            self._shots[-1] = replace(last, until_ms=shot.until_ms)
        else:
            self._shots.append(shot)

    def _thin(self) -> None:
        self._rate.interval_ms *= 2
        shots, self._shots = self._shots, []
        for shot in shots:
            self._append(shot)
        used = {number for shot in self._shots for number in shot.rows} | set(self._last[1])
        self._numbers = {row: number for row, number in self._numbers.items() if number in used}
        self._weight = sum(_weight(row) for row, number in self._numbers.items() if number)

    def reel(self, title: str, merged: bool) -> Reel:
        last = self._shots[-1]
        self._shots[-1] = replace(last, until_ms=max(last.until_ms, last.ms + LAST_MS))
        rows = {number: row for row, number in self._numbers.items()} | {NO_ROW: ()}
        return Reel(self._shots, rows, self._cols, self._lines, title, self._rate.interval_ms, merged)


def _weight(row: Cells) -> int:
    return len(row) + STYLE_WEIGHT * sum(1 for _ in runs(row))


# ---- A reel as an SVG that moves: no scripts, nothing fetched; text that can be searched and copied. Pure ------------
#
# Each row of the screen is one `use` whose reference changes in time (SMIL), and each row of text that differs is drawn
# once, in `defs`. So a film of an hour has as many elements on the page as one screen.

CellChange = tuple[int, str]
"""A time in milliseconds, and what a thing is from then on."""

NO_DRAWING = "n"
"""Id of what draws nothing."""


def moving_svg(reel: Reel) -> Iterator[str]:
    """Write a reel as SVG that plays for ever; where SVG does not move, its last frame is seen."""
    yield svg_head(*svg_size(reel.cols, reel.lines), reel.title) + f'\n<defs>\n<g id="{NO_DRAWING}"/>\n'
    ids = {NO_ROW: NO_DRAWING}
    for number, row in reel.rows.items():
        if number != NO_ROW:
            ids[number] = f"r{number:x}"
            yield _defined(ids[number], row)
    drawn: dict[Cells, str] = {}
    cursor = [_cursor(shot, reel, drawn) for shot in reel.shots]
    for cells, name in drawn.items():
        yield _defined(name, cells, opaque=True)
    yield "</defs>\n"
    for line in range(reel.lines):
        changes = [(shot.ms, ids[shot.rows[line]] if line < len(shot.rows) else NO_DRAWING) for shot in reel.shots]
        yield _row(changes, SVG_MARGIN + line * CELL_HEIGHT, reel.duration_ms)
    yield _moved(cursor, reel)
    yield "</svg>\n"


def _defined(name: str, row: Cells, opaque: bool = False) -> str:
    ground = svg_ground(len(row)) if opaque else ""
    return f'<g id="{name}">{ground}' + "".join(svg_row(row, 0)) + "</g>\n"


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
