"""What a terminal shows after any bytes: pyte's screen, made fast, harmless and like tmux's.

pyte 0.8.2 raises on real output, has no alternate screen, prints what it should swallow and moves about 1 MB/s.
`Screen` keeps its methods and replaces what they do (`sheet.py`, `grid.py`); `stream.py` replaces its parser. Cells are
those of `snapshot.py`, and `dirty` is not kept. Where terminals differ, tmux decides, for programs in a pane are told
that they run in it: 3.3a, but for the columns of characters, which are those of the session's version (`widths.py`).
Nothing here raises on any bytes, and no state grows without a bound. Pure: no I/O; questions to the
terminal stay unanswered, because tmux has already answered them.

What pyte gives to replays, pictures and recordings: the interface, that is the names and arguments of 34 methods,
`columns`, `lines`, `cursor`, `margins` and `tabstops`; how a screen begins (`__init__`); and `set_title`. Its
other methods stay unused: `tests/terminal/test_screen.py` lists them.
"""

from __future__ import annotations

import pyte

from tmuxmcp.terminal.emulator.grid import Grid, Row
from tmuxmcp.terminal.emulator.sheet import TAB_COLUMNS, Pages
from tmuxmcp.terminal.snapshot import Cells, HiddenState, Snapshot


class Screen(Pages, pyte.Screen):  # type: ignore[misc]  # cursor and margins are of our own types
    """A `pyte.Screen` that behaves like tmux's and never raises."""

    def __init__(self, columns: int, lines: int) -> None:
        Pages.__init__(self)
        pyte.Screen.__init__(self, max(columns, 1), max(lines, 1))

    @property  # type: ignore[override]  # pyte's is a dict of dicts
    def buffer(self) -> list[Row]:
        """The rows shown, top first."""
        return self.grid.rows

    @buffer.setter
    def buffer(self, _: object) -> None:
        """pyte's own is not used."""

    @property
    def display(self) -> list[str]:
        """`lines` strings of `columns` cells."""
        return ["".join([cell.text for cell in row]) for row in self.grid.rows]

    # As a value

    def snapshot(self, offset: int = 0, unfinished: bytes = b"") -> Snapshot:
        """Give the screen as a value; `unfinished` is what the stream has not obeyed yet."""
        state = HiddenState(
            wrapped=_wrapped(self.grid),
            pen=self.pen.style,
            modes=tuple(sorted(self.mode)),
            margins=self.margins,
            tab_stops=tuple(sorted(self.tabstops)),
            drawing=self.drawing,
            shifted=self.shifted,
            last_char=self.last_char,
            tmux=self.tmux,
            saved=self.saved,
            saved_by_alternate=self._saved_by_alternate,
            under=_cells(self.under),
            under_wrapped=_wrapped(self.under),
            unfinished=unfinished,
        )
        return Snapshot(
            self.columns,
            self.lines,
            _cells(self.grid),
            self.shown_cursor(),
            self.alternate,
            self.title,
            offset,
            state,
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Become what a snapshot says."""
        self.columns, self.lines = snapshot.cols, snapshot.rows
        self.count_as(snapshot.state.tmux or self.tmux)
        self.reset()
        state, cursor = snapshot.state, snapshot.cursor
        self.grid = _grid(snapshot.grid, state.wrapped)
        self.under = _grid(state.under, state.under_wrapped) if snapshot.alternate else None
        self.cursor.y, self.cursor.x = cursor.row, cursor.col + cursor.wraps
        self.cursor.shape = cursor.shape
        self.pen = self.pens.get(state.pen)
        self._set_modes(set(state.modes))
        self.margins, self.tabstops = state.margins, set(state.tab_stops)
        self.drawing, self.shifted, self.last_char = state.drawing, state.shifted, state.last_char
        self.saved, self._saved_by_alternate = state.saved, state.saved_by_alternate
        self.title = snapshot.title

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Change the size; text is not wrapped anew, which tmux does to the main screen (see `seed.py`)."""
        lines, columns = max(lines or self.lines, 1), max(columns or self.columns, 1)
        if columns != self.columns:
            self.tabstops = set(range(TAB_COLUMNS, columns, TAB_COLUMNS))
        if lines != self.lines:
            self.margins = None
        self.grid.fit(columns, lines, self.cursor.y)
        self.lines, self.columns = lines, columns
        self.to(self.cursor.x, self.cursor.y)


def _wrapped(grid: Grid | None) -> tuple[int, ...]:
    return tuple(y for y, row in enumerate(grid.rows) if row.wrapped) if grid else ()


def _cells(grid: Grid | None) -> tuple[Cells, ...]:
    return tuple(map(tuple, grid.rows)) if grid else ()


def _grid(rows: tuple[Cells, ...], wrapped: tuple[int, ...]) -> Grid:
    """A grid of these rows. Where a wide character found no room, the last column is no part of the line."""
    grid = Grid(len(rows[0]), 0)
    grid.rows = [Row(cells) for cells in rows]
    for y in wrapped:
        holed = rows[y][-1].text == " " and y + 1 < len(rows) and rows[y + 1][0].width == 2
        grid.rows[y].wrapped = grid.cols - holed
    return grid
