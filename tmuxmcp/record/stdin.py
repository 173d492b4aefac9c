"""What a command reads instead of the terminal: a file of the session's own, there until its shell has opened it.

The bytes never pass through the terminal, its log or the shell's history: only the file's path is typed.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from tmuxmcp.errors import IoError
from tmuxmcp.record.directory import SessionDirectory


class Stdin:
    """The file of one command."""

    def __init__(self, directory: SessionDirectory, data: bytes, *, within: bool) -> None:
        """Write it, and remove what earlier commands have left: the shell is at its prompt, so they are over.

        Args:
            within: the session is in a sandbox, which sees a part of its directory alone.

        Raises:
            IoError: it cannot be written.
        """
        place = directory.resolved().stdin_within if within else directory.stdin
        self.path = place / secrets.token_hex(8)
        self._there = True
        try:
            place.mkdir(mode=0o700, exist_ok=True)
            for left in place.iterdir():
                left.unlink(missing_ok=True)
            _write(self.path, data)
        except OSError as error:
            raise IoError(f"stdin cannot be handed over: {self.path} cannot be written: {error.strerror}.") from error

    def remove_once_opened(self, pid: int | None) -> None:
        """Remove it if this process, the shell, has it open."""
        if self._there and pid and _has_open(pid, self.path):
            self.remove()

    def remove(self) -> None:
        """Remove it: nobody opens it any more."""
        self._there = False
        with suppress(OSError):
            self.path.unlink(missing_ok=True)


def _write(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)


def _has_open(pid: int, path: Path) -> bool:
    wanted = os.path.realpath(path)
    with suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{fd}") == wanted:
                    return True
    return False
