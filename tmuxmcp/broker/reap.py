"""Ends what nobody wants any more, and keeps the state directory within its bounds.

Done by whatever broker is there: each of them, now and then, and the next one to start. Nothing that computes is
ended for being silent: idle is a session whose program waits for input, or has ended.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tmuxmcp.broker import identity
from tmuxmcp.broker.session import Meta, Session
from tmuxmcp.errors import TmuxMcpError

log = logging.getLogger(__name__)

ORPHAN_IDLE_S = 3600
"""How long the idle default session of a caller that is gone is kept for its return."""

DAY_S = 86400

YOUNG_S = 60
"""A directory written to within this time may be a session's that another broker is making."""


@dataclass(frozen=True)
class Bounds:
    """How long what is kept; 0: for ever."""

    idle_timeout_s: float
    max_duration_s: float
    retention_days: float
    state_max_bytes: int

    @property
    def interval_s(self) -> float:
        """Time between two looks."""
        limits = [limit for limit in (self.idle_timeout_s, self.max_duration_s) if limit]
        return min(60.0, *(max(limit / 4, 0.1) for limit in limits)) if limits else 60.0


@dataclass(frozen=True)
class Age:
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


def reason_to_end(session: Age, bounds: Bounds) -> str | None:
    """Why a session is to be ended; pure."""
    if bounds.max_duration_s and session.age_s > bounds.max_duration_s:
        return f"it is older than max_duration_s ({bounds.max_duration_s:g})"
    if not session.resting or session.watched:
        return None
    if bounds.idle_timeout_s and session.idle_s > bounds.idle_timeout_s:
        return f"it was idle for longer than idle_timeout_s ({bounds.idle_timeout_s:g})"
    if session.orphan and session.idle_s > ORPHAN_IDLE_S:
        return "its caller is gone"
    return None


def age_of(session: Session, state_dir: Path, watched: bool) -> Age:
    """What is to be judged of a session."""
    now = time.time()
    created = _seconds(session.meta.created_at, now)
    active = created
    for name in ("out.raw", "events.jsonl"):
        with suppress(OSError):
            active = max(active, (session.directory / name).stat().st_mtime)
    owner = session.meta.owner
    return Age(
        age_s=now - created,
        idle_s=now - active,
        resting=session.exited or session.look()[1].ready,
        orphan=bool(owner) and (state_dir / "callers" / owner).exists() and not identity.is_alive(state_dir, owner),
        watched=watched,
    )


def _seconds(iso: str, otherwise: float) -> float:
    try:
        return datetime.fromisoformat(iso).timestamp()
    except ValueError:
        return otherwise


async def end_idle(
    sessions: Iterable[Session],
    state_dir: Path,
    bounds: Bounds,
    watched: set[str],
    end: Callable[[str], Awaitable[object]],
) -> list[str]:
    """End what has a reason to be ended; return what was."""
    ended = []
    for session in list(sessions):
        if session.pane is None:
            continue
        reason = reason_to_end(age_of(session, state_dir, session.id in watched), bounds)
        if reason:
            log.info("session %s is ended: %s", session.id, reason)
            with suppress(TmuxMcpError):
                await end(session.id)
                ended.append(session.id)
    return ended


def remove_old(state_dir: Path, bounds: Bounds, live: set[str]) -> list[str]:
    """Remove directories of sessions that are gone: those too old, and the oldest while all take too much room.

    Args:
        live: ids of sessions that tmux knows; theirs are never touched.
    """
    gone = sorted(_gone(state_dir / "sessions", live), key=lambda pair: pair[1])
    removed = []
    now = time.time()
    total = disk_use(state_dir) if bounds.state_max_bytes else 0
    for directory, ended in gone:
        old = bounds.retention_days and now - ended > bounds.retention_days * DAY_S
        full = bounds.state_max_bytes and total > bounds.state_max_bytes
        if not old and not full:
            continue
        total -= disk_use(directory)
        shutil.rmtree(directory, ignore_errors=True)
        removed.append(directory.name)
    return removed


def _gone(directory: Path, live: set[str]) -> Iterable[tuple[Path, float]]:
    """Directories of sessions that are gone, and when they were last written to."""
    for path in directory.iterdir():
        if path.name in live:
            continue
        meta = Meta.load(path)
        if meta is None and "." not in path.name:
            continue  # being made at this moment
        with suppress(OSError):
            written = max(entry.stat().st_mtime for entry in (path, *path.iterdir()))
            if time.time() - written > YOUNG_S:
                yield path, written


def disk_use(path: Path) -> int:
    """Bytes that the files below a directory take on the disk; holes take none."""
    total = 0
    for directory, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(directory, name)).st_blocks * 512
    return total
