"""Why sessions ended, as every answer that meets one says, in whatever broker."""

from __future__ import annotations

import shutil
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.conftest import SLOW, end_server, eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import SessionExited, SessionNotFound
from tmuxmcp.contract.settings import BrokerSettings, Limits
from tmuxmcp.contract.value import asdict
from tmuxmcp.machine import cgroup
from tmuxmcp.record.meta import WhyEnded
from tmuxmcp.tmux import panes

LONG_MS = int(20_000 * SLOW)


@pytest.fixture
async def other(broker: Broker) -> AsyncIterator[Broker]:
    """A second broker on the same state directory."""
    async with Broker.open(broker.settings, caller="other") as opened:
        yield opened


async def why(broker: Broker, session_id: str = "a") -> tuple[str, str | None]:
    """The reason that each answer has, and who wanted it."""
    facts = await broker.get_session(session_id)
    assert facts.ended, facts
    (row,) = [each for each in (await broker.list_sessions()).sessions if each.session_id == session_id]
    read = await broker.read("new", session_id)
    assert row.ended == facts.ended == read.ended
    with pytest.raises(SessionExited) as refused:
        await broker.send("x", session_id=session_id)
    assert refused.value.details["ended"] == asdict(facts.ended)
    assert facts.exited
    return facts.ended.reason, facts.ended.by


async def over(broker: Broker, *argv: str, name: str = "a", **limits: float) -> None:
    """Let a program run to its end."""
    await broker.create_session(argv[0], argv[1:], name=name, limits=Limits.model_validate(limits) if limits else None)
    answer = await broker.read("new", name, wait_for="exit", timeout_ms=LONG_MS)
    assert (answer.outcome, answer.ended is not None) == ("exited", True), answer


async def test_nothing_has_ended_while_it_runs(broker: Broker):
    await broker.create_session("cat", name="a")
    assert (await broker.get_session("a")).ended is None
    assert (await broker.list_sessions()).sessions[0].ended is None


@pytest.mark.parametrize(
    ("code", "expected"), [("exit 3", "exit"), ("kill -9 $$", "signal"), ("kill -XCPU $$", "signal")]
)
async def test_a_program_that_ends_by_itself(broker: Broker, other: Broker, code: str, expected: str):
    await over(broker, "sh", "-c", code)
    assert await why(broker) == await why(other) == (expected, None)


async def test_a_command_that_ends_its_shell(broker: Broker):
    await broker.create_session("bash", name="a")
    ran = await broker.run("exit 3", "a")
    assert ran.ended
    assert (ran.outcome, ran.ended.reason) == ("exited", "exit")


async def test_a_limit_of_processor_time(broker: Broker):
    await over(broker, "sh", "-c", "while :; do :; done", cpu_seconds=1)
    assert await why(broker) == ("cpu", None)
    with pytest.raises(SessionExited, match=r"its limit cpu_seconds \(1\)"):
        await broker.run("true", "a")


@pytest.mark.skipif(not cgroup.places(), reason="no control groups can be made here")
async def test_a_limit_of_memory(broker: Broker, other: Broker):
    hog = "x = b'x' * (300 << 20)"
    await over(broker, sys.executable, "-c", hog, memory_mb=100)
    assert await why(broker) == await why(other) == ("memory", None)
    with pytest.raises(SessionExited, match=r"its limit memory_mb \(100\)"):
        await broker.send("x", session_id="a")


async def test_a_tmux_server_that_is_gone(broker: Broker):
    await broker.create_session("cat", name="a")
    end_server(broker.settings.state_dir)
    assert await why(broker) == ("lost", None)


async def test_an_end_is_known_without_its_pane(broker: Broker, other: Broker):
    """tmux knows nothing of it any more; the launcher has written it down."""
    await over(broker, "sh", "-c", "exit 3")
    end_server(broker.settings.state_dir)
    assert await why(other) == ("exit", None)
    facts = await other.get_session("a")
    assert (facts.exit_code, facts.mode) == (3, "lost")


# ---- ended by somebody, or for a reason ------------------------------------------------------------


async def test_a_destroyed_session_stays_known(broker: Broker, other: Broker):
    await broker.create_session("bash", name="a")
    await broker.run("echo before", "a")
    await broker.read(session_id="a", wait_for="ready")  # its prompt is on the next line
    gone = await broker.destroy_session("a")
    assert await why(broker) == await why(other) == ("destroyed", "library")
    facts = await other.get_session("a")
    assert (facts.mode, facts.exit_code, facts.exit_signal) == ("exited", gone.exit_code, gone.exit_signal)
    assert "before" in (await other.read("new", "a", since=0)).content
    assert (await other.search("before", "a")).total >= 1
    assert "echo before\nbefore\n" in (await other.read("screen", "a")).content
    assert (await other.read("new", "a", wait_for="ready")).outcome == "exited"
    with pytest.raises(SessionExited, match="was destroyed by library"):
        await other.run("true", "a")
    assert (await other.destroy_session("a")).destroyed
    assert [row.session_id for row in (await other.list_sessions(include_exited=False)).sessions] == []


async def test_one_that_had_ended_before_it_was_destroyed(broker: Broker):
    await over(broker, "sh", "-c", "exit 3")
    with pytest.raises(SessionNotFound, match=r"Sessions are: a \(ended\)"):
        await broker.get_session("nobody")
    await broker.destroy_session("a")
    assert await why(broker) == ("exit", None)
    assert (await broker.get_session("a")).exit_code == 3


async def test_what_never_was_is_not_found(broker: Broker):
    for arguments in ({"session_id": "nobody"}, {"session_id": "../a"}, {"session_id": "nobody", "generation": 1}):
        with pytest.raises(SessionNotFound):
            await broker.get_session(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(("limits", "reason"), [({"duration_s": 1}, "duration"), ({}, "idle")])
async def test_what_the_broker_ends(state_dir: Path, home: Path, limits: dict[str, float], reason: str):
    settings = BrokerSettings(state_dir=state_dir, program="bash", idle_timeout_s=0 if limits else 1)
    async with Broker.open(settings) as broker:
        await broker.create_session("cat", name="a", limits=Limits.model_validate(limits))

        async def ended() -> bool:
            facts = await broker.get_session("a")
            return bool(facts.ended and facts.mode == "exited")

        await eventually(ended, 30)
        assert await why(broker) == (reason, None)
        with pytest.raises(SessionExited, match=r"duration_s \(1\)|idle_timeout_s \(1\)"):
            await broker.run("true", "a")


async def test_the_next_default_session_says_why_the_former_ended(broker: Broker, other: Broker):
    first = await broker.run("true")
    await other.destroy_session(first.session_id)
    again = await broker.run("true")
    assert again.session_id != first.session_id
    assert f"session {first.session_id} had ended" in (again.note or "")
    assert "was destroyed by other" in (again.note or "")
    assert (await broker.run("true")).note is None


async def test_an_ending_that_never_came_explains_nothing(broker: Broker):
    """Whoever meant to destroy it was killed before it could; long afterwards the program ended by itself."""
    await broker.create_session("cat", name="a")
    session = broker.registry.sessions["a"]
    WhyEnded("destroyed", "killed", "2020-01-01T00:00:00+00:00").save(session.directory)
    assert (await broker.get_session("a")).ended is None
    await broker.send(key="C-d", session_id="a", wait_for="exit", timeout_ms=LONG_MS)
    assert await why(broker) == ("exit", None)


async def test_an_ending_that_never_came_is_not_why_the_pane_went(broker: Broker, other: Broker):
    """Whoever meant to destroy it was killed before it could; later a person took its pane away."""
    await broker.create_session("cat", name="a")
    WhyEnded("destroyed", "killed", "2020-01-01T00:00:00+00:00").save(broker.registry.directory("a"))
    pane = broker.registry.sessions["a"].live()
    await panes.kill_session(broker.tmux, pane)
    for each in (broker, other):
        ended = (await each.get_session("a")).ended
        assert ended
        assert (ended.reason, ended.by) == ("lost", None)


async def test_an_ending_that_was_given_up_explains_nothing(broker: Broker, other: Broker):
    """A program that heeds no signal outlives the call that was cancelled, and ends by itself."""
    await broker.create_session("bash", ["--norc", "-c", "trap '' TERM HUP; echo on; read -r; exit 3"], name="a")
    await broker.read("new", "a", wait_for="pattern", pattern="on")
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(partial(broker.destroy_session, "a", grace_ms=60_000))
        await eventually(broker.registry.directory("a").ended.exists)
        task_group.cancel_scope.cancel()
    await broker.send(enter=True, session_id="a", wait_for="exit", timeout_ms=LONG_MS)
    assert await why(broker) == ("exit", None)
    assert await why(other) == ("exit", None)


# ---- one name, several sessions --------------------------------------------------------------------


async def test_a_name_is_free_once_its_session_has_ended(broker: Broker, other: Broker):
    for number in (1, 2, 3):
        made = await broker.create_session("bash", name="a")
        assert (await broker.get_session("a")).generation == number
        await broker.run(f"echo round $(({number} * 11))", made.session_id)
        await broker.destroy_session("a")
    for number in (1, 2, 3):
        assert f"round {number * 11}\n" in (await other.read("new", "a", since=0, generation=number)).content
        assert (await other.search(f"^round {number * 11}", "a", generation=number)).total == 1
        facts = await other.get_session("a", generation=number)
        assert (facts.generation, facts.ended and facts.ended.reason) == (number, "destroyed")
    with pytest.raises(SessionNotFound, match="generation 4"):
        await other.get_session("a", generation=4)


async def test_generations_are_counted_on_when_the_first_ones_are_gone(broker: Broker):
    for _ in range(3):
        await broker.create_session("cat", name="a")
        await broker.destroy_session("a", force=True)
    directory = broker.registry.directory("a")
    for number in (1, 2):
        shutil.rmtree(directory.beside(number).path)
    await broker.create_session("cat", name="a")
    assert (await broker.get_session("a")).generation == 4
    assert directory.beside(3).path.exists()
