"""`levels.json`: the shells that were adopted in a session, one in front of the other. Every broker writes to it.

A shell is written down before the line is typed that adopts it: whoever reads its marks in the log finds its nonce
here. One that has ended stays for a while, for brokers that have not read the log so far. What a shell's marks say is
not here but in the checkpoint (`checkpoint`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import cached_property
from typing import Any

from tmuxmcp.contract.value import asdict, field, value
from tmuxmcp.contract.words import Where
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.documents import Cached, Document, is_newer, made_of
from tmuxmcp.terminal.marks import Numbers, ShellTrack

LEVELS = Document(SessionDirectory.levels, to_disk=True)

ENDED_LEVELS = 32
"""Levels that have ended and are kept."""


class AdoptionStage(StrEnum):
    """How far an adoption has come."""

    ASKED = "asked"
    """The line is about to be typed, or was."""
    ANSWERED = "answered"
    """The shell has said who it is, and the marks are about to be typed, or were."""
    ADOPTED = "adopted"


@value
class Level:
    """A shell of a session that sends marks."""

    nonce: str
    """In its marks."""
    number: int = 0
    """How many shells with marks it is in front of; 0: the session's own."""
    since: int = 0
    """Size of the log before anything was typed to adopt it."""
    stage: AdoptionStage = AdoptionStage.ADOPTED
    kind: str = ""
    """Its name: `bash`, `dash`; empty while it has not said it."""
    version: str = ""
    dialect: str = ""
    """How it is given a command: `bash`, `zsh`, `fish` or `posix`."""
    where: Where = "own"
    host: str | None = None
    """The machine it runs on, where that is another one and known."""
    pid: int | None = None
    """Its process on this machine; None: not known."""
    process: str = ""
    """By which that process is told from a later one of the same id, and from the same one with another program."""
    carrier: int | None = None
    """Who has the session's terminal in its place: `ssh`, `script`; None: it has it itself."""
    carrier_process: str = ""
    until: int | None = None
    """Size of the log when it was found to have ended; None: it has not."""
    output_end: int | None = None
    """Where the output ends of the command that ended it."""
    exit_code: int | None = None
    """Its own; None: not known."""
    passes_on: bool = False
    """Its exit code is that of the command which led to it in the shell behind: nothing else has a say in it."""
    proofs: bool = False
    """It takes a proof with a command."""
    function_key: bool = False
    """It knows `FUNCTION_KEY`, if it is fish."""
    answer: str = field(default="", compare=False)
    """What it said of itself."""

    @property
    def stands(self) -> bool:
        """It is adopted and has not ended, as far as was seen."""
        return self.stage is AdoptionStage.ADOPTED and self.until is None

    @property
    def pending(self) -> bool:
        """Its adoption has begun and not ended."""
        return self.stage is not AdoptionStage.ADOPTED and self.until is None

    @cached_property
    def reads_lines(self) -> bool:
        """It may read commands without a line editor."""
        return self.dialect == "posix"


class LevelFile(Cached[tuple[Level, ...]]):
    """One session's `levels.json`, in the order in which they were adopted; those that have ended too."""

    def __init__(self, directory: SessionDirectory) -> None:
        super().__init__(directory.levels, self._levels, ())
        self._directory = directory

    def put(self, *changed: Level) -> None:
        """Write down levels in place of those with the same nonce, or behind all; who calls holds the lock.

        Raises:
            OSError: it cannot be written, or the directory is another session's by now.
        """
        self.read_anew()
        new = {each.nonce: each for each in changed}
        known = [new.pop(each.nonce, each) for each in self.value]
        self._write([*known, *new.values()])

    def forget(self, nonce: str) -> None:
        """Take one out: nothing of it was ever typed, or it sent no marks."""
        self.read_anew()
        with suppress(OSError):
            self._write([each for each in self.value if each.nonce != nonce])

    def _write(self, levels: Iterable[Level]) -> None:
        kept = [*levels]
        left = [each for each in kept if each.until is not None]
        gone = {each.nonce for each in left[: max(len(left) - ENDED_LEVELS, 0)]}
        LEVELS.write(self._directory, {"levels": [asdict(each) for each in kept if each.nonce not in gone]})
        self.read_anew()

    def _levels(self) -> tuple[Level, ...]:
        values = LEVELS.read(self._directory)
        return () if is_newer(values, LEVELS.format) else tuple(_known(values.get("levels", ())))


def _known(levels: Iterable[Any]) -> Iterator[Level]:
    for each in levels:
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            if level := made_of(Level, {**each, "stage": AdoptionStage(each["stage"])}):
                yield level


# ---- What the marks of a session's shells said up to an offset -------------------------------------------------------
#
# It saves a later broker the scan up to there.

MARKS = Document(SessionDirectory.checkpoint, format=2)


@value
class Checkpoint:
    """What `marks.json` holds."""

    nonce: str
    """Of the session's own shell."""
    offset: int
    track: ShellTrack
    """What its marks say."""
    inner: Mapping[str, ShellTrack] = field(default_factory=dict)
    """By nonce, what those of the shells say that were adopted in it."""
    numbers: Numbers | None = None
    """Of all these; None: of the session's own shell alone, which counts them itself."""
    proven: tuple[int, str] = (-1, "")
    """Of the last command whose end was proven: size of the log when it was typed, and its name."""

    def save(self, directory: SessionDirectory) -> None:
        """Write it, but not over one of a newer format; a failure costs a later broker time alone."""
        # A broker that knows nothing of adopted shells can use it only where there were none.
        several = bool(self.inner or (self.numbers and self.numbers.shifts))
        state: dict[str, Any] = {"nonce": self.nonce, "offset": self.offset, "track": self.track.as_dict()}
        if self.proven[1]:
            state["proven"] = self.proven
        if several:
            state["inner"] = {nonce: track.as_dict() for nonce, track in self.inner.items()}
            numbers = self.numbers or Numbers(self.track.number)
            state |= {"highest": numbers.highest, "shifts": dict(numbers.shifts)}
        with suppress(OSError):
            MARKS.write(directory, state, format=2 if several else 1)

    @classmethod
    def load(cls, directory: SessionDirectory) -> Checkpoint | None:
        """Read it; None when there is none that can be read.

        One of a newer format is not: a part of what the marks said may be wrong by itself, and the log says it all.
        """
        state = MARKS.read(directory)
        if is_newer(state, MARKS.format):
            return None
        try:
            track = ShellTrack.from_dict(state["track"])
            inner = {nonce: ShellTrack.from_dict(each) for nonce, each in state.get("inner", {}).items()}
            numbers = Numbers(int(state.get("highest", track.number)), dict(state.get("shifts", {})))
            typed_at, job = state.get("proven", (-1, ""))
            return cls(state["nonce"], int(state["offset"]), track, inner, numbers, (int(typed_at), str(job)))
        except (AttributeError, ValueError, KeyError, TypeError):
            return None
