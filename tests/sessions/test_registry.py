"""What one broker learns of sessions that another one ended."""

from __future__ import annotations

import os

import anyio
import pytest

from tests.conftest import SLOW, end_server
from tmuxmcp.broker.broker import Broker
from tmuxmcp.record.meta import Meta, ReportedCommands
from tmuxmcp.sessions.life import EndCause
from tmuxmcp.sessions.retention import AgeLimits, end_idle
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux


async def ids(broker: Broker) -> list[str]:
    """The sessions that were not destroyed."""
    rows = (await broker.list_sessions()).sessions
    return [row.session_id for row in rows if row.ended is None or row.ended.reason != "destroyed"]


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


async def test_a_session_that_has_ended_keeps_no_terminal_open(broker: Broker):
    def terminals() -> int:
        opened = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
        return sum(path.startswith("/dev/pts/") for path in opened)

    before = terminals()
    for _ in range(3):
        made = await broker.create_session("cat")
        assert terminals() == before + 1
        await broker.send(key="C-d", session_id=made.session_id, wait_for="exit", timeout_ms=int(20_000 * SLOW))
        assert terminals() == before


async def test_only_what_is_there_still_is_ended_for_its_age(broker: Broker):
    await broker.create_session("cat", name="a")
    session = broker.registry.sessions["a"]
    await broker.destroy_session("a")
    ended = []

    async def end(session: Session, reason: EndCause) -> None:
        ended.append(session.id)

    await anyio.sleep(0.01)
    await end_idle([session], broker.settings.state_dir, AgeLimits(0, 0.001), set(), end)
    assert ended == []


async def test_a_broker_leaves_the_directory_of_a_later_session_alone(broker: Broker):
    """It learns late that its session is gone and that another one has the name."""
    await broker.create_session("bash", name="a")
    for number in range(3):
        await broker.run(f"echo {number}", "a")
    before = broker.registry.sessions["a"]
    async with Broker.open(broker.settings) as other:
        await other.destroy_session("a", force=True)
        await other.create_session("bash", name="a")
        files = {path: path.read_bytes() for path in before.directory.path.glob("*.json*")}
        before.cursors.move("library", 7)
        before.told.tell("library", ReportedCommands(3))
        before.will_end(EndCause.IDLE)
        before.write_input(bytes=1, keys=0)
        before.mark_destroyed()
        assert (await broker.list_commands("a")).commands == []
        assert {path: path.read_bytes() for path in before.directory.path.glob("*.json*")} == files
        assert not before.directory.told.exists()
        assert not before.directory.cursors.exists()
        await other.run("echo new", "a")
        assert [each.text for each in (await broker.list_commands("a")).commands] == ["echo new"]
        assert broker.registry.sessions["a"].generation == 2
