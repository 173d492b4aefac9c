"""What a command reads instead of the terminal: a file of the session's own, there until its shell has opened it.

The bytes never pass through the terminal, its log or the shell's history: only the file's path is typed. A file is
called after the number of the prompt at which its command is typed: once the shell is at a later one, it is left over.
What runs in a sandbox can put a link in the directory's place, so nothing here follows one.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path

from tmuxmcp.contract.errors import IoError
from tmuxmcp.record.directory import SessionDirectory, open_directory

LEFT_S = 5.0
"""Between looking at the prompt and typing a broker needs less: so long a file of an earlier prompt may be needed."""

REMOVED_AT_ONCE = 100
"""Files that are removed at once: what runs in a sandbox may put any number there."""


class Stdin:
    """The file of one command."""

    def __init__(self, directory: SessionDirectory, data: bytes, *, number: int, within: bool) -> None:
        """Write it.

        Args:
            number: of the prompt at which its command is typed.
            within: the session is in a sandbox, which sees a part of its directory alone.

        Raises:
            IoError: it cannot be written.
        """
        place = directory.resolved().stdin_within if within else directory.stdin
        self.path = place / f"{number}-{secrets.token_hex(8)}"
        self._there = True
        try:
            place.mkdir(mode=0o700, exist_ok=True)
            with open_directory(place) as fd:
                _write(self.path.name, fd, data)
        except OSError as error:
            raise IoError(f"stdin cannot be handed over: {self.path} cannot be written: {error.strerror}.") from error

    def remove_once_opened(self, pid: int | None) -> None:
        """Remove it if this process, the shell, has it open."""
        if self._there and pid and _has_open(pid, self.path):
            self.remove()

    def remove(self) -> None:
        """Remove it: nobody opens it any more."""
        self._there = False
        with suppress(OSError), open_directory(self.path.parent) as fd:
            os.unlink(self.path.name, dir_fd=fd)


def remove_left(directory: SessionDirectory, number: int | None = None) -> None:
    """Remove what commands before a prompt have left, as a killed broker does; None: all, as the session is over."""
    # Mostly there is none, as no command has read anything else: an exception would cost ten times as much.
    places = [place for place in (directory.stdin, directory.stdin_within) if os.access(place, os.F_OK)]
    if not places or not directory.is_there:
        return
    for place in places:
        with suppress(OSError), open_directory(place) as fd, os.scandir(fd) as files:
            for name in [each.name for each in islice(files, REMOVED_AT_ONCE)]:
                with suppress(OSError):
                    if number is None or _is_left(name, fd, number):
                        os.unlink(name, dir_fd=fd)


def _is_left(name: str, place: int, number: int) -> bool:
    its = name.partition("-")[0]
    earlier = not its.isdecimal() or int(its) < number
    return earlier and time.time() - os.stat(name, dir_fd=place, follow_symlinks=False).st_mtime > LEFT_S


def _write(name: str, place: int, data: bytes) -> None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=place), "wb") as file:
        file.write(data)


def _has_open(pid: int, path: Path) -> bool:
    wanted = os.path.realpath(path)
    with suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{fd}") == wanted:
                    return True
    return False
