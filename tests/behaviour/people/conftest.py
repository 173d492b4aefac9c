"""What tests of persons beside an agent share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.agent import Agent


@pytest.fixture
def agent(state_dir: Path) -> Iterator[Agent]:
    """An agent with the session `held`."""
    with Agent(state_dir, "bash") as agent:
        agent.call("create_session", program="bash", name="held")
        yield agent
