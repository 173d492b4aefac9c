"""What the process of a server keeps to itself: the variables it was started with, and its memory.

Whoever runs as its user reads the environment of a process in /proc, as it was when its program began, and its children
inherit it. So a server takes all but the usual variables out, and keeps them in its memory alone, into which nobody may
look.
"""

from __future__ import annotations

import os
import sys

from tmuxmcp.machine.environment import is_usual

_withheld: dict[str, str] = {}
"""As `os.environ`, which they are taken from, there is one of it in a process."""

ENVIRONMENT_FIELD = 47
"""Where /proc/PID/stat says where the environment begins in memory, and then where it ends; counted from the state."""

PR_SET_DUMPABLE = 4


def environment() -> dict[str, str]:
    """The variables that this process was started with, also those that are withheld from its environment."""
    return {**_withheld, **os.environ}


def withhold() -> None:
    """Take all but the usual variables out of our environment, once settings are read and before a process is started.

    For a process of ours alone: it is not ours to change the environment of a program that uses us as a library.
    """
    for name in [name for name in os.environ if not is_usual(name)]:
        _withheld[name] = os.environ.pop(name)
    if sys.platform == "linux":
        _blank()


def _blank() -> None:
    """Overwrite them where the kernel shows them: there they stay whatever becomes of the variables."""
    import ctypes

    with open("/proc/self/stat", "rb") as file:
        words = file.read().rpartition(b")")[2].split()
    start, end = (int(word) for word in words[ENVIRONMENT_FIELD : ENVIRONMENT_FIELD + 2])
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        if not is_usual(os.fsdecode(entry.partition(b"=")[0])):
            ctypes.memset(start, 0, len(entry))
        start += len(entry) + 1


def refuse_to_be_looked_into() -> None:
    """Have the kernel keep our memory and descriptors from other processes of our user, and write no core file.

    Root alone, with its capabilities, still looks into us. A process that we start is not concerned.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
