"""A command on its way to a shell that reads commands from files: written once, read once, then emptied by the shell.

The shell is told the file's name by a key. What it has not read can be taken back: it never runs then.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tmuxmcp.errors import IoError
from tmuxmcp.record.directory import SessionDirectory, opened


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
        with suppress(OSError), opened(self._path.parent) as place:
            return os.stat(self._path.name, dir_fd=place, follow_symlinks=False).st_size > 0
        return False

    def take_back(self) -> None:
        """Remove it; a shell that comes for it later finds nothing, and says so."""
        with suppress(OSError), opened(self._path.parent) as place:
            os.unlink(self._path.name, dir_fd=place)

    def tidy(self) -> None:
        """Remove it if the shell has read it."""
        if not self.waits:
            self.take_back()

    def take_back_earlier(self) -> None:
        """Remove what earlier calls left: nobody waits for those commands any more."""
        with suppress(OSError), opened(self._path.parent) as place:
            for name in os.listdir(place):
                if name != self._path.name:
                    os.unlink(name, dir_fd=place)


def place_of(directory: SessionDirectory) -> Path | None:
    """Where the shell of a session looks for commands; None where it does not."""
    return next((path for path in (directory.given, directory.given_within) if path.is_dir()), None)


def give(place: Path, name: str, text: bytes) -> GivenCommand:
    """Write a command.

    Raises:
        IoError: it cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        # Programs in a sandbox may write here as well: the name is new, and no link is followed.
        with opened(place) as directory, open(os.open(name, flags, 0o600, dir_fd=directory), "wb") as stream:
            stream.write(text + b"\0")
    except OSError as error:
        raise IoError(f"The command cannot be written to {place}: {error.strerror}. Nothing was run.") from error
    return GivenCommand(place / name)
