"""Changes of a terminal's size, written down with what tmux showed right after them.

tmux wraps the lines of the main screen anew, and takes lines back from its history: only tmux knows what is shown then.
It tells that in the same breath in which it changes the size. To which offset of the log that belongs is known if the
screen did not change since a moment at which the log held everything.
"""

from __future__ import annotations

import anyio

from tmuxmcp.contract.call import begin
from tmuxmcp.record.past.checkpoints import Checkpoints, RecordKind, pack
from tmuxmcp.sessions.logged import all_logged
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.emulator.capture import SCREEN_STATE_FORMAT, looked
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import Pane

SIZE_RETRY_PAUSES_S = (0, 0.005, 0.01, 0.02)
"""Between attempts to find a moment in which nothing is printed."""

LOCK_PAUSES_S = (0, 0.002, 0.005, 0.01, 0.02)
"""Between attempts to write, while somebody else does."""


async def resize(session: Session, pane: Pane, cols: int, rows: int) -> bool:
    """Change the size, and write it down; False when the pane is gone.

    Of a session that prints without a pause, nothing but the size is written down.
    """
    if unnoticed := session.resized_unnoticed:
        session.events.append(unnoticed)
    before, size = await _at_rest(session, pane)
    begin()
    looks = await panes.resize_window(session.tmux, pane, cols, rows, SCREEN_STATE_FORMAT)
    if looks is None:
        return False
    if before is None or looks[0] != before:
        session.write_resize(cols, rows)
        return True
    await _keep(session, size, looks[1])
    session.write_resize(cols, rows, size)
    return True


async def _at_rest(session: Session, pane: Pane) -> tuple[list[str] | None, int]:
    """What tmux shows of everything that the log holds, and how much that is; None: it prints all the time."""
    for pause_s in SIZE_RETRY_PAUSES_S:
        await anyio.sleep(pause_s)
        size = session.log.size()
        shown = await panes.capture_both_screens(session.tmux, pane, SCREEN_STATE_FORMAT)
        if shown is None:
            return None, size
        if await all_logged(session, size):
            return shown, size
    return None, 0


async def _keep(session: Session, offset: int, printed: list[str]) -> None:
    """Write down what tmux told, before the change of size itself: who sees that looks for this."""
    told, checkpoints = pack(looked(printed)), Checkpoints(session.directory)
    for pause_s in LOCK_PAUSES_S:
        await anyio.sleep(pause_s)
        if checkpoints.add(RecordKind.TOLD, offset, told, cost_ms=0, happened=0):
            return
