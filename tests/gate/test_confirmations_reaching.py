"""What the answer key of attached people is for."""

from __future__ import annotations

import time

import pytest

from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.value import replace
from tmuxmcp.gate import confirmations
from tmuxmcp.gate.confirmations import Confirmations
from tmuxmcp.record.inputrequests import InputRequest
from tmuxmcp.sessions import inputrequests
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux import panes


@pytest.fixture
async def session(broker: Broker) -> Session:
    made = await broker.create_session(program="cat")
    return broker.registry.sessions[made.session_id]


async def offered(session: Session) -> str:
    return await panes.option(session.tmux, session.live(), "asks")


async def test_the_key_is_for_what_waits_first_and_for_nothing_once_its_time_is_up(broker: Broker, session: Session):
    request = InputRequest("ask_of_a_test", "Type it.", False, "caller", time.time(), 600)
    inputrequests.put(session, request)
    question = Confirmations(broker.settings.state_dir).open("digest", "May it?", "caller", "", session.id)
    assert confirmations.waiting(session, broker.settings) == [request.id, question]
    await confirmations.offer_next(session, broker.settings)
    assert await offered(session) == request.id
    inputrequests.put(session, replace(request, asked_at=time.time() - 600))
    await broker._settle_offers()
    assert await offered(session) == question
    Confirmations(broker.settings.state_dir).decline(question)
    await broker._settle_offers()
    assert await offered(session) == session.offers == ""
