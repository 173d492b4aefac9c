"""The stop button: one session or all are paused at once, whatever server or none is there."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.behaviour.people.test_takeover import HELD_OFF, events, refused_as_taken, tmuxmcp
from tests.kit.agent import Agent, ToolFailed, audit_lines, eventually


def test_what_is_paused_is_not_typed_into(agent: Agent):
    assert tmuxmcp(agent, "pause", "held") == {"paused": ["held"], "all": False}
    assert agent.run("echo other", session_id="")["output"] == "other\n"
    for tool, arguments in HELD_OFF:
        assert refused_as_taken(agent, tool, **arguments)["by"] == "pause"
    assert agent.call("get_session", session_id="held")["taken_over"]["by"] == "pause"
    assert tmuxmcp(agent, "resume", "held") == {"resumed": ["held"], "all": False}
    answer = agent.run("echo yes", session_id="held")
    assert (answer["output"], answer["handed_back"]) == ("yes\n", None)


def test_events_and_audit_tell_of_it_once(agent: Agent):
    for verb in ("pause", "pause", "resume", "resume"):
        tmuxmcp(agent, verb, "held")
    ((begun,), (over,)) = events(agent, "taken"), events(agent, "given_back")
    assert (begun["by"], over["by"], over["since"], over["reason"]) == ("pause", "pause", begun["time"], "release")
    assert {"pause", "resume"} <= {line["tool"] for line in audit_lines(agent.state_dir)}


def test_all_holds_for_sessions_made_later_and_for_the_next_server(agent: Agent, state_dir: Path):
    assert tmuxmcp(agent, "pause", "--all")["paused"] == ["held"]
    agent.call("create_session", program="bash", name="later")
    agent.kill()
    with Agent(state_dir, "bash") as again:
        for name in ("held", "later", ""):
            with pytest.raises(ToolFailed) as failed:
                again.call("send", session_id=name, text="x")
            assert (failed.value.code, failed.value.error["details"]["by"]) == ("SESSION_TAKEN", "pause")
        assert tmuxmcp(again, "resume", "held", status=1) == {"resumed": [], "all": False}
        refused_as_taken(again, "send", text="x")
        tmuxmcp(again, "pause", "held")
        tmuxmcp(again, "resume", "--all")
        assert again.run("echo yes", session_id="held")["output"] == "yes\n"
        assert again.run("echo yes", session_id="later")["output"] == "yes\n"


def test_a_pause_ends_a_wait_and_the_command_goes_on(agent: Agent):
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(agent.run, "sleep 60", session_id="held", timeout_ms=30000)
        eventually(lambda: agent.call("get_session", session_id="held")["mode"] == "running")
        tmuxmcp(agent, "pause", "--all")
        ran = answer.result(30)
    assert (ran["outcome"], "was paused" in ran["note"]) == ("taken", True)
    assert agent.call("get_session", session_id="held")["mode"] == "running"


def test_what_runs_in_a_session_resumes_nothing(agent: Agent, state_dir: Path):
    code = f"{sys.executable} -m tmuxmcp resume --state-dir {state_dir} --all"
    agent.call("send", text=f"cd {Path.cwd()}; sleep 1; {code}", enter=True, wait_for="none")
    tmuxmcp(agent, "pause", "--all")
    answer = agent.call("read", wait_for="pattern", pattern="PERMISSION_DENIED", timeout_ms=20000)
    assert answer["outcome"] == "matched"
    refused_as_taken(agent, "send", text="x")


@pytest.mark.parametrize("words", [[], ["--all", "held"], ["none"]])
def test_it_is_said_what_is_paused(agent: Agent, words: list[str]):
    assert tmuxmcp(agent, "pause", *words, status=3 if words == ["none"] else 2)
    assert tmuxmcp(agent, "resume", *words, status=3 if words == ["none"] else 2)
