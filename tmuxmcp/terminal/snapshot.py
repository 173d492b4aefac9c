"""A screen as a value: what is shown at one offset, and all that the next bytes depend on. Pure; no emulator.

`emulator/screen.py` makes snapshots and goes on from them; `emulator/redraw.py` draws them; `to_data` and `from_data`
keep them in files. Cells and styles are named tuples because a screen holds thousands: equal ones are shared, and
comparing two screens is comparing tuples.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import groupby
from typing import Any, NamedTuple

from tmuxmcp.contract.value import asdict, replace, value
from tmuxmcp.terminal.widths import TmuxVersion

Colour = int | tuple[int, int, int] | None
"""`None` for the terminal's own, 0-255 of the palette, or red, green and blue of 0-255 each."""

UNDERLINES = ("", "single", "double", "curly", "dotted", "dashed")
"""The kinds of underline in the order of `CSI 4:n m`; the first is none."""


class Style(NamedTuple):
    """How a cell looks, apart from its text."""

    fg: Colour = None
    bg: Colour = None
    bold: bool = False
    faint: bool = False
    italic: bool = False
    underline: str = ""
    """One of `UNDERLINES`."""
    blink: bool = False
    reverse: bool = False
    conceal: bool = False
    strike: bool = False
    overline: bool = False
    underline_colour: Colour = None
    """`None` for that of the text."""
    link: str = ""
    """The address behind the text (OSC 8), if a person may be asked to open it; no SGR sequence changes it."""


PLAIN_STYLE = Style()


class Cell(NamedTuple):
    """One position of the grid."""

    text: str = " "
    """One character with all that joined it; empty in the right half of a wide character."""
    style: Style = PLAIN_STYLE
    width: int = 1
    """Columns: 1, or 2, or 0 in the right half of a wide character."""


BLANK = Cell()

Cells = tuple[Cell, ...]
"""As many cells as the screen has columns."""


class StyleRun(NamedTuple):
    """Cells of one style, side by side."""

    col: int
    """Of the first cell, from 0."""
    cells: Cells
    style: Style

    @property
    def text(self) -> str:
        return "".join([cell.text for cell in self.cells])


@value
class Cursor:
    """Where the next character goes."""

    row: int = 0
    col: int = 0
    """From 0, always on the screen."""
    visible: bool = True
    wraps: bool = False
    """The last column was just written: the next character goes to the next row."""
    shape: str = "block"
    """`block`, `underline` or `bar`."""


@value
class SavedCursor:
    """What `ESC 7` keeps."""

    row: int
    col: int
    pen: Style = PLAIN_STYLE
    origin: bool = False
    drawing: tuple[bool, bool] = (False, False)
    shifted: int = 0


@value
class HiddenState:
    """What is not seen, but decides what the next bytes do."""

    wrapped: tuple[int, ...] = ()
    """Rows whose text goes on in the next: no newline was printed."""
    pen: Style = PLAIN_STYLE
    """The style of what is printed next."""
    modes: tuple[int, ...] = (25 << 5, 7 << 5)
    """Those that are on; private ones shifted left by 5, as in pyte."""
    margins: tuple[int, int] | None = None
    """First and last row of the scroll region, when it is not the whole screen."""
    tab_stops: tuple[int, ...] = ()
    drawing: tuple[bool, bool] = (False, False)
    """Whether G0 and G1 draw lines."""
    shifted: int = 0
    """The character set in use: 0 or 1."""
    last_char: str = ""
    """What `CSI b` repeats."""
    saved: SavedCursor | None = None
    """By `ESC 7`."""
    saved_by_alternate: SavedCursor | None = None
    """By `CSI ? 1049 h`."""
    under: tuple[Cells, ...] = ()
    """The main screen, while the alternate one is shown; rows of any length after a resize."""
    under_wrapped: tuple[int, ...] = ()
    tmux: TmuxVersion | None = None
    """The version of tmux that counts its columns; None: that is not known."""
    unfinished: bytes = b""
    """The start of a sequence whose end has not come; a few KiB at most. Fed again, it leaves the parser as it was."""
    doubts: tuple[str, ...] = ()
    """What of all this may be wrong, in the words of `Doubt`; nothing, of an approximate one: everything may be."""


@value
class Snapshot:
    """A screen at one offset of its log."""

    cols: int
    rows: int
    grid: tuple[Cells, ...]
    """`rows` rows of `cols` cells, top first."""
    cursor: Cursor = Cursor()
    alternate: bool = False
    """The alternate screen is shown, as full-screen programs do."""
    title: str = ""
    offset: int = 0
    """Bytes of the log that this is the screen of."""
    state: HiddenState = HiddenState()
    approximate: bool = False
    """Not all that made it is known: something may be missing."""

    def text_rows(self) -> list[str]:
        """Give the text of each row, without trailing blanks."""
        return ["".join([cell.text for cell in row]).rstrip(" ") for row in self.grid]


def runs(row: Cells) -> Iterator[StyleRun]:
    """Give a row's cells by stretches of one style, from left to right."""
    col = 0
    for style, group in groupby(row, key=lambda cell: cell.style):
        cells = tuple(group)
        yield StyleRun(col, cells, style)
        col += len(cells)


# --- as plain data ------------------------------------------------------------------------------------


def to_data(snapshot: Snapshot) -> dict[str, Any]:
    """Give a snapshot as plain JSON values; `from_data` gives an equal one.

    A row is a list of `[style, cells]`; `style` counts in `styles`, `cells` is a string when each character is a cell
    of its own. Blank cells at the end of a row are left out.
    """
    styles: dict[Style, int] = {PLAIN_STYLE: 0}
    # asdict copies whatever it finds, cell by cell: the grids are left out of it.
    data = asdict(replace(snapshot, grid=(), state=replace(snapshot.state, under=())))
    data["grid"] = [_row_data(row, styles) for row in snapshot.grid]
    state = data["state"]
    state["under"] = [_row_data(row, styles) for row in snapshot.state.under]
    state["unfinished"] = snapshot.state.unfinished.decode("latin-1")
    for name in ("doubts", "tmux"):
        if not state[name]:
            del state[name]
    for holder in (state, state["saved"], state["saved_by_alternate"]):
        if holder:
            holder["pen"] = styles.setdefault(Style(*holder["pen"]), len(styles))
    return data | {"styles": [_style_data(style) for style in styles]}


def _row_data(row: Cells, styles: dict[Style, int]) -> list[list[Any]]:
    end = len(row)
    while end and row[end - 1] == BLANK:
        end -= 1
    found = []
    for run in runs(row[:end]):
        texts = [cell.text for cell in run.cells]
        simple = all(len(text) == 1 for text in texts)
        found.append([styles.setdefault(run.style, len(styles)), "".join(texts) if simple else texts])
    return found


def _style_data(style: Style) -> dict[str, Any]:
    return {name: value for name, value, plain in zip(Style._fields, style, PLAIN_STYLE, strict=True) if value != plain}


def from_data(data: dict[str, Any]) -> Snapshot:
    """Read what `to_data` gave.

    Raises:
        ValueError: this is not a snapshot.
    """
    try:
        return _snapshot(data)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"not a snapshot: {error!r}") from error


def _snapshot(data: dict[str, Any]) -> Snapshot:
    styles = [_style(values) for values in data["styles"]]
    cols, rows = data["cols"], data["rows"]
    grid = tuple(_row(row, styles, cols) for row in data["grid"])
    if len(grid) != rows or any(len(row) != cols for row in grid):
        raise ValueError("not a snapshot: its grid does not have its size")
    return Snapshot(
        cols=cols,
        rows=rows,
        grid=grid,
        cursor=Cursor(**data["cursor"]),
        alternate=data["alternate"],
        title=data["title"],
        offset=data["offset"],
        state=_state(data["state"], styles, cols),
        approximate=data.get("approximate", False),
    )


def _state(data: dict[str, Any], styles: list[Style], cols: int) -> HiddenState:
    def saved(values: dict[str, Any] | None) -> SavedCursor | None:
        if values is None:
            return None
        return SavedCursor(**values | {"pen": styles[values["pen"]], "drawing": tuple(values["drawing"])})

    return HiddenState(
        **data
        | {name: tuple(data[name]) for name in ("wrapped", "modes", "tab_stops", "drawing", "under_wrapped")}
        | {
            "pen": styles[data["pen"]],
            "margins": tuple(data["margins"]) if data["margins"] else None,
            "saved": saved(data["saved"]),
            "saved_by_alternate": saved(data["saved_by_alternate"]),
            "under": tuple(_row(row, styles, cols) for row in data["under"]),
            "unfinished": data["unfinished"].encode("latin-1"),
            "doubts": tuple(data.get("doubts", ())),
            "tmux": tuple(data["tmux"]) if data.get("tmux") else None,
        }
    )


def _row(runs: list[list[Any]], styles: list[Style], cols: int) -> Cells:
    cells: list[Cell] = []
    for number, texts in runs:
        style = styles[number]
        follows = [*texts[1:], " "]
        for text, after in zip(texts, follows, strict=True):
            wide = after == "" and not (len(text) == 1 and text.isascii())  # tmux 3.4 has halves behind letters
            cells.append(Cell(text, style, 0 if text == "" else 2 if wide else 1))
    return (*cells, *[BLANK] * (cols - len(cells)))


def _style(values: dict[str, Any]) -> Style:
    colours = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Style(**values | colours)


# ---- The parts of a screen that may be wrong where its beginning is lost; `emulator/uncertain.py` says until when ----


class Doubt(StrEnum):
    """A part of a screen that may be wrong."""

    SIZE = "size"
    PARSER = "parser"
    """The bytes may belong to a string that began before."""
    GRID = "grid"
    CURSOR = "cursor"
    VISIBLE = "visible"
    """Whether the cursor is."""
    PEN = "pen"
    LAST = "last"
    """What `CSI b` repeats."""
    INSERT = "insert"
    WRAP = "wrap"
    ORIGIN = "origin"
    MARGINS = "margins"
    TABS = "tabs"
    G0 = "g0"
    G1 = "g1"
    SHIFT = "shift"
    SAVED = "saved"
    """By `ESC 7`."""
    ALTERNATE = "alternate"
    """Whether the alternate screen is shown."""
    UNDER = "under"
    """The main screen, while the alternate one is shown."""
    SAVED_BY_ALTERNATE = "saved_by_alternate"
    TITLE = "title"
    SHAPE = "shape"
    MODES = "modes"
    """Of the mouse, of pasting and of keys: nothing that is drawn depends on them."""
    WIDTHS = "widths"
    """Which version of tmux counts the columns; no byte tells it."""


ALL_DOUBTS = frozenset(Doubt) - {Doubt.WIDTHS}
SHOWN_DOUBTS = frozenset({Doubt.SIZE, Doubt.PARSER, Doubt.GRID, Doubt.CURSOR, Doubt.VISIBLE})
"""In doubt of one of these, what is shown may be wrong. The title and the cursor's shape are told apart."""
