"""What the process of a server keeps to itself: the variables it was started with, and its memory.

Whoever runs as its user reads the environment of a process in /proc, as it was when its program began, and its children
inherit it. So a server takes all but the usual variables out, and keeps them in its memory alone, into which nobody may
look. Process 1 of a container has them as well, for as long as the container runs: there we start anew below an init,
without them, and get them by a pipe.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from contextlib import suppress

from tmuxmcp.machine.environment import is_secret_name, is_usual

_withheld: dict[str, str] = {}
"""As `os.environ`, which they are taken from, there is one of it in a process."""

ENVIRONMENT_FIELD = 47
"""Where /proc/PID/stat says where the environment begins in memory, and then where it ends; counted from the state."""

PR_SET_DUMPABLE = 4

HANDED_ON = "TMUXMCP_HANDED_ON"
"""The variable that names the descriptor of the pipe."""

PIPE_BYTES = 1 << 20
"""So much a pipe holds that is of no privileged user's (pipe(7))."""

INIT = ("tini", "-s", "--")
"""The program that is process 1 in our place, and its options."""


def environment() -> dict[str, str]:
    """The variables that this process was started with, also those that are withheld from its environment."""
    return {**_withheld, **os.environ}


def leave_process_1() -> None:
    """As the first process of a container, put an init in our place, and have it start us: it collects orphans.

    It is started with the usual variables alone: all others we get by a pipe, which is empty before there is a session.
    """
    if os.getpid() != 1 or sys.platform != "linux" or not shutil.which(INIT[0]):
        return
    handed = b"".join(name + b"=" + value + b"\0" for name, value in os.environb.items() if not _is_usual(name))
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    with suppress(OSError):  # the user has many pipes
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    if os.write(writer, handed) < len(handed):
        sys.exit(f"tmuxmcp: the variables of this container are too long: {len(handed)} bytes")
    os.set_inheritable(reader, True)
    usual = {name: value for name, value in os.environb.items() if _is_usual(name)}
    os.execvpe(INIT[0], [*INIT, *sys.orig_argv], usual | {HANDED_ON.encode(): str(reader).encode()})


def take_over() -> None:
    """Take in the variables that process 1 handed on."""
    pipe = os.environ.pop(HANDED_ON, "")
    if pipe:
        with open(int(pipe), "rb") as file:
            handed = file.read()
        for entry in handed.split(b"\0")[:-1]:
            name, _, value = entry.partition(b"=")
            os.environb[name] = value


def withhold() -> None:
    """Take all but the usual variables out of our environment, once settings are read and before a process is started.

    For a process of ours alone: it is not ours to change the environment of a program that uses us as a library.
    """
    for name in [name for name in os.environ if not is_usual(name)]:
        _withheld[name] = os.environ.pop(name)
    if sys.platform == "linux":
        _blank()


def hide() -> None:
    """Have the kernel show others no unusual variable, where one of ours seems to hold a secret; all stay ours."""
    if sys.platform == "linux" and any(map(is_secret_name, os.environ)):
        os.environ.update(dict(os.environ))  # copied to another place in memory
        _blank()


def _blank() -> None:
    """Overwrite them where the kernel shows them: there they stay whatever becomes of the variables."""
    import ctypes

    with open("/proc/self/stat", "rb") as file:
        words = file.read().rpartition(b")")[2].split()
    start, end = (int(word) for word in words[ENVIRONMENT_FIELD : ENVIRONMENT_FIELD + 2])
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        if not _is_usual(entry.partition(b"=")[0]):
            ctypes.memset(start, 0, len(entry))
        start += len(entry) + 1


def shown_above() -> dict[str, tuple[int, str]]:
    """Variables that seem to hold a secret, and that a process above us shows to any program of our user.

    Returns:
        of each, by its name, the nearest such process: its id, and what it is called.
    """
    from tmuxmcp.machine import proc  # late: each command of the command line loads this module

    found: dict[str, tuple[int, str]] = {}
    pid = os.getppid()
    while pid > 0:
        with suppress(OSError):
            own = os.stat(f"/proc/{pid}").st_uid == os.geteuid()  # of one that is closed it says root
            for entry in proc.environment(pid) if own else ():
                name, _, value = os.fsdecode(entry).partition("=")
                if is_secret_name(name) and value and not value.startswith("/"):  # a socket's path, say
                    found.setdefault(name, (pid, proc.name(pid)))
        try:
            pid = proc.stat(f"/proc/{pid}").parent
        except OSError:
            break
    return found


def _is_usual(name: bytes) -> bool:
    return is_usual(os.fsdecode(name))


def refuse_to_be_looked_into() -> None:
    """Have the kernel keep our memory and descriptors from other processes of our user, and write no core file.

    Root alone, with its capabilities, still looks into us. A process that we start is not concerned.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def in_a_session() -> bool:
    """Whether this runs in a session, as far as that can be told: one that goes about it can hide it."""
    import psutil

    from tmuxmcp.machine import proc

    inside = "TMUXMCP_KEY" in environment()
    for process in psutil.Process().parents():
        try:
            theirs = proc.environment(process.pid)
        except OSError:
            continue
        inside |= any(variable.startswith(b"TMUXMCP_KEY=") for variable in theirs)
    return inside
