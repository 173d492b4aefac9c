"""Signals for the processes of a session, and ending all of them."""

from __future__ import annotations

import os
import signal as signals
import time
from contextlib import suppress

import anyio
import psutil

from tmuxmcp.machine import cgroup, proc
from tmuxmcp.machine.launch import launch
from tmuxmcp.machine.processes import Census, Counting
from tmuxmcp.machine.witness.tty import foreground_group, session_members
from tmuxmcp.sessions.session import Session

KILL_ROUNDS = 5
"""Rounds of killing: a process that dies may leave a child behind that was just being born."""

ENDED_FIRST_LOOK_S, ENDED_LONGEST_LOOK_S = 0.002, 0.05
"""Time between two looks whether a process has ended."""


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


def process_tree(session: Session, census: Census | None = None) -> list[int]:
    """Every process of the session but its launcher's: its terminal's, those marked as its own, all their descendants.

    A daemon has left the terminal and its parents; it still is in the session's group, where there are groups, and
    has the variable that marks the session's processes, or if it has emptied its environment their resource limits.

    Args:
        census: of now; None: it is taken.
    """
    pane = session.pane
    # The id of a launcher that ended may be another process's by now.
    leader = 0 if pane is None or pane.dead else pane.leader
    ((name, value),) = launch.session_mark(session.directory.path).items()
    since_s = session.bounds.born_s
    census = census or Census.take(launch.KEY_VARIABLE, since_s)
    helpers = _helpers(session, leader, census)
    own = census.marked(f"{name}={value}".encode(), session.bounds.mark, since_s)
    own += census.of_terminal(leader, since_s) if leader else []
    todo = [*([leader] if leader else []), *cgroup.members(session.bounds.groups)]
    todo += [row.pid for row in own if row.pid not in helpers]
    found: set[int] = set()
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo += [row.pid for row in census.children(pid, since_s) if row.pid not in helpers]
    spared = {os.getpid(), *session.start.wrappers} | (set() if pane and pane.respawned else {leader})
    return sorted(found - spared)


def _helpers(session: Session, leader: int, census: Census) -> set[int]:
    """What the launcher runs for itself once it has started the program: ended, it could not tell how that one ended.

    They are its children, in its own process group. A program can join the group, but not make itself its child.
    """
    program = session.start.pid
    if program is None or session.pane is None or session.pane.respawned:
        return set()
    children = census.children(leader, session.bounds.born_s)
    return {row.pid for row in children if row.group == leader} - {program, *session.start.wrappers}


async def end_processes(session: Session, counting: Counting, name: str, grace_ms: int) -> list[int]:
    """Send the signal to all of a session, wait for the grace time, then kill.

    An interactive shell ignores TERM; it gets what a closed terminal sends, HUP, so that nobody waits for it.

    Returns:
        Who survived even that.
    """
    # Held with their start times: ids are used again.
    processes = _hold_processes(process_tree(session, await counting.census(session.bounds.born_s)))
    for each in processes:
        each.signal("HUP" if name == "TERM" and _ignores(each.pid, name) else name)
        each.signal("CONT")
    await _gone(processes, grace_ms / 1000)
    for _ in range(KILL_ROUNDS):  # what was born meanwhile, too
        left = _hold_processes(process_tree(session, await counting.census(session.bounds.born_s))) + [
            each for each in processes if each.lives
        ]
        if not left:
            return []
        await anyio.to_thread.run_sync(cgroup.kill, session.bounds.groups)
        for each in left:
            each.signal("KILL")
        await _gone(left, 2)
        processes = left
    return sorted({each.pid for each in processes if each.lives})


async def drained(session: Session) -> None:
    """Wait until tmux tells that a session has ended: its launcher leaves once the log holds everything."""
    step_s, launcher = (
        ENDED_FIRST_LOOK_S,
        _hold_processes([session.pane.leader] if session.pane and not session.pane.dead else []),
    )
    while True:
        await _gone(launcher, ENDED_LONGEST_LOOK_S * 5)  # before tmux is asked, which has other things to do
        pane = await session.refresh()
        if pane is None or pane.dead:
            return
        await anyio.sleep(step_s)
        step_s = min(step_s * 1.3, ENDED_LONGEST_LOOK_S)


class _HeldProcess:
    """A process, which is no other one that has its id later."""

    def __init__(self, pid: int) -> None:
        """Raises psutil.Error: it has ended."""
        self.pid = pid
        self._process = psutil.Process(pid)
        self._born_s = _born_s(pid)

    @property
    def lives(self) -> bool:
        """It has not ended, so that it could still do something."""
        if self._born_s is not None:
            with suppress(OSError):
                stat = proc.stat(f"/proc/{self.pid}")
                return stat.born_s == self._born_s and stat.state not in "ZX"
            return False
        with suppress(psutil.Error):
            return self._process.is_running() and self._process.status() != psutil.STATUS_ZOMBIE
        return False

    def signal(self, name: str) -> None:
        with suppress(psutil.Error):
            self._process.send_signal(getattr(signals, f"SIG{name}"))


def _born_s(pid: int) -> float | None:
    """When a process began; None where there is no /proc."""
    with suppress(OSError):
        return proc.stat(f"/proc/{pid}").born_s
    return None


def _hold_processes(pids: list[int]) -> list[_HeldProcess]:
    found = []
    for pid in pids:
        with suppress(psutil.Error):
            found.append(_HeldProcess(pid))
    return found


async def _gone(processes: list[_HeldProcess], timeout_s: float) -> None:
    """Wait until all have ended; looked at the less often, the longer that takes."""
    begun, step_s = time.monotonic(), ENDED_FIRST_LOOK_S
    while any(each.lives for each in processes) and (left_s := begun + timeout_s - time.monotonic()) > 0:
        await anyio.sleep(min(step_s, left_s))
        step_s = min(step_s * 1.3, ENDED_LONGEST_LOOK_S)


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
