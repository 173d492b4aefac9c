"""Input that may wait in tmux for a program that does not read: how much, whatever broker typed it."""

from __future__ import annotations

from contextlib import suppress

from tmuxmcp.machine.ownfiles import read_text, write_atomically
from tmuxmcp.record.directory import SessionDirectory

TERMINAL_TAKES_BYTES = 4096
"""What a terminal takes itself: less is not written down."""


class QueuedInput:
    """The file `typed` of one session."""

    def __init__(self, directory: SessionDirectory) -> None:
        self._path = directory.queued

    @property
    def bytes(self) -> int:
        """Bytes typed since its terminal last had room: at most that many are queued."""
        with suppress(OSError, ValueError):
            return int(read_text(self._path))
        return 0

    @bytes.setter
    def bytes(self, size: int) -> None:
        with suppress(OSError):
            if size > TERMINAL_TAKES_BYTES or self._path.exists():
                write_atomically(self._path, str(size))
