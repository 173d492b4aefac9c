"""A mark that processes inherit and do not lose: by it those are found that left everything else behind.

A daemon may have another session, no terminal, an empty environment and init as its parent. What it still has are its
hard resource limits: children inherit them, `execve` keeps them, and only root can raise them again. Two that hardly
any program asks for are lowered by a session's own odd numbers: pending real-time signals, and bytes in POSIX message
queues. proc_pid_limits(5) shows them to everybody.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress

from tmuxmcp.machine import proc
from tmuxmcp.machine.limits import Rlimit

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
