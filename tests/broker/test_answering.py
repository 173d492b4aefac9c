"""What a person types for an agent, at the moment in which it is typed."""

from __future__ import annotations

import time

import pytest

from tests.conftest import eventually
from tmuxmcp.broker.answering import WaitingRequest
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import TmuxFailed
from tmuxmcp.record.inputrequests import InputRequest
from tmuxmcp.sessions import inputrequests
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.session import Session

SECRET = "canary of an answer"


async def test_a_secret_is_not_typed_into_the_program_that_came_meanwhile(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create_session("bash", name="a")
    await broker.send("sh -c 'stty -echo; read x'; stty echo; cat", session_id="a", enter=True, read="none")
    session = broker.registry.sessions["a"]

    async def asks() -> bool:
        return (await session.look()).mode == "password"

    async def reads_openly() -> bool:
        return (await session.look()).mode == "line_input"

    await eventually(asks)
    request = InputRequest("ask_1", "The word.", True, "agent", time.time(), 60)
    inputrequests.put(session, request)
    looks = Session.look

    async def looks_and_then_it_ends(self: Session) -> Look:
        look = await looks(self)
        monkeypatch.undo()
        await broker.send("", session_id="a", enter=True, read="none")
        await eventually(reads_openly)
        return look

    monkeypatch.setattr(Session, "look", looks_and_then_it_ends)
    with pytest.raises(TmuxFailed, match="Nothing was typed"):
        await broker.people.type_line(WaitingRequest(session, request), SECRET)
    assert SECRET not in (await broker.read(session_id="a", view="screen")).content
