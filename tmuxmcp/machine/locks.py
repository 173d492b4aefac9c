"""Locks between processes (flock(2)): the system lets go of one when its process ends, however it ends.

Nobody waits in the kernel, where a wait cannot be given up: who waits asks again.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import anyio

from tmuxmcp.machine.ownfiles import closing, open_file

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
    with closing(open_lock(path)) as fd:
        yield take(fd)


@asynccontextmanager
async def lock_within(path: Path, *, patience_s: float, shared: bool = False) -> AsyncIterator[bool]:
    """Wait for a lock and hold it; yields whether it is held: False when the time was up."""
    with closing(open_lock(path)) as fd:
        taken = take(fd, shared=shared)
        with anyio.move_on_after(patience_s):
            while not taken:
                await anyio.sleep(ASK_AGAIN_S)
                taken = take(fd, shared=shared)
        yield taken


# ---- Which kind of file system a place is on, and whether it is this machine's alone (statfs(2)) ---------------------

REMOTE_MAGIC = {
    0x6969: "nfs",
    0x517B: "smb",
    0xFF534D42: "cifs",
    0xFE534D42: "smb2",
    0x564C: "ncp",
    0x5346414F: "afs",
    0x6B414653: "afs",
    0x73757245: "coda",
    0x01021997: "9p",
    0x00C36400: "ceph",
    0x65735546: "fuse",
    0x0BD00BD0: "lustre",
    0x47504653: "gpfs",
    0x01161970: "gfs2",
    0x7461636F: "ocfs2",
    0x786F4256: "vboxsf",
}
"""Magic numbers of file systems that other machines share, or whose locks and appends are another program's word."""

_BYTES = 512
"""More than any `struct statfs` has."""


class FileSystem(NamedTuple):
    """Where a file lies."""

    kind: str
    """Name of one that is shared; else empty."""

    @property
    def local(self) -> bool:
        """Locks and appends are the kernel's own."""
        return not self.kind


def file_system_of(path: Path) -> FileSystem:
    """The file system of a path that is there; what a system does not tell counts as local.

    Raises:
        OSError: there is no such path.
    """
    if sys.platform != "linux":
        os.stat(path)
        return FileSystem("")
    libc = ctypes.CDLL(None, use_errno=True)
    told = ctypes.create_string_buffer(_BYTES)
    if libc.statfs(os.fsencode(path), told):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
    magic = ctypes.c_long.from_buffer(told).value & 0xFFFFFFFF
    return FileSystem(REMOTE_MAGIC.get(magic, ""))
