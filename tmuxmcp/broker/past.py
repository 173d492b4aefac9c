"""The screen of an earlier moment, for `read`: facts of then. It moves no cursor, and is no look of the caller's."""

from __future__ import annotations

from dataclasses import dataclass

from tmuxmcp.broker import commands, run, views
from tmuxmcp.broker.screens import Shown
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.errors import InvalidArgument
from tmuxmcp.sessions.past import screen_at
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.render import sgr
from tmuxmcp.terminal.snapshot import PLAIN, Row, Snapshot, runs


@dataclass(frozen=True)
class Moment:
    """A moment that is asked for."""

    offset: int
    """So much had been printed."""
    note: str | None = None


def is_meant(asked: q.Read) -> bool:
    """Whether a past screen is asked for."""
    return asked.at_offset is not None or (asked.command is not None and asked.view == "screen")


def check(asked: q.Read) -> None:
    """Refuse what does not go with a past screen.

    Raises:
        InvalidArgument
    """
    if not is_meant(asked):
        return
    which = "command" if asked.at_offset is None else "at_offset"
    others = {"since": asked.since, "offset": asked.offset, "screen_id": asked.screen_id or None}
    if which != "command":
        others["command"] = asked.command
    given = [name for name, value in others.items() if value is not None]
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
    snapshot = await screen_at(session, moment.offset)
    shown = shown_of(snapshot)
    piece = views.screen(shown, asked.format, asked.max_bytes, moment.offset)
    cursor = snapshot.cursor
    return r.ReadResult(
        session_id=session.id,
        view="screen",
        outcome="immediate",
        evidence=None,
        mode=None,
        exited=None,
        exit_code=None,
        ended=None,
        rows=snapshot.rows,
        cols=snapshot.cols,
        cursor=r.CursorPosition(row=cursor.row, col=cursor.col, visible=cursor.visible),
        title=views.title(snapshot.title),
        matched=None,
        waited_ms=0,
        has_new_content=False,
        truncated=piece.truncated,
        omitted_bytes=piece.omitted_bytes,
        next_offset=piece.next_offset,
        lines=len(piece.text.splitlines()),
        time=None,
        sanitized=piece.sanitized,
        approximate=snapshot.approximate,
        highlights=views.highlights(shown),
        note=" ".join(filter(None, (moment.note, piece.note))) or None,
        content=piece.text,
    )


async def _moment(session: Session, asked: q.Read) -> Moment:
    if asked.at_offset is not None:
        return Moment(asked.at_offset)
    assert asked.command is not None, "is_meant says so"
    end, note = commands.end_of(session, await run.at_rest(session), asked.command)
    return Moment(end, note)


def shown_of(snapshot: Snapshot) -> Shown:
    """A snapshot as tmux would have printed it."""
    cursor = snapshot.cursor
    lines = [_line(row) for row in snapshot.grid]
    return Shown(snapshot.cols, snapshot.rows, lines, (cursor.row, cursor.col, cursor.visible))


def _line(row: Row) -> str:
    made, before = [], PLAIN
    for run_ in runs(row):
        made += [sgr(before, run_.style), run_.text]
        before = run_.style
    return "".join([*made, sgr(before, PLAIN)])
