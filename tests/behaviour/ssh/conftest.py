"""One sshd, and one agent near it, for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.agent import Agent
from tests.kit.fixtures import of_file
from tests.kit.sshd import Box, a_box, an_agent_near

box = of_file(a_box)


@pytest.fixture(scope="module")
def bare(box: Box) -> Iterator[Agent]:
    """One that adopts no shell unasked: only the far kernel tells how a session stands."""
    with an_agent_near(box, "--integration", "false") as agent:
        yield agent


@pytest.fixture(scope="module")
def agent(box: Box) -> Iterator[Agent]:
    with an_agent_near(box) as agent:
        yield agent
