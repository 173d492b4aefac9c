"""A command on its way to a shell that reads commands from files: written once, read once, then emptied by the shell.

The shell is told the file's name by a key. What it has not read can be taken back: it never runs then. An emptied file
is kept for the next command: some file systems take longer to make a file than a shell takes to run `true`.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from tmuxmcp.contract.errors import IoError
from tmuxmcp.record.directory import SessionDirectory, open_directory

SPARE_NAME = os.path.basename(SessionDirectory.given_spare.name)
"""Name of the emptied file. Whoever renames it has it: no two commands come into one file."""


class GivenCommand:
    """The file of one command."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._path

    @property
    def waits(self) -> bool:
        """The shell has not read it; false as well where that cannot be told."""
        with suppress(OSError), open_directory(self._path.parent) as place:
            return os.stat(self._path.name, dir_fd=place, follow_symlinks=False).st_size > 0
        return False

    def take_back(self) -> None:
        """Remove it; a shell that comes for it later finds nothing, and says so."""
        with suppress(OSError), open_directory(self._path.parent) as place:
            os.unlink(self._path.name, dir_fd=place)

    def tidy(self) -> None:
        """Keep it for the next command if the shell has read it, and so emptied it."""
        with suppress(OSError), open_directory(self._path.parent) as place:
            if os.stat(self._path.name, dir_fd=place, follow_symlinks=False).st_size == 0:
                os.rename(self._path.name, SPARE_NAME, src_dir_fd=place, dst_dir_fd=place)

    def take_back_earlier(self) -> None:
        """Remove what earlier calls left: nobody waits for those commands any more."""
        with suppress(OSError), open_directory(self._path.parent) as place:
            for name in os.listdir(place):
                if name not in (self._path.name, SPARE_NAME):
                    os.unlink(name, dir_fd=place)


def place_of(directory: SessionDirectory) -> Path | None:
    """Where the shell of a session looks for commands; None where it does not."""
    return next((path for path in (directory.given, directory.given_within) if path.is_dir()), None)


def give(place: Path, name: str, text: bytes) -> GivenCommand:
    """Write a command.

    Raises:
        IoError: it cannot be written.
    """
    try:
        with open_directory(place) as directory, open(_file(name, directory), "wb") as stream:
            stream.write(text + b"\0")
    except OSError as error:
        raise IoError(f"The command cannot be written to {place}: {error.strerror}. Nothing was run.") from error
    return GivenCommand(place / name)


def _file(name: str, place: int) -> int:
    """An empty file of this name, to be written to. Programs in a sandbox may write here as well: no link is followed.

    Raises:
        OSError
    """
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError):
        if _is_empty_file(os.stat(SPARE_NAME, dir_fd=place, follow_symlinks=False)):
            os.rename(SPARE_NAME, name, src_dir_fd=place, dst_dir_fd=place)
            # One that a pipe was put in place of just now is not waited for.
            return os.open(name, flags | os.O_NONBLOCK, dir_fd=place)
    return os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=place)


def _is_empty_file(state: os.stat_result) -> bool:
    ours = state.st_uid == os.geteuid() and stat.S_IMODE(state.st_mode) == 0o600
    return stat.S_ISREG(state.st_mode) and state.st_size == 0 and state.st_nlink == 1 and ours
