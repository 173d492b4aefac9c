"""What tests of many machines share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import tmuxmcp
from tests.nodes.brokers import Brokers, three_brokers
from tmuxmcp.config import Settings
from tmuxmcp.nodes.fleet import Fleet


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Three brokers over HTTP."""
    with three_brokers(tmp_path_factory.mktemp("fleet")) as three:
        yield three


@pytest.fixture
async def fleet(anyio_backend: str, brokers: Brokers, tmp_path: Path) -> AsyncIterator[Fleet]:
    """One over them, and what it made is gone afterwards."""
    brokers.write()
    async with tmuxmcp.open_fleet(brokers.file, Settings(state_dir=tmp_path / "s")) as opened:
        yield opened
        for each in (await opened.list_sessions(include_exited=False)).sessions:
            await opened.destroy_session(each.session_id, True)
