"""The processes of this machine, as many as can belong to a session: parents, terminal sessions, inherited marks."""

from __future__ import annotations

import os
import time
from contextlib import suppress

import psutil

from tmuxmcp.host import proc
from tmuxmcp.host.inherited import NO_MARK, Mark, mark_on
from tmuxmcp.latedataclass import dataclass

SLACK_S = 1.0
"""Between two clocks' readings, and for rounding."""


@dataclass(frozen=True)
class Row:
    """A process."""

    pid: int
    parent: int
    group: int
    """Process group id."""
    terminal_session: int
    """Process id of its session leader (setsid(2))."""


def now_s() -> float:
    """The clock by which processes' births are told; 0 where there is none."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(clock) if clock is not None else 0.0


def born_since(since_s: float) -> list[Row]:
    """All processes that began at that time or later, by `now_s`."""
    if not os.path.isdir("/proc/self"):
        return _by_psutil()
    rows = proc.all_stats()
    return [Row(pid, stat.parent, stat.group, stat.session) for pid, stat in rows if stat.born_s >= since_s - SLACK_S]


def with_descendants(pid: int) -> list[psutil.Process]:
    """A process, its children, theirs and so on, parents first; other processes are not looked at.

    Raises:
        psutil.Error: it has ended.
    """
    first = psutil.Process(pid)
    if not os.path.exists(f"/proc/{pid}/task/{pid}/children"):  # the system has no such lists
        return [first, *first.children(recursive=True)]
    found, todo, seen = [first], [pid], {pid}
    while todo:
        parent = todo.pop(0)
        with suppress(OSError):
            for each in proc.children(parent, proc.threads(parent)):
                if each in seen:
                    continue
                seen.add(each)
                todo.append(each)
                with suppress(psutil.Error):
                    found.append(psutil.Process(each))
    return found


def _by_psutil() -> list[Row]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            found.append(Row(process.pid, process.ppid(), os.getpgid(process.pid), os.getsid(process.pid)))
    return found


def marked(pid: int, variable: bytes, mark: Mark) -> bool:
    """Whether a process of ours was started with this `NAME=VALUE`, or has the mark."""
    with suppress(OSError):
        if variable in proc.environment(pid):
            return True
    with suppress(OSError):
        return mark != NO_MARK and os.stat(f"/proc/{pid}").st_uid == os.getuid() and mark_on(pid) == mark
    return False
