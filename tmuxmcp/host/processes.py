"""The processes of this machine, as many as can belong to a session: parents, terminal sessions, inherited marks."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tmuxmcp.host.inherited import NO_MARK, Mark, mark_on

SLACK_S = 1.0
"""Between two clocks' readings, and for rounding."""


@dataclass(frozen=True)
class Row:
    """A process."""

    pid: int
    parent: int
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
    found = []
    ticks = os.sysconf("SC_CLK_TCK")
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                # Its name, in parentheses, may hold anything (proc_pid_stat(5)).
                words = file.read(4096).rsplit(b")", 1)[1].split()
                if int(words[19]) / ticks >= since_s - SLACK_S:
                    found.append(Row(int(name), int(words[1]), int(words[3])))
    return found


def _by_psutil() -> list[Row]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            found.append(Row(process.pid, process.ppid(), os.getsid(process.pid)))
    return found


def marked(pid: int, variable: bytes, mark: Mark) -> bool:
    """Whether a process of ours was started with this `NAME=VALUE`, or has the mark."""
    with suppress(OSError):
        if b"\0" + variable + b"\0" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes():
            return True
    with suppress(OSError):
        return mark != NO_MARK and os.stat(f"/proc/{pid}").st_uid == os.getuid() and mark_on(pid) == mark
    return False
