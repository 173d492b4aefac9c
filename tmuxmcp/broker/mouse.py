"""The mouse: events at a place of the screen, or on a text of it, for programs that have asked for them."""

from __future__ import annotations

from tmuxmcp.broker.sending import flush_input, not_typed
from tmuxmcp.contract.call import begin
from tmuxmcp.contract.errors import InvalidArgument, Unsupported, WrongMode
from tmuxmcp.contract.requests import Mouse
from tmuxmcp.sessions.screens import shown_by
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.keys import encode
from tmuxmcp.terminal.widths import OLDEST_VERSION, TmuxVersion, text_width
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import InputLeftover

MOST_PLACES = 20
"""Places that an error names."""

CellPlace = tuple[int, int]
"""Row and column, from 0."""


async def act(session: Session, event: Mouse) -> CellPlace:
    """Hand the event to the program; give its place.

    Raises:
        InvalidArgument: there is no such place, or the text is not there exactly once.
        WrongMode: the program has not asked for such events.
        Unsupported: it has, in an encoding of old.
        SessionExited, TmuxFailed
    """
    pane = await session.alive()
    asked = await panes.mouse_modes(session.tmux, pane)
    _check_modes(event, asked)
    place = await _text_place(session, event) if event.on_text else _cell_of(session, event)
    data = encode(event.action, *place, event.button or "")
    async with session.input_lock:
        begin()
        # Not in another program that came in between.
        if not await panes.type_input(session.tmux, pane, data, condition="#{mouse_sgr_flag}", left=InputLeftover.OPEN):
            await not_typed(session)
    session.write_input(bytes=len(data), keys=0)
    await flush_input(session.tmux)
    return place


def _check_modes(event: Mouse, asked: panes.MouseModes) -> None:
    if not asked.any:
        raise WrongMode(
            "The program has not asked for mouse events: they would arrive as typed text.",
            hint="Use keys, or switch its mouse on (vim: set mouse=a; less: --mouse; tmux: set mouse on).",
        )
    if not asked.sgr:
        raise Unsupported(
            "The program has asked for mouse events in an old encoding; only SGR (mode 1006) is supported.",
            hint="vim: set ttymouse=sgr. htop, dialog and others that use curses: start them with TERM=xterm-256color.",
        )
    if event.action == "move" and not (asked.all or (asked.drag and event.button)):
        raise WrongMode(
            "The program has not asked for movements" + (" without a button." if asked.drag else "."),
            hint="Give the button that is held while the mouse moves." if asked.drag else "Use press and release.",
        )


def _cell_of(session: Session, event: Mouse) -> CellPlace:
    if event.row is None or event.col is None:
        if event.action.startswith("scroll") and event.row is event.col is None:
            return session.rows // 2, session.cols // 2
        raise InvalidArgument("Where? Give row and col, or on_text.", hint="Rows and columns count from 0.")
    for name, value, end in (("row", event.row, session.rows), ("col", event.col, session.cols)):
        if not 0 <= value < end:
            raise InvalidArgument(f"{name} must be 0 to {end - 1}, not {value}.", hint="Rows and columns count from 0.")
    return event.row, event.col


async def _text_place(session: Session, event: Mouse) -> CellPlace:
    """Where a text stands on the screen: its first column."""
    if event.col is not None:
        raise InvalidArgument("Give col or on_text, not both.", hint="row and on_text: the text in that row.")
    shown = await shown_by(session)
    found = [
        (row, col)
        for row, text in enumerate(shown.texts if shown else [])
        for col in _columns(text, event.on_text, shown.version if shown else OLDEST_VERSION)
        if event.row in (None, row)
    ]
    if len(found) == 1:
        return found[0]
    where = f"{event.on_text!r} is not on the screen"
    hint = "read view=screen shows what is; the text must stand in one row as it does there."
    if found:
        named = ", ".join(f"row {row} col {col}" for row, col in found[:MOST_PLACES])
        where = f"{event.on_text!r} is on the screen {len(found)} times: {named}"
        hint = "Give row and col, or row and on_text if it is once in that row."
    raise InvalidArgument(f"{where}.", hint=hint, places=[{"row": r, "col": c} for r, c in found[:MOST_PLACES]])


def _columns(row: str, text: str, version: TmuxVersion) -> list[int]:
    """The columns at which a text begins in a row."""
    found = []
    at = row.find(text)
    while at >= 0:
        found.append(text_width(row[:at], version))
        at = row.find(text, at + len(text))
    return found
