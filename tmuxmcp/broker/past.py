"""The screen of an earlier moment, for `read`: facts of then. It moves no cursor, and is no look of the caller's."""

from __future__ import annotations

import time

import anyio

from tmuxmcp.broker import views
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import joined_notes, seconds_of
from tmuxmcp.contract.errors import InvalidArgument, IoError, NotRetained, TimedOut
from tmuxmcp.contract.value import replace, value
from tmuxmcp.readiness import finding
from tmuxmcp.sessions import commandresults
from tmuxmcp.sessions.screens import screen_at
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.emulator.capture import NOTHING_SHOWN, KnownRows, ShownScreen
from tmuxmcp.terminal.emulator.redraw import ansi_row
from tmuxmcp.terminal.snapshot import Doubt, Snapshot, runs
from tmuxmcp.terminal.widths import OLDEST_VERSION


@value
class Moment:
    """A moment that is asked for."""

    offset: int
    """So much had been printed."""
    note: str | None = None
    ms: int | None = None
    """When that was, since the session was made; None: not known."""
    resized_later: bool = False
    """The size changed between this moment and the next output: it is the size of then that is not known."""


NOTED_S, NOTED_LOOK_S = 0.6, 0.05
"""What was printed just now is noted within this time, while a server runs, and looked for so often."""

REBUILT_NOTE = "Its terminal is gone: this is what it showed last, rebuilt from its log."

RESIZED_LATER = "The size changed after this moment, before more was printed: this is the screen after that."


def is_meant(asked: q.Read) -> bool:
    """Whether a past screen is asked for."""
    return bool(_ways(asked))


def _ways(asked: q.Read) -> list[str]:
    """The arguments that say which one."""
    given = {"at_offset": asked.at_offset, "at_ms": asked.at_ms}
    if asked.view == "screen":
        given["command"] = asked.command
    return [name for name, value in given.items() if value is not None]


def check(asked: q.Read) -> None:
    """Refuse what does not go with a past screen.

    Raises:
        InvalidArgument
    """
    if not is_meant(asked):
        return
    which, *more = _ways(asked)
    others = {"since": asked.since, "offset": asked.offset, "screen_id": asked.screen_id or None}
    if which != "command" and "command" not in more:
        others["command"] = asked.command
    given = more + [name for name, value in others.items() if value is not None]
    if asked.wait_for != "none":
        given.append(f"wait_for={asked.wait_for}")
    if asked.view != "screen":
        given.append(f"view={asked.view}")
    if given:
        raise InvalidArgument(
            f"{which} does not go with {', '.join(given)}.",
            hint="A past screen is view=screen, and cannot be waited for.",
        )


async def read(session: Session, asked: q.Read) -> r.ReadResult:
    """The screen of a past moment.

    Raises:
        InvalidArgument, NotRetained, TimedOut, IoError
    """
    moment = await _moment(session, asked)
    snapshot = await screen_of(session, moment)
    shown = shown_of(snapshot)
    found = replace(views.screen(shown, asked.format, asked.max_bytes, moment.offset), approximate=snapshot.approximate)
    row, col, visible = shown.cursor
    return r.ReadResult(
        session_id=session.id,
        outcome="immediate",
        evidence=None,
        mode=None,
        exited=None,
        exit_code=None,
        ended=None,
        rows=snapshot.rows,
        cols=snapshot.cols,
        cursor=r.CursorPosition(row=row, col=col, visible=visible),
        title=None if Doubt.TITLE in snapshot.state.doubts else views.title(snapshot.title),
        matched=None,
        waited_ms=0,
        time=moment.ms,
        note=joined_notes(moment.note, found.note),
        **views.content(found),
    )


async def _moment(session: Session, asked: q.Read) -> Moment:
    if asked.at_ms is not None:
        return await moment_at(session, asked.at_ms)
    offset, note = asked.at_offset, None
    if offset is None:
        assert asked.command is not None, "is_meant says so"
        offset, note = commandresults.end_of(session, await finding.at_rest(session), asked.command)
    return Moment(offset, note, await anyio.to_thread.run_sync(session.times.ms_at, offset))


async def moment_at(session: Session, at_ms: int) -> Moment:
    """The moment of a time.

    Args:
        at_ms: milliseconds since the session was made; negative: before now, or before it ended.

    Raises:
        InvalidArgument: it is no time of this session.
        NotRetained: nobody knows how much had been printed then.
    """
    end_ms = session.end_ms()
    ms = end_ms + at_ms if at_ms < 0 else at_ms
    if not 0 <= ms <= end_ms:
        when = f"ended {end_ms} ms after it was made" if session.exited else f"was made {end_ms} ms ago"
        raise InvalidArgument(
            f"at_ms={at_ms} is no time of session {session.id}, which {when}.",
            hint="It counts from when the session was made; negative: before now, or before its end.",
            session_id=session.id,
        )
    offset = await _offset_at(session, ms)
    made = seconds_of(session.meta.created_at) or 0.0
    later = any(
        each.offset == offset and (seconds_of(each.time) or 0.0) - made > ms / 1000 for each in session.events.resizes()
    )
    return Moment(offset, RESIZED_LATER if later else None, ms, later)


async def _offset_at(session: Session, ms: int) -> int:
    """How much had been printed at a moment; of one that is hardly past that is about to be noted.

    Raises:
        NotRetained: nobody knows it.
    """
    until = time.monotonic() + NOTED_S
    while True:
        around = await anyio.to_thread.run_sync(session.times.around, ms)
        if around.offset is not None:
            return around.offset
        if around.after_ms is not None or time.monotonic() >= until:
            break
        await anyio.sleep(NOTED_LOOK_S)
    head, before, after = session.log.head(), around.before_ms, around.after_ms
    end = "now" if after is None else f"{after} ms"
    raise NotRetained(
        f"What session {session.id} showed at {ms} ms is not known: it printed something between {before} ms and "
        f"{end}, and nobody noted when exactly: no server ran then, or it was held up.",
        hint="at_offset and command of read name a place in the output instead; "
        + (f"at_ms={after} shows what had come by then." if after is not None else "at_ms=-1 shows what is there now."),
        first_offset=head,
        first_ms=await anyio.to_thread.run_sync(session.times.ms_at, head),
    )


async def screen_of(session: Session, moment: Moment) -> Snapshot:
    """What was shown at a moment.

    Raises:
        InvalidArgument, NotRetained, TimedOut, IoError
    """
    snapshot = await screen_at(session, moment.offset)
    return replace(snapshot, approximate=True) if moment.resized_later else snapshot


async def last_shown(session: Session) -> tuple[ShownScreen, str, bool]:
    """What a session without a pane showed last, a sentence about that, and whether it may lack something."""
    try:
        snapshot = await screen_at(session, session.log.size())
    except (NotRetained, TimedOut, IoError) as error:
        return NOTHING_SHOWN, f"What its terminal showed last cannot be told: {error.message}", True
    return shown_of(snapshot), REBUILT_NOTE, snapshot.approximate


def shown_of(snapshot: Snapshot) -> ShownScreen:
    """A snapshot as tmux would have printed it."""
    cursor = snapshot.cursor
    col = cursor.col + cursor.wraps  # behind the last column, tmux says, once that was written
    lines = [ansi_row([(run.style, run.text) for run in runs(row)], safe=False) for row in snapshot.grid]
    known = KnownRows(snapshot.state.tmux or OLDEST_VERSION)
    return ShownScreen(snapshot.cols, snapshot.rows, lines, (cursor.row, col, cursor.visible), known)
