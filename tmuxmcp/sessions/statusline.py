"""Tells people who are attached what their session does: its mode and command, in the status line of their tmux.

One broker does, for all sessions that somebody looks at; the others wait for its end, which tmux tells them. While
nobody is attached nothing is asked and nothing is followed: tmux tells when a client comes.
"""

from __future__ import annotations

import logging
import math
import os
from functools import partial

import anyio
import anyio.abc

from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.contract.follow import Destroyed, Exit, Lost
from tmuxmcp.machine import locks
from tmuxmcp.sessions.follow import Follow
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux import viewers
from tmuxmcp.tmux.viewers import TmuxViewer

log = logging.getLogger(__name__)

STATUS_EVERY_S = 0.3
"""Least time between two changes of one session's status line: a short command changes nothing."""

PEOPLE_TOGETHER_S = 0.05
"""People who come and go within this time are looked for once."""

LOOK_AGAIN_S = 5.0
"""Time between two looks at who is attached, while somebody is."""


class StatusLine:
    """What one broker tells the people who are attached."""

    def __init__(self, registry: Registry) -> None:
        self._registry, self._tmux = registry, registry.tmux
        self._lock: int | None = None
        self._viewers: list[TmuxViewer] = []
        self._following: dict[str, anyio.CancelScope] = {}
        self._texts: dict[str, str] = {}
        """By session, what is to be shown."""
        self._shown: dict[str, str] = {}
        """By tmux session, what its status line says."""
        self._by = ""
        """What tmux called our connection when that was written."""

    async def run(self) -> None:
        """Tell until cancelled."""
        try:
            async with anyio.create_task_group() as task_group:
                while True:
                    news = self._tmux.client_news()
                    try:
                        await self._take_in_viewers(task_group)
                    except (TmuxMcpError, OSError) as error:
                        log.debug("who is attached cannot be told: %s", error)
                    with anyio.move_on_after(LOOK_AGAIN_S if self._viewers else math.inf):
                        await news.wait()
                    await anyio.sleep(PEOPLE_TOGETHER_S)
        finally:
            self._let_go()

    async def _take_in_viewers(self, task_group: anyio.abc.TaskGroup) -> None:
        """Take in who is attached, and follow what they look at."""
        self._viewers = [each for each in await viewers.everybody(self._tmux) if each.session_id]
        if self._by != self._tmux.client_name:  # what another connection wrote is shown no more
            self._by = self._tmux.client_name
            self._shown.clear()
        await self._forget(set(self._shown) - {each.tmux_session_id for each in self._viewers})
        wanted = {each.session_id for each in self._viewers}
        if not wanted or not self._is_our_turn():
            return self._let_go()
        for session_id in set(self._following) - wanted:
            self._following.pop(session_id).cancel()
            self._texts.pop(session_id, None)
        for session_id in wanted - set(self._following):
            self._following[session_id] = scope = anyio.CancelScope()
            task_group.start_soon(self._follow, session_id, scope)
        await self._show()

    def _is_our_turn(self) -> bool:
        """No other broker tells."""
        if self._lock is None:
            try:
                fd = locks.open_lock(self._registry.state_dir / "status.lock")
            except OSError:
                return False
            if not locks.take(fd):
                os.close(fd)
                return False
            self._lock = fd
        return True

    def _let_go(self) -> None:
        for scope in self._following.values():
            scope.cancel()
        self._following.clear()
        self._texts.clear()
        self._shown.clear()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def _follow(self, session_id: str, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                await self._tell(session_id)
            except (TmuxMcpError, OSError) as error:
                log.debug("what session %s does is not told: %s", session_id, error)
            except Exception:  # one session's oddity must not end the broker
                log.exception("what session %s does is not told", session_id)

    async def _tell(self, session_id: str) -> None:
        follow = Follow(self._registry, partial(self._registry.existing, session_id), None, output=False)
        while events := await follow.batch():
            session = self._registry.sessions.get(session_id)
            if session is None or isinstance(events[-1], Destroyed | Lost):
                self._texts[session_id] = ""
                return await self._show()
            self._texts[session_id] = text_of(session, await session.look())
            await self._show()
            if isinstance(events[-1], Exit):
                return
            await anyio.sleep(STATUS_EVERY_S)

    async def _forget(self, homes: set[str]) -> None:
        """Take back what was said where nobody looks any more: who comes later would read it, and it may be old."""
        for home in homes:
            del self._shown[home]
            await viewers.forget(self._tmux, home)

    async def _show(self) -> None:
        """Have each status line say what it shall, where it does not yet."""
        for session_id, text in list(self._texts.items()):
            homes = {each.tmux_session_id for each in self._viewers if each.session_id == session_id}
            late = {home for home in homes if self._shown.get(home) != text}
            if late:
                await viewers.show(self._tmux, [each for each in self._viewers if each.tmux_session_id in late], text)
                self._shown.update(dict.fromkeys(late, text))


def text_of(session: Session, look: Look) -> str:
    """What a session does, in a few words: its mode, and the command or the program that runs."""
    if look.exited:
        code, name = look.exit_status
        status = name or code
        return look.mode if status is None else f"{look.mode} {status}"
    return f"{look.mode}  {command}" if (command := _command(session, look)) else look.mode


def _command(session: Session, look: Look) -> str:
    """What its shell runs; where no marks tell, what has the terminal; nothing at a prompt."""
    if look.mode == "shell_prompt":
        return ""
    running = session.commands.running(look)
    if running and running[-1].text:
        return " ".join(running[-1].text.split())
    return look.foreground.command if look.foreground else ""
