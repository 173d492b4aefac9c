"""How far each caller of a session has come, whatever broker it asked: in reading, in being told of give-backs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from tmuxmcp.contract.value import value
from tmuxmcp.machine.ownfiles import check_directory, make_directory, open_file, read_text, write_atomically
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


# ---- Which commands of a session each caller was told of, whatever broker it asked -----------------------------------

MOST_BEYOND = 64
"""Numbers that are kept one by one; a caller who takes so many answers in between has given up the older ones."""


@value
class ToldCommands:
    """The commands that one caller was told of, by number."""

    through: int = 0
    """All up to this one."""
    beyond: frozenset[int] = frozenset()
    """And these."""

    def knows(self, number: int) -> bool:
        """Whether it was told of a command."""
        return number <= self.through or number in self.beyond

    def also(self, number: int, ended: Iterable[int]) -> ToldCommands:
        """With one more; `ended`: the numbers of all that have ended behind `through`, rising."""
        beyond, through = {*self.beyond, number}, self.through
        for each in ended:
            if each not in beyond:
                break
            through = max(through, each)
        return _bounded(through, {each for each in beyond if each > through})

    def without(self, numbers: Sequence[int], ended: Iterable[int]) -> ToldCommands:
        """Without some, rising; `ended`: the numbers of all that have ended from the first of those on."""
        through = min(self.through, numbers[0] - 1)
        beyond = {*self.beyond, *(each for each in ended if each <= self.through)}
        return _bounded(through, beyond.difference(numbers))


def _bounded(through: int, beyond: set[int]) -> ToldCommands:
    while len(beyond) > MOST_BEYOND:
        through = min(beyond)
        beyond.discard(through)
    return ToldCommands(through, frozenset(beyond))


class ToldCallers:
    """The files of `told/`, each read once."""

    def __init__(self, directory: SessionDirectory) -> None:
        self._directory = directory
        self._path = directory.told
        self._known: dict[str, ToldCommands] = {}

    def of(self, caller: str) -> ToldCommands:
        """What this caller was told of; nothing, for one who never asked."""
        told = self._known.get(caller)
        if told is None:
            told = ToldCommands()
            with suppress(OSError, ValueError, IndexError):
                first, *beyond = map(int, read_in(self._path, caller).splitlines()[0].split())
                told = ToldCommands(first, frozenset(beyond))
            self._known[caller] = told
        return told

    def tell(self, caller: str, told: ToldCommands) -> None:
        """Remember what this caller was told of; also after a kill, and without a rename's 0.2 ms."""
        if told == self.of(caller):
            return
        self._known[caller] = told
        if not self._directory.is_there:
            return
        line = " ".join(map(str, (told.through, *sorted(told.beyond)))) + "\n"
        with suppress(OSError):
            fd = opened_in(self._path, caller)
            try:
                os.pwrite(fd, line.encode(), 0)  # what a longer one left behind the line is not read
            finally:
                os.close(fd)


# ---- Input that may wait in tmux for a program that does not read: how much, whatever broker typed it ----------------

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
