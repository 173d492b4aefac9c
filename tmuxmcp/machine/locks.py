"""Locks between processes (flock(2)): the system lets go of one when its process ends, however it ends.

Nobody waits in the kernel, where a wait cannot be given up: who waits asks again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio

from tmuxmcp.machine.ownfiles import open_file

ASK_AGAIN_S = 0.002
"""Brokers hold a lock for a few milliseconds."""


def open_lock(path: Path, *, make: bool = True) -> int:
    """Open a lock's file; closing the descriptor lets go of the lock.

    Raises:
        FileNotFoundError: it is not there, and shall not be made.
        OSError: it cannot be opened, or something else has its place.
    """
    return open_file(path, os.O_RDWR | (os.O_CREAT if make else 0))


def take(fd: int, *, shared: bool = False) -> bool:
    """Take the lock if it is free; return whether it is taken.

    Args:
        shared: others may share it, but nobody may have it alone.
    """
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def if_free(path: Path) -> Iterator[bool]:
    """Hold a lock, if nobody else does; yields whether it is held."""
    fd = open_lock(path)
    try:
        yield take(fd)
    finally:
        os.close(fd)


@asynccontextmanager
async def lock_within(path: Path, *, patience_s: float, shared: bool = False) -> AsyncIterator[bool]:
    """Wait for a lock and hold it; yields whether it is held: False when the time was up."""
    fd = open_lock(path)
    try:
        taken = take(fd, shared=shared)
        with anyio.move_on_after(patience_s):
            while not taken:
                await anyio.sleep(ASK_AGAIN_S)
                taken = take(fd, shared=shared)
        yield taken
    finally:
        os.close(fd)
