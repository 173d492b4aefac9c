"""When what was printed: a session's timing index, read by offset or by time.

The log says what was printed, and `timing` says when: an offset's time is that of the first step at or behind it. What
no step tells is not known: what was printed while nobody wrote, while the writer was held up, or where a block is
damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.log import RawLog
from tmuxmcp.record.past.timingcodec import FIRST_STEP, Block, TimingStep
from tmuxmcp.record.past.timingfile import Placed, TimingFile, timing_files

__all__ = ["Times", "TimingStep"]


def _steps(files: list[TimingFile], before: Callable[[Block], bool]) -> Iterator[TimingStep]:
    """All steps from the last block on that is still before something, and first the moment at which that begins."""
    for newer, file in enumerate(files):
        found = file.last(before)
        if found:
            place, block = found
            behind = chain.from_iterable(each.blocks() for each in reversed(files[:newer]))
            yield from _continued(block.start, chain(file.blocks(place), behind))
            return
    yield from _continued(FIRST_STEP, chain.from_iterable(each.blocks() for each in reversed(files)))


def _continued(last: TimingStep, blocks: Iterator[Placed]) -> Iterator[TimingStep]:
    yield last
    for _, block in blocks:
        start = block.start
        if start.offset < last.offset or start.ms < last.ms:
            continue  # it cannot be: time and offset only rise
        if (start.offset, start.ms) != (last.offset, last.ms):
            yield TimingStep(start.offset, start.ms, known=False)
        yield from block.steps
        last = block.end


@dataclass(frozen=True)
class AroundMoment:
    """What a timing index tells of a moment."""

    offset: int | None
    """So many bytes had been printed then; None: that is not known."""
    before_ms: int
    """The last time up to then for which it is known; the bytes that came later in the same millisecond apart."""
    after_ms: int | None
    """The next one behind it for which it is; None: none is noted behind it."""


class Times:
    """Reads one session's timing index; nothing is kept open, and what was added since is read as well."""

    def __init__(self, directory: SessionDirectory) -> None:
        self._directory = directory
        self._log = RawLog(directory)

    def ms_at(self, offset: int) -> int | None:
        """When the first `offset` bytes had been printed; None: that is not known."""
        if offset == 0:
            return 0
        for step in self.steps(offset - 1, offset):
            if step.offset >= offset:
                return step.ms if step.known else None
        return None

    def offset_at(self, ms: int) -> int | None:
        """How many bytes had been printed at a moment that is past; None: that is not known."""
        return None if ms < 0 else self.around(ms).offset

    def around(self, ms: int) -> AroundMoment:
        """What is known of a moment that is past, and of when more is."""
        with timing_files(self._directory) as files:
            last, before = FIRST_STEP, None
            for step in _steps(files, lambda block: block.start.ms <= ms):
                known = step.known or step.offset == last.offset
                if before and known:
                    return AroundMoment(None, before.ms, last.ms)
                if step.ms > ms and known:
                    return AroundMoment(last.offset, last.ms, step.ms)
                if step.ms > ms:
                    before = before or last
                last = step
        whole = self._log.size() == last.offset
        if before:
            return AroundMoment(None, before.ms, last.ms if whole else None)
        return AroundMoment(last.offset if whole else None, last.ms, None)

    def steps(self, start: int, end: int) -> Iterator[TimingStep]:
        """The steps behind the offset `start`, up to the first at or behind `end`; fewer where the index ends."""
        with timing_files(self._directory) as files:
            for step in _steps(files, lambda block: block.start.offset <= start):
                if step.offset > start:
                    yield step
                if step.offset >= end:
                    return
