"""A session that is made by a call with a `request_id`: made once, or not at all.

Its name is chosen and written down before, and its pane is born with the call's stamp: so whoever asks again finds it
by its name, and knows by the stamp that it is the one. Another attempt takes the same name, of which tmux has one.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from copy import copy

from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import SessionNotFound, TmuxMcpError
from tmuxmcp.contract.requests import CreateSession
from tmuxmcp.record import meta as generations
from tmuxmcp.record.notedcalls import NotedCall
from tmuxmcp.sessions.creation import Creation
from tmuxmcp.sessions.life import State
from tmuxmcp.sessions.noting import IdempotentCall
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session


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
    for number in reversed(generations.kept_generations(registry.state_dir, name)):
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
