"""Writes the timing index of every session of a broker, where no other broker does: when what was printed.

One writer a session, whoever holds the index's lock; the others wait for its end, which inotify tells them, and one of
them goes on. A session that prints nothing costs nothing: its writer sleeps until the log grows. Then it looks at most
once in `LOG_LOOKS_APART_S`, whatever comes, and writes a block every `FLUSH_S`.

What comes is dated by the moment at which it is seen. So it counts as known only where nothing held this process up.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import anyio
import anyio.abc
import anyio.lowlevel

from tmuxmcp.contract.call import seconds_of
from tmuxmcp.contract.errors import Unsupported
from tmuxmcp.machine.delays import HELD_UP_S, Delays, minding_stops
from tmuxmcp.machine.locks import file_system_of
from tmuxmcp.record.log import LogWatcher, Unchanged
from tmuxmcp.record.meta import sink_of
from tmuxmcp.record.past.timing import TimingWriter
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
