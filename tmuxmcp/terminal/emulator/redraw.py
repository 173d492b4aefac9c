"""A Snapshot as the bytes that draw it: an empty terminal of its size has the same screen and state after them. Pure.

What a player shows depends on them alone, so each row and each wide character is put to its place. Left out is what no
sequence can say: that a saved cursor was about to wrap, or a cursor below the scroll region in origin mode.
"""

from __future__ import annotations

from collections.abc import Iterator

from tmuxmcp.terminal.emulator.moves import TAB_COLUMNS
from tmuxmcp.terminal.emulator.render import RESET_STYLE, sgr
from tmuxmcp.terminal.emulator.sheet import LINE_DRAWING
from tmuxmcp.terminal.snapshot import BLANK, PLAIN_STYLE, Cell, Cells, SavedCursor, Snapshot, Style

RESET_TERMINAL = "\x18\x1b\\\x1b[?1049l\x1b[ q\x1bc"
"""Makes an empty terminal of any: a sequence that is open is over, then the main screen is reset."""

_ORIGIN, _INSERT, _SHOWN, _WRAPS = 6 << 5, 4, 25 << 5, 7 << 5
_AT_FIRST = frozenset({_SHOWN, _WRAPS})
_SHAPE_SEQUENCES = {"block": "", "underline": "\x1b[4 q", "bar": "\x1b[6 q"}


def redraw(snapshot: Snapshot, *, emptied: bool = False) -> bytes:
    """Give the bytes that draw a screen.

    Args:
        emptied: the terminal shows something: empty it first.
    """
    parts = [RESET_TERMINAL] if emptied else []
    if snapshot.title:
        parts.append(f"\x1b]2;{snapshot.title}\x07")
    parts += [*_main_screen(snapshot), *_grid(snapshot.grid, snapshot.state.wrapped)]
    parts += [*_state(snapshot), *_cursor(snapshot)]
    return "".join(parts).encode("utf-8", "replace") + snapshot.state.unfinished


def _main_screen(snapshot: Snapshot) -> Iterator[str]:
    """What lies under the alternate screen, the switch to that, and the cursor that leaving it restores."""
    state, saved = snapshot.state, snapshot.state.saved_by_alternate
    if snapshot.alternate:
        under = tuple((*row[: snapshot.cols], *[BLANK] * (snapshot.cols - len(row))) for row in state.under)
        yield from _grid(under[: snapshot.rows], state.under_wrapped)
    if saved is not None:
        yield _to(saved.row, saved.col) + _style_change(PLAIN_STYLE, saved.pen) + "\x1b[?1049h"
        yield ("" if snapshot.alternate else "\x1b[?1049l") + _style_change(saved.pen, PLAIN_STYLE)
    elif snapshot.alternate:
        yield "\x1b[?1047h"


def _grid(rows: tuple[Cells, ...], wrapped: tuple[int, ...]) -> Iterator[str]:
    """The rows that are not blank, each at its place and in styles of its own; then those that go on in the next."""
    for number, row in enumerate(rows):
        end = len(row)
        while end and row[end - 1] == BLANK:
            end -= 1
        if end:
            yield _to(number, 0) + _row(row[:end])
    for number in wrapped:
        if number + 1 < len(rows):
            yield _going_on(number, rows[number], rows[number + 1])
        elif number > 1:  # below a scroll region a line that wraps goes on in the row where it began
            yield f"\x1b[1;{number}r" + _going_on(number, rows[number], rows[number]) + "\x1b[r"


def _going_on(number: int, row: Cells, after: Cells) -> str:
    """Write the end of a row again, and then what it goes on with: nothing else tells a terminal that it does."""
    col, first = len(row) - 1, after[0]
    if first.width == 2 and row[col].text == " ":  # a wide character found no room there
        return (
            _to(number, col)
            + _style_change(PLAIN_STYLE, first.style)
            + first.text
            + _style_change(first.style, PLAIN_STYLE)
        )
    col -= row[col].width == 0
    last = row[col]
    return (
        _to(number, col)
        + "".join(
            [_style_change(PLAIN_STYLE, last.style), last.text, _style_change(last.style, first.style), first.text]
        )
        + _style_change(first.style, PLAIN_STYLE)
    )


def _row(row: Cells) -> str:
    made, style, placed = [], PLAIN_STYLE, True
    for col, cell in enumerate(row):
        if not placed and cell.width:
            made.append(f"\x1b[{col + 1}G")
        made += [_style_change(style, cell.style), cell.text] if cell.width else []
        style = cell.style if cell.width else style
        placed = cell.width == 1 and len(cell.text) == 1 and cell.text.isascii()
    return "".join([*made, _style_change(style, PLAIN_STYLE)])


def _state(snapshot: Snapshot) -> Iterator[str]:
    """What is not seen, but for the cursor."""
    state = snapshot.state
    if state.tab_stops != tuple(range(TAB_COLUMNS, snapshot.cols, TAB_COLUMNS)):
        yield "\x1b[3g" + "".join([f"\x1b[{stop + 1}G\x1bH" for stop in state.tab_stops])
    if state.saved:
        yield from _saved(state.saved)
    if state.margins:
        yield f"\x1b[{state.margins[0] + 1};{state.margins[1] + 1}r"
    for mode in sorted(_AT_FIRST.symmetric_difference(state.modes) - {_ORIGIN, _INSERT, _WRAPS}):
        how = "h" if mode in state.modes else "l"
        yield f"\x1b[?{mode >> 5}{how}" if mode % 32 == 0 else f"\x1b[{mode}{how}"
    yield _SHAPE_SEQUENCES.get(snapshot.cursor.shape, "")


def _saved(saved: SavedCursor) -> Iterator[str]:
    """Have a cursor saved as `ESC 7` saved it; while the scroll region is the whole screen, it can be anywhere."""
    yield ("\x1b[?6h" if saved.origin else "") + _to(saved.row, saved.col)
    yield (
        _style_change(PLAIN_STYLE, saved.pen)
        + _charsets(saved.drawing, saved.shifted)
        + "\x1b7"
        + _style_change(saved.pen, PLAIN_STYLE)
    )
    yield _charsets((False, False), 0, (saved.drawing, saved.shifted))
    yield "\x1b[?6l" if saved.origin else ""


def _cursor(snapshot: Snapshot) -> Iterator[str]:
    """The cursor with its pen, about to wrap or to repeat if it was; and what would be in the way of drawing."""
    cursor, state = snapshot.cursor, snapshot.state
    charsets, modes = _charsets(state.drawing, state.shifted), _drawing_modes(state.modes)
    if (col := _repeated(snapshot)) is not None:
        yield modes + _placed(snapshot, cursor.row, col) + _style_change(PLAIN_STYLE, state.pen) + charsets
        yield ("\x1b[P" if _INSERT in state.modes else "") + state.last_char  # deleted, and inserted again
    elif cursor.wraps:  # written again: nothing else tells a terminal that the last column is full
        col = cursor.col - (snapshot.grid[cursor.row][cursor.col].width == 0 and cursor.col > 0)
        cell = snapshot.grid[cursor.row][col]
        yield _placed(snapshot, cursor.row, col) + _style_change(PLAIN_STYLE, cell.style) + cell.text
        yield _pen(cell.style, state.pen) + charsets + modes
    else:
        yield _placed(snapshot, cursor.row, cursor.col) + _style_change(PLAIN_STYLE, state.pen) + charsets + modes


def _drawing_modes(modes: tuple[int, ...]) -> str:
    return ("\x1b[4h" if _INSERT in modes else "") + ("" if _WRAPS in modes else "\x1b[?7l")


def _repeated(snapshot: Snapshot) -> int | None:
    """The column of the character that `CSI b` repeats, if that can be written again as the last thing of all."""
    cursor, state = snapshot.cursor, snapshot.state
    if not state.last_char:
        return None
    drawn = state.last_char.translate(LINE_DRAWING) if state.drawing[state.shifted] else state.last_char
    stayed = cursor.col == snapshot.cols - 1 and (cursor.wraps or _WRAPS not in state.modes)
    places = [cursor.col - 1] * (cursor.col > 0 and not cursor.wraps) + [cursor.col] * stayed
    cell = Cell(drawn, state.pen)
    return next((col for col in places if snapshot.grid[cursor.row][col] == cell), None)


def _pen(before: Style, pen: Style) -> str:
    return (RESET_STYLE if before != PLAIN_STYLE else "") + _style_change(PLAIN_STYLE._replace(link=before.link), pen)


def _style_change(before: Style, after: Style) -> str:
    """What changes one style to another, and the address behind the text."""
    return sgr(before, after) + (f"\x1b]8;;{after.link}\x1b\\" if after.link != before.link else "")


def _placed(snapshot: Snapshot, row: int, col: int) -> str:
    """Go to a place, in origin mode if that is on."""
    margins = snapshot.state.margins
    if _ORIGIN not in snapshot.state.modes:
        return _to(row, col)
    if not margins:
        return "\x1b[?6h" + _to(row, col)
    top, bottom = margins
    if row >= top:
        return "\x1b[?6h" + _to(row - top, col)
    home = f"\x1b[?6h\x1b[{top + 1};{bottom + 1}r"  # to the first row, which no other sequence reaches
    return home + (f"\x1b[{row}B" if row else "") + (f"\x1b[{col + 1}G")


def _to(row: int, col: int) -> str:
    return f"\x1b[{row + 1};{col + 1}H"


def _charsets(
    drawing: tuple[bool, bool], shifted: int, before: tuple[tuple[bool, bool], int] = ((False, False), 0)
) -> str:
    was, shift = before
    made = [f"\x1b{slot}{'0' if now else 'B'}" for slot, now, old in zip("()", drawing, was, strict=True) if now != old]
    return "".join([*made, "\x0e" if shifted and not shift else "\x0f" if shift and not shifted else ""])
