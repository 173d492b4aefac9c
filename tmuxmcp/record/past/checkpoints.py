"""Screens of one session at offsets of its log: a replay begins at the nearest one, not at the log's begin.

`screens` is a line that names the form, then records: a head of fixed size with a checksum, and a packed value.
Records are appended; a record that is not whole is the last one and is cut off by the next writer. What is no longer
needed goes by writing the file anew. Whoever writes holds a lock on the file itself (flock(2)), which ends with its
process. A file of another form is left alone: there are no checkpoints then.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar

from tmuxmcp.contract.value import replace, value
from tmuxmcp.machine.locks import take
from tmuxmcp.machine.ownfiles import closing, open_file, replacing
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.documents import Cached
from tmuxmcp.record.log import RawLog
from tmuxmcp.terminal.snapshot import Doubt, Snapshot, from_data, to_data

FILE_BEGINS = b"tmuxmcp screens 1\n"

LOG_SHARE, LEAST_BYTES = 20, 128 * 1024
"""The file may take a twentieth of the log that is kept, and so much of a short one."""

MOST_PACKED = 4 << 20
"""Bytes of one record: the largest terminal in all colours takes half of it."""

MOST_UNPACKED = 64 << 20

JOINED_MS = 1600
"""Two neighbours are joined if what lies between those around them takes no longer to replay (2 s is promised)."""

DENSE_CHECKPOINTS = 32
"""The newest so many are joined only for want of room."""

_RECORD_HEAD = struct.Struct("<IIQIIB")
"""Checksum of all behind it; bytes of the value; offset; milliseconds; what had happened; kind."""


class RecordKind(IntEnum):
    """What a record holds."""

    SCREEN = 1
    """A screen that was replayed."""
    TOLD = 2
    """What tmux told of a screen, as `sessions/screens.py` asks."""


@value
class ScreenRecord:
    """One record, without its value."""

    kind: RecordKind
    offset: int
    """Of the log: what the screen shows was printed before."""
    cost_ms: int
    """Processor time that it takes to get here from the record before."""
    happened: int
    """How many changes of size and losses of output were known up to there: one more makes it wrong."""
    position: int
    """Of the value, in the file."""
    size: int
    checksum: int


class Checkpoints:
    """One session's `screens`."""

    def __init__(self, directory: SessionDirectory) -> None:
        self._directory = directory
        self._path = directory.screens
        self._records: Cached[list[ScreenRecord]] = Cached(self._path, self._read, [])

    # ---- reading -------------------------------------------------------------------------------

    def records(self) -> list[ScreenRecord]:
        """All that are there, by offset."""
        self._records.read()
        return self._records.value

    def _read(self) -> list[ScreenRecord]:
        with os.fdopen(open_file(self._path), "rb") as file:
            found, _ = _records(file.fileno(), os.fstat(file.fileno()).st_size)
        return sorted(found, key=lambda each: each.offset)

    def screens(self, offset: int, happened: Sequence[int]) -> Iterator[ScreenRecord]:
        """Those up to an offset, the nearest first.

        Args:
            happened: offsets of all that had happened, as far as is known now.
        """
        for each in reversed(self.records()):
            known = count(happened, each.offset)
            if each.kind is RecordKind.SCREEN and each.offset <= offset and each.happened == known:
                yield each

    def value(self, record: ScreenRecord) -> bytes | None:
        """The packed value of a record; None: it is not whole, or is no longer there."""
        try:
            with os.fdopen(open_file(self._path), "rb") as file:
                head = os.pread(file.fileno(), _RECORD_HEAD.size, record.position - _RECORD_HEAD.size)
                value = os.pread(file.fileno(), record.size, record.position)
        except OSError:
            return None
        return value if len(value) == record.size and zlib.crc32(head[4:] + value) == record.checksum else None

    # ---- writing -------------------------------------------------------------------------------

    def add(self, kind: RecordKind, offset: int, value: bytes, *, cost_ms: int, happened: int) -> bool:
        """Write one more record; whether there was room for it. A failure is no reason to fail."""
        if len(value) > MOST_PACKED or not self._directory.is_there:
            return False
        with suppress(OSError), self._locked_file() as fd:
            if fd < 0:
                return False
            records, end = _records(fd, os.fstat(fd).st_size)
            room = self._room()
            if end + _RECORD_HEAD.size + len(value) > room:
                return self._anew(fd, records, (kind, offset, value, cost_ms, happened), room)
            os.ftruncate(fd, max(end, len(FILE_BEGINS)))
            if not end:
                os.pwrite(fd, FILE_BEGINS, 0)
            data = _encoded_record(kind, offset, value, cost_ms, happened)
            return os.pwrite(fd, data, max(end, len(FILE_BEGINS))) == len(data)
        return False

    def thin(self) -> None:
        """Leave out what is not needed: older screens that are nearer to one another than they have to be."""
        with suppress(OSError), self._locked_file() as fd:
            if fd >= 0:
                records, _ = _records(fd, os.fstat(fd).st_size)
                kept = self._chosen(records)
                if len(kept) < len(records):
                    self._write(fd, kept, b"")

    def _room(self) -> int:
        log = RawLog(self._directory)
        return max((log.size() - log.head()) // LOG_SHARE, LEAST_BYTES)

    def _anew(
        self, fd: int, records: list[ScreenRecord], new: tuple[RecordKind, int, bytes, int, int], room: int
    ) -> bool:
        """Write all anew with one more, without those that are least needed."""
        data = _encoded_record(*new)
        kept = self._chosen(records)
        while kept and _size(kept) + len(data) > room:
            kept = _without_least(kept)
        if len(FILE_BEGINS) + len(data) > room:
            return False
        self._write(fd, kept, data)
        return True

    def _chosen(self, records: list[ScreenRecord]) -> list[ScreenRecord]:
        """Those that are needed, of an older part of the log fewer."""
        head = RawLog(self._directory).head()
        ordered = sorted(records, key=lambda each: each.offset)
        before = [each for each in ordered if each.offset < head and each.kind is RecordKind.SCREEN]
        return _joined([*before[-1:], *(each for each in ordered if each.offset >= head)])

    def _write(self, fd: int, kept: list[ScreenRecord], more: bytes) -> None:
        with replacing(self._path) as file:
            file.write(FILE_BEGINS)
            for each in kept:
                value = os.pread(fd, each.size, each.position)
                file.write(_encoded_record(each.kind, each.offset, value, each.cost_ms, each.happened))
            file.write(more)

    @contextmanager
    def _locked_file(self) -> Iterator[int]:
        """The file, held alone; -1 while somebody else writes, or where its form is another."""
        with closing(open_file(self._path, os.O_CREAT | os.O_RDWR)) as fd:
            held = take(fd) and os.fstat(fd).st_ino == os.stat(self._path).st_ino  # not replaced meanwhile
            form = os.pread(fd, len(FILE_BEGINS), 0)
            yield fd if held and (form == FILE_BEGINS or FILE_BEGINS.startswith(form)) else -1


def _records(fd: int, size: int) -> tuple[list[ScreenRecord], int]:
    """All whole records of a file, and where they end; 0: there is nothing."""
    if os.pread(fd, len(FILE_BEGINS), 0) != FILE_BEGINS:
        return [], 0
    found, at = [], len(FILE_BEGINS)
    while at + _RECORD_HEAD.size <= size:
        checksum, length, offset, cost_ms, happened, kind = _RECORD_HEAD.unpack(os.pread(fd, _RECORD_HEAD.size, at))
        begin = at + _RECORD_HEAD.size
        if begin + length > size or length > MOST_PACKED or kind not in (1, 2):
            break
        found.append(ScreenRecord(RecordKind(kind), offset, cost_ms, happened, begin, length, checksum))
        at = begin + length
    return found, at


def _encoded_record(kind: RecordKind, offset: int, value: bytes, cost_ms: int, happened: int) -> bytes:
    data = _RECORD_HEAD.pack(0, len(value), offset, min(cost_ms, 2**32 - 1), happened, kind) + value
    return struct.pack("<I", zlib.crc32(data[4:])) + data[4:]


def _size(records: Sequence[ScreenRecord]) -> int:
    return len(FILE_BEGINS) + sum(_RECORD_HEAD.size + each.size for each in records)


def _joined(records: list[ScreenRecord]) -> list[ScreenRecord]:
    """Leave out older screens as long as a replay from the one before stays short."""
    kept: list[ScreenRecord] = []
    screens = [each for each in records if each.kind is RecordKind.SCREEN]
    dense = screens[-DENSE_CHECKPOINTS].offset if len(screens) >= DENSE_CHECKPOINTS else 0
    for each in records:
        both = len(kept) > 1 and kept[-1].kind is each.kind is RecordKind.SCREEN
        if both and each.offset < dense and kept[-1].cost_ms + each.cost_ms <= JOINED_MS:
            kept[-1] = _after(kept[-1], each)
        else:
            kept.append(each)
    return kept


def _without_least(records: list[ScreenRecord]) -> list[ScreenRecord]:
    """Leave out the one whose going makes the replay to the next one the least long; the newest one last."""
    costs = [each.cost_ms + after.cost_ms for each, after in pairwise(records)]
    at = costs.index(min(costs)) if costs else 0
    rest = records[:at] + records[at + 1 :]
    if at < len(rest) and rest[at].kind is RecordKind.SCREEN:
        rest[at] = _after(records[at], rest[at])
    return rest


def _after(before: ScreenRecord, record: ScreenRecord) -> ScreenRecord:
    """A record with the cost of the one before it, which goes."""
    return replace(record, cost_ms=before.cost_ms + record.cost_ms)


def pack(value: Any) -> bytes:
    """Plain data as bytes; a few KB for a usual screen."""
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode())


def unpack(packed: bytes) -> Any:
    """What was packed.

    Raises:
        ValueError: it is not that.
    """
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(packed, MOST_UNPACKED)
        if not unpacker.eof:
            raise ValueError("not whole, or too much")
        return json.loads(data)
    except (zlib.error, RecursionError) as error:
        raise ValueError(str(error)) from error


def packed_screen(snapshot: Snapshot) -> bytes:
    """A screen as bytes, but for who counts its columns: `meta.json` has that, once."""
    data = to_data(snapshot)
    data["state"].pop("tmux", None)
    if doubts := [each for each in data["state"].pop("doubts", ()) if each != Doubt.WIDTHS]:
        data["state"]["doubts"] = doubts
    return pack(data)


def screen_of(packed: bytes) -> Snapshot:
    """The screen that was packed.

    Raises:
        ValueError: it is none.
    """
    return from_data(unpack(packed))


# ---- Screens that may be looked at again -----------------------------------------------------------------------------
#
# Kept in memory: a second look near by begins there. A broker keeps those that were rebuilt for it, packed. The process
# that replays keeps those that it passed: as a value one costs a tenth of a millisecond, packed it would up to fifty.

PASSED_CELLS = 200_000
"""Of all screens that a process keeps: a hundred usual ones, of at most 50 MB where each cell is another one."""

APART_S = 0.03
"""Processor time from one to the next."""


class _AtOffset(Protocol):
    @property
    def offset(self) -> int: ...


Kept = TypeVar("Kept", bound=_AtOffset)


class KeptScreens(Generic[Kept]):
    """Screens of any session, those that were used last."""

    def __init__(self, most: int, size_of: Callable[[Kept], int]) -> None:
        """`most`: the size of all of them, as `size_of` counts it."""
        self._most, self._size_of = most, size_of
        self._size = 0
        self._screens: OrderedDict[tuple[str, int, int], Kept] = OrderedDict()
        """By session, offset, and how much had happened up to there: one more event makes a screen wrong."""

    def keep(self, session: str, screen: Kept, happened: int) -> None:
        """Keep one more; those that were not used for the longest time give way."""
        at = (session, screen.offset, happened)
        before = self._screens.pop(at, None)
        self._screens[at] = screen
        self._size += self._size_of(screen) - (self._size_of(before) if before else 0)
        while self._size > self._most and self._screens:
            self._size -= self._size_of(self._screens.popitem(last=False)[1])

    def nearest(self, session: str, begin: int, end: int, happened: Sequence[int]) -> Kept | None:
        """The last one behind `begin` and up to `end`; None: that is no better.

        Args:
            happened: offsets of all that had happened up to `end`.
        """
        fits = [
            at for at in self._screens if at[0] == session and begin < at[1] <= end and at[2] == count(happened, at[1])
        ]
        if not fits:
            return None
        self._screens.move_to_end(max(fits))
        return self._screens[max(fits)]


def passed_screens() -> KeptScreens[Snapshot]:
    """For screens that replays pass."""
    return KeptScreens(PASSED_CELLS, _cells)


def count(happened: Sequence[int], offset: int) -> int:
    """How much had happened at an offset."""
    return sum(each <= offset for each in happened)


def _cells(screen: Snapshot) -> int:
    return screen.cols * screen.rows * (2 if screen.alternate else 1)
