"""What a broker that stays does for all sessions beside its calls: times, screens of the past, files of recordings.

It writes the timing index of every session, where no other broker does: when what was printed.

One writer a session, whoever holds the index's lock; the others wait for its end, which inotify tells them, and one of
them goes on. A session that prints nothing costs nothing: its writer sleeps until the log grows. Then it looks at most
once in `LOG_LOOKS_APART_S`, whatever comes, and writes a block every `FLUSH_S`.

What comes is dated by the moment at which it is seen. So it counts as known only where nothing held this process up.

What else a broker that stays does beside calls follows: checkpoints, and the files of recordings.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel

from tmuxmcp.contract.call import seconds_of
from tmuxmcp.contract.errors import TmuxMcpError, Unsupported
from tmuxmcp.contract.value import value
from tmuxmcp.machine.locks import file_system_of, if_free
from tmuxmcp.record.directory import SessionDirectory, directories
from tmuxmcp.record.log import LogWatcher, Unchanged
from tmuxmcp.record.meta import RecordingNote, sink_of
from tmuxmcp.record.past.checkpoints import Checkpoints, RecordKind
from tmuxmcp.record.past.replaying import BlankScreen, PackedScreen, Replaying, Story, beginning
from tmuxmcp.record.past.timing import TimingWriter
from tmuxmcp.sessions.creation import Creation
from tmuxmcp.sessions.life import State
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session

log = logging.getLogger(__name__)

LOG_LOOKS_APART_S = 0.01
"""Least time between two looks at a log that grows."""

FLUSH_S = 0.25
"""What was noted is written after so long at the latest: a killed broker loses no more."""

BEAT_S = 0.1
"""A broker outside of the main thread wakes after each: so long it may have been stopped and not know."""

LOCK_AGAIN_S = (0.01, 0.1, 1.0)
"""When a lock is asked for again that was let go of: the system tells it a little before."""

LOOK_AGAIN_S = 5.0
"""A log that does not grow is looked at so often."""

CLOCKS_AGREE_MS = 500
"""So far a session's clock may be from that of the machine if nobody has set it since the session was made."""

LAST_BYTES_S = 1.0
"""How long the sink of a session that has ended may take to write what it still has."""


class Timekeeper:
    """The writers of one broker's sessions."""

    def __init__(self, registry: Registry, watcher: LogWatcher) -> None:
        self._registry, self._watcher = registry, watcher
        registry.opened = mind_size  # until `run` begins
        self._writers: dict[Session, TimingWriter] = {}
        self._delays = Delays()
        self._closed = False

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Write until cancelled; call `close` before."""
        if not await anyio.to_thread.run_sync(_can_write, self._registry):
            return task_status.started()
        async with anyio.create_task_group() as task_group:

            def begin(session: Session) -> None:
                task_group.start_soon(self._keep, session)

            self._registry.opened = begin
            for session in self._registry.sessions.values():
                begin(session)
            task_group.start_soon(self._mind_stops)
            task_group.start_soon(self._look_now_and_then)
            task_status.started()

    async def _mind_stops(self) -> None:
        """Notice when this process was stopped (SIGSTOP) and goes on."""
        while threading.current_thread() is not threading.main_thread():  # signals come to that alone
            self._delays.beat(BEAT_S)
            await anyio.sleep(BEAT_S)
        with minding_stops(self._delays):
            await anyio.sleep_forever()

    # ---- one session ---------------------------------------------------------------------------

    async def _keep(self, session: Session) -> None:
        try:
            writer = await self._turn(session)
            if writer:
                await self._write(session, writer)
        except (Unsupported, OSError) as error:
            log.debug("times of session %s are not written: %s", session.id, error)
        except Exception:  # one session's oddity must not end the broker
            log.exception("times of session %s are not written", session.id)

    def _lives(self, session: Session) -> bool:
        """This broker still has it, and it runs."""
        known = self._registry.sessions.get(session.id) is session
        return known and not session.exited and not self._closed

    async def _turn(self, session: Session) -> TimingWriter | None:
        """Wait until no other broker writes; None: the session has ended before, or its log cannot be watched."""
        if not self._watcher.watches(session.log.path):
            return None
        pauses: Iterator[float]
        lock, pauses = session.directory.timing_lock, iter(())
        try:
            while self._lives(session):
                if writer := TimingWriter.take(session.directory):
                    return writer
                change = self._watcher.add(lock, mends=False).next_change()
                if writer := TimingWriter.take(session.directory):  # it was let go of meanwhile
                    return writer
                with anyio.move_on_after(next(pauses, math.inf)):
                    await change.wait()
                    pauses = iter(LOCK_AGAIN_S)
            return None
        finally:
            self._watcher.remove(lock)

    async def _write(self, session: Session, writer: TimingWriter) -> None:
        self._writers[session] = writer
        try:
            await self._wait_for_sink(session)
            seen, (size, written_at) = session.log.unchanged, session.log.written()
            if seen and seen.size is not None and writer.offset <= seen.size < size:
                # It has printed since this broker first looked, and nobody has noted more.
                writer.begin(seen.size, seen.until_ms)
                writer.note(size, session.now_ms(), known=False, unchanged_ms=seen.until_ms)
            else:
                writer.begin(size, session.now_ms(), self._ms_of(session, written_at))
            session.log.unchanged = Unchanged(session.now_ms, writer.offset)
            await self._note_while(session, writer)
            if session.exited:
                await self._note_last(session, writer)
        finally:
            self._finish(session)

    async def _wait_for_sink(self, session: Session) -> None:
        """Let a sink come to an end that empties the log for want of holes: meanwhile that seems to be shorter."""
        with anyio.move_on_after(LAST_BYTES_S):
            while session.directory.keep.exists():
                await anyio.sleep(LOG_LOOKS_APART_S)

    async def _note_while(self, session: Session, writer: TimingWriter) -> None:
        """Note what comes while it runs."""
        flush_at = time.monotonic() + FLUSH_S if writer.has_more else math.inf
        while self._lives(session):
            now = time.monotonic()
            if self._note_size(session, writer):
                flush_at = min(flush_at, now + FLUSH_S)
                await anyio.sleep(LOG_LOOKS_APART_S)
                self._delays.woke(now + LOG_LOOKS_APART_S)
            if writer.has_more and time.monotonic() >= flush_at:
                writer.flush()
            if not writer.has_more:
                flush_at = math.inf
            await self._growth(session, writer, flush_at)

    async def _growth(self, session: Session, writer: TimingWriter, until: float) -> None:
        """Wait until there is more to note; `until` some moment of `time.monotonic`."""
        if session.log.size() > writer.offset:
            return
        with self._watcher.waiting(session.log.path) as growth:
            change = growth.next_change()
            if session.log.size() > writer.offset or not self._lives(session):
                return
            with anyio.move_on_after(max(until - time.monotonic(), 0)) as scope:
                await change.wait()
                await anyio.lowlevel.checkpoint()  # whoever waits for a command comes first
        if scope.cancelled_caught:
            self._delays.woke(until)

    def _note_size(self, session: Session, writer: TimingWriter) -> bool:
        """Note how much has been printed now; whether it is more."""
        held_up = self._delays.lately()
        size, written_at = session.log.written()
        if size <= writer.offset:
            return False
        now_ms, late_s = session.now_ms(), time.time() - written_at
        held_up = held_up or self._delays.lately()  # it may have been stopped between the size and the time
        known = not held_up and -HELD_UP_S < late_s < HELD_UP_S
        unchanged = session.log.unchanged
        writer.note(size, now_ms, known=known, unchanged_ms=unchanged.until_ms if unchanged else 0)
        if unchanged:
            unchanged.size = writer.offset
        return True

    def _ms_of(self, session: Session, written_at: float) -> int | None:
        """A moment of the machine's clock by the session's; None: somebody has set one of them since it was made."""
        now_s, now_ms, made_s = time.time(), session.now_ms(), seconds_of(session.meta.created_at)
        if made_s is None or abs((now_s - made_s) * 1000 - now_ms) > CLOCKS_AGREE_MS:
            return None
        return min(math.ceil((written_at - made_s + HELD_UP_S) * 1000), now_ms)

    async def _look_now_and_then(self) -> None:
        """Look at the logs: of what comes while this process is held up it is then known when it had not come yet."""
        while True:
            await anyio.sleep(LOOK_AGAIN_S)
            for session in list(self._writers):
                session.log.size()

    async def _note_last(self, session: Session, writer: TimingWriter) -> None:
        """Note what the sink of a session that has ended still writes."""
        with anyio.move_on_after(LAST_BYTES_S):
            while sink_of(session.directory).alive and session.directory.is_there:
                self._note_size(session, writer)
                await anyio.sleep(LOG_LOOKS_APART_S)

    def _finish(self, session: Session) -> None:
        writer = self._writers.pop(session, None)
        if writer is None:
            return
        if session.directory.is_there:
            self._note_size(session, writer)
        session.log.unchanged = None
        writer.close(session.now_ms())

    def close(self) -> None:
        """Write what is noted, and let go of all indexes."""
        self._closed = True
        self._registry.opened = lambda session: None
        for session in list(self._writers):
            self._finish(session)
        self._delays.close()


class SizesSeen:
    """What a broker that does not stay, as a command's, notes at its end of the sessions that it typed into or made.

    It does not watch what they print. But between two such brokers nothing may have been printed, and then the screen
    of that time is known.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry, self._begun_s = registry, time.time()
        registry.opened = mind_size
        for session in registry.sessions.values():
            mind_size(session)

    def note(self) -> None:
        """Note how much had been printed at the first look and now."""
        self._registry.opened = lambda session: None
        acted = [session for session in self._registry.sessions.values() if self._acted(session)]
        if acted and _can_write(self._registry):
            for session in acted:
                with suppress(Unsupported, OSError):
                    self._note(session)

    def _acted(self, session: Session) -> bool:
        made_s = seconds_of(session.meta.created_at)
        return session.typed_at >= 0 or (made_s is not None and made_s >= self._begun_s)

    def _note(self, session: Session) -> None:
        seen, writer = session.log.unchanged, TimingWriter.take(session.directory)
        if writer is None:  # a server writes
            return
        if seen and seen.size is not None and seen.size >= writer.offset:  # else a server has noted more
            writer.begin(seen.size, seen.until_ms)
        ms = session.now_ms()
        writer.note(session.log.size(), ms, known=False, unchanged_ms=seen.until_ms if seen else 0)
        writer.close(ms)


def mind_size(session: Session) -> None:
    """Mind how much a session has printed when it is first looked at, and until when."""
    session.log.unchanged = Unchanged(session.now_ms)


def _can_write(registry: Registry) -> bool:
    """Elsewhere a lock may be no lock, and what two machines append may be torn."""
    try:
        return file_system_of(registry.state_dir).local
    except OSError:
        return False


# ---- Makes checkpoints of what sessions print ------------------------------------------------------------------------
#
# In the background: so that a look at any past screen is short.
#
# How far they are apart is counted in the processor time that it takes to replay what lies between. One broker of those
# that stay does it for a session, held by a lock that ends with its process. The work is done by a process that takes
# only the time which nobody else wants, and that is there while there is work. If it fails, there is no checkpoint.

CHECKPOINT_CPU_S = 0.7
"""Processor time from one checkpoint to the next: two such steps, and the start of a process, stay below 2 s."""

ENOUGH_BYTES = 512 * 1024
"""Worth a start of the process: less takes a second to replay even where every cell has its colour."""

TURN_CHECKPOINTS = 8
"""Checkpoints of one session before it is another one's turn."""

ASIDE_S = 0.1
"""While a call is answered the process is stopped, for so long at most."""

BETWEEN_S = 0.02
"""For so long it works between two stops: calls that follow one another at once must not keep it from its work."""

MOST_FAILURES = 3
"""After so many in a row, a session is left alone."""


@value(frozen=False)
class CheckpointProgress:
    """How far the checkpoints of a session have come."""

    size: int = -1
    """Of the log, to which all is replayed."""
    screen: PackedScreen | None = None
    """What it showed there."""
    happened: int = 0
    """How much was known to have happened up to there."""
    cost_s: float = 0.0
    """Processor time from the last checkpoint to there."""
    failures: int = 0


class CheckpointMaker:
    """Makes the checkpoints of one broker's sessions."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._replaying = Replaying(idle=True)
        self._reached: dict[tuple[str, int], CheckpointProgress] = {}
        """By path and number of a session's directory."""
        self._wanted: list[Session] = []
        self._work = anyio.Event()
        self._stopped = anyio.Event()
        self._stopped_at: float | None = None
        self._went_on_at = 0.0

    def find_work(self) -> None:
        """See which sessions have printed enough since; called now and then, by who is awake."""
        sessions = list(self._registry.sessions.values())
        for gone in self._reached.keys() - {_key(session) for session in sessions}:
            del self._reached[gone]
        for session in sessions:
            reached = self._reached.setdefault(_key(session), CheckpointProgress())
            grown = session.log.size() - max(reached.size, 0)
            if grown >= ENOUGH_BYTES and reached.failures < MOST_FAILURES and session not in self._wanted:
                self._wanted.append(session)
                self._work.set()

    async def run(self) -> None:
        """Make what is wanted, until cancelled."""
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(self._end_stops)
            while True:
                await self._work.wait()
                self._work = anyio.Event()
                try:
                    while self._wanted:
                        await self._turn(self._wanted[0])
                finally:
                    self._replaying.close()

    # ---- standing aside --------------------------------------------------------------------------

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Stop the process while a call is answered: whatever its priority, it slows down what runs beside it."""
        self._stop()
        try:
            yield
        finally:
            self._go_on()

    def _stop(self) -> None:
        now, process = time.monotonic(), self._replaying.process
        if process and self._replaying.started and self._stopped_at is None and now - self._went_on_at >= BETWEEN_S:
            process.send_signal(signal.SIGSTOP)
            self._stopped_at = now
            self._stopped.set()

    def _go_on(self) -> None:
        if self._stopped_at is None:
            return
        self._stopped_at, self._went_on_at = None, time.monotonic()
        if process := self._replaying.process:
            process.send_signal(signal.SIGCONT)

    async def _end_stops(self) -> None:
        """Let the process go on where a call takes long."""
        while True:
            await self._stopped.wait()
            self._stopped = anyio.Event()
            while self._stopped_at is not None:
                left_s = self._stopped_at + ASIDE_S - time.monotonic()
                if left_s <= 0:
                    self._go_on()
                else:
                    await anyio.sleep(left_s)

    # ---- the work --------------------------------------------------------------------------------

    async def _turn(self, session: Session) -> None:
        """Make some checkpoints of a session; its next turn comes behind the others."""
        reached = self._reached.setdefault(_key(session), CheckpointProgress())
        more = False
        try:
            with if_free(session.directory.screens_lock) as free:
                if free:
                    more = await self._make(session, reached)
                else:
                    reached.size = session.log.size()  # another broker does it
            reached.failures = 0
        except (TmuxMcpError, OSError) as error:
            reached.failures += 1
            log.warning("no screens of session %s are kept: %s", session.id, error)
        finally:
            self._wanted.remove(session)
        if more:
            self._wanted.append(session)

    async def _make(self, session: Session, reached: CheckpointProgress) -> bool:
        """Whether there is more to do at once.

        Raises:
            IoError
        """
        end, checkpoints = session.log.size(), Checkpoints(session.directory)
        story = Story.of(session.events, checkpoints, end)
        for _ in range(TURN_CHECKPOINTS):
            start = _begin(session, checkpoints, story, reached, end)
            if start is None or start.offset >= end:
                break
            asked = story.request(session.directory, start, end, max(CHECKPOINT_CPU_S - reached.cost_s, 0))
            done = await self._replaying.replay(session.directory, asked)
            if done is None:  # what it began with was given back
                reached.screen, reached.cost_s = None, 0.0
                continue
            reached.screen, reached.happened = done.reached, story.count(done.reached.offset)
            reached.cost_s += done.cpu_s
            if reached.cost_s >= CHECKPOINT_CPU_S:
                _add(checkpoints, reached)
        checkpoints.thin()
        reached.size = reached.screen.offset if reached.screen else end
        return reached.size < end

    def close(self) -> None:
        """End the process."""
        self._replaying.close()


def _begin(
    session: Session, checkpoints: Checkpoints, story: Story, reached: CheckpointProgress, end: int
) -> PackedScreen | BlankScreen | None:
    """Where to go on: what was reached, as long as it is right, else at the last checkpoint."""
    known = reached.screen
    if known and story.count(known.offset) == reached.happened and known.offset >= session.log.head():
        return known
    reached.cost_s = 0.0
    return beginning(session.directory, checkpoints, story, end)


def _add(checkpoints: Checkpoints, reached: CheckpointProgress) -> None:
    assert reached.screen, "something was replayed"
    cost_ms, screen = round(reached.cost_s * 1000), reached.screen
    checkpoints.add(RecordKind.SCREEN, screen.offset, screen.screen, cost_ms=cost_ms, happened=reached.happened)
    reached.cost_s = 0.0


def _key(session: Session) -> tuple[str, int]:
    return str(session.directory.path), session.directory.inode


# ---- Whether this process was held up --------------------------------------------------------------------------------
#
# It computed, waited for a processor, or was stopped, when something else was due.
#
# What happens while a process is held up, it sees too late, and all at once; who dates what it sees has to know that.

HELD_UP_S = 0.05
"""A delay below this is none."""

REMEMBERED_S = 0.1
"""After a delay it takes so long until all is seen that happened meanwhile."""


class Delays:
    """The delays of the thread that makes it; asked whenever something is seen, it costs a few microseconds."""

    def __init__(self) -> None:
        self._fd = -1
        with suppress(OSError):  # a kernel that keeps no such account
            self._fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        self._busy_s = self._account()
        self._held_at = float("-inf")
        self._beat_due = float("inf")

    def _account(self) -> float:
        """Seconds in which this thread computed or waited for a processor, in all."""
        if self._fd >= 0:
            computed, waited = os.pread(self._fd, 100, 0).split()[:2]
            return (int(computed) + int(waited)) / 1e9
        return time.thread_time()

    def lately(self) -> bool:
        """Whether there was a delay since this was last asked, or shortly before."""
        busy_s = self._account()
        if busy_s - self._busy_s >= HELD_UP_S:
            self.note()
        self._busy_s = busy_s
        self.woke(self._beat_due)
        return time.monotonic() - self._held_at < REMEMBERED_S

    def note(self) -> None:
        """Note a delay that ends now."""
        self._held_at = time.monotonic()

    def woke(self, due: float) -> None:
        """Note when a sleep ended that should have ended at `due` (`time.monotonic`)."""
        if time.monotonic() - due >= HELD_UP_S:
            self.note()

    def beat(self, next_s: float) -> None:
        """Expect to be called again within so many seconds; an overdue beat is a delay, also before it comes."""
        self.woke(self._beat_due)
        self._beat_due = time.monotonic() + next_s

    def close(self) -> None:
        """Let go of the account."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


class _WentOn:
    """The handler of SIGCONT, of which a process has one: it tells all who mind, and whoever had the signal before."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self.delays: set[Delays] = set()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        for each in tuple(self.delays):
            each.note()
        if callable(self.before):
            self.before(number, frame)


@contextmanager
def minding_stops(delays: Delays) -> Iterator[None]:
    """While this is open, note when this process was stopped (SIGSTOP) and goes on; in the main thread.

    A handler is told at once: a task that is told comes after whatever the process sees first as it goes on.
    """
    found = signal.getsignal(signal.SIGCONT)
    handler = found if isinstance(found, _WentOn) else _WentOn(found)
    signal.signal(signal.SIGCONT, handler)
    handler.delays.add(delays)
    try:
        yield
    finally:
        handler.delays.discard(delays)
        in_place = signal.getsignal(signal.SIGCONT) is handler  # the program may have put its own there meanwhile
        if in_place and not handler.delays:
            signal.signal(signal.SIGCONT, signal.SIG_DFL if handler.before is None else handler.before)


# ---- Looks for recorded sessions that have ended, and has their files made; one of each broker that stays ------------
#
# So nothing is lost with the broker that began a recording. While nothing is recorded it costs a look at a file name
# for each session.

RECORDED_LOOK_S, SWEEP_S = 2.0, 60.0
"""How often is looked whether a session that is recorded has ended; the same for those that are only files."""

Finish = Callable[[Session], Awaitable[object]]
"""Brings the recording of a session that is over to its end."""


class RecordingCare:
    """The recordings of one state directory."""

    def __init__(self, registry: Registry, creation: Creation, finish: Finish) -> None:
        self._registry, self._creation, self._finish = registry, creation, finish

    async def run(self) -> None:
        """Look after them until cancelled."""
        swept = -math.inf
        while True:
            for session in list(self._registry.sessions.values()):
                await _quietly(session, self._mind)
            if time.monotonic() - swept > SWEEP_S:
                swept = time.monotonic()
                for directory in list(directories(self._registry.state_dir, SessionDirectory.recording)):
                    await self._sweep(directory)
            await anyio.sleep(RECORDED_LOOK_S)

    async def _mind(self, session: Session) -> None:
        note = session.recording
        if note is None or not note.is_open:
            return
        if not session.exited and not session.leader_alive():
            await session.refresh()
        if session.life.state is State.LOST:
            async with self._creation.lock():  # it also seems to be lost while another broker makes it
                await self._registry.look_again()
                session = self._registry.sessions.get(session.id, session)
        if session.exited:
            await self._finish(session)
        elif note.input:
            session.shown.write_shown(session.cols, session.rows)

    async def _sweep(self, directory: SessionDirectory) -> None:
        """Those of sessions that were destroyed, or whose name another one has."""
        note = RecordingNote.load(directory)
        if note and note.is_open and (session := self._registry.over_in(directory)):
            await _quietly(session, self._finish)


async def _quietly(session: Session, work: Finish) -> None:
    try:
        await work(session)
    except (TmuxMcpError, OSError) as error:
        log.warning("the recording of session %s could not be finished: %s", session.id, error)
    except Exception:  # one session's oddity must not end the broker
        log.exception("the recording of session %s could not be finished", session.id)
