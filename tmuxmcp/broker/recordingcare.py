"""Looks for recorded sessions that have ended, and has their files made; one of each broker that stays.

So nothing is lost with the broker that began a recording. While nothing is recorded it costs a look at a file name for
each session.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable

import anyio

from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.record.directory import SessionDirectory, directories
from tmuxmcp.record.meta import RecordingNote
from tmuxmcp.sessions.creation import Creation
from tmuxmcp.sessions.life import State
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session

log = logging.getLogger(__name__)

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
