"""What happened to a session beside its output, as far as screens depend on it; where a replay of them can begin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import Events, ResizedEvent
from tmuxmcp.record.log import RawLog
from tmuxmcp.record.meta import Meta
from tmuxmcp.record.past.checkpoints import Checkpoints, RecordKind, ScreenRecord, unpack
from tmuxmcp.record.past.replaying import BlankScreen, PackedScreen, ReplayStretch, SizeAt

NOTHING_KNOWN = (80, 24)
"""The size of a session of which nothing but a log is left."""


@dataclass(frozen=True)
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
