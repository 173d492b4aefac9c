"""Notices that a session's output is no longer recorded, and mends it.

A killed sink, a full disk or a script's own `pipe-pane` loses output without a word. Whoever closes a log is told
by inotify; then either the pane has ended, or the sink is put back. The new sink writes the gap down, for every
reader: sinks are numbered, and all but a session's first begin with a gap.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import anyio

from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.machine.launch import launch
from tmuxmcp.record.log import LogWatcher
from tmuxmcp.record.meta import sink_of
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux import panes

log = logging.getLogger(__name__)

SINK_AGAIN_S = (0.0, 0.2, 1.0, 5.0)
"""How long to wait before the sink is put back: a full disk must not become a loop."""

CALM_S = 30.0
"""After so long without a repair the next one is immediate again."""

STARTING_S = 2.0
"""How long a new sink may take to write down that it is there, and an old one to write what it still has."""


class Repair:
    """The watch over all sinks of one broker."""

    def __init__(self, watcher: LogWatcher, session_of: Callable[[Path], Session | None], log_max_bytes: int) -> None:
        self._watcher = watcher
        self._session_of = session_of
        self._log_max_bytes = log_max_bytes
        self._mended: dict[Path, tuple[int, float]] = {}
        """By log: how often its sink was put back, and when last."""
        self._looked_at: set[Path] = set()
        self._again: set[Path] = set()

    async def run(self) -> None:
        """Mend until cancelled; a session that has to wait holds up no other."""
        async with anyio.create_task_group() as task_group:
            while True:
                await self._watcher.closed.wait()
                self._watcher.closed = anyio.Event()
                paths, self._watcher.closed_paths = self._watcher.closed_paths, set()
                for path in paths:
                    if path in self._looked_at:
                        self._again.add(path)
                    else:
                        self._looked_at.add(path)
                        task_group.start_soon(self._look_at, path)

    async def _look_at(self, path: Path) -> None:
        try:
            while True:
                self._again.discard(path)
                session = self._session_of(path)
                if session is None or session.exited:
                    self._mended.pop(path, None)
                    break
                try:
                    await self._mend_in_time(path, session)
                except TmuxMcpError as error:
                    log.warning("session %s: its output may not be recorded: %s", session.id, error)
                    self._again.add(path)
                    await anyio.sleep(SINK_AGAIN_S[-1])
                except Exception:  # one session's oddity must not end the broker
                    log.exception("session %s: its output may not be recorded", session.id)
                if path not in self._again:
                    break
        finally:
            self._looked_at.discard(path)

    async def _mend_in_time(self, path: Path, session: Session) -> None:
        if await needs_mending(session):
            times, at = self._mended.get(path, (0, 0.0))
            if time.monotonic() - at > CALM_S:
                times = 0
            await anyio.sleep(SINK_AGAIN_S[min(times, len(SINK_AGAIN_S) - 1)])
            self._mended[path] = (times + 1, time.monotonic())
            await self.mend(session, self._log_max_bytes)
        session.growth.wake_all()

    @staticmethod
    async def mend(session: Session, log_max_bytes: int) -> None:
        """Put the sink back if it is gone."""
        if not await needs_mending(session):
            return
        assert session.pane
        number = max(session.pane.sink, sink_of(session.directory).number) + 1
        sink = launch.sink_argv(session.directory.path, log_max_bytes, number)
        if await panes.pipe_again(session.tmux, session.pane, sink, number):
            log.warning("session %s: output was not recorded for a moment; its sink is back", session.id)
        await session.refresh()
        session.growth.wake_all()


async def needs_mending(session: Session) -> bool:
    """Whether a running program's output goes elsewhere than to the log."""
    pane = None
    with anyio.move_on_after(STARTING_S):
        while True:
            pane = await session.refresh()
            if pane is None or pane.dead:
                return False
            number, alive = sink_of(session.directory)
            if pane.piped and alive:
                return False
            if not alive and (not pane.piped or number == pane.sink):
                return True
            await anyio.sleep(0.005)  # the new one is about to write down its number, or the old one ends
    return True
