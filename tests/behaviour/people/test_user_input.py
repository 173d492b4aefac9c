"""Agents ask a person to type something: how it is asked, waited for and settled, whoever is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SLOW
from tests.kit.agent import Agent, ToolFailed, eventually, refused, run_command_line

ERAS = ["legacy", "auto"]


@pytest.fixture
def agent(state_dir: Path) -> Iterator[Agent]:
    with Agent(state_dir, "bash") as agent:
        agent.call("create_session", program="bash", name="a")
        yield agent


def requests(agent: Agent, session: str = "a") -> list[Path]:
    """Files of the requests that wait, oldest first."""
    found = (agent.state_dir / "sessions" / session / "requests").glob("*.json")
    return sorted(
        (each for each in found if not each.with_suffix(".became").exists()), key=lambda each: each.stat().st_mtime
    )


def events(agent: Agent, kind: str, session: str = "a") -> list[dict[str, Any]]:
    lines = (agent.state_dir / "sessions" / session / "events.jsonl").read_text().splitlines()
    return [each for each in map(json.loads, lines) if each["event"] == kind]


def ask(agent: Agent, message: str = "Type the code.", **arguments: Any) -> dict[str, Any]:
    return agent.call("request_user_input", message=message, **({"session_id": "a"} | arguments))


# ---- by the agent alone ------------------------------------------------------------------------------


def test_time_is_up(agent: Agent):
    answer = ask(agent, timeout_s=1)
    assert (answer["outcome"], answer["effective_timeout_ms"]) == ("timeout", None)
    assert answer["duration_s"] >= 1
    (put,), (over,) = events(agent, "asked"), events(agent, "answered")
    assert put["request_id"] == over["request_id"] == answer["request_id"]
    assert (over["outcome"], over["by"]) == ("timeout", "")
    assert "Type the code" not in json.dumps([put, over])
    assert ask(agent, "", request_id=answer["request_id"])["outcome"] == "timeout"


def test_a_wait_is_clamped_and_taken_up(state_dir: Path):
    with Agent(state_dir, "--max-wait-ms", "300", "bash") as agent:
        agent.call("create_session", program="bash", name="a")
        first = ask(agent)
        assert (first["outcome"], first["effective_timeout_ms"]) == ("waiting", 300)
        assert f"tmuxmcp answer {first['request_id']}" in first["note"]
        [request] = requests(agent)
        agent.call("request_user_input", request_id=first["request_id"])  # without its session, as well
        assert requests(agent) == [request]
        refused("INVALID_ARGUMENT", ask, agent, "something else", request_id=first["request_id"])


def test_it_outlives_the_server(state_dir: Path):
    with Agent(state_dir, "--max-wait-ms", "100", "bash") as agent:
        agent.call("create_session", program="bash", name="a")
        waits = ask(agent, request_id="of-the-agent")
        assert (waits["outcome"], waits["request_id"]) == ("waiting", "of-the-agent")
        agent.kill()
    with Agent(state_dir, "--max-wait-ms", "100", "bash") as agent:
        assert ask(agent, "", request_id="of-the-agent")["outcome"] == "waiting"
        assert len(requests(agent)) == 1


def test_the_session_ends(agent: Agent, threads: ThreadPoolExecutor):
    answer = threads.submit(ask, agent)
    eventually(lambda: requests(agent))
    agent.call("send", session_id="a", text="exit 3", enter=True, wait_for="exit")
    told = answer.result(10 * SLOW)
    assert (told["outcome"], told["mode"]) == ("exited", "exited")
    assert "exit code 3" in told["note"]
    refused("SESSION_EXITED", ask, agent)


def test_a_call_that_is_cancelled_gives_it_up(agent: Agent):
    async def cancelled() -> None:
        import anyio

        with anyio.move_on_after(0.5 * SLOW):
            await agent.client.call_tool("request_user_input", {"session_id": "a", "message": "x"})

    agent.portal.call(cancelled)
    eventually(lambda: [each["outcome"] for each in events(agent, "answered")] == ["withdrawn"])
    assert not requests(agent)


def test_wrong_calls_say_what_to_do(agent: Agent):
    for arguments in ({"message": ""}, {"message": " \x1b\n"}, {"message": "", "request_id": "nobodys-id"}):
        with pytest.raises(ToolFailed) as failed:
            ask(agent, **arguments)
        assert (failed.value.code, bool(failed.value.error["hint"])) == ("INVALID_ARGUMENT", True)
    for arguments in ({"message": "x" * 4001}, {"request_id": "../../../x"}, {"timeout_s": 0}):
        refused("INVALID_ARGUMENT", ask, agent, **arguments)


def test_so_many_wait_at_most(state_dir: Path):
    with Agent(state_dir, "--max-wait-ms", "1", "bash") as agent:
        agent.call("create_session", program="bash", name="a")
        for _ in range(16):
            ask(agent)
        refused("RESOURCE_LIMIT", ask, agent)


# ---- in the client -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
def test_the_client_shows_a_form(state_dir: Path, mode: str):
    seen: list[str] = []

    answers = iter(["accept", "decline"])

    def next_answer(message: str) -> str:
        seen.append(message)
        return next(answers)

    with Agent(state_dir, "bash", mode=mode, person=next_answer) as agent:
        agent.call("create_session", program="bash", name="a")
        done = ask(agent, "Type \x1b[31mred\u202e.")
        assert (done["outcome"], done["note"]) == ("done", None)
        assert ask(agent)["outcome"] == "declined"
        [first, _] = events(agent, "answered")
        assert (first["via"], bool(first["by"])) == ("client", True)
    assert "Type <U+001B>[31mred<U+202E>." in seen[0]
    assert f"tmuxmcp answer {done['request_id']}" in seen[0]


@pytest.mark.parametrize("mode", ERAS)
def test_a_form_that_is_put_away_leaves_it_open(state_dir: Path, mode: str):
    with Agent(state_dir, "--max-wait-ms", "300", "bash", mode=mode, person=lambda message: "cancel") as agent:
        agent.call("create_session", program="bash", name="a")
        assert ask(agent)["outcome"] == "waiting"
        assert len(requests(agent)) == 1


@pytest.mark.parametrize("mode", ERAS)
def test_no_form_asks_for_a_secret(state_dir: Path, mode: str):
    seen: list[str] = []
    with Agent(
        state_dir, "--max-wait-ms", "300", "bash", mode=mode, person=lambda each: seen.append(each) or "accept"
    ) as agent:
        agent.call("create_session", program="bash", name="a")
        assert ask(agent, secret=True)["outcome"] == "waiting"
    assert not seen


@pytest.mark.parametrize("mode", ERAS)
def test_what_was_answered_at_the_command_line_counts(state_dir: Path, mode: str):
    """The form in the client comes too late."""

    def declines_elsewhere(message: str) -> str:
        run_command_line(state_dir, "answer", "a", "--decline")
        return "accept"

    with Agent(state_dir, "bash", mode=mode, person=declines_elsewhere) as agent:
        agent.call("create_session", program="bash", name="a")
        assert ask(agent)["outcome"] == "declined"
        [over] = events(agent, "answered")
        assert (over["outcome"], over["via"]) == ("declined", "answer")


# ---- that it is there ----------------------------------------------------------------------------------

ASKS = "read -rsp 'Code: ' x; echo"


def test_each_answer_that_needs_a_secret_says_how_a_person_types_it(agent: Agent):
    ran = agent.run(ASKS, session_id="a")
    waited = agent.call("wait", session_ids=["a"], wait_for="ready", timeout_ms=0)
    answers = [ran, agent.call("read", session_id="a"), waited]
    agent.call("send", session_id="a", text="1\n")
    answers.append(agent.call("send", session_id="a", text=f"{ASKS}\n"))
    for answer in answers:
        assert "request_user_input with secret=true" in answer["note"]
        assert "tmuxmcp attach --take a`" in answer["note"]
    read = run_command_line(agent.state_dir, "read", "a", "--wait-for", "ready").stderr
    assert "Type the secret with `tmuxmcp attach --take a`" in read
    assert "request_user_input" not in read
    after = agent.call("send", session_id="a", text="1\n")
    assert "request_user_input" not in json.dumps([after["note"], after["result"]["note"]])


def test_a_caller_without_the_tool_is_not_sent_to_it(state_dir: Path):
    with Agent(state_dir, "--tools", "core", "bash") as agent:
        note = agent.run(ASKS)["note"]
        assert "request_user_input" not in note
        assert "Have the person type the secret with `tmuxmcp attach --take " in note
