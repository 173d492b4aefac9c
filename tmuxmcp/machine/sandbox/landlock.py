"""Landlock (landlock(7)): which files a session may reach, as a list of what is allowed.

A right holds for all that is beneath a path, so a hole is made by allowing everything beside it: to keep a directory
out of reach, each entry of the directories above it is allowed but the way down to it.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from tmuxmcp.machine.sandbox.project import Identity

CREATE_RULESET, VERSION = 444, 1

# Rights (linux/landlock.h), as bits.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
READ_RIGHTS = EXECUTE | READ_FILE | READ_DIR
DEVICE_RIGHTS = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEVICE
RULESET_BYTES = {1: 8, 4: 16, 6: 24}
"""Bytes that the kernel takes of what a ruleset governs, by the version from which on it does."""

ABSTRACT_SOCKETS, SIGNAL_SCOPES = 1 << 0, 1 << 1
"""Scopes: to nobody outside."""

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


LANDLOCK_TRIAL_S = 5.0
TRIAL_CODE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def checked(result):
    if result < 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    return result
ruleset = checked(libc.syscall(444, ctypes.byref(ctypes.c_uint64(1 << 2)), ctypes.c_size_t(8), 0))
checked(libc.prctl(38, 1, 0, 0, 0))
checked(libc.syscall(446, ruleset, 0))
try:
    open("/proc/self/status").close()
except PermissionError:
    print("confined")
"""
"""Lets nothing be read any more, and looks whether that holds."""


@cache
def why_no_landlock() -> str:
    """Why the kernel confines nobody by Landlock; empty: it does. Tried in a process of its own.

    Raises:
        subprocess.TimeoutExpired: there was no answer, as on a busy machine; the next call tries again.
    """
    if not version():
        return "the kernel has no Landlock, or it is switched off"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", TRIAL_CODE],
        capture_output=True,
        text=True,
        timeout=LANDLOCK_TRIAL_S,
        check=False,
    )
    if done.stdout == "confined\n":
        return ""
    return f"Landlock does not work here ({(done.stderr.strip() or 'no effect').splitlines()[-1][:200]})"


def version() -> int:
    """The version of Landlock that the kernel has; 0: none."""
    if sys.platform != "linux":
        return 0
    return max(int(ctypes.CDLL(None).syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION)), 0)


def all_rights(abi: int) -> int:
    """Every right on files that a version knows."""
    known = (1 << 13) - 1
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEVICE)):
        known |= right if abi >= since else 0
    return known


def ruleset(abi: int, files: bool = True) -> tuple[str, str]:
    """The word that begins a ruleset; without `files` it only keeps signals and abstract sockets in."""
    size = max(bytes_ for since, bytes_ in RULESET_BYTES.items() if abi >= since)
    scopes = ABSTRACT_SOCKETS | SIGNAL_SCOPES if abi >= 6 else 0
    return "landlock", f"{all_rights(abi) if files else 0} 0 {scopes} {size}"


def confining_words(
    abi: int,
    *,
    hidden: Iterable[str],
    readable: Iterable[str],
    writable: Iterable[str],
    same: Mapping[str, Identity],
    terminal: bool,
    other_terminal: str = "",
) -> list[tuple[str, str]]:
    """What the launcher's step does to reach nothing else.

    Args:
        hidden: directories that are out of reach, but for what the other two name in them.
        readable: paths in them that can be read.
        writable: directories that can be written to.
        same: what some of them have to be still.
        terminal: standard input is one, which can be used.
        other_terminal: the path of one that can be used as well.
    """
    rights = all_rights(abi)
    holes = sorted({"/dev", *hidden})
    allowed = [(READ_RIGHTS, path) for path in around("/", holes)]
    for path in readable:
        allowed += [(READ_RIGHTS, each) for each in around(path, [hole for hole in holes if hole != path])]
    for path in writable:
        # Not beneath itself what is hidden: of a home directory, everything but the state directory.
        allowed += [(rights, each) for each in around(path, holes)]
    allowed += [(DEVICE_RIGHTS, f"/dev/{name}") for name in DEVICES]
    allowed += [(DEVICE_RIGHTS, other_terminal)] if other_terminal else []
    rules = [_rule(right & rights, path, same.get(path)) for right, path in allowed]
    rules += [("allow_terminal", str(DEVICE_RIGHTS & rights))] if terminal else []
    return [ruleset(abi), *rules, ("enforce", "")]


def reading_words(
    abi: int, *, readable: Iterable[str], runnable: Iterable[str], writable: str
) -> list[tuple[str, str]]:
    """What a process does to reach only a few real paths, and to write to one directory alone.

    Args:
        readable: what can be read.
        runnable: what can be read and run, as far as it is there.
    """
    allowed = [(READ_FILE | READ_DIR, path) for path in readable] + [(READ_RIGHTS, path) for path in runnable]
    allowed += [(all_rights(abi), writable), (DEVICE_RIGHTS & all_rights(abi), "/dev/null")]
    return [("no_new_privs", ""), ruleset(abi), *(_rule(right, path, None) for right, path in allowed), ("enforce", "")]


def _rule(right: int, path: str, same: Identity | None) -> tuple[str, str]:
    return ("allow_same", f"{same[0]} {same[1]} {right} {path}") if same else ("allow", f"{right} {path}")


def around(top: str, holes: Sequence[str]) -> Iterator[str]:
    """The paths that together are all beneath `top` but the holes; directories above a hole are not among them."""
    inside = [hole for hole in holes if Path(hole).is_relative_to(top)]
    if not inside:
        yield top
        return
    if top in inside:
        return
    try:
        entries = sorted(os.scandir(top), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if not entry.is_symlink():  # a rule for one would be a rule for where it leads
            yield from around(entry.path, inside)
