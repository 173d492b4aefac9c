"""A directory of its own for one process in a sandbox: its temporary files, and where it works without a project.

It is locked while it is in use. What a killed broker left is removed when the next one is made.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tmuxmcp.contract.errors import IoError
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine import locks

DIRECTORY_TRIES = 10
"""Another broker that tidies up may take a new directory before it is locked."""


@dataclass(frozen=True)
class Workplace:
    """A directory, and what is in it."""

    path: Path

    @property
    def temporary(self) -> Path:
        """For temporary files."""
        return self.path / "tmp"

    @property
    def work(self) -> Path:
        """Where to work."""
        return self.path / "work"


@contextmanager
def workplace(above: Path) -> Iterator[Workplace]:
    """Make one in `above`, which is made too; afterwards it is gone. Blocking: for a worker thread.

    Raises:
        IoError: it cannot be made.
    """
    above.mkdir(mode=0o700, exist_ok=True)
    _sweep(above)
    for _ in range(DIRECTORY_TRIES):
        place = Workplace(above / secrets.token_hex(8))
        place.path.mkdir(mode=0o700)
        with _locked(place.path) as ours:
            if not ours:
                continue
            try:
                place.temporary.mkdir(mode=0o700)
                place.work.mkdir(mode=0o700)
                yield place
            finally:
                shutil.rmtree(place.path, ignore_errors=True)
            return
    raise IoError(f"No directory can be kept in {above}: something removes each.")


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold the lock of a directory, if nobody else does and it is still there."""
    fd = -1
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield fd >= 0 and locks.take(fd) and path.is_dir()
    finally:
        if fd >= 0:
            os.close(fd)


def _sweep(above: Path) -> None:
    for path in above.iterdir():
        with _locked(path) as free:
            if free:
                shutil.rmtree(path, ignore_errors=True)
