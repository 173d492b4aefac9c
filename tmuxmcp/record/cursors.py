"""How far each caller of a session has come, whatever broker it asked: in reading, in being told of give-backs."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tmuxmcp.machine.ownfiles import check_directory, make_directory, open_file, read_text
from tmuxmcp.record.directory import SessionDirectory


class Cursors:
    """The files of one directory, by caller, each read once."""

    def __init__(self, directory: SessionDirectory, path: Path) -> None:
        self._directory, self._path = directory, path
        self._known: dict[str, int] = {}

    def of(self, caller: str) -> int:
        """How far this caller has come; 0 for one of whom nothing is known."""
        offset = self._known.get(caller)
        if offset is None:
            offset = 0
            with suppress(OSError, ValueError):
                offset = int(read_in(self._path, caller))
            self._known[caller] = offset
        return offset

    def move(self, caller: str, offset: int) -> None:
        """Remember how far this caller has come; also after a kill, and without a rename's 0.2 ms."""
        self._known[caller] = offset
        if not self._directory.is_there:
            return
        with suppress(OSError):
            fd = opened_in(self._path, caller)
            try:
                os.pwrite(fd, b"%020d" % offset, 0)
            finally:
                os.close(fd)


def opened_in(place: Path, name: str) -> int:
    """A file to be written to, in a directory that is made if it is not there.

    Raises:
        OSError
    """
    path, flags = f"{place}/{name}", os.O_CREAT | os.O_WRONLY
    try:
        check_directory(place)
        return open_file(path, flags)
    except FileNotFoundError:
        make_directory(place)
        return open_file(path, flags)


def read_in(place: Path, name: str) -> str:
    """The text of a file in such a directory.

    Raises:
        OSError, ValueError
    """
    check_directory(place)
    return read_text(f"{place}/{name}")
