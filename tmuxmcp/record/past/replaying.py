"""Replays stretches of logs in a process of its own (`replayer.py`): it takes time, and what is printed is foreign."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tmuxmcp.contract.errors import IoError, shortage
from tmuxmcp.contract.value import value
from tmuxmcp.machine.helper import Helper
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import Events, ResizedEvent
from tmuxmcp.record.log import RawLog
from tmuxmcp.record.meta import Meta
from tmuxmcp.record.past.checkpoints import Checkpoints, RecordKind, ScreenRecord, unpack
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
        return sum(each <= offset for each in self.happened)

    @property
    def happened(self) -> Sequence[int]:
        """Offsets of all that happened."""
        return [*(each.offset for each in self.resizes), *self.gaps]

    def stretch(self, start: PackedScreen | BlankScreen, end: int) -> ReplayStretch:
        """The part of the log behind a screen, with all that happened there."""
        return ReplayStretch(start, end, tuple(self._sizes(start.offset)), self.gaps, self.happened)

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

Key = tuple[str, int, str]
"""Path and number of a session's directory, and when the session was made."""


class RebuiltScreens:
    """Screens that were rebuilt, the ones used last."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._screens: OrderedDict[tuple[Key, int, int], PackedScreen] = OrderedDict()
        """By session, offset, and how much had happened up to there: more may happen at the same offset."""

    def nearest(self, key: Key, offset: int, story: Story) -> PackedScreen | None:
        """The last one up to an offset."""
        fits = [
            each for each in self._screens if each[0] == key and each[1] <= offset and each[2] == story.count(each[1])
        ]
        if not fits:
            return None
        best = max(fits, key=lambda each: each[1])
        self._screens.move_to_end(best)
        return self._screens[best]

    def keep(self, key: Key, screen: PackedScreen, story: Story) -> None:
        """Keep one more; the ones that were not used for the longest time give way."""
        at = (key, screen.offset, story.count(screen.offset))
        before = self._screens.pop(at, None)
        self._bytes += len(screen.screen) - (len(before.screen) if before else 0)
        self._screens[at] = screen
        while self._bytes > self._most and len(self._screens) > 1:
            self._bytes -= len(self._screens.popitem(last=False)[1].screen)


class Past:
    """What rebuilds past screens for all sessions of a broker, and those that were looked at last."""

    def __init__(self) -> None:
        self.replaying = Replaying()
        self.kept = RebuiltScreens(REBUILT_KEPT_BYTES)

    @property
    def busy(self) -> bool:
        """Whether there is a process."""
        return self.replaying.process is not None

    def close(self) -> None:
        """End the process."""
        self.replaying.close()
