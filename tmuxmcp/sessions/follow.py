"""Follows one session: the screen at an offset, then all that happens, each byte once. It types nothing.

A follower holds nothing between two events but an offset and what it told last: it may be slow, be cancelled in the
middle of a wait and asked again, or be dropped. It is woken when the log grows; what tells no one that it happened
(the program waits for input, the window has another size) is looked for in steps that grow while nothing changes.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

import anyio

from tmuxmcp.contract.errors import InvalidArgument, SessionNotFound, TmuxMcpError
from tmuxmcp.contract.follow import Change, Command, Destroyed, End, Exit, Lost, ModeChange, Printed, Resize
from tmuxmcp.record.log import LOG_READ_BYTES, FileFollower
from tmuxmcp.sessions.look import MIN_LOOK_INTERVAL_S, Look
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.screens import snapshot_of
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.marks import Finished
from tmuxmcp.terminal.snapshot import Snapshot

log = logging.getLogger(__name__)

SHORTEST_LOOK_S, LONGEST_LOOK_S = 0.1, 1.0
"""Time between two looks at a session that prints nothing: the longer nothing changes, the longer."""

PRINTED_TOGETHER_S = 0.01
"""What is printed within this time is given together."""

END_HELD_S = 1.0
"""How long the end of a session is held back while its sink still has something to write."""

Event = Snapshot | Change


class Follow(AsyncIterator[Event]):
    """All that happens to one session, from now or an offset on; it ends with the session.

    `batch` gives what has happened at once; iterating gives the same one by one.
    """

    def __init__(
        self,
        registry: Registry,
        find: Callable[[], Awaitable[Session]],
        since: int | None,
        output: bool,
        longest_look_s: float = LONGEST_LOOK_S,
    ) -> None:
        self._registry, self._find = registry, find
        self._since, self._output, self._longest_look_s = since, output, longest_look_s
        self._session: Session | None = None
        self._files: FileFollower
        self._events: deque[Event] = deque()
        """Seen, and not yet given: those of one look."""
        self._over = self._flood = False
        self._read_at = self._looked_at = 0.0
        """When the log, and when kernel and pane were last looked at."""
        self._changed_at = time.monotonic()
        self._ended_at = 0.0
        self._asked: tuple[int, tuple[int, int] | None] | None = None
        """Size of the log, and of the window as the kernel tells it, when tmux was last asked."""
        self._mode: ModeChange | None = None
        self._size = (0, 0)
        self._command_end = 0

    def __aiter__(self) -> Follow:
        return self

    async def __anext__(self) -> Event:
        if not await self._something():
            raise StopAsyncIteration
        return self._events.popleft()

    async def batch(self) -> list[Event]:
        """Wait until something has happened and give all of it; nothing when the session has ended.

        Raises:
            SessionNotFound, InvalidArgument, TmuxUnavailable: at the first time.
        """
        await self._something()
        found = list(self._events)
        self._events.clear()
        return found

    async def _something(self) -> bool:
        """Wait for events; False when there will be none."""
        if self._session is None:
            self._session = await self._begin()
        while not self._events and not self._over:
            await self._pause()
            await self._take_in(self._session)
            if not self._events and not self._over:
                await self._wait(self._session)
        return bool(self._events)

    # ---- beginning -----------------------------------------------------------------------------

    async def _begin(self) -> Session:
        session = await self._find()
        files = FileFollower(session.directory, session.events, self._since or 0)
        await session.scan()
        begin, size = self._since, (session.cols, session.rows)
        if begin is None:
            files.skip_events()
            begin = session.log.size()
            if self._output:
                snapshot = await snapshot_of(session)
                begin = snapshot.offset
                self._events.append(snapshot)
            files.start_at(begin)
        elif begin > session.log.size():
            raise InvalidArgument(f"since {begin} is behind the end of the log ({session.log.size()}).")
        else:
            size = _size_at(session, begin)
        self._files, self._size, self._command_end = files, size, begin
        return session

    # ---- looking -------------------------------------------------------------------------------

    async def _take_in(self, session: Session) -> None:
        """Take in what has happened."""
        self._read_at = time.monotonic()
        known = self._registry.sessions.get(session.id)
        if known is None or self._files.replaced or not _same(known, session):
            return self._end(Destroyed())
        self._session = session = known
        self._take_files()
        try:
            self._take_commands((await session.scan()).commands)
            if time.monotonic() - self._looked_at >= MIN_LOOK_INTERVAL_S or not session.leader_alive():
                self._looked_at = time.monotonic()
                await self._look_at_state(session)
        except SessionNotFound:
            self._end(Destroyed())
        except (TmuxMcpError, OSError) as error:
            log.debug("session %s cannot be looked at: %s", session.id, error)

    def _take_files(self) -> None:
        begin = self._files.offset
        for event in self._files.read() if self._output else self._files.pass_over():
            if isinstance(event, Resize):
                self._resized(event.offset, event.cols, event.rows)
            else:
                self._events.append(event)
        more = self._files.offset - begin
        self._flood = self._output and more >= LOG_READ_BYTES
        if more:
            self._changed_at = time.monotonic()
            if not self._output:
                self._events.append(Printed(self._files.offset))

    def _resized(self, offset: int, cols: int, rows: int) -> None:
        if (cols, rows) != self._size:
            self._size = cols, rows
            self._events.append(Resize(offset, cols, rows))

    def _take_commands(self, commands: Iterable[Finished]) -> None:
        for done in commands:
            if self._command_end < done.output_end <= self._files.offset:
                self._command_end = done.output_end
                if done.output_start is not None:
                    self._events.append(Command(done.number, done.status, done.output_start, done.output_end, done.cwd))

    @property
    def _has_more(self) -> bool:
        return self._output and self._files.has_more

    async def _look_at_state(self, session: Session) -> None:
        now = session.log.size(), session.kernel_size()
        resized = (session.cols, session.rows) != self._size and not self._has_more
        if resized or now != self._asked or not session.leader_alive():
            session = await self._ask_tmux(session)
            self._asked = now
        look = await session.look()
        if session.exited:
            return self._take_end(session, look)
        mode = ModeChange(look.mode, look.ready)
        if mode != self._mode:
            self._mode, self._changed_at = mode, time.monotonic()
            self._events.append(mode)

    async def _ask_tmux(self, session: Session) -> Session:
        """The session as tmux tells it now; a lost one is taken from its files.

        Raises:
            SessionNotFound: it was destroyed.
        """
        if await session.refresh() is None:
            self._session = session = await self._registry.existing(session.id)
        if session.pane and not self._has_more:  # else another size may come before
            self._resized(self._files.offset, session.cols, session.rows)
        return session

    def _take_end(self, session: Session, look: Look) -> None:
        """Tell the end, once everything before it is told."""
        now = time.monotonic()
        self._ended_at = self._ended_at or now
        writing = not session.sink_rests() and now - self._ended_at < END_HELD_S
        if writing or self._has_more:
            return
        self._end(Exit(*look.exit_status) if look.pane else Lost())

    def _end(self, end: End) -> None:
        self._events.append(end)
        self._over = True

    # ---- waiting -------------------------------------------------------------------------------

    async def _pause(self) -> None:
        """Let what is printed come together; not while the reader has much to catch up with."""
        apart_s = PRINTED_TOGETHER_S if self._output else MIN_LOOK_INTERVAL_S
        await anyio.sleep(0 if self._flood else max(self._read_at + apart_s - time.monotonic(), 0))

    async def _wait(self, session: Session) -> None:
        """Until the log grows, or it is time to look anyway."""
        quiet_s = time.monotonic() - self._changed_at
        with session.watcher.waiting(session.log.path) as growth:
            change = growth.next_change()
            if session.log.size() <= self._files.offset:
                with anyio.move_on_after(min(max(SHORTEST_LOOK_S, quiet_s / 8), self._longest_look_s)):
                    await change.wait()
                    self._changed_at = time.monotonic()


def _size_at(session: Session, offset: int) -> tuple[int, int]:
    """Columns and rows that the terminal had at an offset."""
    before = [each for each in session.events.resizes() if each.offset <= offset]
    return (before[-1].cols, before[-1].rows) if before else (session.meta.cols, session.meta.rows)


def _same(session: Session, other: Session) -> bool:
    return (session.meta.nonce, session.meta.created_at) == (other.meta.nonce, other.meta.created_at)
