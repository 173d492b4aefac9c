"""The files of a timing index, open for reading: their blocks, and which is the last before something."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tmuxmcp.machine.ownfiles import open_file
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.past.timingcodec import BLOCK_BYTES, TIMING_FORMAT, Block, blocks_in, format_of

WINDOW_BYTES = 16 << 10
"""Bytes read at once, when one block after the other is."""

PROBE_BYTES = 4 << 10
"""Bytes read at once, when one block is looked for."""

Placed = tuple[int, Block]
"""A block, and where in its file it begins."""


class TimingFile:
    """One file of the index, open for reading."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.format = format_of(os.pread(fd, PROBE_BYTES, 0))
        """None: it is no index, or its beginning is damaged."""
        self.size = os.fstat(fd).st_size if self.format == TIMING_FORMAT else 0

    def blocks(self, start: int = 0, stop: int | None = None, window: int = WINDOW_BYTES) -> Iterator[Placed]:
        """All blocks that begin between two places of the file, each with its place."""
        at, stop = start, self.size if stop is None else min(stop, self.size)
        while at < stop:
            data = os.pread(self.fd, window, at)
            last = len(data) < window
            limit = len(data) if last else window - BLOCK_BYTES
            used = limit
            for place, block in blocks_in(data, min(limit, stop - at)):
                yield at + place, block
                used = max(limit, place + block.length)
            if last:
                return
            at += used

    def final(self) -> Placed | None:
        """The last whole block, with its place."""
        found, start = None, self.size
        while found is None and start:
            start = max(start - WINDOW_BYTES, 0)
            found = max(self.blocks(start, start + WINDOW_BYTES), key=_position, default=None)
        return found

    def last(self, before: Callable[[Block], bool]) -> Placed | None:
        """The last block that is still before something, with its place; of all blocks the first ones are."""
        found, low, high = None, 0, self.size
        while high - low > PROBE_BYTES:
            middle = (low + high) // 2
            here = next(self.blocks(middle, high, PROBE_BYTES), None)
            if here is None or not before(here[1]):
                high = middle
            else:
                found, low = here, here[0] + here[1].length
        for here in self.blocks(low, high, PROBE_BYTES):
            if not before(here[1]):
                break
            found = here
        return found


def _position(block: Placed) -> int:
    return block[0]


@contextmanager
def timing_files(directory: SessionDirectory) -> Iterator[list[TimingFile]]:
    """What there is of the index, the newest first; a file that is put aside meanwhile is not read twice."""
    found: dict[tuple[int, int], int] = {}
    try:
        for path in (directory.timing, directory.timing_before):
            with suppress(OSError):
                fd = open_file(path)
                state = os.fstat(fd)
                if found.setdefault((state.st_dev, state.st_ino), fd) != fd:
                    os.close(fd)
        yield [TimingFile(fd) for fd in found.values()]
    finally:
        for fd in found.values():
            os.close(fd)
