"""Replays stretches of logs in a process of its own (`replayer.py`): it takes time, and what is printed is foreign."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tmuxmcp.contract.errors import IoError, shortage
from tmuxmcp.contract.value import value
from tmuxmcp.machine.helper import Helper
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import Events, ResizedEvent
from tmuxmcp.record.log import RawLog
from tmuxmcp.record.meta import Meta
from tmuxmcp.record.past.checkpoints import Checkpoints, KeptScreens, RecordKind, ScreenRecord, count, unpack
from tmuxmcp.terminal.widths import TmuxVersion, version_of

REPLAYER_PATH = Path(__file__).with_name("replayer.py")
REPLAYER_PACKAGES = ("tmuxmcp", "pyte", "wcwidth", "anyio", "idna")


@value
class SizeAt:
    """A change of size."""

    offset: int
    cols: int
    rows: int
    told: bytes | None = None
    """What tmux showed right after it, if that is known, packed."""


@value
class BlankScreen:
    """An empty screen with which a replay begins."""

    cols: int
    rows: int
    offset: int = 0
    approximate: bool = False
    """There was something before it that is not known."""
    size_known: bool = True


@value
class PackedScreen:
    """A screen at an offset, with all that the next bytes depend on."""

    offset: int
    screen: bytes
    """`checkpoints.screen_of` unpacks it."""


@value
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

    async def replay(self, directory: SessionDirectory, asked: dict[str, Any]) -> ReplayProgress | None:
        """The screen at the end of a stretch, or where its processor time is over.

        Args:
            asked: as `Story.request` gives it.

        Returns:
            None: the bytes at its begin are no longer there.

        Raises:
            IoError: it cannot be replayed.
        """
        try:
            answer = await self.ask(asked, directory.name)
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


def tmux_of(directory: SessionDirectory) -> TmuxVersion | None:
    """The version of tmux that a session runs in, or ran in; None: that was not written down."""
    made = Meta.load(directory)
    return version_of(made.tmux) if made else None


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


# ---- What happened to a session beside its output --------------------------------------------------------------------
#
# As far as screens depend on it; where a replay of them can begin.
#
# And screens that were rebuilt lately, as long as a broker lives.

NOTHING_KNOWN = (80, 24)
"""The size of a session of which nothing but a log is left."""


@value
class Story:
    """What is written down of a session up to an offset."""

    resizes: tuple[ResizedEvent, ...]
    gaps: tuple[int, ...]
    told: tuple[ScreenRecord, ...]
    checkpoints: Checkpoints

    @classmethod
    def of(cls, events: Events, checkpoints: Checkpoints, end: int) -> Story:
        """All of it up to an offset."""
        resizes = tuple(each for each in events.resizes() if each.offset <= end)
        told = (each for each in checkpoints.records() if each.kind is RecordKind.TOLD and each.offset <= end)
        return cls(resizes, tuple(events.gaps(0, end)), tuple(told), checkpoints)

    def count(self, offset: int) -> int:
        """How much had happened at an offset."""
        return count(self.happened, offset)

    @property
    def happened(self) -> list[int]:
        """Offsets of all that happened."""
        return [*(each.offset for each in self.resizes), *self.gaps]

    def request(
        self,
        directory: SessionDirectory,
        start: PackedScreen | BlankScreen,
        end: int,
        cpu_s: float,
        passed: str | None = None,
    ) -> dict[str, Any]:
        """What `replayer.stretch` is asked for the part of the log behind a screen, with all that happened there.

        Args:
            cpu_s: processor time after which the replay ends early.
            passed: the session's name among all that ever are, under which the process keeps screens that it passes.
        """
        begin, blank = start.offset, list[Any]()
        if isinstance(start, BlankScreen):
            blank = [start.cols, start.rows, start.offset, start.approximate, start.size_known]
        return {
            "session": str(directory.path),
            "start": _text(start.screen) if isinstance(start, PackedScreen) else None,
            "blank": blank,
            "tmux": tmux_of(directory) or (),
            "resizes": [
                (each.offset, each.cols, each.rows, _text(each.told))
                for each in self._sizes(begin)
                if begin < each.offset <= end
            ],
            "gaps": [each for each in self.gaps if begin < each <= end],
            "begin": begin,
            "end": end,
            "cpu_s": cpu_s,
            "passed": passed,
            "happened": self.happened if passed else [],
        }

    def told_at(self, offset: int, cols: int, rows: int) -> bytes | None:
        """What tmux showed right after it took this size at an offset, packed; None: it was not asked."""
        here = (_size_change_of(self.checkpoints, each) for each in self.told if each.offset == offset)
        found = [each.told for each in here if each and (each.cols, each.rows) == (cols, rows)]
        return found[-1] if found else None

    def _sizes(self, begin: int) -> Iterator[SizeAt]:
        """The changes of size behind an offset, each followed by what tmux told of it."""
        told = [
            found for each in self.told if each.offset > begin and (found := _size_change_of(self.checkpoints, each))
        ]
        for each in self.resizes:
            yield SizeAt(each.offset, each.cols, each.rows)
            size = (each.offset, each.cols, each.rows)
            yield from (one for one in told if (one.offset, one.cols, one.rows) == size)
        at_resizes = {(each.offset, each.cols, each.rows) for each in self.resizes}
        yield from (one for one in told if (one.offset, one.cols, one.rows) not in at_resizes)


def _size_change_of(checkpoints: Checkpoints, record: ScreenRecord) -> SizeAt | None:
    value = checkpoints.value(record)
    try:
        known = unpack(value) if value else {}
        return SizeAt(record.offset, known["cols"], known["rows"], value)
    except (ValueError, KeyError, TypeError):
        return None


def beginning(
    directory: SessionDirectory, checkpoints: Checkpoints, story: Story, offset: int, known: PackedScreen | None = None
) -> PackedScreen | BlankScreen | None:
    """The screen with which a replay up to an offset begins: the nearest one from which on the log is kept.

    Without one that is a blank one, at the log's begin or where the log is kept from; None: the offset is before that.

    Args:
        known: one that can be had otherwise.
    """
    head = RawLog(directory).head()
    for record in checkpoints.screens(offset, story.happened):
        if record.offset < head and record.offset != offset:
            break
        if known and known.offset >= record.offset:
            break
        if value := checkpoints.value(record):
            return PackedScreen(record.offset, value)
    if known and (known.offset >= head or known.offset == offset):
        return known
    if head > offset:
        return None
    made = Meta.load(directory)
    first = (made.cols, made.rows) if made else NOTHING_KNOWN
    sizes = [first, *((each.cols, each.rows) for each in story.resizes if each.offset <= head)]
    return BlankScreen(*sizes[-1], head, approximate=head > 0 or made is None, size_known=made is not None)


REBUILT_KEPT_BYTES = 8 << 20
"""Size of all screens that are kept, packed: some thousand usual ones."""


class Past:
    """What rebuilds past screens for all sessions of a broker, and those that were looked at last."""

    def __init__(self) -> None:
        self.replaying = Replaying()
        self.kept = KeptScreens[PackedScreen](REBUILT_KEPT_BYTES, lambda each: len(each.screen))

    @property
    def busy(self) -> bool:
        """Whether there is a process."""
        return self.replaying.process is not None

    def close(self) -> None:
        """End the process."""
        self.replaying.close()
