"""Writes a session's timing index: appends blocks, for as long as it holds the index's lock.

The lock goes with its process, however that ends. The next writer cuts off what is not a whole block at the end, and
notes that nobody knows when the bytes came that were printed meanwhile. It takes a place for the truth only when it is
told so: looking at the log and at the clock is its owner's.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tmuxmcp.contract.errors import Unsupported
from tmuxmcp.machine import locks
from tmuxmcp.machine.ownfiles import open_file
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.past.timingcodec import FIRST_STEP, TIMING_FORMAT, TIMING_HEADER, TimingStep, encode
from tmuxmcp.record.past.timingfile import TimingFile, timing_files

log = logging.getLogger(__name__)

TIMING_FILE_BYTES = 16 << 20
"""A file that would be longer is put aside, in the place of the one before: then the times of what was printed first
are not known any more."""

SPARE_BYTES = 64 << 10
"""So long the index may be, however little was printed: more than 5,000 keys typed one by one."""

OUTPUT_SHARE = 12
"""Beyond that it takes at most this part of what was printed; steps are left out where it would take more."""

TIMING_STEP_BYTES = 24
"""What one more step costs at most: a block of its own."""

HELD_UP_MS = 50
"""Bytes that came within so long before a step have its time."""

MAX_BLOCK_STEPS = 48
"""Most steps of one block: so many fit, however far they are apart."""


class TimingWriter:
    """The one who writes the index of a session; made by `take`."""

    def __init__(self, directory: SessionDirectory, lock: int) -> None:
        """`lock`: descriptor of the lock that is held."""
        self._directory, self._lock = directory, lock
        self._file: tuple[int, int] | None = None
        """Device and number of the file that is written: another session may have its path."""
        self._size = self._before = 0
        """Bytes of that file, and of the one before it."""
        self._steps: list[TimingStep] = []
        self._start = self._last = FIRST_STEP
        """The moment before the steps that are to be written; the last that was noted."""
        self._seen = 0
        self._skipped = False
        """A step was left out after the last one."""

    @classmethod
    def take(cls, directory: SessionDirectory) -> TimingWriter | None:
        """Become the writer; None: another broker is.

        Raises:
            Unsupported: the index is of a newer format; it stays as it is.
            OSError: there is no room, or no such directory any more.
        """
        lock = _take_lock(directory.timing_lock)
        if lock is None:
            return None
        writer = cls(directory, lock)
        try:
            writer._open()
        except BaseException:
            writer._let_go()
            raise
        return writer

    def _open(self) -> None:
        with timing_files(self._directory) as files:
            there = [file for file in files if file.format is not None]
            if any(file.format != TIMING_FORMAT for file in there):
                raise Unsupported(f"The times of {self._directory.name} are written by a newer tmuxmcp.")
            ends = [found for file in there if (found := file.final())]
        self._last = ends[0][1].end if ends else FIRST_STEP
        with self._opened() as fd:
            now = TimingFile(fd)
            if now.format is None:
                self._put_aside()
            else:
                found = now.final()
                self._cut(fd, found[0] + found[1].length if found else len(TIMING_HEADER))
        self._start, self._seen = self._last, self._last.offset

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """The file that is written, made if there is none; no descriptor is kept."""
        make = 0 if self._file else os.O_CREAT
        fd = open_file(self._directory.timing, os.O_RDWR | make | os.O_APPEND)
        try:
            state = os.fstat(fd)
            if self._file is None:
                if not self._directory.is_there:
                    raise FileNotFoundError(errno.ENOENT, "Another session has its place")
                self._file, self._size, self._before = (state.st_dev, state.st_ino), state.st_size, 0
                if not self._size:
                    self._size = os.write(fd, TIMING_HEADER)
                with suppress(FileNotFoundError):
                    self._before = os.stat(self._directory.timing_before).st_size
            elif self._file != (state.st_dev, state.st_ino):
                raise FileNotFoundError(errno.ENOENT, "Another session has its place")
            yield fd
        finally:
            os.close(fd)

    def _cut(self, fd: int, size: int) -> None:
        if size < self._size:
            os.ftruncate(fd, size)
            self._size = size

    def _put_aside(self) -> None:
        os.rename(self._directory.timing, self._directory.timing_before)
        self._file = None
        with self._opened():
            pass

    # ---- noting ----------------------------------------------------------------------------------

    @property
    def offset(self) -> int:
        """Up to where it was told of what was printed, also where it left steps out."""
        return self._seen

    @property
    def has_more(self) -> bool:
        """Something is noted and not written yet."""
        return bool(self._steps)

    def begin(self, offset: int, ms: int, since_ms: int | None = None) -> None:
        """Note where the log ends as writing begins: nobody knows when what was printed since the last step came.

        An index that tells more than the log holds, as a crash of the machine can leave, is cut.

        Args:
            since_ms: since when it ends there; None: that is not known.
        """
        if offset < self._last.offset:
            self._forget(offset)
        if offset > self._last.offset:
            since_ms = since_ms if since_ms is not None and self._last.ms <= since_ms <= ms else ms
            self._add(offset, since_ms, known=since_ms - self._last.ms <= HELD_UP_MS)
            if since_ms < ms:
                self._add(offset, ms, known=True)
            self.flush()
        self._seen = offset

    def _forget(self, offset: int) -> None:
        with self._opened() as fd:
            found = TimingFile(fd).last(lambda block: block.start.offset <= offset)
            if found is None:
                self._cut(fd, len(TIMING_HEADER))
                self._directory.timing_before.unlink(missing_ok=True)
                self._start = self._last = FIRST_STEP
                return
            place, block = found
            whole = block.end.offset <= offset
            self._cut(fd, place + block.length if whole else place)
            self._start = self._last = block.end if whole else block.start

    def note(self, offset: int, ms: int, *, known: bool = True, unchanged_ms: int = 0) -> None:
        """Note that so much had been printed then; what is no more than at the step before needs no step.

        Args:
            known: what came since the step before came just then.
            unchanged_ms: it came after this.
        """
        if offset <= self._seen:
            return
        self._seen = offset
        if not self._affords(offset):
            self._skipped = True
            return
        if not (known or self._skipped) and unchanged_ms > self._last.ms:
            self._add(self._last.offset, unchanged_ms, known=True)
        self._add(offset, ms, known and not self._skipped)
        if len(self._steps) >= MAX_BLOCK_STEPS:
            self.flush()

    def _add(self, offset: int, ms: int, known: bool) -> None:
        self._last = TimingStep(offset, max(ms, self._last.ms), known)
        self._steps.append(self._last)
        self._skipped = False

    def _affords(self, offset: int) -> bool:
        taken = self._before + self._size + (len(self._steps) + 1) * TIMING_STEP_BYTES
        return taken <= SPARE_BYTES + offset // OUTPUT_SHARE

    def flush(self) -> None:
        """Write what is noted; where there is no room, nobody will know those times."""
        if not self._steps:
            return
        data = encode(self._start, self._steps)
        self._start = self._last
        self._steps.clear()
        try:
            with self._opened() as fd:
                full = self._size + len(data) > TIMING_FILE_BYTES
                if not full:
                    self._write(fd, data)
            if full:
                self._put_aside()
                with self._opened() as fd:
                    self._write(fd, data)
        except OSError as error:
            log.debug("times of %s cannot be written: %s", self._directory.name, error)

    def _write(self, fd: int, data: bytes) -> None:
        written = os.write(fd, data)
        if written == len(data):
            self._size += written
        else:
            os.ftruncate(fd, self._size)

    def close(self, ms: int) -> None:
        """Note that until then nothing more was printed, and let another one write."""
        if self._last.offset and self._affords(self._last.offset) and not self._skipped:
            self._add(self._last.offset, ms, known=True)
        self.flush()
        self._let_go()

    def _let_go(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


def _take_lock(path: Path) -> int | None:
    """Take the index's lock, if nobody has it.

    Whoever waits for it is told by inotify when a descriptor that may write is closed (CLOSE_WRITE): at the end of the
    one who holds it. So nobody else opens one: those who wait would ring for each other.
    """
    fd = open_file(path, os.O_RDONLY | os.O_CREAT)
    try:
        if not locks.take(fd):
            return None
    finally:
        os.close(fd)
    fd = locks.open_lock(path)
    if locks.take(fd):
        return fd
    os.close(fd)
    return None
