"""A Snapshot as the bytes that draw it: an empty terminal of its size has the same screen and state after them. Pure.

What a player shows depends on them alone, so each row and each wide character is put to its place. Left out is what no
sequence can say: that a saved cursor was about to wrap, or a cursor below the scroll region in origin mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from tmuxmcp.terminal.emulator.grid import MAX_FIELDS, MAX_PARAMS
from tmuxmcp.terminal.emulator.sheet import DECAWM, DECOM, DECTCEM, IRM, LINE_DRAWING, TAB_COLUMNS
from tmuxmcp.terminal.snapshot import BLANK, PLAIN_STYLE, UNDERLINES, Cell, Cells, Colour, SavedCursor, Snapshot, Style
from tmuxmcp.terminal.widths import sanitize

RESET_TERMINAL = "\x18\x1b\\\x1b[?1049l\x1b[ q\x1bc"
"""Makes an empty terminal of any: a sequence that is open is over, then the main screen is reset."""

_AT_FIRST = frozenset({DECTCEM, DECAWM})
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
    for mode in sorted(_AT_FIRST.symmetric_difference(state.modes) - {DECOM, IRM, DECAWM}):
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
        yield ("\x1b[P" if IRM in state.modes else "") + state.last_char  # deleted, and inserted again
    elif cursor.wraps:  # written again: nothing else tells a terminal that the last column is full
        col = cursor.col - (snapshot.grid[cursor.row][cursor.col].width == 0 and cursor.col > 0)
        cell = snapshot.grid[cursor.row][col]
        yield _placed(snapshot, cursor.row, col) + _style_change(PLAIN_STYLE, cell.style) + cell.text
        yield _pen(cell.style, state.pen) + charsets + modes
    else:
        yield _placed(snapshot, cursor.row, cursor.col) + _style_change(PLAIN_STYLE, state.pen) + charsets + modes


def _drawing_modes(modes: tuple[int, ...]) -> str:
    return ("\x1b[4h" if IRM in modes else "") + ("" if DECAWM in modes else "\x1b[?7l")


def _repeated(snapshot: Snapshot) -> int | None:
    """The column of the character that `CSI b` repeats, if that can be written again as the last thing of all."""
    cursor, state = snapshot.cursor, snapshot.state
    if not state.last_char:
        return None
    drawn = state.last_char.translate(LINE_DRAWING) if state.drawing[state.shifted] else state.last_char
    stayed = cursor.col == snapshot.cols - 1 and (cursor.wraps or DECAWM not in state.modes)
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
    if DECOM not in snapshot.state.modes:
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


# ---- Screens as text, plain or with colours, and what has changed between two, row by row. Pure ----------------------

_ATTRIBUTES = {"bold": 1, "faint": 2, "italic": 3, "blink": 5, "reverse": 7, "conceal": 8, "strike": 9, "overline": 53}

RESET_STYLE = "\x1b[0m"
"""Back to the terminal's own style."""


def changed_rows(before: Sequence[object], after: Sequence[object]) -> list[int]:
    """Give the rows in which two screens of one size differ; both as one comparable value for each row."""
    return [row for row, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]


def numbered(rows: Sequence[str], chosen: Iterable[int]) -> list[str]:
    """Give some rows with their numbers before them, as ` 3| text`."""
    digits = len(str(len(rows) - 1)) + 1
    return [f"{row:{digits}}| {rows[row]}".rstrip(" ") for row in chosen]


def ansi_row(row: Iterable[tuple[Style, str]], *, safe: bool = True) -> str:
    """Write a row's stretches with SGR sequences: it begins and ends in the terminal's own style.

    Args:
        safe: what cannot be seen is shown.
    """
    made, before = [], PLAIN_STYLE
    for style, text in row:
        made += [sgr(before, style), sanitize(text)[0] if safe else text]
        before = style
    return "".join([*made, sgr(before, PLAIN_STYLE)])


def byte_length(text: str) -> int:
    """Bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def shortened(text: str, limit: int) -> str:
    """Cut a text, with SGR sequences or without, to so many bytes: whole sequences, and at the end none is open."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    kept, ends = _whole_sequences(data[:limit])
    if not ends:
        kept, ends = _whole_sequences(data[: max(limit - len(RESET_STYLE), 0)])
    return kept if ends else kept + RESET_STYLE


def _whole_sequences(data: bytes) -> tuple[str, bool]:
    """The text without a sequence or character that is cut, and whether it ends in the terminal's own style."""
    text = data.decode("utf-8", "ignore")
    last = text.rfind("\x1b")
    if last >= 0 and "m" not in text[last:]:
        text = text[:last]
        last = text.rfind("\x1b")
    return text, last < 0 or text.startswith(RESET_STYLE, last)


@lru_cache(maxsize=4096)
def sgr(before: Style, after: Style) -> str:
    """Give the sequences that change one style to another: what is added, or a reset and all of it. Not the link."""
    before, after = before._replace(link=""), after._replace(link="")
    if before == after:
        return ""
    if after == PLAIN_STYLE:
        return RESET_STYLE
    lost = any(old != none and new == none for old, new, none in zip(before, after, PLAIN_STYLE, strict=True))
    first = ["0"] if lost else []
    before = PLAIN_STYLE if lost else before
    first += [str(code) for name, code in _ATTRIBUTES.items() if getattr(after, name) and not getattr(before, name)]
    if after.underline != before.underline:
        kind = UNDERLINES.index(after.underline)
        first.append("4" if kind == 1 else f"4:{kind}")
    first += _colour(after.fg, 30, 38) if after.fg != before.fg else []
    second = _colour(after.bg, 40, 48) if after.bg != before.bg else []
    if after.underline_colour != before.underline_colour:
        second += _colour(after.underline_colour, 0, 58)
    if len(";".join([*first, *second])) <= MAX_PARAMS and len(first) + len(second) <= MAX_FIELDS:
        return f"\x1b[{';'.join([*first, *second])}m"
    return f"\x1b[{';'.join(first)}m\x1b[{';'.join(second)}m"


def _colour(colour: Colour, low: int, extended: int) -> list[str]:
    match colour:
        case None:
            return []
        case (red, green, blue):
            return [f"{extended};2;{red};{green};{blue}"]
        case int() if low and colour < 8:
            return [str(low + colour)]
        case int() if low and colour < 16:
            return [str(low + 60 + colour - 8)]
    return [f"{extended};5;{colour}"]
