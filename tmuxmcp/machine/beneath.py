"""Opening paths beneath a directory: whatever links lead elsewhere and whoever moves them meanwhile, nothing outside.

The kernel does it where it can: openat2(2) with RESOLVE_BENEATH. Elsewhere each component is opened by itself, from
the descriptor of the one before, and links are read and walked here. Asking for the real path first and opening it
then is not safe: in between, somebody can put a link there.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from contextlib import ExitStack

OPENAT2 = 437
"""The number of the system call, the same on every architecture."""

RESOLVE_NO_MAGICLINKS, RESOLVE_BENEATH = 0x02, 0x08

MOST_EAGAIN = 1000
"""How often the kernel is asked again when something on the way was moved meanwhile (EAGAIN)."""

MAX_LINKS = 40
"""Links followed on the way: as many as Linux follows (path_resolution(7))."""

PATH_ONLY = getattr(os, "O_PATH", 0)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(directory: int, path: str, flags: int) -> int:
    """Open an existing file that lies beneath a directory; links that stay there are followed.

    Args:
        directory: its descriptor.
        path: relative to it.

    Raises:
        OSError: EXDEV when the path leads out of the directory.
    """
    if sys.platform == "linux":
        try:
            return _openat2(directory, path, flags)
        except OSError as error:
            # An old kernel; containers whose rules do not know the call say EPERM.
            if error.errno not in (errno.ENOSYS, errno.EPERM):
                raise
    return walk(directory, path, flags)


def _openat2(directory: int, path: str, flags: int) -> int:
    how = _How(flags | os.O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
    libc = ctypes.CDLL(None, use_errno=True)
    name = os.fsencode(path)
    for _ in range(MOST_EAGAIN):
        size = ctypes.c_size_t(ctypes.sizeof(how))
        fd: int = libc.syscall(ctypes.c_long(OPENAT2), directory, name, ctypes.byref(how), size)
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number), path)


def walk(directory: int, path: str, flags: int) -> int:
    """The same by small steps: no component is ever opened through a link."""
    with ExitStack() as opened:
        above = [directory]
        todo, links = _parts(path), 0
        while todo:
            part = todo.pop()
            if part == "..":
                if len(above) == 1:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
                above.pop()
                continue
            target = link_target(above[-1], part)
            if target is not None:
                links += 1
                if links > MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                if target.startswith("/"):
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
                todo += _parts(target)
            elif todo:
                step = os.open(part, PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above[-1])
                opened.callback(os.close, step)
                above.append(step)
            else:
                return os.open(part, flags | os.O_NOFOLLOW, dir_fd=above[-1])
        return os.open(".", flags, dir_fd=above[-1])


def link_target(directory: int, name: str) -> str | None:
    """Where a link leads; `None` if it is none.

    Raises:
        OSError: there is nothing of this name.
    """
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise


def _parts(path: str) -> list[str]:
    """The components, the last one first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
