"""What Linux says of processes in /proc (proc(5)): raw facts, which others judge.

Each function raises OSError where there is nothing to read: the process has ended, it is another user's, or the system
has no /proc. A path is a process's directory there or, with `task/TID` below it, a thread's.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
"""The unit of the kernel's times."""

PIECE_BYTES = 8192
"""What is read at once of a file that may be longer."""

TITLE_COLUMNS = 25
"""In which `limits` names a limit; the values follow."""

LIMIT_COLUMNS = 42
"""In which the two values stand."""


class ThreadRuns(ValueError):
    """A thread runs at this moment: it sleeps in no call."""


class Stat(NamedTuple):
    """What `stat` says of a process or thread, as far as we use it."""

    state: str
    """One letter."""
    parent: int
    group: int
    """Process group id."""
    session: int
    """Process id of its session leader (setsid(2))."""
    foreground: int
    """Process group that its terminal's input goes to; -1: it has no terminal."""
    threads: int
    born_s: float
    """When it began, by the clock CLOCK_BOOTTIME."""
    terminal: int
    """Device number of its controlling terminal; 0: it has none. Terminals of two sessions may have the same one."""


class Device(NamedTuple):
    """Which device a special file is; of a terminal its number alone does not say it.

    Each file system of terminals (devpts) counts its own from 0: a sandbox or a container has terminals with the
    numbers of those outside.
    """

    file_system: int
    number: int


def device(path: str | int) -> Device:
    """The device that an open file is, or the one at a path."""
    found = os.stat(path)
    return Device(found.st_dev, found.st_rdev)


def since_boot_s() -> float:
    """The clock by which births are told, which nobody sets; elsewhere than on Linux one that nobody sets either."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


def _read(path: str) -> bytes:
    """All of a file; in a third of the time that `open` takes, which is most of what these files cost."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(fd, PIECE_BYTES)
        while data and (more := os.read(fd, PIECE_BYTES)):
            data += more
        return data
    finally:
        os.close(fd)


def _read_whole(path: str) -> bytes:
    """All of a file that the kernel writes in one piece: of such a one a read gives as much as there is room for."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = piece = os.read(fd, PIECE_BYTES)
        while len(piece) == PIECE_BYTES:
            piece = os.read(fd, PIECE_BYTES)
            data += piece
        return data
    finally:
        os.close(fd)


def stat_words(path: str) -> list[bytes]:
    """The words of `stat` from the state on."""
    # Its name, in parentheses, may hold anything.
    words = _read_whole(path + "/stat").rpartition(b")")[2].split()
    if len(words) < 20:
        raise ProcessLookupError(path)
    return words


def stat(path: str) -> Stat:
    """State and relations of a process or thread."""
    words = stat_words(path)
    numbers = (int(words[1]), int(words[2]), int(words[3]), int(words[5]), int(words[17]))
    tty = int(words[4])  # as the kernel forms it; os.makedev gives the form of stat(2)
    terminal = os.makedev((tty >> 8) & 0xFFF, (tty & 0xFF) | ((tty >> 12) & 0xFFF00)) if tty else 0
    return Stat(words[0].decode(), *numbers, int(words[19]) / TICKS_A_SECOND, terminal)


def all_stats() -> Iterator[tuple[int, Stat]]:
    """All processes that can be seen, by their ids."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError):
                yield int(name), stat(f"/proc/{name}")


def threads(pid: int) -> list[int]:
    """A process's threads in the order of their ids."""
    return sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))


def children(pid: int, of_threads: list[int]) -> list[int]:
    """The children of some of a process's threads; none where the kernel does not list them."""
    found: list[int] = []
    for thread in of_threads:
        with suppress(OSError):
            found += listed_children(pid, thread)
    return found


def listed_children(pid: int, thread: int) -> list[int]:
    """The children of one of a process's threads, where the kernel lists them."""
    return [int(child) for child in _read(f"/proc/{pid}/task/{thread}/children").split()]


def name(pid: int) -> str:
    """What the kernel calls a process: 15 bytes of its program's name, or what it calls itself."""
    return _read_whole(f"/proc/{pid}/comm").decode("utf-8", "replace").rstrip("\n")


def argv_text(pid: int) -> list[str]:
    """The words that a process was started with, or that it shows instead."""
    with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
        return file.read().rstrip("\0").split("\0")


def wait_channel(path: str) -> str:
    """The kernel function that it sleeps in; `0` or empty: it runs, or the kernel does not tell."""
    return _read_whole(path + "/wchan").decode().strip()


def system_call(path: str) -> list[str]:
    """The words on the call that a thread sleeps in: number, arguments, stack pointer, place.

    Of a thread that is just going to sleep the kernel tells once it sleeps.

    Raises:
        Runs: it sleeps in none.
    """
    words = _read_whole(path + "/syscall").decode().split()
    if words == ["running"]:
        raise ThreadRuns(path)
    return words


def status(path: str, field: str) -> str:
    """A field of `status`, such as `SigIgn`."""
    _, found, value = _read_whole(path + "/status").partition(f"\n{field}:".encode())
    if not found:
        raise ProcessLookupError(path)
    return value.partition(b"\n")[0].strip().decode("utf-8", "replace")


def argv_bytes(pid: int) -> list[bytes]:
    """A process's arguments, its program's name first."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def environment(pid: int) -> list[bytes]:
    """A process's variables as NAME=VALUE, as they were when it began."""
    return _read(f"/proc/{pid}/environ").split(b"\0")


def limits(pid: int | str, titles: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Some of a process's limits by their titles, the soft and the hard one: a number each, or `unlimited`."""
    text, found = _read(f"/proc/{pid}/limits").decode(), {}
    for title in titles:
        _, there, row = text.partition(f"\n{title.ljust(TITLE_COLUMNS)}")
        if there:
            soft, hard = row[:LIMIT_COLUMNS].split()[:2]
            found[title] = (soft, hard)
    return found


def waits_in(pid: int) -> tuple[int, int] | None:
    """The system call in which a process's main thread waits, and its stack pointer; None: it runs."""
    try:
        words = system_call(f"/proc/{pid}")
    except ThreadRuns:
        return None
    if len(words) < 9 or int(words[0]) < 0:
        return None
    return int(words[0]), int(words[-2], 16)


def stack_start(pid: int) -> int:
    """The address at which a process's stack began when its program did; the words before it are its arguments.

    A process that was forked without a new program has its parent's.
    """
    words = stat_words(f"/proc/{pid}")
    start = int(words[25]) if len(words) > 25 else 0
    if start <= 1:  # so the kernel hides it
        raise PermissionError(pid)
    return start


def code_of(pid: int) -> Iterator[tuple[int, int, str, int]]:
    """A process's code in memory: where each part begins and ends, the name of its file, where that file begins.

    Without the loader of libraries (ld.so(8)).
    """
    begins: dict[str, int] = {}
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.rstrip("\n").split(None, 5)
            low, high = (int(word, 16) for word in words[0].split("-"))
            path = words[5] if len(words) > 5 else ""
            base = begins.setdefault(path, low - int(words[2], 16))
            name = os.path.basename(path.removesuffix(" (deleted)"))
            if "x" in words[1] and path.startswith("/") and not name.startswith("ld-"):
                yield low, high, name, base
