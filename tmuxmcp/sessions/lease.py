"""Leases: a person takes a session over, and gives it back. Until then no call types into it, signals or resizes it.

The lease is an option of the pane, so it outlives every broker. What changes it also opens and closes the session's
log: every broker watches that, and asks tmux. tmux itself gives back by a key and when the terminal goes that took the
session (`tmux/leases.py`); whatever broker looks makes up for what tmux did not see, and for persons who vanish.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Literal

from tmuxmcp.contract.errors import TmuxFailed
from tmuxmcp.record.events import TakenEvent
from tmuxmcp.record.log import wake
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux import leases
from tmuxmcp.tmux.held import Lease, taken_error, user_name
from tmuxmcp.tmux.leases import AttachedClient, GiveBackRule

ATTACHES_S = 10.0
"""How long a terminal client may take to attach, after it has taken a session."""

ReleaseReason = Literal["release", "detach", "timeout"]


def refuse(session: Session) -> None:
    """Refuse what a call wants to do while somebody holds the session, as far as tmux was asked.

    Raises:
        SessionTaken
    """
    if session.lease:
        raise taken_error(session.id, session.lease)


async def take(session: Session, via: str, pid: int = 0, *, tty: str = "", key: str = "") -> Lease:
    """Have the user hold a session; who holds it already goes on, by the new way.

    Args:
        via: `cli`, `attach` or `page`.
        pid: of the terminal client that takes it, or the number of the page that does; 0: neither does.
        tty: the path of that client's terminal, so that tmux itself gives back when it goes.
        key: gives back at once, as the setting `take_key` has it; empty: none does.

    Raises:
        SessionTaken: another person holds it.
        SessionExited
    """
    pane = await session.alive()
    before, now_s = pane.taken, time.time()
    by = user_name()
    if before and before.by not in (by, "unknown"):
        raise taken_error(session.id, before)
    again = before and before.since_s
    lease = Lease(by, via, again or int(now_s * 1000) / 1000, pid)
    how = GiveBackRule(session.log.path, tty, key)
    if not await leases.take(session.tmux, pane, lease, before, how=how, now_s=now_s):
        await session.alive()
        refuse(session)
        raise TmuxFailed(f"Session {session.id} was not taken: it changed at this moment.", hint="Try again.")
    if not again:
        session.events.append(TakenEvent(lease.since or "", session.log.size(), lease.by, lease.via))
    wake(session.log.path)
    await session.refresh()
    return lease


async def release(session: Session, reason: ReleaseReason = "release", *, page: int = 0) -> Lease | None:
    """Give a session back; None: nobody held it.

    Args:
        page: number of the page that gives back, if it holds the session; 0: whoever does.
    """
    pane = await session.refresh()
    lease = pane.taken if pane else None
    if pane is None or lease is None or (page and lease.page != page):
        return None
    if not await leases.release(session.tmux, pane, lease, reason, time.time()):
        return None
    await session.refresh()  # which writes it down
    wake(session.log.path)
    return lease


async def touch(session: Session) -> None:
    """Take note that who holds the session was active just now, where no terminal of tmux shows that."""
    if session.pane and session.pane.taken:
        await leases.touch(session.tmux, session.pane, time.time())


async def settle(session: Session, timeout_s: float) -> Lease | None:
    """Give a session back if who took it is gone; the lease that was given back, if one was.

    Args:
        timeout_s: how long a person may do nothing; 0: for ever.
    """
    pane = await session.refresh()
    lease = pane.taken if pane else None
    if pane is None or lease is None or lease.since_s is None:
        return None
    here = [each for each in await leases.clients(session.tmux) if each.session_id == session.id]
    reason = lapsed(lease, pane.held_at_s, here, time.time(), timeout_s)
    return await release(session, reason) if reason else None


def lapsed(
    lease: Lease, held_at_s: float, attached: Iterable[AttachedClient], now_s: float, timeout_s: float
) -> ReleaseReason | None:
    """Why a lease is over; None: it is not. Pure.

    Args:
        held_at_s: when it was taken last, or who holds it was active elsewhere than in a terminal of tmux.
        attached: the terminals that show the session.
        timeout_s: how long a person may press no key; 0: for ever.
    """
    own = [each for each in attached if (each.pid == lease.pid if lease.pid else each.may_type)]
    begun_s = max(lease.since_s or 0, held_at_s)
    if lease.terminal and not own and now_s - begun_s > ATTACHES_S:
        return "detach"
    active_s = max([begun_s, *(each.active_s for each in own)])
    return "timeout" if timeout_s and now_s - active_s > timeout_s else None
