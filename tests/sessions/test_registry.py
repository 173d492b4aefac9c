"""What one broker learns of sessions that another one ended."""

from __future__ import annotations

import pytest

from tests.conftest import end_server
from tmuxmcp.broker.broker import Broker
from tmuxmcp.record.meta import Meta
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux

pytestmark = pytest.mark.anyio


async def ids(broker: Broker) -> list[str]:
    return [row.session_id for row in (await broker.list_sessions()).sessions]


async def test_session_is_told_destroyed_before_its_pane_is_gone(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    """Else a broker that looks just then takes it for a lost one."""
    await broker.create_session("cat", name="a")
    directory, told = broker.registry.directory("a"), []
    real = panes.kill_session

    async def kill_session(tmux: Tmux, pane: Pane) -> None:
        meta = Meta.load(directory)
        told.append(meta and meta.destroyed)
        await real(tmux, pane)

    monkeypatch.setattr(panes, "kill_session", kill_session)
    await broker.destroy_session("a")
    assert told == [True]


async def test_lost_session_that_another_broker_destroys_goes(broker: Broker):
    await broker.create_session("cat", name="a")
    end_server(broker.settings.state_dir)
    async with Broker.open(broker.settings) as other:
        assert (await ids(other), await ids(broker)) == (["a"], ["a"])
        await other.destroy_session("a")
        assert (await ids(other), await ids(broker)) == ([], [])
