"""Replays stretches of logs in a process of its own (`replayer.py`): it takes time, and what is printed is foreign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from tmuxmcp.errors import IoError, shortage
from tmuxmcp.host.helper import Helper
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.terminal.snapshot import Snapshot, from_data, to_data

REPLAYER = Path(__file__).with_name("replayer.py")
PACKAGES = ("tmuxmcp", "pyte", "wcwidth", "anyio", "idna")


@dataclass(frozen=True)
class Stretch:
    """A part of a log that is to be replayed."""

    start: Snapshot | Blank
    """The screen at its begin."""
    end: int
    resizes: Sequence[SizeAt]
    """The changes of size."""
    gaps: Sequence[int]
    """Where output was lost."""


@dataclass(frozen=True)
class SizeAt:
    """A change of size, as `terminal/replay.py` has it: that would bring the emulator."""

    offset: int
    cols: int
    rows: int
    told: Snapshot | None = None


@dataclass(frozen=True)
class Blank:
    """An empty screen."""

    cols: int
    rows: int
    offset: int = 0
    approximate: bool = False
    """There was something before it that is not known."""


@dataclass(frozen=True)
class Replayed:
    """How far a replay has come."""

    snapshot: Snapshot
    cpu_s: float
    """Processor time that it took."""


class Replaying(Helper):
    """The process, one stretch at a time."""

    limit_s = 60.0

    def __init__(self) -> None:
        super().__init__(REPLAYER, PACKAGES)

    async def replay(self, directory: SessionDirectory, stretch: Stretch, cpu_s: float) -> Replayed | None:
        """The screen at the end of a stretch, or where so much processor time is over.

        Returns:
            None: the bytes at its begin are no longer there.

        Raises:
            IoError: it cannot be replayed.
        """
        start = stretch.start
        question = {
            "session": str(directory.path),
            "start": to_data(start) if isinstance(start, Snapshot) else None,
            "blank": [] if isinstance(start, Snapshot) else [start.cols, start.rows, start.offset, start.approximate],
            "resizes": [(e.offset, e.cols, e.rows, to_data(e.told) if e.told else None) for e in stretch.resizes],
            "gaps": list(stretch.gaps),
            "end": stretch.end,
            "cpu_s": cpu_s,
        }
        try:
            answer = await self.ask(question, directory.name)
            if answer is None:
                return None
            snapshot = await anyio.to_thread.run_sync(from_data, answer["snapshot"])
            return Replayed(snapshot, answer["cpu_s"])
        except (EOFError, OSError, ValueError, TypeError, RecursionError) as error:
            if shortage(error):
                raise
            why = str(error) or type(error).__name__
            raise IoError(
                f"The log of session {directory.name} cannot be replayed: {why}.", hint="Try again."
            ) from None
