"""Pausing sessions, one or all at once, without a broker: agents are stopped also where none answers."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from tmuxmcp.contract.call import iso
from tmuxmcp.contract.errors import SessionNotFound
from tmuxmcp.contract.words import PAUSE_HOLDER
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import Events, GivenBackEvent, TakenEvent
from tmuxmcp.record.log import RawLog, wake
from tmuxmcp.tmux import leases as pauses
from tmuxmcp.tmux.held import Lease
from tmuxmcp.tmux.server import Tmux


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
    before = [pauses.pause(tmux, session_id, lease)] if session_id else pauses.pause_all(tmux, lease)
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
    before = [pauses.resume(tmux, session_id)] if session_id else pauses.resume_all(tmux)
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
