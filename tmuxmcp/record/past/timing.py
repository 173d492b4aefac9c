"""When what was printed: a session's timing index, read by offset or by time.

The log says what was printed, and `timing` says when: an offset's time is that of the first step at or behind it. What
no step tells is not known: what was printed while nobody wrote, while the writer was held up, or where a block is
damaged.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from operator import itemgetter
from pathlib import Path

from tmuxmcp.contract.errors import Unsupported
from tmuxmcp.contract.value import value
from tmuxmcp.machine import locks
from tmuxmcp.machine.ownfiles import closing, open_file
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.log import RawLog

# ---- Blocks of the timing index: when how much had been printed, a few bytes a moment. Pure --------------------------
#
# A file is a line that names its format, and blocks that are appended to it:
#
#     0xF5 | length of the body | CRC-32 of that length and the body | body
#
# A body begins with offset and time of the moment before its first step, so that a block that is missing before it
# shows. Each step follows as two differences: of the time, doubled, plus one where it is not `known`, and of the
# offset. Numbers are written seven bits a byte, the lowest first, with the eighth bit where more follows.
#
# A block is believed only whole: what is torn, overwritten or of another format is no block, and the next one is found
# by its first byte and its checksum.

TIMING_FORMAT = 1
"""The newest format that is known here."""

TIMING_HEADER = b"tmuxmcp timing %d\n" % TIMING_FORMAT

_ANY_HEADER = re.compile(rb"tmuxmcp timing ([0-9]{1,9})\n")

BLOCK_MARK = b"\xf5"
"""First byte of each block."""

BLOCK_BODY_BYTES = 1024
"""Longest body; a quarter of a second has 25 steps of at most ten bytes."""

NUMBER_BYTES = 9
"""Longest number: 63 bits."""

BLOCK_BYTES = len(BLOCK_MARK) + 2 + 4 + BLOCK_BODY_BYTES
"""Longest block."""


@value
class TimingStep:
    """So many bytes had been printed, and when."""

    offset: int
    """After the first so many bytes of the log."""
    ms: int
    """Since the session was made."""
    known: bool = True
    """The bytes since the step before came just then; False: at some time between the two, nobody knows when."""


FIRST_STEP = TimingStep(0, 0)
"""Nothing was printed before a session was made."""


@value
class Block:
    """Some steps, one after the other."""

    start: TimingStep
    """The moment before the first of them."""
    steps: tuple[TimingStep, ...]
    length: int
    """Bytes that it takes in the file."""

    @property
    def end(self) -> TimingStep:
        """The last moment that it tells."""
        return self.steps[-1] if self.steps else self.start


def format_of(beginning: bytes) -> int | None:
    """The format of the file that begins like this; None: it is no timing index."""
    found = _ANY_HEADER.match(beginning)
    return int(found[1]) if found else None


def encode(start: TimingStep, steps: Sequence[TimingStep]) -> bytes:
    """Write a block; `steps` rise in time and offset from `start` on, and are few enough for one block."""
    body = bytearray(_number(start.offset) + _number(start.ms))
    before = start
    for step in steps:
        body += _number((step.ms - before.ms) << 1 | (not step.known))
        body += _number(step.offset - before.offset)
        before = step
    assert len(body) <= BLOCK_BODY_BYTES
    sized = _number(len(body)) + body
    return BLOCK_MARK + _number(len(body)) + zlib.crc32(sized).to_bytes(4, "little") + body


def decode(data: bytes, at: int) -> Block | None:
    """The block that begins there; None: there is none, or it is not whole."""
    if data[at : at + 1] != BLOCK_MARK:
        return None
    size, begin = _read(data, at + 1)
    end = begin + 4 + size
    if not 0 < size <= BLOCK_BODY_BYTES or end > len(data):
        return None
    body = data[begin + 4 : end]
    if zlib.crc32(data[at + 1 : begin] + body) != int.from_bytes(data[begin : begin + 4], "little"):
        return None
    return _parse(body, end - at)


def blocks_in(data: bytes, stop: int) -> Iterator[tuple[int, Block]]:
    """All blocks that begin before `stop`, each with its place; what is none is passed over."""
    at = data.find(BLOCK_MARK)
    while 0 <= at < stop:
        block = decode(data, at)
        if block:
            yield at, block
        at = data.find(BLOCK_MARK, at + (block.length if block else 1))


def _parse(body: bytes, length: int) -> Block | None:
    numbers: list[int] = []
    at = 0
    while 0 <= at < len(body):
        value, at = _read(body, at)
        numbers.append(value)
    if at < 0 or len(numbers) < 2 or len(numbers) % 2:
        return None
    before = start = TimingStep(numbers[0], numbers[1])
    steps = []
    for time, more in zip(numbers[2::2], numbers[3::2], strict=True):
        before = TimingStep(before.offset + more, before.ms + (time >> 1), not time & 1)
        steps.append(before)
    return Block(start, tuple(steps), length)


def _number(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _read(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends: -1 where it does not."""
    value = shift = 0
    for place in range(at, min(at + NUMBER_BYTES, len(data))):
        value |= (data[place] & 0x7F) << shift
        if data[place] < 0x80:
            return value, place + 1
        shift += 7
    return 0, -1


# ----------------------------------------------------------------------------------------------------------------------


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


@value
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


# ---- The files of a timing index, open for reading: their blocks, and which is the last before something -------------

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
            found = max(self.blocks(start, start + WINDOW_BYTES), key=itemgetter(0), default=None)
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


# ---- Writes a session's timing index: appends blocks, for as long as it holds the index's lock -----------------------
#
# The lock goes with its process, however that ends. The next writer cuts off what is not a whole block at the end, and
# notes that nobody knows when the bytes came that were printed meanwhile. It takes a place for the truth only when it
# is told so: looking at the log and at the clock is its owner's.

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
        with closing(open_file(self._directory.timing, os.O_RDWR | make | os.O_APPEND)) as fd:
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
    with closing(open_file(path, os.O_RDONLY | os.O_CREAT)) as fd:
        if not locks.take(fd):
            return None
    fd = locks.open_lock(path)
    if locks.take(fd):
        return fd
    os.close(fd)
    return None
