"""Leases: a person takes a session over, and gives it back. Until then no call types into it, signals or resizes it.

The lease is an option of the pane, so it outlives every broker. What changes it also opens and closes the session's
log: every broker watches that, and asks tmux.
"""

from __future__ import annotations

import os
import pwd
import time
from contextlib import suppress

from tmuxmcp.contract.times import iso
from tmuxmcp.errors import TmuxFailed
from tmuxmcp.record.events import GivenBack, Taken
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux import leases
from tmuxmcp.tmux.held import Lease, name_of, taken_error


def refuse(session: Session) -> None:
    """Refuse what a call wants to do while somebody holds the session, as far as tmux was asked.

    Raises:
        SessionTaken
    """
    if session.lease:
        raise taken_error(session.id, session.lease)


def user_name() -> str:
    """Whose name a lease of this process has."""
    with suppress(KeyError):
        return name_of(pwd.getpwuid(os.geteuid()).pw_name)
    return name_of(str(os.geteuid()))


async def take(session: Session, via: str, pid: int = 0) -> Lease:
    """Have the user hold a session; who holds it already goes on, by the new way.

    Args:
        via: `cli` or `attach`.
        pid: of the terminal client that takes it; 0: none does.

    Raises:
        SessionTaken: another person holds it.
        SessionExited
    """
    pane = await session.alive()
    before = pane.taken
    by = user_name()
    if before and before.by not in (by, "unknown"):
        raise taken_error(session.id, before)
    again = before and before.since_s
    lease = Lease(by, via, again or int(time.time() * 1000) / 1000, pid)
    if not await leases.take(session.tmux, pane, lease, before):
        await session.alive()
        refuse(session)
        raise TmuxFailed(f"Session {session.id} was not taken: it changed at this moment.", hint="Try again.")
    if not again:
        session.events.append(Taken(lease.since or "", session.log.size(), lease.by, lease.via))
    _wake(session)
    await session.refresh()
    return lease


async def release(session: Session) -> Lease | None:
    """Give a session back; None: nobody held it."""
    pane = await session.refresh()
    lease = pane.taken if pane else None
    if pane is None or lease is None or not await leases.release(session.tmux, pane, lease):
        return None
    now = iso(time.time())
    session.events.append(GivenBack(now, session.log.size(), lease.by, lease.since or "", now, "release"))
    _wake(session)
    await session.refresh()
    return lease


def _wake(session: Session) -> None:
    """Have every broker look at the session: they are told when somebody closes its log."""
    with suppress(OSError):
        os.close(os.open(session.log.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))
