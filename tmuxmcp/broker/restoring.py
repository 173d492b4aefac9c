"""Makes a session again that is over: which one a call means, and what its program will find of its variables."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from tmuxmcp.contract import requests as q
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import InvalidArgument, SessionExists, TmuxMcpError, Unsupported
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.contract.results import CreateSessionResult
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.machine import ourselves
from tmuxmcp.machine.environment import session_environment
from tmuxmcp.readiness import finding as nextprompt
from tmuxmcp.sessions import retention as restore
from tmuxmcp.sessions.bounds import Boundary
from tmuxmcp.sessions.registry import SESSION_ID, Registry
from tmuxmcp.sessions.retention import NotRestored, Restoration
from tmuxmcp.sessions.session import Session


@dataclass(frozen=True)
class Restored:
    """What became of one session that was to be restored."""

    session_id: str
    made: CreateSessionResult | None = None
    found: Restoration | None = None
    error: TmuxMcpError | None = None
    """Why it was not."""


class Restoring:
    """Looks for the session from which another one is to be made."""

    def __init__(self, registry: Registry, settings: BrokerSettings, boundary: Boundary) -> None:
        self._registry, self._settings, self._boundary = registry, settings, boundary

    async def of_call(self, request: q.CreateSession, call: Call) -> Restoration | NotRestored | None:
        """What a new session takes from a lost one whose name it has; None: there is none."""
        if not SESSION_ID.match(request.name) or not self._registry.directory(request.name).meta.exists():
            return None
        try:
            session = await self._registry.existing(request.name)
        except TmuxMcpError:  # what makes the session will meet it, too
            return None
        if not restore.was_lost(session) or session.meta.owner not in ("", call.caller):
            return None
        try:
            return await self._of(session, request)
        except (InvalidArgument, Unsupported) as error:
            return NotRestored(f"Nothing was taken from the lost session of this name: {error.message}")

    async def named(self, session_id: str) -> Restoration:
        """What is made from a session that is over, however it ended.

        Raises:
            SessionNotFound, SessionExists: nothing is kept of it; it runs.
            InvalidArgument: it was a shell that was given a command.
            Unsupported: it was better kept apart than this machine can.
        """
        session = await self._registry.known(session_id)
        if not session.exited:
            raise SessionExists(
                f"Session {session_id} is running.", hint="There is nothing to restore.", session_id=session_id
            )
        return await self._of(session, q.CreateSession(name=session_id))

    async def lost(self) -> list[str]:
        """The ids of all sessions that are lost, the oldest first."""
        await self._registry.look_again()
        found = [each for each in self._registry.sessions.values() if restore.was_lost(each)]
        return [each.id for each in sorted(found, key=lambda each: each.meta.created_at)]

    async def _of(self, session: Session, request: q.CreateSession) -> Restoration:
        found = restore.restoration(session, await nextprompt.at_rest(session), request)
        if not found.request.host:
            await self._keep_apart(session, found)
        settings = self._settings
        present = session_environment(
            ourselves.environment(),
            allow=settings.env_allow,
            settings_env=settings.env,
            env=found.request.env,
            term=settings.term,
        )
        return restore.with_environment(found, present)

    async def _keep_apart(self, session: Session, found: Restoration) -> None:
        """Make sure that nothing that was kept apart is let loose."""
        before = session.bounds.sandbox
        level = await anyio.to_thread.run_sync(self._boundary.level, found.request.sandbox)
        if restore.rank(level) < restore.rank(before):
            raise Unsupported(
                f"Session {session.id} ran in a sandbox ({before}) that this machine does not have now ({level}).",
                hint="Choose another name for a session without it.",
                session_id=session.id,
            )

    def owner(self, found: Restoration | NotRestored | None) -> str:
        """Whose default session it is: nobody's where its caller has another one by now."""
        if found is None or not found.owner:
            return ""
        live: Sequence[Session] = [each for each in self._registry.sessions.values() if not each.exited]
        return "" if any(each.meta.owner == found.owner for each in live) else found.owner
