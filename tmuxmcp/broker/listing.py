"""What a person sees who looks at all sessions at once: how each one stands, and what it shows now.

It only looks: no cursor of a caller moves, and nothing counts as told to anybody.
"""

from __future__ import annotations

import re
import time
from collections.abc import Hashable
from itertools import pairwise
from typing import Literal

import anyio
import anyio.lowlevel

from tmuxmcp.broker import past
from tmuxmcp.broker.admission import check_health
from tmuxmcp.broker.reading import cursor_of, shell_of, title_of
from tmuxmcp.broker.verbs import Work, verb
from tmuxmcp.broker.views import PageViewer
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import iso, joined_notes, seconds_of
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.value import replace, value
from tmuxmcp.readiness import finding
from tmuxmcp.readiness.finding import certain
from tmuxmcp.record.meta import Meta, find_generation, kept_generations
from tmuxmcp.record.past.timing import FIRST_STEP
from tmuxmcp.sessions import commandresults, inputrequests
from tmuxmcp.sessions.levels import LevelScan
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.registry import SESSION_ID, Registry
from tmuxmcp.sessions.screens import shown_by
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell.startup import start_up
from tmuxmcp.terminal.emulator.capture import ShownScreen
from tmuxmcp.terminal.emulator.sheet import LONGEST_SEQUENCE, last_shape
from tmuxmcp.terminal.marks import ShellState
from tmuxmcp.terminal.snapshot import Snapshot
from tmuxmcp.tmux import panes, viewers
from tmuxmcp.tmux.leaseoptions import Lease, user_name
from tmuxmcp.tmux.viewers import TmuxViewer

TABLE_DESTROYED = 50
"""Sessions that were destroyed of which is told, the newest."""


MOST_MOMENTS = 2000
"""Times of output that are told of one session."""


SHAPE_BYTES = 256 * 1024
"""So much of the output between two looks is looked through for the cursor's shape."""


ENDED_LINE_BYTES = 1 << 16
"""Bytes of a line, of which the end is looked for."""


@value
class SessionStanding:
    """How a session stands."""

    sign: Hashable
    """As `Seeing.signs` has it, of the same moment."""
    summary: r.SessionSummary
    taken: Lease | None
    """The person who holds it."""
    paused: Literal["", "one", "all"]
    """It is paused by itself, or all are."""
    yours: bool
    """The person holds it themselves."""
    watched: bool
    """Somebody looks at it in a terminal."""
    command: r.ListedCommand | None
    """The last one that its shell ran, or runs."""
    commands: int


@value
class RunningFacts:
    """What a table says of a session that runs, besides its summary."""

    command: str
    """What its foreground program was called with; empty: that is not known."""
    held_by: str
    """Who holds it, `pause`: it is paused; empty: nobody does."""


@value
class SessionOverview:
    """What a session shows."""

    shown: ShownScreen
    title: str
    alive: bool
    cursor_shape: str


class ShapeSeen:
    """The shape of one session's cursor, read from what was printed since the last look: tmux does not tell it."""

    def __init__(self) -> None:
        self._made, self._read_to, self._shape = "", 0, "block"

    def shape(self, session: Session) -> str:
        """`block`, `underline` or `bar`; the one before, where more was printed since than is looked through."""
        if session.meta.created_at != self._made:  # another one has its name now
            self._made, self._read_to, self._shape = session.meta.created_at, 0, "block"
        size = session.log.size()
        begin = max(self._read_to - LONGEST_SEQUENCE, size - SHAPE_BYTES, 0)
        self._shape = last_shape(session.log.read(begin, size - begin)) or self._shape
        self._read_to = size
        return self._shape


@value
class Activity:
    """When a session printed."""

    made_s: float
    """When it was made, in seconds since 1970."""
    end_ms: int
    """Now, or when it ended; as the next in milliseconds since it was made."""
    moments: list[int]


@value
class Generation:
    """A session of which something is kept: the newest of its name, or an earlier one."""

    generation: int
    created_at: str


class SessionOverviews:
    """Looks at the sessions of one broker."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._watched: set[str] = set()
        self._destroyed: dict[str, Session] = {}

    async def signs(self) -> dict[str, Hashable]:
        """All sessions that are not destroyed, and of each what tells that more than its output has changed."""
        await self._registry.look_again()
        self._watched = await panes.attached(self._registry.tmux)
        return {name: self._sign(session) for name, session in self._registry.sessions.items()}

    def _sign(self, session: Session) -> Hashable:
        made, watched, pane = session.meta.created_at, session.id in self._watched, session.pane
        held = pane and (pane.taken, pane.paused, pane.all_paused)
        asked = tuple(request.id for request in inputrequests.waiting(session))
        return made, held, watched, session.exited, session.directory.pin.exists(), asked

    def destroyed(self) -> list[str]:
        """The sessions that were destroyed last."""
        found, _ = self._registry.destroyed(TABLE_DESTROYED)
        self._destroyed = {session.id: session for session in found}
        return list(self._destroyed)

    def _find(self, session_id: str) -> Session | None:
        return self._registry.sessions.get(session_id) or self._destroyed.get(session_id)

    async def standing(self, session_id: str) -> SessionStanding | None:
        """How a session stands; None: it is gone."""
        session = self._find(session_id)
        if session is None:
            return None
        look = await session.look()
        ran = commandresults.listed(q.ListCommands(limit=1), session, look).commands
        pane = None if session.exited else session.pane
        taken = pane.taken if pane else None
        return SessionStanding(
            sign=self._sign(session),
            summary=summary(session, look),
            taken=taken,
            paused="" if pane is None or pane.paused is None else "all" if pane.all_paused else "one",
            yours=taken is not None and taken.by == user_name(),
            watched=session_id in self._watched,
            command=ran[-1] if ran else None,
            commands=session.commands.count(look),
        )

    async def front(self, session_id: str) -> RunningFacts | None:
        """What runs in a session, for a fraction of what all its facts take; None: it is over, or gone."""
        session = self._registry.sessions.get(session_id)
        look = await session.look() if session else None
        if session is None or look is None or look.exited:
            return None
        return RunningFacts(
            look.foreground.command if look.foreground else "", session.lease.by if session.lease else ""
        )

    async def sight(self, session_id: str, shape: ShapeSeen | None = None) -> SessionOverview | None:
        """What a session shows; None: its pane is gone. Without `shape`, its cursor is a block."""
        session = self._registry.sessions.get(session_id)
        shown = await shown_by(session) if session else None
        if session is None or shown is None:
            return None
        alive = bool(session.pane and not session.pane.dead)
        return SessionOverview(shown, title_of(session.pane), alive, shape.shape(session) if shape else "block")

    async def past(
        self, session_id: str, at_ms: int | None = None, line_at: int | None = None, generation: int | None = None
    ) -> tuple[Snapshot, int | None]:
        """What a session showed, and when that was, in milliseconds since it was made.

        Args:
            at_ms: the time that is meant, as `read` has it.
            line_at: or where in the log a line begins: when that had been printed. Without both: what it showed last.
            generation: of an earlier session of this name; None: the newest.

        Raises:
            SessionNotFound, InvalidArgument, NotRetained, TimedOut, IoError
        """
        session = await self._registry.known(session_id, generation)
        if at_ms is None:
            size = session.log.size()
            offset = size if line_at is None else _behind_line(session, line_at, size)
            moment = past.Moment(offset, ms=await anyio.to_thread.run_sync(session.times.ms_at, offset))
        else:
            moment = await past.moment_at(session, at_ms)
        return await past.screen_of(session, moment), moment.ms

    async def activity(self, session_id: str, generation: int | None = None) -> Activity:
        """When a session printed.

        Args:
            generation: of an earlier session of this name; None: the newest.

        Raises:
            SessionNotFound
        """
        session = await self._registry.known(session_id, generation)
        made = seconds_of(session.meta.created_at) or 0.0
        moments = await anyio.to_thread.run_sync(_moments, session)
        return Activity(made, await anyio.to_thread.run_sync(session.end_ms), moments)

    def generations(self, session_id: str) -> list[Generation]:
        """The sessions of a name of which something is kept, the oldest first."""
        if not SESSION_ID.match(session_id):
            return []
        state_dir = self._registry.state_dir
        metas = {
            number: Meta.load(find_generation(state_dir, session_id, number))
            for number in kept_generations(state_dir, session_id)
        }
        return [Generation(number, meta.created_at) for number, meta in metas.items() if meta]


def _behind_line(session: Session, offset: int, size: int) -> int:
    offset = min(max(offset, 0), size)
    line, newline, _ = session.log.read(offset, min(ENDED_LINE_BYTES, size - offset)).partition(b"\n")
    return offset + len(line) + len(newline)


def _moments(session: Session) -> list[int]:
    """Times at which something was printed, thinned out to `MOST_MOMENTS`."""
    steps = [FIRST_STEP, *session.times.steps(0, session.log.size())]
    times = sorted({step.ms for before, step in pairwise(steps) if step.known and step.offset > before.offset})
    if len(times) <= MOST_MOMENTS:
        return times
    apart = max((times[-1] - times[0]) // MOST_MOMENTS, 1)
    return list({ms // apart: ms for ms in times}.values())


# ---- `list_sessions` -------------------------------------------------------------------------------------------------
#
# A page of the sessions. What it does not show is not looked at, and a long page holds up no call.

LISTED_DESTROYED = 20
"""Destroyed sessions that are listed, the newest."""

LIST_PLACE = re.compile(r"([01])/(.{0,40})/([A-Za-z0-9_-]{1,64})", re.DOTALL)
"""A place in the list: whether the session was over, when it was made, its id."""

ListPlace = tuple[bool, str, str]
"""The order of the list. Sessions that run come first: one that ends moves on, to where no reader has been yet."""


@verb(q.ListSessions)
async def list_sessions(work: Work[q.ListSessions]) -> r.ListSessionsResult:
    """Look at so many sessions, from a place on.

    Raises:
        InvalidArgument: there is no such place.
    """
    request, registry = work.request, work.broker.registry
    after = _parse(request.after) if request.after else None
    async with work.broker.listing:
        await registry.look_again()
        every, unlisted = list(registry.sessions.values()), 0
        if request.include_exited:
            destroyed, unlisted = registry.destroyed(LISTED_DESTROYED)
            every += destroyed
        else:
            every = [each for each in every if not each.exited]
        placed = sorted(((_list_place(each), each) for each in every), key=lambda each: each[0])
        behind = [each for each in placed if after is None or each[0] > after]
        rows = []
        for _, session in behind[: request.limit]:
            rows.append(summary(session, await session.look()))
            await anyio.lowlevel.checkpoint()
    left = len(behind) - len(rows)
    goes_on = spell(behind[len(rows) - 1][0]) if left else None
    own = next((each.id for _, each in placed if each.meta.owner == work.caller and not each.exited), None)
    return r.ListSessionsResult(
        count=len(every),
        default_session_id=own,
        note=_note(left, goes_on, unlisted),
        next_after=goes_on,
        sessions=rows,
    )


def _list_place(session: Session) -> ListPlace:
    return session.exited, session.meta.created_at[:40], session.id


def spell(place: ListPlace) -> str:
    """A place as `after` takes it."""
    over, made, session_id = place
    return f"{over:d}/{made}/{session_id}"


def _parse(text: str) -> ListPlace:
    found = LIST_PLACE.fullmatch(text)
    if found is None:
        raise InvalidArgument(
            f"after={text[:200]!r} is no place in the list.",
            hint="Give next_after of the page before, or leave it out.",
        )
    return found[1] == "1", found[2], found[3]


def _note(left: int, goes_on: str | None, unlisted: int) -> str | None:
    more = f"{left} more are not shown: list_sessions with after={goes_on} goes on." if left else ""
    before = f"{unlisted} more were destroyed before; get_session and read know them." if unlisted else ""
    return joined_notes(more, before)


# ---- What is known of a session: a line of the list, and everything --------------------------------------------------


def summary(session: Session, look: Look) -> r.SessionSummary:
    """A session as `list_sessions` shows it."""
    code, name = look.exit_status
    return r.SessionSummary(
        session_id=session.id,
        program=session.meta.program,
        args=session.meta.args,
        mode=look.mode,
        ready=certain(session, look),
        exited=look.exited,
        exit_code=code,
        exit_signal=name,
        ended=session.ended,
        pid=look.pid,
        cwd=look.cwd or None,
        title=title_of(look.pane),
        rows=look.rows,
        cols=look.cols,
        created_at=session.meta.created_at,
        last_activity_at=session.last_activity(),
        output_bytes=look.size,
        healthy=_recorded(look),
        pinned=session.directory.pin.exists(),
        asks=len(inputrequests.waiting(session)),
    )


@verb(q.GetSession)
async def get_session(work: Work[q.GetSession]) -> r.SessionFacts:
    """All facts of a session."""
    session, broker = await work.settled_session(), work.broker
    look = await finding.at_rest(session)
    watched = await viewers.of_pane(session.tmux, session.pane) if session.pane else []
    seen_by = [*map(_viewer, watched), *(_page_viewer(each, session) for each in broker.pages.of(session.id))]
    starting = await start_up(session, look)
    held = session.lease
    return r.SessionFacts(
        **vars(summary(session, look)),
        generation=session.generation,
        cursor=cursor_of(look.pane),
        foreground=look.foreground,
        alternate_screen=look.alternate_screen,
        recording=session.recording is not None and session.recording.state == "running" and not look.exited,
        recorded=recording_of(session),
        taken_over=r.TakenOver(by=held.by, since=held.since) if held else None,
        viewers=sorted(seen_by, key=lambda each: each.since),
        usage=session.usage(),
        attach_command=broker.attach_command(session),
        watch_url=f"{broker.page_url}/#session={session.id}" if broker.page_url else None,
        shell=shell_of(look.level, look.program)
        if look.marks and look.own_shell_in_front and not look.exited
        else None,
        levels=[
            r.ShellLevel(
                level=each.level.number, kind=shell_of(each.level, look.program).kind, state=_state(each, look)
            )
            for each in look.levels
            if (look.own_marks or each.level.number) and not look.exited
        ],
        commands=session.commands.count(look),
        host=session.meta.host or None,
        sandbox=session.bounds.sandbox,
        limits=session.bounds.applied,
        note=joined_notes(_session_note(session, look), starting.note if starting else None),
    )


@verb(q.ListCommands)
async def list_commands(work: Work[q.ListCommands]) -> r.ListCommandsResult:
    """The commands of a session."""
    session = await work.settled_session()
    look = await finding.at_rest(session)
    await commandresults.settle(session, look)
    return commandresults.listed(work.request, session, look)


@verb(q.Health)
async def health(work: Work[q.Health]) -> r.HealthResult:
    """How the broker itself is, and what goes on for an agent."""
    broker, call = work.broker, work.call
    found = await check_health(broker.registry, broker.settings, uptime_s=time.monotonic() - broker.began)
    return found if call.person else replace(found, going_on=broker.admission.going_on(call.caller))


def _viewer(viewer: TmuxViewer) -> r.Viewer:
    user = viewer.user or user_name()  # tmux 3.2 lets nobody else in
    return r.Viewer(kind="tmux", name=f"{user} {viewer.terminal}", may_type=viewer.may_type, since=iso(viewer.since_s))


def _page_viewer(viewer: PageViewer, session: Session) -> r.Viewer:
    held = session.pane.taken if session.pane else None
    holds = held is not None and viewer.page != 0 and held.page == viewer.page
    return r.Viewer(kind="page", name=user_name(), may_type=holds, since=iso(viewer.since_s))


def recording_of(session: Session) -> r.RecordingFacts | None:
    """The recording that runs, or that ended with the session; None: there is none."""
    note = session.recording
    if note is None or not (note.is_open or note.with_session):
        return None
    saved = note.state == "saved"
    return r.RecordingFacts(
        state=note.state,
        path=None if note.state == "discarded" else str(note.file(session.directory)),
        format=note.film,
        input=note.input,
        started_at=note.began_at,
        bytes=note.bytes if saved else None,
        duration_s=note.duration_ms / 1000 if saved else None,
        note=note.note or None,
    )


def _state(each: LevelScan, look: Look) -> str:
    """What a shell does; one that another is in front of runs that."""
    return each.shell.state.value if each.level.nonce == look.level.nonce else ShellState.RUNNING.value


def _recorded(look: Look) -> bool:
    return look.exited or bool(look.pane and look.pane.piped)


def _session_note(session: Session, look: Look) -> str | None:
    notice = session.take_notice()
    if look.replaced:
        return "Somebody has put another program into its pane (respawn-pane): run works in a shell there."
    return notice or (None if _recorded(look) else "Its output is not being recorded at this moment.")
