"""A watch in the background: tells who listens that a session changed, without a call.

Woken when a log grows; in between the kernel is asked now and then, since nobody says that a program began to wait
for input. At most `EVERY_S` apart for each session, and nothing at all while nobody listens.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
import anyio.abc

from tmuxmcp.errors import TmuxMcpError
from tmuxmcp.sessions.registry import Registry

log = logging.getLogger(__name__)

EVERY_S = 0.5
"""Least time between two changes that are told of one session."""

SHORTEST_LOOK_S, LONGEST_LOOK_S = 0.1, 1.0
"""Time between two looks at a session that prints nothing: the longer nothing changes, the longer."""

LEAST_S = 0.05
"""Least time between two looks, however much is printed."""

Changed = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class State:
    """What a listener is told about: it differs, so something changed."""

    made: str
    """When the session was made: another one may have taken its name."""
    mode: str
    ready: bool
    size: tuple[int, int]
    printed: int
    """Size of its log; 0 where output does not count."""


class Watch:
    """Watches sessions for those who listen; each listener runs its own `session` or `all` until it has enough."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.listeners = 0
        """How many listen now."""

    async def session(
        self,
        session_id: str,
        changed: Changed,
        output: bool = False,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Call `changed` after each change of one session, until cancelled; it may come and go meanwhile.

        Args:
            output: what it prints counts as well, not only mode, ready and size.
        """
        self.listeners += 1
        try:
            follower = _Follower(self._registry, session_id, output)
            told = await follower.state()
            task_status.started()
            while True:
                await follower.something()
                state = await follower.state()
                if state == told:
                    await anyio.sleep(LEAST_S)
                    continue
                told = state
                await changed()
                await anyio.sleep(EVERY_S)
        finally:
            self.listeners -= 1

    async def all(
        self, changed: Changed, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Call `changed` after each change of any session, and when one comes or goes, until cancelled."""
        following: dict[str, anyio.CancelScope] = {}
        news = _News()
        async with anyio.create_task_group() as task_group:
            await self._follow_all(task_group, following, news)
            await news.within(0)  # those that are there already
            task_status.started()
            while True:
                if await news.within(EVERY_S):
                    await changed()
                    await anyio.sleep(EVERY_S)
                await self._follow_all(task_group, following, news)

    async def _follow_all(
        self, task_group: anyio.abc.TaskGroup, following: dict[str, anyio.CancelScope], news: _News
    ) -> None:
        """Follow the sessions that have come, and those no longer that have gone."""
        try:
            await self._registry.look_again()
        except (TmuxMcpError, OSError) as error:
            log.debug("the sessions cannot be listed: %s", error)
            return
        ids = set(self._registry.sessions)
        for session_id in set(following) - ids:
            following.pop(session_id).cancel()
            news.set()
        for session_id in ids - set(following):
            await task_group.start(self._in_scope, session_id, news.tell, following)
            news.set()

    async def _in_scope(
        self,
        session_id: str,
        changed: Changed,
        following: dict[str, anyio.CancelScope],
        *,
        task_status: anyio.abc.TaskStatus[None],
    ) -> None:
        with anyio.CancelScope() as scope:
            following[session_id] = scope
            await self.session(session_id, changed, task_status=task_status)


class _News:
    """Something happened that was not told yet."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        self._event.set()

    async def tell(self) -> None:
        self._event.set()

    async def within(self, seconds: float) -> bool:
        """Whether there is something, or comes within this time; it counts as told then."""
        with anyio.move_on_after(seconds):
            await self._event.wait()
        if not self._event.is_set():
            return False
        self._event = anyio.Event()
        return True


class _Follower:
    """Looks at one session, as seldom as will do."""

    def __init__(self, registry: Registry, session_id: str, output: bool) -> None:
        self._registry, self._id, self._output = registry, session_id, output
        self._size = -1
        self._changed = time.monotonic()
        self._state: State | None = None

    async def something(self) -> None:
        """Wait until its log grows, or it is time to look anyway."""
        session = self._registry.sessions.get(self._id)
        if session is None:
            await anyio.sleep(EVERY_S)
            return
        quiet_s = time.monotonic() - self._changed
        with session.watcher.waiting(session.log.path) as growth:
            change = growth.next_change()
            if session.log.size() == self._size:
                with anyio.move_on_after(min(max(SHORTEST_LOOK_S, quiet_s / 8), LONGEST_LOOK_S)):
                    await change.wait()

    async def state(self) -> State | None:
        """How it is now; None when there is no such session, the last state when tmux does not answer."""
        try:
            state = await self._look()
        except (TmuxMcpError, OSError) as error:
            log.debug("session %s cannot be looked at: %s", self._id, error)
            return self._state
        if state != self._state:
            self._state, self._changed = state, time.monotonic()
        return state

    async def _look(self) -> State | None:
        session = self._registry.sessions.get(self._id)
        if session is None:
            await self._registry.look_again()
            session = self._registry.sessions.get(self._id)
            if session is None:
                return None
        if session.log.size() != self._size or not session.leader_alive():
            await session.refresh()
        look = await session.look()
        self._size = look.size
        return State(
            made=session.meta.created_at,
            mode=look.mode,
            ready=look.ready,
            size=(look.cols, look.rows),
            printed=look.size if self._output else 0,
        )
