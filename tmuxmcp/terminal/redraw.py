"""A Snapshot as the bytes that draw it: an empty terminal of its size has the same screen and state after them. Pure.

What a player shows depends on them alone, so each row and each wide character is put to its place. Left out is what no
sequence can say: which rows go on in the next, what `CSI b` would repeat, that a saved cursor was about to wrap.
"""

from __future__ import annotations

from collections.abc import Iterator

from tmuxmcp.terminal.moves import TAB
from tmuxmcp.terminal.render import RESET, sgr
from tmuxmcp.terminal.snapshot import BLANK, PLAIN, Row, SavedCursor, Snapshot, Style

EMPTIED = "\x18\x1b\\\x1b[?1049l\x1b[ q\x1bc"
"""Makes an empty terminal of any: a sequence that is open is over, then the main screen is reset."""

_ORIGIN, _INSERT, _SHOWN, _WRAPS = 6 << 5, 4, 25 << 5, 7 << 5
_AT_FIRST = frozenset({_SHOWN, _WRAPS})
_SHAPES = {"block": "", "underline": "\x1b[4 q", "bar": "\x1b[6 q"}


def redraw(snapshot: Snapshot, *, emptied: bool = False) -> bytes:
    """Give the bytes that draw a screen.

    Args:
        emptied: the terminal shows something: empty it first.
    """
    parts = [EMPTIED] if emptied else []
    if snapshot.title:
        parts.append(f"\x1b]2;{snapshot.title}\x07")
    parts += [*_main_screen(snapshot), *_grid(snapshot.grid), *_state(snapshot), *_cursor(snapshot)]
    return "".join(parts).encode("utf-8", "replace") + snapshot.state.unfinished


def _main_screen(snapshot: Snapshot) -> Iterator[str]:
    """What lies under the alternate screen, and the switch to that."""
    if not snapshot.alternate:
        return
    saved = snapshot.state.saved_by_alternate
    yield from _grid(tuple(row[: snapshot.cols] for row in snapshot.state.under[: snapshot.rows]))
    if saved is None:
        yield "\x1b[?1047h"
    else:
        yield _to(saved.row, saved.col) + sgr(PLAIN, saved.pen) + "\x1b[?1049h" + sgr(saved.pen, PLAIN)


def _grid(rows: tuple[Row, ...]) -> Iterator[str]:
    """The rows that are not blank, each at its place and in styles of its own."""
    for number, row in enumerate(rows):
        end = len(row)
        while end and row[end - 1] == BLANK:
            end -= 1
        if end:
            yield _to(number, 0) + _row(row[:end])


def _row(row: Row) -> str:
    made, style, placed = [], PLAIN, True
    for col, cell in enumerate(row):
        if not placed and cell.width:
            made.append(f"\x1b[{col + 1}G")
        made += [sgr(style, cell.style), cell.text] if cell.width else []
        style = cell.style if cell.width else style
        placed = cell.width == 1 and len(cell.text) == 1 and cell.text.isascii()
    return "".join([*made, sgr(style, PLAIN)])


def _state(snapshot: Snapshot) -> Iterator[str]:
    """What is not seen, but for the cursor."""
    state = snapshot.state
    if state.tab_stops != tuple(range(TAB, snapshot.cols, TAB)):
        yield "\x1b[3g" + "".join([f"\x1b[{stop + 1}G\x1bH" for stop in state.tab_stops])
    if state.margins:
        yield f"\x1b[{state.margins[0] + 1};{state.margins[1] + 1}r"
    for mode in sorted(_AT_FIRST.symmetric_difference(state.modes) - {_ORIGIN, _INSERT}):
        how = "h" if mode in state.modes else "l"
        yield f"\x1b[?{mode >> 5}{how}" if mode % 32 == 0 else f"\x1b[{mode}{how}"
    if state.saved:
        yield from _saved(snapshot, state.saved)
    yield _SHAPES.get(snapshot.cursor.shape, "")


def _saved(snapshot: Snapshot, saved: SavedCursor) -> Iterator[str]:
    """Have a cursor saved as `ESC 7` saved it."""
    yield _placed(snapshot, saved.row, saved.col, saved.origin)
    yield sgr(PLAIN, saved.pen) + _charsets(saved.drawing, saved.shifted) + "\x1b7" + sgr(saved.pen, PLAIN)
    yield _charsets((False, False), 0, (saved.drawing, saved.shifted))
    yield "\x1b[?6l" if saved.origin else ""


def _cursor(snapshot: Snapshot) -> Iterator[str]:
    """The cursor with its pen, about to wrap if it was; and what would be in the way of drawing."""
    cursor, state = snapshot.cursor, snapshot.state
    style, col, text = PLAIN, cursor.col, ""
    if cursor.wraps:  # written again: nothing else tells a terminal that the last column is full
        col -= snapshot.grid[cursor.row][col].width == 0 and col > 0
        style, text = snapshot.grid[cursor.row][col].style, snapshot.grid[cursor.row][col].text
    yield _placed(snapshot, cursor.row, col, _ORIGIN in state.modes)
    yield sgr(PLAIN, style) + text + _pen(style, state.pen) + _charsets(state.drawing, state.shifted)
    yield "\x1b[4h" if _INSERT in state.modes else ""


def _pen(before: Style, pen: Style) -> str:
    return (RESET if before != PLAIN else "") + sgr(PLAIN, pen)


def _placed(snapshot: Snapshot, row: int, col: int, origin: bool) -> str:
    """Go to a place, with the origin mode on or off."""
    margins = snapshot.state.margins
    return ("\x1b[?6h" if origin else "") + _to(row - (margins[0] if origin and margins else 0), col)


def _to(row: int, col: int) -> str:
    return f"\x1b[{row + 1};{col + 1}H"


def _charsets(
    drawing: tuple[bool, bool], shifted: int, before: tuple[tuple[bool, bool], int] = ((False, False), 0)
) -> str:
    was, shift = before
    made = [f"\x1b{slot}{'0' if now else 'B'}" for slot, now, old in zip("()", drawing, was, strict=True) if now != old]
    return "".join([*made, "\x0e" if shifted and not shift else "\x0f" if shift and not shifted else ""])
