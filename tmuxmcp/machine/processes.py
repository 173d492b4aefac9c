"""The processes of this machine, as many as can belong to a session: parents, terminal sessions, inherited marks."""

from __future__ import annotations

import fcntl
import hashlib
import math
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import anyio
import anyio.lowlevel
import psutil

from tmuxmcp.contract.value import value
from tmuxmcp.machine import proc
from tmuxmcp.machine.cgroup import Rlimit

CLOCK_SLACK_S = 1.0
"""Between two clocks' readings, and for rounding."""

COUNTED_AT_ONCE = 10
"""Processes that are looked at while nothing else goes on: half a millisecond."""


@value
class ProcessRow:
    """A process."""

    pid: int
    parent: int
    group: int
    """Process group id."""
    terminal_session: int
    """Process id of its session leader (setsid(2))."""
    born_s: float = math.inf
    """When it began, by `now_s`; where that is not known, it counts as new."""


def now_s() -> float:
    """The clock by which processes' births are told; 0 where there is none."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(clock) if clock is not None else 0.0


class Census:
    """All processes of this machine that began at a time or later, each looked at once: what they are, and the marks
    that they inherited."""

    def __init__(self, variable: bytes, since_s: float) -> None:
        """Of nobody yet, see `count`; `variable`: name of that which marks processes; `since_s`: by `now_s`."""
        self._prefix = variable + b"="
        self._since_s = since_s
        self._children: dict[int, list[ProcessRow]] = {}
        self._sessions: dict[int, list[ProcessRow]] = {}
        self._marked: dict[bytes | LimitMark, list[ProcessRow]] = {}

    @classmethod
    def take(cls, variable: bytes, since_s: float) -> Census:
        """Count all at once."""
        census = cls(variable, since_s)
        for _ in census.count():
            pass
        return census

    def count(self) -> Iterator[None]:
        """Look at one process after the other; it is complete at the end."""
        for row in _rows():
            if _began_since(self._since_s, row):  # nobody asks for an older one, and its marks take long to read
                self._children.setdefault(row.parent, []).append(row)
                self._sessions.setdefault(row.terminal_session, []).append(row)
                for mark in self._marks(row.pid):
                    self._marked.setdefault(mark, []).append(row)
            yield

    def _marks(self, pid: int) -> Iterator[bytes | LimitMark]:
        with suppress(OSError):
            yield from (each for each in proc.environment(pid) if each.startswith(self._prefix))
        with suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == os.getuid():
                yield mark_on(pid)

    def children(self, pid: int, since_s: float) -> list[ProcessRow]:
        """Those of a process that began at that time or later, by `now_s`."""
        return self._since(since_s, self._children.get(pid, []))

    def of_terminal(self, leader: int, since_s: float) -> list[ProcessRow]:
        """The same of all in the session of a terminal, by its leader."""
        return self._since(since_s, self._sessions.get(leader, []))

    def marked(self, variable: bytes, mark: LimitMark, since_s: float) -> list[ProcessRow]:
        """The same of those of ours that were started with this `NAME=VALUE`, or have the mark."""
        found = [*self._marked.get(variable, []), *([] if mark == NO_MARK else self._marked.get(mark, []))]
        return self._since(since_s, found)

    def _since(self, since_s: float, rows: list[ProcessRow]) -> list[ProcessRow]:
        assert since_s >= self._since_s, "older ones were not counted"
        return [row for row in rows if _began_since(since_s, row)]


def _began_since(since_s: float, row: ProcessRow) -> bool:
    return row.born_s >= since_s - CLOCK_SLACK_S


class Counting:
    """Counts for all who need it at one time: each gets a count that began after it had asked."""

    def __init__(self, variable: bytes) -> None:
        self._variable = variable
        self._last = Census(variable, math.inf)
        self._waiting: list[float] = []
        """For each who has not been answered yet: since when its count is to be."""
        self._turn = anyio.Lock()
        self._ended = 0
        self._counts = False

    async def census(self, since_s: float) -> Census:
        """All processes that began at that time or later; others go on while they are counted."""
        # What is under way began before.
        wanted = self._ended + 1 + self._counts
        self._waiting.append(since_s)
        try:
            async with self._turn:
                while self._ended < wanted:
                    await self._count()
                return self._last
        finally:
            self._waiting.remove(since_s)

    async def _count(self) -> None:
        census, self._counts = Census(self._variable, min(self._waiting)), True
        try:
            for number, _ in enumerate(census.count()):
                if number % COUNTED_AT_ONCE == 0:
                    await anyio.lowlevel.checkpoint()
            self._last = census
            self._ended += 1
        finally:
            self._counts = False


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


def _rows() -> Iterator[ProcessRow]:
    if os.path.isdir("/proc/self"):
        for pid, stat in proc.all_stats():
            yield ProcessRow(pid, stat.parent, stat.group, stat.session, stat.born_s)
        return
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            yield ProcessRow(process.pid, process.ppid(), os.getpgid(process.pid), os.getsid(process.pid))


# ---- A mark that processes inherit and do not lose: by it those are found that left everything else behind -----------
#
# A daemon may have another session, no terminal, an empty environment and init as its parent. What it still has are its
# hard resource limits: children inherit them, `execve` keeps them, and only root can raise them again. Two that hardly
# any program asks for are lowered by a session's own odd numbers: pending real-time signals, and bytes in POSIX message
# queues. proc_pid_limits(5) shows them to everybody.

RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE = 11, 12
"""Linux's numbers; other systems have no such limits, nor /proc."""

SIGNAL_LIMITS, QUEUES = "Max pending signals", "Max msgqueue size"
"""Their names in proc_pid_limits(5)."""

UNLIMITED = {SIGNAL_LIMITS: 1 << 17, QUEUES: 819_200}
"""What is taken for the limit where there is none."""

LOWERED_BY = {SIGNAL_LIMITS: 1 << 11, QUEUES: 1 << 17}
"""How far each is lowered at most; so 2 ** 28 marks can be told apart. Never to less than three quarters."""

LimitMark = tuple[int, int]
"""The hard limits, signals and queues; `NO_MARK` where there can be none."""

NO_MARK: LimitMark = (0, 0)


def mark_of(key: str, pid: int | str = "self") -> LimitMark:
    """The mark of what is known by `key`.

    Args:
        pid: the process whose limits are inherited.
    """
    number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8])
    hard = _hard_limits(pid)
    values = []
    for name, most in LOWERED_BY.items():
        if hard.get(name, 0) < 4 * most:
            return NO_MARK
        values.append(hard[name] - 1 - number % most)
        number //= most
    return values[0], values[1]


def rlimits(mark: LimitMark) -> list[Rlimit]:
    """The limits by which a process takes the mark."""
    if mark == NO_MARK:
        return []
    return [(RLIMIT_SIGPENDING, mark[0], mark[0]), (RLIMIT_MSGQUEUE, mark[1], mark[1])]


def mark_on(pid: int) -> LimitMark:
    """The mark that a process has, if it is one."""
    hard = _hard_limits(pid)
    return hard.get(SIGNAL_LIMITS, 0), hard.get(QUEUES, 0)


def _hard_limits(pid: int | str) -> dict[str, int]:
    """The two limits of a process."""
    with suppress(OSError):
        hard = {title: values[1] for title, values in proc.limits(pid, UNLIMITED).items()}
        return {title: UNLIMITED[title] if word == "unlimited" else int(word) for title, word in hard.items()}
    return {}


# ---- Ends a foreign program with this process, also where that is killed with `kill -9`. Only on Linux ---------------
#
# From its start until it is tied, a millisecond or two, nothing ends it yet. PR_SET_PDEATHSIG would need a step of ours
# before the program, and goes by the thread that started it, not the process.


class Lifeline:
    """A pipe into which nobody writes. When its writing end is closed, which only we have, the kernel kills."""

    def __init__(self) -> None:
        """Make it; who starts the program lets it inherit `inherited`."""
        self._fds: tuple[int, ...] = ()
        if sys.platform == "linux":
            with suppress(OSError):  # there is no descriptor left: so be it
                self._fds = os.pipe()

    @property
    def inherited(self) -> tuple[int, ...]:
        """The reading end, which the program has to keep open."""
        return self._fds[:1]

    def tie(self, owner: int) -> None:
        """Say who is killed: a process, or, as a negative number, a process group."""
        if self._fds and sys.platform == "linux":
            with suppress(OSError):  # a kernel that does not know it
                fcntl.fcntl(self._fds[0], fcntl.F_SETOWN, owner)
                fcntl.fcntl(self._fds[0], fcntl.F_SETSIG, signal.SIGKILL)
                fcntl.fcntl(self._fds[0], fcntl.F_SETFL, os.O_ASYNC)  # a signal when the pipe changes: fcntl(2)

    def close(self) -> None:
        """Let go without killing anybody."""
        if self._fds:
            with suppress(OSError):
                fcntl.fcntl(self._fds[0], fcntl.F_SETFL, 0)
        for fd in self._fds:
            os.close(fd)
        self._fds = ()
