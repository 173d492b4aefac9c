"""Replays stretches of logs in a process of its own (`replayer.py`): it takes time, and what is printed is foreign."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tmuxmcp.contract.errors import IoError, shortage
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine.helper import Helper
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.meta import Meta
from tmuxmcp.terminal.widths import TmuxVersion, version_of

REPLAYER_PATH = Path(__file__).with_name("replayer.py")
REPLAYER_PACKAGES = ("tmuxmcp", "pyte", "wcwidth", "anyio", "idna")


@dataclass(frozen=True)
class SizeAt:
    """A change of size."""

    offset: int
    cols: int
    rows: int
    told: bytes | None = None
    """What tmux showed right after it, if that is known, packed."""


@dataclass(frozen=True)
class BlankScreen:
    """An empty screen with which a replay begins."""

    cols: int
    rows: int
    offset: int = 0
    approximate: bool = False
    """There was something before it that is not known."""
    size_known: bool = True


@dataclass(frozen=True)
class PackedScreen:
    """A screen at an offset, with all that the next bytes depend on."""

    offset: int
    screen: bytes
    """`checkpoints.screen_of` unpacks it."""


@dataclass(frozen=True)
class ReplayStretch:
    """A part of a log that is to be replayed."""

    start: PackedScreen | BlankScreen
    """The screen at its begin."""
    end: int
    resizes: Sequence[SizeAt]
    """The changes of size; those at its begin have happened."""
    gaps: Sequence[int]
    """Where output was lost; the same."""
    happened: Sequence[int] = ()
    """Offsets of all that happened, also before its begin."""


@dataclass(frozen=True)
class ReplayProgress:
    """How far a replay has come."""

    reached: PackedScreen
    approximate: bool
    cpu_s: float
    """Processor time that it took."""
    whole: bool
    """It began at its begin, not at a screen that was passed before."""


class Replaying(Helper):
    """The process, one stretch at a time."""

    def __init__(self, *, idle: bool = False) -> None:
        """`idle`: it takes only the processor time that nobody else wants, and so may take long."""
        super().__init__(REPLAYER_PATH, REPLAYER_PACKAGES)
        self.idle = idle
        self.limit_s = 600.0 if idle else 60.0

    async def replay(
        self, directory: SessionDirectory, stretch: ReplayStretch, cpu_s: float, passed: str | None = None
    ) -> ReplayProgress | None:
        """The screen at the end of a stretch, or where so much processor time is over.

        Args:
            passed: the session's name among all that ever are, under which the process keeps screens that it passes.

        Returns:
            None: the bytes at its begin are no longer there.

        Raises:
            IoError: it cannot be replayed.
        """
        try:
            answer = await self.ask(request(directory, stretch, cpu_s, passed), directory.name)
            if answer is None:
                return None
            reached = PackedScreen(answer["offset"], b64decode(answer["screen"]))
            return ReplayProgress(reached, answer["approximate"], answer["cpu_s"], answer["whole"])
        except (EOFError, OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            if shortage(error):
                raise
            why = str(error) or type(error).__name__
            raise IoError(
                f"The log of session {directory.name} cannot be replayed: {why}.", hint="Try again."
            ) from None


def request(
    directory: SessionDirectory, stretch: ReplayStretch, cpu_s: float, passed: str | None = None
) -> dict[str, Any]:
    """What `replayer.stretch` is asked."""
    start = stretch.start
    return {
        "session": str(directory.path),
        "start": _text(start.screen) if isinstance(start, PackedScreen) else None,
        "blank": _blank(start) if isinstance(start, BlankScreen) else [],
        "tmux": tmux_of(directory) or (),
        "resizes": [
            (each.offset, each.cols, each.rows, _text(each.told))
            for each in stretch.resizes
            if start.offset < each.offset <= stretch.end
        ],
        "gaps": [each for each in stretch.gaps if start.offset < each <= stretch.end],
        "begin": start.offset,
        "end": stretch.end,
        "cpu_s": cpu_s,
        "passed": passed,
        "happened": list(stretch.happened) if passed else [],
    }


def tmux_of(directory: SessionDirectory) -> TmuxVersion | None:
    """The version of tmux that a session runs in, or ran in; None: that was not written down."""
    made = Meta.load(directory)
    return version_of(made.tmux) if made else None


def _blank(start: BlankScreen) -> list[Any]:
    return [start.cols, start.rows, start.offset, start.approximate, start.size_known]


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()
