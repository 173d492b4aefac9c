"""What tests of exactness share: a shell, which is bash where a file says nothing else by its fixture `program`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import SLOW
from tests.kit.agent import Agent
from tests.kit.exactness import Run


@pytest.fixture(scope="module")
def program() -> str:
    return "bash"


@pytest.fixture(scope="module")
def shared(agent: Agent, program: str) -> Run:
    """`run` in one shell for all tests that leave nothing behind."""
    session = agent.call("create_session", program=program)["session_id"]
    return lambda command, **more: agent.run(command, session_id=session, **more)


@pytest.fixture
def shell(agent: Agent, program: str) -> Iterator[Run]:
    """`run` in a fresh shell of this test's own."""
    made = agent.call("create_session", program=program, ready_timeout_ms=int(10_000 * SLOW))
    assert made["ready"], made
    yield lambda command, **more: agent.run(command, session_id=made["session_id"], **more)
    agent.call("destroy_session", session_id=made["session_id"], force=True)
