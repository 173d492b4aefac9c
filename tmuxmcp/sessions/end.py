"""Signals for the processes of a session, and ending all of them."""

from __future__ import annotations

import os
import signal as signals
import time
from contextlib import suppress

import anyio
import psutil

from tmuxmcp.host import cgroup, proc
from tmuxmcp.host.processes import Row, born_since, marked
from tmuxmcp.readiness.kernel import foreground_group, session_members
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux import launch

KILLS = 5
"""Rounds of killing: a process that dies may leave a child behind that was just being born."""


def signal_group(leader: int, name: str) -> list[int]:
    """Signal the foreground process group of the leader's terminal; return who got it."""
    group = foreground_group(leader)
    if group is None:
        return []
    pids = [pid for pid, its_group in session_members(leader).items() if its_group == group]
    try:
        os.killpg(group, getattr(signals, f"SIG{name}"))
    except (ProcessLookupError, PermissionError):
        return []
    return sorted(pids) or [group]


def signal_session(session: Session, name: str) -> list[int]:
    """Signal every process of the session but its launcher and that one's own; return who got it."""
    return sorted(pid for pid in process_tree(session) if _send(pid, name))


def process_tree(session: Session) -> list[int]:
    """Every process of the session but its launcher's: its terminal's, those marked as its own, all their descendants.

    A daemon has left the terminal and its parents; it still is in the session's group, where there are groups, and
    has the variable that marks the session's processes, or if it has emptied its environment their resource limits.
    """
    pane = session.pane
    # The id of a launcher that ended may be another process's by now.
    leader = 0 if pane is None or pane.dead else pane.leader
    ((name, value),) = launch.session_mark(session.directory.path).items()
    variable = f"{name}={value}".encode()
    children: dict[int, list[int]] = {}
    todo = [*([leader] if leader else []), *cgroup.members(session.bounds.groups)]
    rows = born_since(session.bounds.born_s)
    helpers = _helpers(session, leader, rows)
    for row in rows:
        if row.pid in helpers:
            continue
        children.setdefault(row.parent, []).append(row.pid)
        if (leader and row.terminal_session == leader) or marked(row.pid, variable, session.bounds.mark):
            todo.append(row.pid)
    found: set[int] = set()
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo += children.get(pid, [])
    spared = {os.getpid(), *session.start.wrappers} | (set() if pane and pane.respawned else {leader})
    return sorted(found - spared)


def _helpers(session: Session, leader: int, rows: list[Row]) -> set[int]:
    """What the launcher runs for itself once it has started the program: ended, it could not tell how that one ended.

    They are its children, in its own process group. A program can join the group, but not make itself its child.
    """
    program = session.start.pid
    if program is None or session.pane is None or session.pane.respawned:
        return set()
    return {row.pid for row in rows if row.parent == row.group == leader} - {program, *session.start.wrappers}


async def end_processes(session: Session, pids: list[int], name: str, grace_ms: int) -> list[int]:
    """Send the signal, wait for the grace time, then kill.

    An interactive shell ignores TERM; it gets what a closed terminal sends, HUP, so that nobody waits for it.

    Returns:
        Who survived even that.
    """
    # Held as processes with their start times: ids are used again.
    processes = _processes(pids)
    for process in processes:
        _signal(process, "HUP" if name == "TERM" and _ignores(process.pid, name) else name)
        _signal(process, "CONT")
    await _gone(processes, grace_ms / 1000)
    for _ in range(KILLS):  # what was born meanwhile, too
        left = _processes(process_tree(session)) + [each for each in processes if _living(each)]
        if not left:
            return []
        await anyio.to_thread.run_sync(cgroup.kill, session.bounds.groups)
        for process in left:
            _signal(process, "KILL")
        await _gone(left, 2)
        processes = left
    return sorted({process.pid for process in processes if _living(process)})


async def _gone(processes: list[psutil.Process], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while any(_living(process) for process in processes) and time.monotonic() < deadline:
        await anyio.sleep(0.005)


def _processes(pids: list[int]) -> list[psutil.Process]:
    found = []
    for pid in pids:
        with suppress(psutil.Error):
            found.append(psutil.Process(pid))
    return found


def _signal(process: psutil.Process, name: str) -> None:
    with suppress(psutil.Error):
        process.send_signal(getattr(signals, f"SIG{name}"))


def _living(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _send(pid: int, name: str) -> bool:
    try:
        os.kill(pid, getattr(signals, f"SIG{name}"))
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _ignores(pid: int, name: str) -> bool:
    """Whether a process ignores a signal (SigIgn in proc(5))."""
    number = getattr(signals, f"SIG{name}")
    with suppress(OSError):
        return bool(int(proc.status(f"/proc/{pid}", "SigIgn"), 16) >> (number - 1) & 1)
    return False
