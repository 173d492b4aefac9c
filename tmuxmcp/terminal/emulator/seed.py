"""What tmux says of a pane -> a Snapshot to go on from, after a gap, a resize or a restart. Pure.

`capture.py` says what to ask, in one command list, so that nothing is printed in between. tmux does not tell the pen,
the character sets, a cursor saved by `ESC 7` or half a sequence: the last bytes of the log do. Which rows go on in the
next is told by nobody; neither are cells beyond a row's text that are only coloured.
"""

from __future__ import annotations

from collections.abc import Sequence

from tmuxmcp.contract.value import replace
from tmuxmcp.terminal.emulator.capture import CURSOR_NOT_SAVED, MODE_FIELDS, NUMBER_FIELDS, OVERLINE
from tmuxmcp.terminal.emulator.grid import SGR
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.stream import Stream
from tmuxmcp.terminal.snapshot import BLANK, Cells, Cursor, SavedCursor, Snapshot
from tmuxmcp.terminal.widths import TmuxVersion

TAIL_BYTES = 64 * 1024
"""As many bytes of the log as tell the pen: programs set it anew on every row."""


def seed(
    facts: str,
    rows: Sequence[str],
    under: Sequence[str] = (),
    tail: bytes = b"",
    offset: int = 0,
    tmux: TmuxVersion | None = None,
) -> Snapshot:
    """Give the screen that tmux tells of.

    Args:
        facts: the answer to `capture.SCREEN_STATE_FORMAT`.
        rows: the captured rows, top first; missing ones are blank.
        under: those of the main screen, while the alternate one is shown.
        tail: the last bytes printed, `TAIL_BYTES` of them or all.
        offset: bytes of the log that this is the screen of.
        tmux: the version that tells; None: not known.

    Raises:
        ValueError: `facts` is no answer to `capture.SCREEN_STATE_FORMAT`.
    """
    numbers, modes, tab_stops, title = _read(facts)
    cols, height = max(numbers["pane_width"], 1), max(numbers["pane_height"], 1)
    alternate = bool(numbers["alternate_on"])
    saved_x, saved_y = numbers["alternate_saved_x"], numbers["alternate_saved_y"]
    known = _after(tail, cols, height)
    saved = replace(known.state.saved_by_alternate or SavedCursor(0, 0), row=saved_y, col=saved_x)
    top, bottom = numbers["scroll_region_upper"], numbers["scroll_region_lower"]
    state = replace(
        known.state,
        wrapped=(),
        modes=tuple(sorted({mode for mode in known.state.modes if mode not in MODE_FIELDS.values()} | modes)),
        margins=None if (top, bottom) == (0, height - 1) else (top, bottom),
        tab_stops=tab_stops,
        under=grid(under, cols, height, tmux) if alternate else (),
        tmux=tmux,
        under_wrapped=(),
        saved_by_alternate=saved if saved_x != CURSOR_NOT_SAVED else None,
    )
    cursor = Cursor(
        row=min(numbers["cursor_y"], height - 1),
        col=min(numbers["cursor_x"], cols - 1),
        visible=25 << 5 in modes,
        wraps=numbers["cursor_x"] >= cols,
        shape=known.cursor.shape,
    )
    return Snapshot(cols, height, grid(rows, cols, height, tmux), cursor, alternate, title, offset, state)


def grid(rows: Sequence[str], cols: int, height: int, tmux: TmuxVersion | None = None) -> tuple[Cells, ...]:
    """Read rows as `capture-pane -e` prints them; styles carry over from row to row."""
    screen = captured_screen(cols, height, tmux)
    screen.set_charset(1, drawing=True)  # tmux puts SO and SI around line drawing
    stream = Stream(screen)
    for y, row in enumerate(rows[:height]):
        screen.grid.rows[y] = screen.grid.row_of(BLANK)
        screen.to(0, y)
        row = SGR.sub(lambda found: OVERLINE.sub("53", found[0]), row)
        stream.feed(row.encode("utf-8", "replace"))
        screen.grid.rows[y].fit(cols)
    return tuple(tuple(row[:cols]) for row in screen.grid.rows)


def captured_screen(cols: int, height: int, tmux: TmuxVersion | None) -> Screen:
    """A screen on which captured rows can be printed again."""
    screen = Screen(cols * 2, height)  # what tmux gave fewer columns than we do must not wrap
    screen.count_as(tmux)
    screen.widens = screen.version >= (3, 5)  # 3.4 prints the cell behind one that became wide
    return screen


def _read(facts: str) -> tuple[dict[str, int], set[int], tuple[int, ...], str]:
    words = facts.rstrip("\n").split(" ", len(NUMBER_FIELDS) + len(MODE_FIELDS) + 1)
    if len(words) < len(NUMBER_FIELDS) + len(MODE_FIELDS) + 2:
        raise ValueError(f"not what tmux was asked for: {facts[:200]!r}")
    numbers = {name: int(word or 0) for name, word in zip(NUMBER_FIELDS, words, strict=False)}
    flags = words[len(NUMBER_FIELDS) :]
    modes = {mode for mode, flag in zip(MODE_FIELDS.values(), flags, strict=False) if flag == "1"}
    tab_stops = tuple(int(stop) for stop in words[-2].split(",") if stop)
    return numbers, modes, tab_stops, words[-1]


def _after(tail: bytes, cols: int, rows: int) -> Snapshot:
    stream = Stream(Screen(cols, rows))
    stream.feed(tail[-TAIL_BYTES:])
    return stream.snapshot()
