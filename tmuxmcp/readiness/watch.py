"""A watch in the background: tells who listens that a session changed, without a call.

It follows each session (`sessions/follow.py`), and waits for one that is still to come. Two changes of a session are
told at least `CHANGES_APART_S` apart, and nothing at all is done while nobody listens.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

import anyio
import anyio.abc

from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.contract.follow import Command, Destroyed, Exit, Lost, ModeChange, Printed, Resize
from tmuxmcp.sessions.follow import LONGEST_LOOK_S, Event, Follow
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session

log = logging.getLogger(__name__)

CHANGES_APART_S = 0.5
"""Least time between two changes that are told of one session."""

Changed = Callable[[], Awaitable[None]]


class SessionWatch:
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
        commands: bool = False,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Call `changed` after each change of one session, until cancelled; it may come and go meanwhile.

        Args:
            output: what it prints counts as well, not only mode, ready and size.
            commands: instead of all these, only the end of a command counts.
        """
        counts = (Command,) if commands else (ModeChange, Resize, Printed) if output else (ModeChange, Resize)
        name = _NameFollower(self._registry, session_id, counts)
        await name.begin()
        self.listeners += 1
        try:
            task_status.started()
            while True:
                await name.change()
                await changed()
                await anyio.sleep(CHANGES_APART_S)
        finally:
            self.listeners -= 1

    async def all(
        self, changed: Changed, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Call `changed` after each change of any session, and when one comes or goes, until cancelled."""
        following: dict[str, anyio.CancelScope] = {}
        news = _ChangeFlag()
        async with anyio.create_task_group() as task_group:
            await self._follow_all(task_group, following, news)
            await news.within(0)  # those that are there already
            task_status.started()
            while True:
                if await news.within(CHANGES_APART_S):
                    await changed()
                    await anyio.sleep(CHANGES_APART_S)
                await self._follow_all(task_group, following, news)

    async def _follow_all(
        self, task_group: anyio.abc.TaskGroup, following: dict[str, anyio.CancelScope], news: _ChangeFlag
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


class _ChangeFlag:
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


class _NameFollower:
    """Follows whatever session has a name: one after the other, and waits while there is none that runs."""

    def __init__(self, registry: Registry, session_id: str, counts: tuple[type[Event], ...]) -> None:
        self._registry, self._id, self._counts = registry, session_id, counts
        self._follow: Follow | None = None
        self._told: tuple[str, str] | None = None
        """When the session was made, and what has become of it; None: there is none."""

    async def begin(self) -> None:
        """Take in how it stands; what comes later is a change."""
        self._told = await self._standing()
        if self._told and self._told[1] == "runs":
            follow = Follow(self._registry, self._session, None, output=False)
            try:
                first = await follow.batch()
            except (TmuxMcpError, OSError):
                first = []  # it is gone, or cannot be looked at now: the next look tells
            self._follow = follow
            self._take(first)

    async def change(self) -> None:
        """Wait until something has changed."""
        while True:
            if self._follow:
                if self._take(await self._follow.batch()):
                    return
            elif await self._standing() != self._told:
                return await self.begin()
            else:
                await self._wait()

    def _take(self, events: Sequence[Event]) -> bool:
        """Take in what has happened; whether it counts."""
        end = events[-1] if events else Destroyed()
        if isinstance(end, Exit | Lost | Destroyed):
            self._follow = None
            made = self._told[0] if self._told else ""
            self._told = None if isinstance(end, Destroyed) else (made, "ended" if isinstance(end, Exit) else "lost")
            return True
        return any(isinstance(event, self._counts) for event in events)

    async def _standing(self) -> tuple[str, str] | None:
        """How it stands, in the form of `_told`; that itself when tmux does not answer."""
        try:
            session = self._registry.sessions.get(self._id)
            if session is None or (session.pane and await session.refresh() is None):
                await self._registry.look_again()
                session = self._registry.sessions.get(self._id)
        except (TmuxMcpError, OSError) as error:
            log.debug("session %s cannot be looked at: %s", self._id, error)
            return self._told
        if session is None:
            return None
        return session.meta.created_at, "runs" if not session.exited else "ended" if session.pane else "lost"

    async def _session(self) -> Session:
        return self._registry.sessions.get(self._id) or await self._registry.existing(self._id)

    async def _wait(self) -> None:
        session = self._registry.sessions.get(self._id)
        if session is None:
            return await anyio.sleep(CHANGES_APART_S)
        with session.watcher.waiting(session.log.path) as growth, anyio.move_on_after(LONGEST_LOOK_S):
            await growth.next_change().wait()
