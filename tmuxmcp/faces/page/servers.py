"""Which servers show the page of a state directory: each has a file with its address, and holds a lock on it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine import locks
from tmuxmcp.machine.ownfiles import make_directory, read_text, write_atomically

FILE_BYTES = 4096


@dataclass(frozen=True)
class ServedPage:
    """A page that a server shows."""

    port: int
    url: str
    """`http://HOST:PORT`, as a browser on this machine reaches it."""


@contextmanager
def announced(state_dir: Path, served: ServedPage) -> Iterator[None]:
    """Tell command lines of a page while this is open."""
    path = _directory(state_dir) / str(served.port)
    fd = locks.open_lock(path)
    try:
        locks.take(fd)  # nobody else can have the port, so nobody has this
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps({"url": served.url}).encode(), 0)
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(fd)


def last_port(state_dir: Path) -> int:
    """The port that a server without one of its own had last; 0: none is known."""
    try:
        text = read_text(_directory(state_dir).parent / "port")[:16].strip()
    except (OSError, ValueError):
        return 0
    return int(text) if text.isdigit() and int(text) < 1 << 16 else 0


def keep_port(state_dir: Path, port: int) -> None:
    """Have the next such server take this port, so that pages that are open find it."""
    with suppress(OSError):
        write_atomically(_directory(state_dir).parent / "port", f"{port}\n")


def running(state_dir: Path) -> list[ServedPage]:
    """The pages that are served now, the newest first."""
    found = []
    for path in sorted(_directory(state_dir).iterdir(), key=_modified_s, reverse=True):
        if path.name.isdigit() and (url := _url(path)):
            found.append(ServedPage(int(path.name), url))
    return found


def _url(path: Path) -> str:
    """What a file says, if the server that wrote it is still there."""
    try:
        fd = locks.open_lock(path, make=False)
    except OSError:
        return ""
    try:
        if locks.take(fd, shared=True):
            return ""
        url = json.loads(os.pread(fd, FILE_BYTES, 0))["url"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return ""
    finally:
        os.close(fd)
    return url if isinstance(url, str) else ""


def _modified_s(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _directory(state_dir: Path) -> Path:
    directory = state_dir / "page" / "servers"
    make_directory(directory)
    return directory
