"""Which kind of file system a place is on, and whether it is this machine's alone (statfs(2))."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import NamedTuple

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
