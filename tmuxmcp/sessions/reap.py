"""Ends what nobody wants any more.

Done by whatever broker is there: each of them, now and then, and the next one to start. Nothing that computes is
ended for being silent: idle is a session whose program waits for input, or has ended.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine import cgroup
from tmuxmcp.machine.processes import Counting
from tmuxmcp.sessions import identity, inputrequests
from tmuxmcp.sessions.end import process_tree
from tmuxmcp.sessions.life import EndCause, State
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.session import Session

log = logging.getLogger(__name__)

ORPHAN_IDLE_S = 3600
"""How long the idle default session of a caller that is gone is kept for its return."""


@dataclass(frozen=True)
class AgeLimits:
    """How long a session may live; 0: for ever."""

    idle_timeout_s: float
    max_duration_s: float
    take_timeout_s: float = 0
    """How long a person may hold a session and do nothing."""


@dataclass(frozen=True)
class SessionAge:
    """What is judged of one session; times in seconds."""

    age_s: float
    idle_s: float
    """Since anything was printed or typed."""
    resting: bool
    """Its program waits for input, or has ended."""
    orphan: bool
    """It is a default session, and its caller is gone."""
    watched: bool
    """A person is attached."""
    duration_s: float = 0
    """Its own limit; 0: none."""
    cpu_s: float = 0
    """Processor time of all that ran in it, as far as a group counted it."""
    cpu_seconds: float = 0
    """Its own limit of that; 0: none."""
    held: bool = False
    """A person has taken it over, or it is paused: only its limit of processor time ends it."""


@dataclass(frozen=True)
class DueEnd:
    """Why a session is to be ended."""

    reason: EndCause
    why: str


def due(session: SessionAge, bounds: AgeLimits) -> DueEnd | None:
    """Whether a session is to be ended; pure."""
    if session.cpu_seconds and session.cpu_s > session.cpu_seconds:
        return DueEnd(EndCause.CPU, f"it has computed for longer than its limit cpu_seconds ({session.cpu_seconds:g})")
    if session.held:
        return None
    if bounds.max_duration_s and session.age_s > bounds.max_duration_s:
        return DueEnd(EndCause.DURATION, f"it is older than max_duration_s ({bounds.max_duration_s:g})")
    if session.duration_s and session.age_s > session.duration_s:
        return DueEnd(EndCause.DURATION, f"it is older than its limit duration_s ({session.duration_s:g})")
    if not session.resting or session.watched:
        return None
    if bounds.idle_timeout_s and session.idle_s > bounds.idle_timeout_s:
        return DueEnd(EndCause.IDLE, f"it was idle for longer than idle_timeout_s ({bounds.idle_timeout_s:g})")
    if session.orphan and session.idle_s > ORPHAN_IDLE_S:
        return DueEnd(EndCause.IDLE, "its caller is gone")
    return None


def interval_s(bounds: AgeLimits, sessions: Iterable[Session]) -> float:
    """Time between two looks."""
    limits = [bounds.idle_timeout_s, bounds.max_duration_s, bounds.take_timeout_s]
    for session in sessions:
        limits += [session.bounds.limits.get(name, 0) for name in ("duration_s", "cpu_seconds")]
    return min([60.0, *(max(limit / 4, 0.1) for limit in limits if limit)])


def age_of(session: Session, look: Look, state_dir: Path, watched: bool) -> SessionAge:
    """What is to be judged of a session."""
    now = time.time()
    return SessionAge(
        age_s=now - _seconds(session.meta.created_at, now),
        idle_s=now - _last_used(session, now),
        resting=look.exited or look.ready,
        orphan=_is_orphan(session, state_dir),
        watched=watched,
        duration_s=session.bounds.limits.get("duration_s", 0),
        cpu_s=(cgroup.cpu_ms(session.bounds.groups) or 0) / 1000,
        cpu_seconds=session.bounds.limits.get("cpu_seconds", 0),
        held=session.lease is not None,
    )


def _last_used(session: Session, now: float) -> float:
    used = _seconds(session.meta.created_at, now)
    for path in (session.directory.log, session.directory.events):
        with suppress(OSError):
            used = max(used, path.stat().st_mtime)
    return used


def _is_orphan(session: Session, state_dir: Path) -> bool:
    owner = session.meta.owner
    return bool(owner) and (state_dir / "callers" / owner).exists() and not identity.is_alive(state_dir, owner)


async def abandoned(
    sessions: Iterable[Session], state_dir: Path, watched: set[str], counting: Counting
) -> Session | None:
    """The session to end where another one needs its place, if it takes nothing from anybody.

    It is the default session of a caller that is gone, and of these the one that nobody has used for the longest. Its
    shell waits at its prompt, where nothing is typed; no other process of it lives; nobody watches or holds it, and
    nothing is asked of a person there.
    """
    now = time.time()
    orphans = [each for each in sessions if not each.exited and each.id not in watched and _is_orphan(each, state_dir)]
    for session in sorted(orphans, key=lambda each: _last_used(each, now)):
        look = await session.look_at_prompt()
        if look.mode != "shell_prompt" or look.typed_at_prompt or session.lease or inputrequests.waiting(session):
            continue
        census = await counting.census(session.bounds.born_s)
        if set(process_tree(session, census)) <= {look.pid}:
            return session
    return None


def _seconds(iso: str, otherwise: float) -> float:
    try:
        return datetime.fromisoformat(iso).timestamp()
    except ValueError:
        return otherwise


async def end_idle(
    sessions: Iterable[Session],
    state_dir: Path,
    bounds: AgeLimits,
    watched: set[str],
    end: Callable[[Session, DueEnd], Awaitable[object]],
) -> list[str]:
    """End what has a reason to be ended; return what was."""
    ended = []
    for session in list(sessions):
        if session.life.state in (State.LOST, State.DESTROYED):
            continue
        ends = due(age_of(session, await session.look(), state_dir, session.id in watched), bounds)
        if ends:
            log.info("session %s is ended: %s", session.id, ends.why)
            with suppress(TmuxMcpError):
                await end(session, ends)
                ended.append(session.id)
    return ended
