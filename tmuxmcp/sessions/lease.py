"""Leases: a person takes a session over, and gives it back. Until then no call types into it, signals or resizes it.

The lease is an option of the pane, so it outlives every broker. What changes it also opens and closes the session's
log: every broker watches that, and asks tmux. tmux itself gives back by a key and when the terminal goes that took the
session (`tmux/leases.py`); whatever broker looks makes up for what tmux did not see, and for persons who vanish.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from tmuxmcp.contract.call import iso
from tmuxmcp.contract.errors import SessionNotFound, TmuxFailed
from tmuxmcp.contract.value import replace
from tmuxmcp.contract.words import PAUSE_HOLDER
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import Events, GivenBackEvent, TakenEvent
from tmuxmcp.record.log import RawLog, wake
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux import leases
from tmuxmcp.tmux.leaseoptions import Lease, taken_error, user_name
from tmuxmcp.tmux.leases import AttachedClient, GiveBackRule
from tmuxmcp.tmux.server import Tmux

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


# ---- Pausing sessions, one or all at once, without a broker: agents are stopped also where none answers --------------


def pause(state_dir: Path, session_id: str, via: str = "cli") -> list[str]:
    """Pause a session, or all and those made later; the ids of what is paused.

    Args:
        session_id: empty: all.
        via: `cli` or `page`.

    Raises:
        SessionNotFound, TmuxUnavailable, PermissionDenied, InvalidArgument, TmuxFailed
    """
    tmux, now_s = _running(state_dir), int(time.time() * 1000) / 1000
    lease = Lease(PAUSE_HOLDER, via, now_s)
    before = [leases.pause(tmux, session_id, lease)] if session_id else leases.pause_all(tmux, lease)
    for each in before:
        if not each.lease:
            _note(state_dir, each.session_id, TakenEvent(iso(now_s), 0, PAUSE_HOLDER, via))
    return [each.session_id for each in before]


def resume(state_dir: Path, session_id: str) -> list[str]:
    """Resume a session, or all; the ids of what is not paused now: none, where all are and one was meant.

    Raises:
        SessionNotFound, TmuxUnavailable, PermissionDenied, InvalidArgument, TmuxFailed
    """
    tmux = _running(state_dir)
    before = [leases.resume(tmux, session_id)] if session_id else leases.resume_all(tmux)
    resumed, now = [each for each in before if not session_id or not each.all], iso(time.time())
    for each in resumed:
        if each.lease:
            since = each.lease.since or ""
            _note(state_dir, each.session_id, GivenBackEvent(now, 0, PAUSE_HOLDER, since, now, "release"))
    return [each.session_id for each in resumed]


def _running(state_dir: Path) -> Tmux:
    tmux = Tmux(state_dir)
    tmux.check()
    if not tmux.alive():
        raise SessionNotFound("No session runs: there is no tmux server.", hint="Make one with `tmuxmcp new`.")
    return tmux


def _note(state_dir: Path, session_id: str, event: TakenEvent | GivenBackEvent) -> None:
    """Write down what happened, at the offset of now, and have every broker look."""
    directory = SessionDirectory.of(state_dir, session_id)
    log = RawLog(directory)
    Events(directory).append(replace(event, offset=log.size()))
    wake(log.path)
