"""Makes a session again that is over: which one a call means, and what its program will find of its variables."""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path

import anyio

from tmuxmcp.contract import requests as q
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import (
    InvalidArgument,
    IoError,
    SessionExists,
    SessionNotFound,
    TimedOut,
    TmuxMcpError,
    Unsupported,
)
from tmuxmcp.contract.requests import CreateSession
from tmuxmcp.contract.results import CreateSessionResult
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import value
from tmuxmcp.gate.audit import Audit, of_removal
from tmuxmcp.machine import locks, ourselves
from tmuxmcp.machine.environment import session_environment
from tmuxmcp.readiness import finding
from tmuxmcp.record import meta
from tmuxmcp.record.directory import making_lock
from tmuxmcp.record.notedcalls import NotedCall
from tmuxmcp.sessions import retention
from tmuxmcp.sessions.bounds import Boundary
from tmuxmcp.sessions.creation import CREATION_LOCK_S, Creation
from tmuxmcp.sessions.life import State
from tmuxmcp.sessions.noting import IdempotentCall
from tmuxmcp.sessions.registry import SESSION_ID, Registry
from tmuxmcp.sessions.retention import NotRestored, Removal, Restoration, RetentionWish
from tmuxmcp.sessions.session import Session


@value
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
        if not retention.was_lost(session) or session.meta.owner not in ("", call.caller):
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
        found = [each for each in self._registry.sessions.values() if retention.was_lost(each)]
        return [each.id for each in sorted(found, key=lambda each: each.meta.created_at)]

    async def _of(self, session: Session, request: q.CreateSession) -> Restoration:
        found = retention.restoration(session, await finding.at_rest(session), request)
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
        return retention.with_environment(found, present)

    async def _keep_apart(self, session: Session, found: Restoration) -> None:
        """Make sure that nothing that was kept apart is let loose."""
        before = session.bounds.sandbox
        level = await anyio.to_thread.run_sync(self._boundary.level, found.request.sandbox)
        if retention.rank(level) < retention.rank(before):
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


# ---- A session that is made by a call with a `request_id`: made once, or not at all ----------------------------------
#
# Its name is chosen and written down before, and its pane is born with the call's stamp: so whoever asks again finds it
# by its name, and knows by the stamp that it is the one. Another attempt takes the same name, of which tmux has one.


async def create(
    creation: Creation,
    request: CreateSession,
    owner: str,
    env_names: Sequence[str] | None,
    call: Call,
    noting: IdempotentCall,
) -> Session:
    """Make a session; who calls holds the lock of creation.

    Raises:
        TmuxMcpError: as `Creation.create`; there is none then.
    """
    named = copy(request)
    vars(named)["name"] = request.name or f"sess_{secrets.token_hex(4)}"
    stamp = await noting.makes(named.name)
    try:
        return await creation.create(named, owner, env_names, by=call.caller, stamp=stamp)
    except TmuxMcpError:
        # tmux may have made it though it did not say so in time.
        noting.made = await _is_there(creation.registry, named.name, stamp)
        raise


async def _is_there(registry: Registry, name: str, stamp: str) -> bool:
    with suppress(TmuxMcpError):
        session = await registry.existing(name)
        return session.pane is not None and session.meta.request == stamp
    return False


async def session_of_call(registry: Registry, noted: NotedCall) -> Session | None:
    """The session that an earlier call made; None: it made none, and nothing of it is left.

    Who calls holds the lock of creation.
    """
    name, stamp = str(noted.acts["session_id"]), noted.acts["stamp"]
    await registry.look_again()
    for number in reversed(meta.kept_generations(registry.state_dir, name)):
        with suppress(SessionNotFound):
            session = await registry.known(name, number)
            if session.meta.request != stamp:
                continue
            if session.pane is None and session.life.state is not State.DESTROYED and _never_began(session):
                registry.drop(name)
                shutil.rmtree(session.directory.path, ignore_errors=True)
                return None
            return session
    return None


def _never_began(session: Session) -> bool:
    """Whether of a session that tmux does not know, nothing has ever run: tmux had not made it."""
    return session.pid is None and session.log.size() == 0


# ---- Removes the files of sessions that are over, and has the audit say what went and why ----------------------------

log = logging.getLogger(__name__)

Live = Callable[[], Awaitable[Collection[str]]]


@value
class Pruned:
    """What came of it."""

    removed: list[Removal]
    """Looked only: what would go."""
    left: list[Removal]
    """What should have gone, and is there still, or partly."""


class Prune:
    """Removes what is to go on one state directory."""

    def __init__(self, settings: BrokerSettings, live: Live, by: str = "") -> None:
        """`live` asks tmux for the ids of all sessions that it knows; `by`: the caller who wants it, if one does."""
        self._settings, self._live, self._by = settings, live, by
        self._audit = Audit(settings.state_dir)
        self._told = False

    @property
    def _state_dir(self) -> Path:
        return self._settings.state_dir

    async def preview(self, wish: RetentionWish) -> Pruned:
        """What would go; nothing is changed.

        Raises:
            SessionNotFound, InvalidArgument: what is named is not there, or has to stay.
        """
        live = await self._live()
        return Pruned(
            await anyio.to_thread.run_sync(lambda: retention.removals(self._state_dir, wish, live, look_only=True)), []
        )

    async def run(self, wish: RetentionWish) -> Pruned:
        """Remove what has to go.

        Raises:
            SessionNotFound, InvalidArgument: as `preview`.
            TimedOut: another broker has been making a session for too long.
            IoError: the audit is strict and cannot be written.
        """
        live = await self._live()
        found = await anyio.to_thread.run_sync(retention.removals, self._state_dir, wish, live)
        pruned = Pruned([], [])
        if not found:
            return pruned
        async with locks.lock_within(making_lock(self._state_dir), patience_s=CREATION_LOCK_S) as held:
            if not held:
                raise TimedOut("Another broker has been making a session for too long.", hint="Try again.")
            live = await self._live()  # nobody makes one now
            for each in found:
                if each.name not in live:
                    gone = await anyio.to_thread.run_sync(self._remove, each)
                    (pruned.removed if gone else pruned.left).append(each)
        return pruned

    def _remove(self, removal: Removal) -> bool:
        """Remove the files of one session; whether that was done."""
        entry = of_removal(removal.name, removal.bytes, removal.why, self._by)
        try:
            line = self._audit.begin(entry) if self._settings.audit == "strict" else None
        except OSError as error:
            raise IoError(
                f"The audit cannot be written ({error.strerror}), and nothing is removed without it.",
                hint=f"Mend {self._audit.path}; the setting audit says `strict`.",
            ) from None
        gone = retention.remove(removal)
        entry |= {"outcome": "ok"} if gone else {"outcome": "error", "error_code": IoError.code}
        try:
            if line:
                line.finish(entry)
            elif self._settings.audit != "off":
                self._audit.write(entry)
        except OSError as error:
            log.log(logging.DEBUG if self._told else logging.WARNING, "the audit cannot be written: %s", error)
            self._told = True
        return gone
