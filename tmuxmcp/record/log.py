"""A session's raw log: append-only bytes of the pane, read by offset; and who is told when one grows.

What can happen. The sink (`machine/launch/sink.sh`) appends; nobody else writes. When there is more than the limit it
gives the head back: as a hole, or, on a file system without holes, by emptying the file and putting its newest part
back. It may be killed, by a person or for memory: the broker puts another one in place, and what was printed in
between is lost. The disk may be full. The file may be removed, with its session, while somebody reads.

    offset      0 ......... head() ................. size()
                  gone        kept                    not printed yet

An offset counts the bytes that the pane printed and a sink took, from the first one. It means the same for ever:
marks, read cursors, commands, timing and checkpoints are offsets. With holes, an offset is a place in the file; where
there are none, `out.base` holds the offset of the file's first byte.

In which order, where the file is emptied: emptied, then `out.base` written, then the newest part put back. Who reads in
between sees too little, never bytes at wrong offsets: it takes `out.base` before and after, and reads again when the
two differ. What was lost is told by an event `gap` at an offset, which the sink that goes on writes before it appends.

Who is told. Nobody queues for a consumer, which is only an offset: it reads on when it likes. It takes the event of
the next change, then looks, then waits for the event: nothing is missed, and one wake may stand for many writes.
inotify tells of growth while somebody waits, and always when a writer has closed the file: a sink that is gone is
noticed at once. A file that inotify cannot watch is polled; when it has dropped events, every file counts as closed.

What is trusted, and why:

- The size of the file: the sink only appends, so all that is below it is there or was given back.
- A hole: what was given back reads as zeros, so the place of a read is compared with where data begins.
- Not trusted: the time of the last write, as a sign that something was printed; being woken, as a sign that the log has
  grown. Both only say "look".

Invariants:

- Bytes that were read at an offset never change; they can only be gone, and then nothing is returned for them, but by
  who has just read them and still has them: true bytes, which nobody may take for a sign that the head is there.
- `size()` never goes back but while a sink without holes puts back what it keeps, or when the session is removed.
- Everything that is in the log was printed; that all that was printed is in the log has to be asked for
  (`Session.log_complete`).
- No descriptor is kept for a log, and a log without waiters costs nothing but its watch.
"""

from __future__ import annotations

import os
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from tmuxmcp.contract.errors import IoError
from tmuxmcp.contract.follow import Gap, Output, Resize
from tmuxmcp.contract.value import value
from tmuxmcp.machine.ownfiles import open_file, read_bytes
from tmuxmcp.record import events
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import Events, ResizedEvent
from tmuxmcp.terminal.snapshot import PLAIN_STYLE, Style
from tmuxmcp.terminal.text.plain import column_behind, first_leave, last_switch, row_behind, style_behind, unfinished
from tmuxmcp.terminal.widths import OLDEST_VERSION, TmuxVersion

BASE_BYTES = 64
"""Most of `out.base`: a number."""

LOG_READ_BYTES = 1 << 18
"""Bytes read at once: large enough for the fast paths of the parsers, small beside the memory budget."""

KEPT_BYTES = 1 << 13
"""A piece that is not longer is kept until the next one: what `run` asks of a short command is asked several times."""

POLL_S = 0.01
"""Where there is no inotify, a file with waiters is looked at this often."""

SINKS_S = 1.0
"""Where there is no inotify, all sinks are looked at this often."""


FLOOD_BYTES = 1 << 18
"""A wait during which a log has grown by more than this is in a flood."""

FLOOD_PAUSE_S = 0.005
"""In a flood nobody is woken more often: 100 MB in pieces of 4 KB would cost half a core."""


def wake(log: Path) -> None:
    """Have every broker look at a session: they are told when somebody closes its log."""
    with suppress(OSError):
        os.close(open_file(log, os.O_WRONLY | os.O_APPEND))


@value(frozen=False)
class Unchanged:
    """Until when a log had a size."""

    now_ms: Callable[[], int]
    """The session's clock."""
    size: int | None = None
    """None: that of the next look."""
    until_ms: int = 0
    """It had no more at this time."""


class RawLog:
    """One session's `out.raw`, opened for each read: no descriptor is kept for an idle session."""

    def __init__(self, directory: SessionDirectory) -> None:
        self.path = directory.log
        self._name = str(directory.log)
        self._base_path = str(directory.base)
        self._last: tuple[int, bytes] = (0, b"")
        """Where the last short piece that was read began, and the piece: what was printed there stays so."""
        self.unchanged: Unchanged | None = None
        """Who wants to know until when it had a size; each look at it tells."""

    def create(self) -> None:
        """Make the empty file, for the owner alone.

        Raises:
            IoError: it cannot be made.
        """
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise IoError(f"The log {self.path} cannot be made: {error.strerror}.") from error

    def base(self) -> int:
        """Offset of the file's first byte: 0, or where the sink last emptied it for want of holes."""
        if not os.access(self._base_path, os.F_OK):  # nearly always: an exception would cost ten times as much
            return 0
        try:
            return int(read_bytes(self._base_path, BASE_BYTES) or 0)
        except (OSError, ValueError):
            return 0

    def size(self) -> int:
        """Offset behind the last byte."""
        return self.written()[0]

    def written(self) -> tuple[int, float]:
        """The same, and when it was last written to: seconds since 1970; (0, 0.0) where it is gone, or is no file."""
        before_ms = self.unchanged.now_ms() if self.unchanged else 0
        base = self.base()
        try:
            state = os.stat(self._name, follow_symlinks=False)
        except FileNotFoundError:
            return 0, 0.0
        if not stat.S_ISREG(state.st_mode):
            return 0, 0.0
        size = base + state.st_size
        if self.unchanged and self.unchanged.size in (size, None):
            self.unchanged.size, self.unchanged.until_ms = size, before_ms
        return size, state.st_mtime

    def head(self) -> int:
        """Offset of the first byte that is still there."""
        base = self.base()
        try:
            fd = open_file(self._name)
        except FileNotFoundError:
            return 0
        try:
            return base + os.lseek(fd, 0, os.SEEK_DATA)
        except OSError:
            return base  # empty, or a file system that does not know holes
        finally:
            os.close(fd)

    def read(self, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset`; less at the end, and nothing where the head is gone.

        Of what was read last it may still give what is gone by now.
        """
        start, last = self._last
        if start <= offset and offset + size <= start + len(last):
            return last[offset - start : offset - start + size]
        for _ in range(10):
            base = self.base()
            if offset < base:
                return b""
            try:
                fd = open_file(self._name)
            except FileNotFoundError:
                return b""
            try:
                # Room for no more than is there: for a megabyte the system makes and unmaps pages each time.
                data = os.pread(fd, min(size, max(os.fstat(fd).st_size - (offset - base), 0)), offset - base)
                cut = _in_hole(fd, offset - base)
            finally:
                os.close(fd)
            if self.base() == base:  # not emptied while we read
                if cut:
                    return b""
                if len(data) <= KEPT_BYTES:
                    self._last = (offset, data)
                return data
        raise IoError(f"The log {self.path} is emptied faster than it can be read.", hint="Raise log_max_bytes.")

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` to `end`, a piece at a time."""
        while start < end:
            data = self.read(start, min(LOG_READ_BYTES, end - start))
            if not data:
                return
            yield data
            start += len(data)


def _in_hole(fd: int, position: int) -> bool:
    """Whether what was at `position` is given back: it reads as zeros."""
    try:
        return os.lseek(fd, position, os.SEEK_DATA) > position
    except OSError:
        return False  # behind the end, or a file system that does not know holes


class Growth:
    """Wakes whoever waits on one log: `await growth.wait()` returns after the next change."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self.waiters = 0
        self.flood = False
        """Whoever waits has seen so much that it need not be told at once."""

    def wake_all(self) -> None:
        """Wake all that wait now."""
        self._event.set()
        self._event = anyio.Event()

    def next_change(self) -> anyio.Event:
        """The event of the next change; take it before looking at the log, then nothing is missed."""
        return self._event


@value(frozen=False, eq=False)
class _WatchedLog:
    growth: Growth
    wd: int
    """Watch descriptor of inotify; -1: has to be polled."""
    size: int = -1
    mends: bool = True
    """When it is closed, somebody looks whether that has to be mended."""


class LogWatcher:
    """One inotify descriptor for all logs of a broker; a log without waiters and writers costs nothing.

    Two things are told: that a log grew (only while somebody waits), and that a writer closed it, which is how
    a pane's end, a killed sink and a stolen pipe are noticed at once. A log that inotify cannot watch is polled:
    its growth while somebody waits, and once a second it counts as closed, so that somebody looks.
    """

    def __init__(self, inotify: bool = sys.platform == "linux") -> None:
        self._inotify: Any = None
        self._flags: Any = None
        if inotify:
            import inotify_simple

            self._flags = inotify_simple.flags
            with suppress(OSError):  # fs.inotify.max_user_instances
                self._inotify = inotify_simple.INotify(nonblocking=True)
        self._by_path: dict[Path, _WatchedLog] = {}
        self._by_wd: dict[int, Path] = {}
        self._polled: set[Path] = set()
        self._poll_now = anyio.Event()
        self.waits = 0
        """How many wait at this moment, for whichever log."""
        self.closed_paths: set[Path] = set()
        self.closed = anyio.Event()
        """Set when `closed_paths` has something new; whoever handles it puts a fresh event here."""

    def add(self, path: Path, *, mends: bool = True) -> Growth:
        """Begin to watch a log, or another file of which it shall be told that a writer has closed it.

        Args:
            mends: when it is closed, somebody looks at it (`closed_paths`).
        """
        if path in self._by_path:
            return self._by_path[path].growth
        wd = -1
        if self._inotify:
            with suppress(OSError):  # the log of a lost session may be gone; fs.inotify.max_user_watches
                wd = self._inotify.add_watch(path, self._flags.CLOSE_WRITE)
        watched = self._by_path[path] = _WatchedLog(Growth(), wd, mends=mends)
        if wd >= 0:
            self._by_wd[wd] = path
        elif path.exists():
            self._polled.add(path)
            self._poll_now.set()
        return watched.growth

    def watches(self, path: Path) -> bool:
        """The system tells when this grows; else it is polled while somebody waits."""
        return path in self._by_path and self._by_path[path].wd >= 0

    def remove(self, path: Path) -> None:
        """Stop watching."""
        watched = self._by_path.pop(path, None)
        self._polled.discard(path)
        if watched is None:
            return
        watched.growth.wake_all()
        if watched.wd >= 0:
            self._by_wd.pop(watched.wd, None)
            with suppress(OSError, ValueError):  # the log was removed; the descriptor was closed
                self._inotify.rm_watch(watched.wd)

    @contextmanager
    def waiting(self, path: Path) -> Iterator[Growth]:
        """While this is open, growth of the log is told as well."""
        watched = self._by_path.get(path) or _WatchedLog(Growth(), -1)
        growth = watched.growth
        growth.waiters += 1
        self.waits += 1
        try:
            if growth.waiters == 1:
                self._watch(path, watched, modify=True)
            yield growth
        finally:
            self.waits -= 1
            growth.waiters -= 1
            if growth.waiters == 0:
                growth.flood = False
                self._watch(path, watched, modify=False)

    def _watch(self, path: Path, watched: _WatchedLog, modify: bool) -> None:
        if self._by_path.get(path) is not watched:
            return  # removed, or removed and added again: those who wait on the old one wait for nothing
        if watched.wd < 0:
            self._poll_now.set()
            return
        with suppress(OSError, ValueError):  # the log was removed meanwhile; the descriptor was closed
            mask = self._flags.CLOSE_WRITE | self._flags.MODIFY if modify else self._flags.CLOSE_WRITE
            self._inotify.add_watch(path, mask)

    def doubt(self, path: Path) -> None:
        """Have whoever mends look at a log whose writer was not seen, as if that had closed it."""
        if path in self._by_path:
            self.closed_paths.add(path)
            self.closed.set()

    async def run(self) -> None:
        """Tell changes until cancelled."""
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(self._poll)
            if self._inotify:
                await self._listen()

    async def _listen(self) -> None:
        while not self._inotify.closed:  # also after a pause
            await anyio.wait_readable(self._inotify.fileno())
            if self._inotify.closed:  # after it had something to tell, and before it could
                return
            flood = True
            for event in self._inotify.read(timeout=0):
                if event.mask & self._flags.Q_OVERFLOW:  # events were dropped: anything may have happened
                    for path in self._by_path:
                        self._tell(path, closed=True)
                elif event.wd in self._by_wd:
                    path = self._by_wd[event.wd]
                    flood = flood and self._by_path[path].growth.flood
                    self._tell(path, closed=bool(event.mask & self._flags.CLOSE_WRITE))
            if flood:
                await anyio.sleep(FLOOD_PAUSE_S)

    def _tell(self, path: Path, closed: bool) -> None:
        watched = self._by_path[path]
        watched.growth.wake_all()
        if closed and watched.mends:
            self.doubt(path)

    async def _poll(self) -> None:
        while True:
            if not self._polled:
                await self._poll_now.wait()
            with anyio.move_on_after(SINKS_S):
                await self._poll_growth()
            for path in self._polled:
                self._tell(path, closed=True)

    async def _poll_growth(self) -> None:
        """Tell growth, as often as it matters."""
        while True:
            self._poll_now = anyio.Event()
            while waited_for := [path for path in self._polled if self._by_path[path].growth.waiters]:
                for path in waited_for:
                    watched = self._by_path[path]
                    with suppress(OSError):
                        size = path.stat().st_size
                        if size != watched.size:
                            watched.size = size
                            watched.growth.wake_all()
                await anyio.sleep(POLL_S)
            await self._poll_now.wait()

    def close(self) -> None:
        """Let go of the descriptor."""
        if self._inotify:
            self._inotify.close()


# ---- What comes in a session's files from an offset on ---------------------------------------------------------------
#
# Its bytes, and where its events say so gaps and resizes. No tmux.
#
# A follower is an offset. Nothing is queued for it: it reads on when it likes, or is told which bytes are no longer
# kept.

FileEvent = Output | Gap | Resize


class FileFollower:
    """Reads one session's files onwards. Each byte is given once."""

    def __init__(self, directory: SessionDirectory, noted: Events, offset: int = 0) -> None:
        """Begin at this offset of the log."""
        self._log = RawLog(directory)
        self._events, self._taken = noted, 0
        self._noted: deque[Gap | Resize] = deque()
        """Events whose offset is not reached."""
        self._inode = self._inode_now()
        self.start_at(offset)

    def start_at(self, offset: int) -> None:
        """Go on from this offset; events before it do not matter."""
        self.offset = self._begun = offset

    def skip_events(self) -> None:
        """Leave out what the events say until now."""
        self._taken += len(self._events.gaps_and_resizes(self._taken))

    @property
    def has_more(self) -> bool:
        """There is more in the log."""
        return self._log.size() > self.offset

    @property
    def replaced(self) -> bool:
        """Another session has the directory: what is in there now is not of the one that is followed."""
        return self._inode_now() != self._inode

    def _inode_now(self) -> int:
        try:
            return os.stat(self._log.path).st_ino
        except OSError:
            return 0

    def read(self, most: int = LOG_READ_BYTES) -> list[FileEvent]:
        """Give what comes next, at most so many bytes of it; nothing when everything was given."""
        size = self._log.size()  # first: a gap is written down before what is printed after it
        found: list[FileEvent] = [*self._reached()]
        end = min([size, self.offset + most, *(each.offset for each in self._noted)])
        if end > self.offset and (bytes_or_gap := self._bytes(end)):
            found.append(bytes_or_gap)
        return found

    def pass_over(self) -> list[FileEvent]:
        """Go to the log's end without reading it; give the gaps and resizes on the way."""
        self.offset = max(self.offset, self._log.size())
        return [*self._reached()]

    def _bytes(self, end: int) -> Output | Gap | None:
        offset = self.offset
        data = self._log.read(offset, end - offset)
        if self.replaced:
            return None
        if data:
            self.offset += len(data)
            return Output(offset, data)
        self.offset = max(offset, self._log.head())
        return Gap(offset, self.offset) if self.offset > offset else None

    def _reached(self) -> list[Gap | Resize]:
        """Gaps and resizes up to the offset; one that was written down late is given late."""
        new = self._events.gaps_and_resizes(self._taken)
        self._taken += len(new)
        told = [_as_change(each) for each in new if each.offset >= self._begun]
        self._noted.extend(sorted(told, key=lambda each: each.offset))
        found = [each for each in self._noted if each.offset <= self.offset]
        self._noted = deque(each for each in self._noted if each.offset > self.offset)
        return found


def _as_change(event: events.GapEvent | ResizedEvent) -> Gap | Resize:
    if isinstance(event, ResizedEvent):
        return Resize(event.offset, event.cols, event.rows)
    return Gap(event.offset, event.offset)


# ---- What has to be known of an offset of a log to go on from there as if all before it had been read, too -----------
#
# A reader may begin anywhere: in the middle of a line, of an escape sequence, of a character, of what a full-screen
# program draws. All of it is found by looking back over a bounded part of the log.

BEGINNING_BYTES = 4096
"""How far back the beginning of a line, of a title or of a sequence is looked for."""

ROW_BYTES = (8 * 1024, 64 * 1024, 512 * 1024)
"""How far back it is looked for what leads to the cursor's row, one after the other (1, 10 and 80 ms)."""

SCREEN_BYTES = 16 * 1024 * 1024
"""How far back the beginning of a full-screen program is looked for (10 ms)."""

STYLE_BYTES = 256 * 1024
"""How far back the style of what is printed is looked for (1 ms, 10 ms where every word is coloured): programs end
their colours soon."""

SWITCH_BYTES = 64
"""Longer than what switches to the other screen."""

_MARK = b"\x1b]133;"
"""Begins a mark of a shell: C stands where a command begins to print."""


@value
class ResumePoint:
    """How a stretch begins."""

    cut: bytes = b""
    """The beginning of a sequence or character whose rest comes first."""
    col: int = 0
    """The cursor's column."""
    inside: bool = False
    """A full-screen program draws there, and has begun before."""
    style: Style | None = None
    """In which what comes next is printed; None: the text is to have no styles."""
    offset: int | None = None
    """Where it is, if the cursor's row there counts."""
    begins: bool = False
    """A command begins to print there."""


class ResumePoints:
    """Finds places in one log; remembers the last one, so that little is read again."""

    def __init__(
        self, log: RawLog, resized: Callable[[], int] = lambda: 0, version: TmuxVersion = OLDEST_VERSION
    ) -> None:
        """
        Args:
            resized: offset at which the terminal got its size.
            version: of the tmux that counts its columns.
        """
        self._log, self._resized, self.version = log, resized, version
        self._row: tuple[tuple[int, int, int, bool], int | None] | None = None
        """The row that was asked for last."""
        self._from = self._to = 0
        self._inside = False
        """So it is everywhere between these offsets."""

    def at(self, offset: int, cols: int) -> ResumePoint:
        """The place at an offset, in a pane of so many columns."""
        begin = max(offset - BEGINNING_BYTES, self._log.head())
        before = self._log.read(begin, max(offset - begin, 0))
        if not before:
            return ResumePoint()
        cut = unfinished(before)
        whole = before[: len(before) - cut]
        if self.inside(offset - cut):
            return ResumePoint(before[len(whole) :], 0, True)
        newline = whole.rfind(b"\n")
        col = column_behind(whole[newline + 1 :], cols, self.version) if newline >= 0 or begin == 0 else 0
        return ResumePoint(before[len(whole) :], col, offset=offset)

    def row_of(self, place: ResumePoint, cols: int, rows: int) -> int | None:
        """The cursor's row at a place; None: it is not known, or does not count.

        It does not count where a command goes on to print: that draws over what it has drawn, which is shown again.
        """
        if place.offset is None:
            return None
        asked = (place.offset, cols, rows, place.begins)
        if self._row is None or self._row[0] != asked:
            self._row = asked, self._row_at(*asked)
        return self._row[1]

    def _row_at(self, offset: int, cols: int, rows: int, begins: bool) -> int | None:
        least = max(self._log.head(), self._resized())
        counts = begins or offset == 0 or self._log.read(offset, len(_MARK)) == _MARK
        for size in ROW_BYTES:
            begin = max(offset - size, least)
            before = self._log.read(begin, max(offset - begin, 0))
            if not counts:
                mark = before.rfind(_MARK)
                if before[mark + len(_MARK) :].startswith(b"C"):
                    return None
                counts = mark >= 0
            if counts:
                # Whatever is printed leads from a row to none that is above where it leads to from a row above.
                begun, inside = {0} if begin == 0 else {0, rows - 1}, self.inside(begin)
                found = {row_behind(before, cols, rows, row, inside, self.version) for row in begun}
                if len(found) == 1:
                    return found.pop()
            if begin == least:
                break
        return None

    def inside(self, offset: int) -> bool:
        """Whether a full-screen program draws there, as far as one can look back."""
        if self._from <= offset <= self._to:
            return self._inside
        known = self._to if offset > self._to else 0
        stop = max(known, offset - SCREEN_BYTES, self._log.head())
        found = self._look_back(offset, stop)
        if found is None and stop == known:
            found = self._inside if known else False
            start = self._from if known else 0
        else:
            start = stop if found is None else offset
        if offset > self._to:
            self._from, self._to, self._inside = start, offset, bool(found)
        return bool(found)

    def style_at(self, offset: int) -> Style:
        """The style in which what comes at an offset is printed, as far as one can look back."""
        begin = max(offset - STYLE_BYTES, self._log.head())
        before = self._log.read(begin, max(offset - begin, 0))
        if b"\x1b[" not in before:
            return PLAIN_STYLE
        return style_behind(before, inside=self.inside(begin))

    def inside_since(self, start: int, offset: int) -> bool:
        """Whether a full-screen program draws at an offset that began at `start` or behind it."""
        return bool(self._look_back(offset, max(start, offset - SCREEN_BYTES)))

    def behind_drawing(self, start: int, end: int) -> tuple[int, bool]:
        """Where the full-screen program that draws at `start` ends, or how far was looked; whether it still draws."""
        for at in range(start, min(end, start + SCREEN_BYTES), LOG_READ_BYTES):
            data = self._log.read(at, min(LOG_READ_BYTES + SWITCH_BYTES, end - at))
            left = first_leave(data)
            if left is not None:
                return at + left, False
        return min(end, start + SCREEN_BYTES), True

    def _look_back(self, offset: int, stop: int) -> bool | None:
        """What the last switch between `stop` and `offset` says; None: there is none."""
        at, head = offset, self._log.head()
        while at > stop:
            begin = max(at - LOG_READ_BYTES, stop)
            read_from = max(begin - SWITCH_BYTES, head)
            found = last_switch(self._log.read(read_from, at - read_from))
            if found is not None:
                return found
            at = begin
        return None
