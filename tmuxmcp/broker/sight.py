"""What a person sees who looks at all sessions at once: how each one stands, and what it shows now.

It only looks: no cursor of a caller moves, and nothing counts as told to anybody.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise
from typing import Literal

import anyio

from tmuxmcp.broker import facts, past
from tmuxmcp.broker.reading import title_of
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import seconds_of
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.record import meta as generations
from tmuxmcp.record.meta import Meta
from tmuxmcp.record.past.timing import FIRST_STEP
from tmuxmcp.sessions import commandresults, inputrequests
from tmuxmcp.sessions.registry import SESSION_ID, Registry
from tmuxmcp.sessions.screens import ShownScreen, shown_by
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.emulator.sheet import LONGEST_SEQUENCE, last_shape
from tmuxmcp.terminal.snapshot import Snapshot
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.held import Lease, user_name

TABLE_DESTROYED = 50
"""Sessions that were destroyed of which is told, the newest."""


MOST_MOMENTS = 2000
"""Times of output that are told of one session."""


SHAPE_BYTES = 256 * 1024
"""So much of the output between two looks is looked through for the cursor's shape."""


ENDED_LINE_BYTES = 1 << 16
"""Bytes of a line, of which the end is looked for."""


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class RunningFacts:
    """What a table says of a session that runs, besides its summary."""

    command: str
    """What its foreground program was called with; empty: that is not known."""
    held_by: str
    """Who holds it, `pause`: it is paused; empty: nobody does."""


@dataclass(frozen=True)
class SessionSight:
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


@dataclass(frozen=True)
class Activity:
    """When a session printed."""

    made_s: float
    """When it was made, in seconds since 1970."""
    end_ms: int
    """Now, or when it ended; as the next in milliseconds since it was made."""
    moments: list[int]


@dataclass(frozen=True)
class Generation:
    """A session of which something is kept: the newest of its name, or an earlier one."""

    generation: int
    created_at: str


class SessionSights:
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
            summary=facts.summary(session, look),
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

    async def sight(self, session_id: str, shape: ShapeSeen | None = None) -> SessionSight | None:
        """What a session shows; None: its pane is gone. Without `shape`, its cursor is a block."""
        session = self._registry.sessions.get(session_id)
        shown = await shown_by(session) if session else None
        if session is None or shown is None:
            return None
        alive = bool(session.pane and not session.pane.dead)
        return SessionSight(shown, title_of(session.pane), alive, shape.shape(session) if shape else "block")

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
            number: Meta.load(generations.find(state_dir, session_id, number))
            for number in generations.kept_generations(state_dir, session_id)
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
