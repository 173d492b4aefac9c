"""Which files a set of epoll(7) waits for input from, as /proc shows it.

A file may be in a set and not be listened to: libuv, Haskell and others leave it there and take the event away, or
ask for one event only (EPOLLONESHOT), after which the kernel clears all but that flag. A set may hold another set.
"""

from __future__ import annotations

import os
from contextlib import suppress

INPUT_EVENTS = 0x001 | 0x040
"""EPOLLIN, and EPOLLRDNORM, which says the same."""

NESTED_EPOLLS = 5
"""The kernel refuses deeper nests."""

WATCHED_FILES = 4096
"""So many of one set are looked at."""


def watched_descriptors(pid: int, fd: int, depth: int = NESTED_EPOLLS) -> list[int]:
    """The descriptors from which a process's set `fd`, or one within it, is to be told of input.

    Raises:
        OSError: the set cannot be seen.
    """
    with open(f"/proc/{pid}/fdinfo/{fd}") as file:
        # `tfd:        0 events:       19 data: ...`
        rows = [line.split() for line in file if line.startswith("tfd:")][:WATCHED_FILES]
    found: list[int] = []
    for row in rows:
        target, events = int(row[1]), int(row[3], 16)
        if not events & INPUT_EVENTS:
            continue
        found.append(target)
        if depth > 1:
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{target}") == "anon_inode:[eventpoll]":
                    found += watched_descriptors(pid, target, depth - 1)
    return found
