"""Which commands of a session each caller was told of, whatever broker it asked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.record.cursors import opened_in, read_in
from tmuxmcp.record.directory import SessionDirectory

MOST_BEYOND = 64
"""Numbers that are kept one by one; a caller who takes so many answers in between has given up the older ones."""


@dataclass(frozen=True)
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
