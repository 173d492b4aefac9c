"""What is ended, and what is never."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest

from tests.conftest import SLOW, no_first_run
from tests.kit.agent import Agent, ToolFailed
from tests.kit.agent import eventually as soon
from tests.kit.person import Person
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import MaxSessions
from tmuxmcp.contract.requests import RequestUserInput, Run, Send
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.sessions.inputrequests import settle, waiting
from tmuxmcp.sessions.life import EndCause
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.retention import ORPHAN_IDLE_S, AgeLimits, DueEnd, SessionAge, due

BOUNDS = AgeLimits(idle_timeout_s=100, max_duration_s=1000)


@pytest.mark.parametrize(
    ("age", "ended"),
    [
        (SessionAge(age_s=50, idle_s=50, resting=True, orphan=False, watched=False), None),
        (SessionAge(age_s=500, idle_s=101, resting=True, orphan=False, watched=False), ("idle", "idle_timeout_s")),
        (SessionAge(age_s=500, idle_s=101, resting=False, orphan=False, watched=False), None),
        (SessionAge(age_s=500, idle_s=101, resting=True, orphan=False, watched=True), None),
        (SessionAge(age_s=1001, idle_s=0, resting=False, orphan=False, watched=True), ("duration", "max_duration_s")),
        (SessionAge(9, 9, resting=False, orphan=False, watched=True, duration_s=8), ("duration", "duration_s (8)")),
        (
            SessionAge(9, 9, resting=False, orphan=False, watched=True, cpu_s=2, cpu_seconds=1),
            ("cpu", "cpu_seconds (1)"),
        ),
        (SessionAge(age_s=500, idle_s=50, resting=True, orphan=True, watched=False), None),
    ],
)
def test_who_is_ended(age: SessionAge, ended: tuple[str, str] | None):
    found = due(age, BOUNDS)
    assert (found is None) == (ended is None)
    if found and ended:
        assert found.reason == ended[0]
        assert ended[1] in found.why


def test_an_orphan_is_kept_for_its_callers_return():
    bounds = AgeLimits(0, 0)
    orphan = SessionAge(age_s=9e9, idle_s=ORPHAN_IDLE_S - 1, resting=True, orphan=True, watched=False)
    assert due(orphan, bounds) is None
    late = SessionAge(age_s=9e9, idle_s=ORPHAN_IDLE_S + 1, resting=True, orphan=True, watched=False)
    assert due(late, bounds) == DueEnd(EndCause.IDLE, "its caller is gone")


def test_an_idle_session_is_ended_and_a_busy_one_is_not(state_dir: Path):
    with Agent(state_dir, TMUXMCP_IDLE_TIMEOUT_S=str(0.6 * SLOW)) as agent:
        agent.call("create_session", program="sleep", args=["1000"], name="busy", wait_ready=False)
        agent.call("create_session", program="bash", name="idle")
        soon(
            lambda: (
                [row["session_id"] for row in agent.call("list_sessions", include_exited=False)["sessions"]] == ["busy"]
            )
        )


def test_a_session_may_not_live_longer_than_allowed(state_dir: Path):
    with Agent(state_dir, TMUXMCP_MAX_DURATION_S=str(0.6 * SLOW)) as agent:
        agent.call("create_session", program="sleep", args=["1000"], name="busy", wait_ready=False)
        soon(lambda: agent.call("list_sessions", include_exited=False)["count"] == 0)


def listed(agent: Agent) -> set[str]:
    return {row["session_id"] for row in agent.call("list_sessions", include_exited=False)["sessions"]}


def test_default_sessions_of_clients_that_are_gone_make_room(state_dir: Path):
    with ExitStack() as stays:
        limits = {"TMUXMCP_MAX_SESSIONS": "3"}
        here = stays.enter_context(Agent(state_dir, "bash", **limits))
        kept = here.call("run", command="true")["session_id"]
        with Agent(state_dir, "bash", **limits) as one, Agent(state_dir, "bash", **limits) as other:
            first = one.call("run", command="true")["session_id"]
            second = other.call("run", command="true")["session_id"]
            with pytest.raises(ToolFailed, match="MAX_SESSIONS") as refused:
                here.call("create_session", name="a", program="cat", wait_ready=False)
            assert kept in str(refused.value)
            assert first not in str(refused.value)
            assert second not in str(refused.value)
        here.call("create_session", name="a", program="cat", wait_ready=False)
        assert listed(here) == {kept, second, "a"}
        assert here.call("get_session", session_id=first)["ended"]["reason"] == "idle"
        here.call("create_session", name="b", program="cat", wait_ready=False)
        assert listed(here) == {kept, "a", "b"}
        with Agent(state_dir, "bash", **limits) as newcomer:
            with pytest.raises(ToolFailed, match="MAX_SESSIONS") as refused:
                newcomer.call("run", command="true")
            assert "None of them is yours" in str(refused.value)
            with pytest.raises(ToolFailed, match="SESSION_EXISTS") as refused:
                newcomer.call("create_session", name="a", program="cat", wait_ready=False)
            assert "estroy" not in str(refused.value)


@pytest.fixture
async def abandoned(state_dir: Path) -> AsyncIterator[tuple[Broker, str]]:
    """A broker with room for one session, and the default session of a caller that is gone."""
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash", max_sessions=1)) as broker:
        (state_dir / "callers").mkdir(exist_ok=True)
        (state_dir / "callers" / "gone-0").touch()
        yield broker, (await broker.do(Run("true"), Call("gone-0"))).session_id


async def makes_room(broker: Broker) -> bool:
    try:
        made = await broker.create_session("cat", wait_ready=False)
    except MaxSessions:
        return False
    await broker.destroy_session(made.session_id)
    return True


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "dash"])
async def test_abandoned_shell_at_its_prompt_makes_room(state_dir: Path, home: Path, shell: str):
    no_first_run(home)
    async with Broker.open(BrokerSettings(state_dir=state_dir, program=shell, max_sessions=1)) as broker:
        (state_dir / "callers").mkdir(exist_ok=True)
        (state_dir / "callers" / "gone-0").touch()
        await broker.do(Send("true\n", wait_for="ready"), Call("gone-0"))
        assert await makes_room(broker)


@pytest.mark.parametrize(
    "text",
    [
        "sleep 1000 &\n",
        "sleep 1000\n",
        "setsid sleep 1000 & disown\n",
        "sh\n",
        "cat\n",
        "read -s x\n",
        "sleep 1000\x1a",
        "half of a command",
    ],
)
async def test_abandoned_session_in_which_something_goes_on_makes_no_room(abandoned: tuple[Broker, str], text: str):
    broker, name = abandoned
    await broker.send(text, session_id=name, wait_for="idle")
    assert not await makes_room(broker)


async def test_abandoned_session_makes_no_room_while_a_person_has_to_do_with_it(
    abandoned: tuple[Broker, str], state_dir: Path
):
    broker, name = abandoned
    person = Person(state_dir, name)
    assert not await makes_room(broker)
    await anyio.to_thread.run_sync(person.leave)
    await broker.take(name)
    assert not await makes_room(broker)
    await broker.release(name)
    with broker.shown(name, 1):
        assert not await makes_room(broker)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(broker.do, RequestUserInput(session_id=name, message="Which?"), Call("gone-0"))
        session = await broker.registry.existing(name)
        while not waiting(session):
            await anyio.sleep(0.01)
        assert not await makes_room(broker)
        assert settle(session, waiting(session)[0].id, "cancelled")
    assert await makes_room(broker)


async def test_nothing_looks_on_once_what_it_needs_is_closed(
    state_dir: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tmux may have answered a look just as the broker lets go."""
    answered, asking, went_on = anyio.Event(), anyio.Event(), list[Registry]()

    async def look_again(registry: Registry) -> None:
        asking.set()
        await answered.wait()
        went_on.append(registry)

    close = Registry.close

    def answer_and_close(registry: Registry) -> None:
        answered.set()
        close(registry)

    monkeypatch.setattr(Registry, "look_again", look_again)
    monkeypatch.setattr(Registry, "close", answer_and_close)
    async with Broker.open(BrokerSettings(state_dir=state_dir)):
        await asking.wait()
    assert not went_on
