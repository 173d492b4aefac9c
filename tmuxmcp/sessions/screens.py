"""Screens that callers were shown, so that they can be told what has changed since.

A screen's id is made of what it shows: equal screens have equal ids, whoever looked. Kept in memory only, and
bounded: whoever comes with an id that is no longer known is shown the whole screen.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable

import anyio

from tmuxmcp.contract.call import begin
from tmuxmcp.contract.errors import InvalidArgument, IoError, NotRetained, TimedOut
from tmuxmcp.contract.value import replace, value
from tmuxmcp.record.past.checkpoints import Checkpoints, RecordKind, pack, screen_of
from tmuxmcp.record.past.replaying import BlankScreen, PackedScreen, Story, beginning
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.emulator.capture import SCREEN_STATE_FORMAT, ShownScreen, looked
from tmuxmcp.terminal.emulator.redraw import changed_rows
from tmuxmcp.terminal.snapshot import Snapshot
from tmuxmcp.terminal.widths import version_of
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import Pane

SHOWN_KEPT_BYTES = 8 * 1024 * 1024
"""Size of all screens that are kept: about 1,000 usual ones."""

KEPT_LOOKS = 1024
"""Callers' last looks that are kept."""


async def shown_by(session: Session) -> ShownScreen | None:
    """What a session shows now, and take in what tmux says of its pane; None when that is gone."""
    captured = await panes.capture_pane(session.tmux, session.pane) if session.pane else None
    if captured is None:
        await session.refresh()
        return None
    pane, lines = captured
    await session.take_in(pane)
    cursor = (pane.cursor_row, pane.shown_cursor_col, pane.cursor_visible)
    return ShownScreen(pane.cols, pane.rows, lines, cursor, session.screen_rows)


class Screens:
    """The screens that were shown lately, and which of them each caller saw last."""

    def __init__(self, most_bytes: int = SHOWN_KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._screens: OrderedDict[str, ShownScreen] = OrderedDict()
        self._last: OrderedDict[tuple[str, str], str] = OrderedDict()

    def find(self, screen_id: str) -> ShownScreen | None:
        """The screen of this id, if it is still known."""
        return self._screens.get(screen_id)

    def last(self, session_id: str, caller: str) -> str:
        """Id of the screen that this caller saw last of a session; empty when that is not known."""
        return self._last.get((session_id, caller), "")

    def showed(self, session_id: str, caller: str, shown: ShownScreen) -> None:
        """Remember that this caller has seen it."""
        self._screens.setdefault(shown.id, shown)
        if self._screens[shown.id] is shown:
            self._bytes += shown.size
        self._screens.move_to_end(shown.id)
        while self._bytes > self._most_bytes and len(self._screens) > 1:
            self._bytes -= self._screens.popitem(last=False)[1].size
        self._last[session_id, caller] = shown.id
        self._last.move_to_end((session_id, caller))
        if len(self._last) > KEPT_LOOKS:
            self._last.popitem(last=False)

    def forget(self, session_id: str, caller: str) -> None:
        """The caller has left what it saw last: the next screen is a new one to it."""
        self._last.pop((session_id, caller), None)


@value
class ScreenChange:
    """What has changed between a screen seen before and one seen now."""

    rows: list[int] | None
    """The changed rows; None when the whole screen is to be shown."""
    note: str | None = None
    """Why it is the whole screen, or that nothing has changed."""


def change(before: ShownScreen | None, now: ShownScreen, since: str) -> ScreenChange:
    """Compare.

    Args:
        since: the id of `before`, which may no longer be known; empty for a first look.
    """
    if before is None:
        why = f"screen_id {since} is not known any more" if since else "no earlier look of yours is known"
    elif (before.cols, before.rows) != (now.cols, now.rows):
        why = "its size has changed"
    else:
        rows = changed_rows(before.styled, now.styled)
        if len(rows) * 2 <= now.rows:
            return ScreenChange(rows, None if rows else "No row has changed.")
        why = "most of it has changed"
    return ScreenChange(None, f"This is the whole screen: {why}.")


# ---- The screen of a session as a Snapshot at an exact offset of its log ---------------------------------------------
#
# To go on from with the bytes behind it.

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
    if not printed or not await session.log_complete(size):
        return None
    begin, told = max(session.log.head(), size - TAIL_BYTES), looked(printed)
    tail = session.log.read(begin, size - begin)
    return seed(told["facts"], told["screen"], told["under"], tail, size, session.screen_rows.version)


def _drawn_from_log(session: Session) -> Snapshot:
    from tmuxmcp.terminal.emulator.replay import beginning, blank, counted_by  # late: it brings the emulator

    end = session.log.size()
    start = max(session.log.head(), end - REBUILT_BYTES)
    size = (session.meta.cols, session.meta.rows) if start == 0 else (session.cols, session.rows)
    begin = counted_by(beginning(*size, start) if start else blank(*size), version_of(session.meta.tmux))
    return replayed(session, begin, end, session.events.gaps(start, end))


def replayed(session: Session, screen: Snapshot, end: int, gaps: Iterable[int] = ()) -> Snapshot:
    """A screen of a session after all that was printed behind it, up to an offset.

    Args:
        gaps: offsets at which output was lost.
    """
    from tmuxmcp.terminal.emulator.replay import Replay, SizeChange  # late: it brings the emulator

    replay = Replay(screen, [SizeChange(each.offset, each.cols, each.rows) for each in session.events.resizes()], gaps)
    for data in session.log.pieces(screen.offset, end):
        replay.feed(data)
    return replay.snapshot()


# ---- Changes of a terminal's size, written down with what tmux showed right after them -------------------------------
#
# tmux wraps the lines of the main screen anew, and takes lines back from its history: only tmux knows what is shown
# then. It tells that in the same breath in which it changes the size. To which offset of the log that belongs is known
# if the screen did not change since a moment at which the log held everything.

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
        if await session.log_complete(size):
            return shown, size
    return None, 0


async def _keep(session: Session, offset: int, printed: list[str]) -> None:
    """Write down what tmux told, before the change of size itself: who sees that looks for this."""
    told, checkpoints = pack(looked(printed)), Checkpoints(session.directory)
    for pause_s in LOCK_PAUSES_S:
        await anyio.sleep(pause_s)
        if checkpoints.add(RecordKind.TOLD, offset, told, cost_ms=0, happened=0):
            return


# ---- What a session showed at an offset of its log -------------------------------------------------------------------
#
# Rebuilt from its log, in a process of its own, and kept for a while.
#
# It asks nothing of tmux, so that sessions of every state and generation have a past. It changes nothing of a session.

STRETCH_S = 1.0
"""Processor time after which what was rebuilt so far is kept: who comes later begins there."""

PAST_LOOK_S = 40.0
"""How long one look may take: clients give up after a minute. The next look goes on where this one ended."""

LOOK_TRIES = 5
"""How often a look begins anew because the log has given its head back meanwhile."""


async def screen_at(session: Session, offset: int) -> Snapshot:
    """What a session showed after the first `offset` bytes of its log.

    Raises:
        InvalidArgument: so much was not printed.
        NotRetained: what was printed before is no longer kept.
        TimedOut: it takes long; the next look goes on where this one ended.
        IoError: the log cannot be replayed.
    """
    if offset > (size := session.log.size()):
        raise InvalidArgument(
            f"at_offset={offset} is behind the end of the log ({size}).",
            hint="Without it, the screen of now is shown.",
            session_id=session.id,
        )
    deadline = time.monotonic() + PAST_LOOK_S
    for _ in range(LOOK_TRIES):
        found = await _rebuilt(session, offset, deadline)
        if found:
            snapshot = await anyio.to_thread.run_sync(screen_of, found.screen)
            unsure = snapshot.approximate or await _size_unknown(session, offset)
            unsure = unsure or (session.pane is not None and await session.tmux.counts_otherwise())
            state = replace(snapshot.state, tmux=version_of(session.meta.tmux))
            return replace(snapshot, approximate=unsure, state=state)
    raise IoError(f"The log of session {session.id} is given back faster than it is read.", hint="Try again.")


async def _rebuilt(session: Session, offset: int, deadline: float) -> PackedScreen | None:
    """The screen at an offset; None: what it was to be made of was given back meanwhile.

    Raises:
        NotRetained, TimedOut, IoError
    """
    key, checkpoints = _key(session), Checkpoints(session.directory)
    story = Story.of(session.events, checkpoints, offset)
    begin = session.past.kept.nearest(key, -1, offset, story.happened)
    start = beginning(session.directory, checkpoints, story, offset, begin)
    if start is None:
        raise _not_retained(session, offset)
    while start.offset < offset or isinstance(start, BlankScreen):
        if time.monotonic() > deadline:
            raise TimedOut(
                f"The screen at offset {offset} is not rebuilt yet: offset {start.offset} is.",
                hint="Ask again: it goes on from there.",
                session_id=session.id,
            )
        asked = story.request(session.directory, start, offset, STRETCH_S, key)
        done = await session.past.replaying.replay(session.directory, asked)
        if done is None:
            return None
        start = done.reached
        session.past.kept.keep(key, start, story.count(start.offset))
        if start.offset < offset and done.whole:  # else it is not known what it took
            happened, cost_ms = story.count(start.offset), round(done.cpu_s * 1000)
            checkpoints.add(RecordKind.SCREEN, start.offset, start.screen, cost_ms=cost_ms, happened=happened)
    return start


def _key(session: Session) -> str:
    """The session's name among all that ever are."""
    return f"{session.directory.path}/{session.directory.inode}/{session.meta.created_at}"


async def _size_unknown(session: Session, offset: int) -> bool:
    """Whether somebody may have changed the size before that, in tmux itself, and nobody wrote down when."""
    await session.refresh()
    unnoticed = session.resized_unnoticed
    return session.events.size_unknown(offset) or (unnoticed is not None and offset >= unnoticed.offset)


def _not_retained(session: Session, offset: int) -> NotRetained:
    head = session.log.head()
    return NotRetained(
        f"What session {session.id} showed at offset {offset} is no longer kept.",
        hint=f"What is kept begins at offset {head}.",
        first_offset=head,
        first_ms=session.times.ms_at(head),
    )
