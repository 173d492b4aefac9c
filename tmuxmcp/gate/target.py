"""Which session a call means: found once, before the gate judges the call, and handed on to what does it."""

from __future__ import annotations

from typing import Any

from tmuxmcp.contract import requests as q
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import InvalidArgument, TmuxMcpError, Unauthorized
from tmuxmcp.contract.request import Request
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import value
from tmuxmcp.contract.words import SCREEN_VIEWS
from tmuxmcp.machine.searching import Searching
from tmuxmcp.readiness.wait import Answer, WaitCondition, wait_for
from tmuxmcp.sessions.creation import Creation
from tmuxmcp.sessions.life import State
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session

READY_MS = 5000
"""How long a default session's program may take until it is ready."""

LOOKED_THROUGH = 100
"""Destroyed sessions among which a caller's default session is looked for, newest first."""


@value
class Target:
    """The session that a call means, as far as there is one."""

    session: Session | None = None
    """None: the call concerns no session, or the caller's default session, which is still to be made."""
    error: TmuxMcpError | None = None
    """Why there is none of that id."""
    as_known: bool = False
    """The session is as tmux last told of it; whoever acts finds out whether it still is, or raises `PaneChanged`."""


class Targets:
    """Finds the sessions that calls mean, and makes default sessions."""

    def __init__(self, registry: Registry, creation: Creation, searching: Searching, settings: BrokerSettings) -> None:
        self._registry, self._creation, self._settings = registry, creation, settings
        self._searching = searching

    async def of(self, request: Request[Any], call: Call, *, make: bool = False, as_known: bool = False) -> Target:
        """The session that a request means, as it is now.

        Args:
            make: make the caller's default session if that is meant and is not there.
            as_known: it may be as tmux last told of it, where the operation itself finds out whether it still is so.

        Raises:
            Unauthorized: the request would act on another client's default session.
        """
        kind = request.operation.session
        if kind == "none":
            return Target()
        known = self._as_known(request, call) if as_known else None
        if known:
            _may_act(request, known, call)
            return Target(known, as_known=True)
        if request.session:
            try:
                session = await self._named(request)
            except TmuxMcpError as error:
                return Target(error=error)
            _may_act(request, session, call)
            return Target(session)
        if kind == "named":
            name = request.operation.name
            return Target(error=InvalidArgument(f"{name} needs a session_id.", hint="list_sessions gives them."))
        return Target(await self._own(call) or (await self.default(call) if make else None))

    async def wait_ready(self, session: Session, timeout_ms: int, call: Call) -> Answer:
        """Wait until the program of a session is ready, no longer than any wait may take."""
        described = self._settings.prompt_pattern
        prompt = await self._searching.pattern(described, call.caller) if described else None
        timeout_ms = min(timeout_ms, self._settings.max_wait_ms)
        wait = WaitCondition("ready", timeout_ms, prompt_pattern=prompt, sent_at=0, progress=call.progress)
        return await wait_for(session, wait)

    async def _named(self, request: Request[Any]) -> Session:
        known = self._registry.sessions.get(request.session)
        generation = getattr(request, "generation", None)
        if known and known.pane and generation is None and _asks_tmux_itself(request):
            return known
        return await self._registry.known(request.session, generation)

    def _as_known(self, request: Request[Any], call: Call) -> Session | None:
        """The session that is meant, if nobody held it when tmux last told of it; None: tmux has to be asked."""
        if not _finds_out(request):
            return None
        sessions = self._registry.sessions
        if request.session:
            session = sessions.get(request.session)
        else:
            session = next((each for each in sessions.values() if each.meta.owner == call.caller), None)
        if session is None or session.exited or session.pane is None or session.pane.lease or session.pane.given:
            return None
        if session.life.state is State.STARTING:  # another call is about to make it
            return None
        return session

    async def _own(self, call: Call) -> Session | None:
        """The caller's default session, if its program runs."""
        for session in list(self._registry.sessions.values()):
            if session.meta.owner != call.caller or not await session.refresh() or session.exited:
                continue
            if await self._begins(session):
                return session
        return None

    async def _begins(self, session: Session) -> bool:
        """Whether its program runs: another call may be about to make it."""
        return session.life.state is not State.STARTING or await self._creation.wait_for_program(session)

    async def default(self, call: Call) -> Session:
        """The caller's default session, made now if there is none.

        Raises:
            MaxSessions, TmuxFailed: it cannot be made.
        """
        async with self._creation.lock():
            await self._registry.look_again()
            own = [each for each in self._registry.sessions.values() if each.meta.owner == call.caller]
            live = next((session for session in own if not session.exited), None)
            if live is None:
                own += [each for each in self._registry.destroyed(LOOKED_THROUGH)[0] if each.meta.owner == call.caller]
                made = await self._creation.create_default(call.caller)
                made.made_for = call.call_id
        if live:
            await self._begins(live)
            return live
        await self._creation.started(made)
        for ended in own:
            ended.meta.disown(ended.directory)
            ended.end_told.add(call.caller)
        if own:
            last, notice = max(own, key=lambda each: each.meta.created_at), made.take_notice()
            made.tell(f"Your default session {last.id} had ended; this one was made anew. {last.how_it_ended}")
            made.tell(notice)
        await self.wait_ready(made, READY_MS, call)
        return made


def _may_act(request: Request[Any], session: Session, call: Call) -> None:
    """Named sessions are everybody's; a client's default session is its own, but for those who only look.

    Raises:
        Unauthorized
    """
    if request.operation.acts == "nothing" or "admin" in call.scopes or session.meta.owner in ("", call.caller):
        return
    raise Unauthorized(
        f"Session {session.id} is the default session of another client.",
        hint="Make one of your own, with create_session; a token with the scope admin may act there.",
        session_id=session.id,
        scope="admin",
    )


def _finds_out(request: Request[Any]) -> bool:
    """Whether the operation finds out whether the pane is as it was when tmux last told of it."""
    if isinstance(request, q.Read):
        past = (request.at_offset, request.at_ms, request.command) != (None, None, None)
        return request.view in SCREEN_VIEWS and request.wait_for == "none" and not past
    return isinstance(request, q.Run) and not (
        request.adopt == "undo" or request.stdin is not None or request.request_id
    )


def _asks_tmux_itself(request: Request[Any]) -> bool:
    """Whether the operation begins by asking tmux how the pane is."""
    return isinstance(request, q.Screenshot) or (isinstance(request, q.Read) and request.view in SCREEN_VIEWS)
