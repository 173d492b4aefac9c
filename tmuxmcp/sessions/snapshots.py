"""The screen of a session as a Snapshot at an exact offset of its log, to go on from with the bytes behind it."""

from __future__ import annotations

import anyio

from tmuxmcp.sessions.logged import all_logged
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.emulator.capture import SCREEN_STATE_FORMAT, looked
from tmuxmcp.terminal.snapshot import Snapshot
from tmuxmcp.terminal.widths import version_of
from tmuxmcp.tmux import panes

SNAPSHOT_RETRY_PAUSES_S = (0, 0.005, 0.01, 0.02, 0.04, 0.08)
"""Between attempts to find a moment in which nothing is printed."""

REBUILT_BYTES = 64 * 1024
"""Of a session that prints without a pause, so much is drawn anew: a hundred screens of text; 0.1 s of work."""


async def snapshot_of(session: Session) -> Snapshot:
    """What the session shows now.

    tmux tells the screen but not which bytes made it: it is asked until nothing was printed around its answer. The
    screen of a session that prints without a pause, or whose pane is gone, is drawn from the end of its log.
    """
    for pause_s in SNAPSHOT_RETRY_PAUSES_S:
        await anyio.sleep(pause_s)
        if session.pane is None:
            break
        found = await _told_by_tmux(session)
        if found:
            return found
    return _drawn_from_log(session)


async def _told_by_tmux(session: Session) -> Snapshot | None:
    from tmuxmcp.terminal.emulator.seed import TAIL_BYTES, seed  # late: it brings the emulator

    assert session.pane
    size = session.log.size()
    printed = await panes.capture_both_screens(session.tmux, session.pane, SCREEN_STATE_FORMAT)
    if not printed or not await all_logged(session, size):
        return None
    begin, told = max(session.log.head(), size - TAIL_BYTES), looked(printed)
    tail = session.log.read(begin, size - begin)
    return seed(told["facts"], told["screen"], told["under"], tail, size, session.screen_rows.version)


def _drawn_from_log(session: Session) -> Snapshot:
    from tmuxmcp.terminal.emulator.replay import (  # late: it brings the emulator
        Replay,
        SizeChange,
        beginning,
        blank,
        counted_by,
    )

    end = session.log.size()
    start = max(session.log.head(), end - REBUILT_BYTES)
    size = (session.meta.cols, session.meta.rows) if start == 0 else (session.cols, session.rows)
    resizes = [SizeChange(each.offset, each.cols, each.rows) for each in session.events.resizes()]
    version = version_of(session.meta.tmux)
    begin = counted_by(beginning(*size, start) if start else blank(*size), version)
    replay = Replay(begin, resizes, session.gaps(start, end))
    for data in session.log.pieces(start, end):
        replay.feed(data)
    return replay.snapshot()
