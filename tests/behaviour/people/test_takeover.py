"""A person takes a session over and gives it back: nothing is typed meanwhile, and nobody is told otherwise."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SLOW
from tests.kit.agent import Agent, audit_lines, eventually, refused, run_command_line
from tests.kit.tmux import plain_tmux, typed_by_script

HELD_OFF: list[tuple[str, dict[str, Any]]] = [
    ("run", {"command": "echo no"}),
    ("send", {"text": "echo no", "enter": True}),
    ("signal", {"signal": "INT"}),
    ("resize", {"rows": 30}),
    ("mouse", {"action": "click", "row": 0, "col": 0}),
    ("destroy_session", {}),
]


def tmuxmcp(agent: Agent, verb: str, *words: str, status: int = 0) -> Any:
    """What the person's command line says, as JSON."""
    done = run_command_line(agent.state_dir, verb, "--json", *words, status=status)
    return json.loads(done.stdout) if done.stdout else done.stderr


def refused_as_taken(agent: Agent, tool: str, **arguments: Any) -> dict[str, Any]:
    """The details with which it is SESSION_TAKEN."""
    return refused("SESSION_TAKEN", agent.call, tool, session_id="held", **arguments).error["details"]


def events(agent: Agent, kind: str) -> list[dict[str, Any]]:
    lines = (agent.state_dir / "sessions/held/events.jsonl").read_text().splitlines()
    return [each for each in map(json.loads, lines) if each["event"] == kind]


def test_what_is_taken_is_not_typed_into_until_it_is_given_back(agent: Agent):
    taken = tmuxmcp(agent, "take", "held")["taken_over"]
    before = agent.call("read", session_id="held", view="screen")["content"]
    for tool, arguments in HELD_OFF:
        assert refused_as_taken(agent, tool, **arguments).items() >= {**taken, "via": "cli"}.items()
    facts = agent.call("get_session", session_id="held")
    assert (facts["taken_over"], facts["rows"], facts["mode"]) == (taken, 24, "shell_prompt")
    assert agent.call("read", session_id="held", view="screen")["content"] == before
    assert tmuxmcp(agent, "take", "held")["taken_over"] == taken, "it goes on"
    assert tmuxmcp(agent, "release", "held")["released"]
    assert agent.call("get_session", session_id="held")["taken_over"] is None
    assert agent.run("echo yes", session_id="held")["output"] == "yes\n"
    assert not tmuxmcp(agent, "release", "held")["released"]


def test_events_and_audit_tell_of_it(agent: Agent):
    taken = tmuxmcp(agent, "take", "held")["taken_over"]
    tmuxmcp(agent, "release", "held")
    ((begun,), (over,)) = events(agent, "taken"), events(agent, "given_back")
    assert (begun["by"], begun["time"], begun["via"]) == (taken["by"], taken["since"], "cli")
    assert (over["by"], over["since"], over["reason"]) == (taken["by"], taken["since"], "release")
    told = [(line["tool"], line["session_id"]) for line in audit_lines(agent.state_dir)]
    assert {("take", "held"), ("release", "held")} <= set(told)


def test_force_ends_what_is_taken(agent: Agent):
    tmuxmcp(agent, "take", "held")
    assert agent.call("destroy_session", session_id="held", force=True)["destroyed"]


def test_a_lease_that_anybody_set_in_tmux_holds_as_well(agent: Agent):
    """It is checked where it is typed, whatever the server has seen of it."""
    option = ("-t", "=held:", "@tmuxmcp_taken")
    plain_tmux(agent.state_dir, "set-option", "-p", *option, "by hand")
    assert refused_as_taken(agent, "send", text="x")["by"] == "unknown"
    assert refused_as_taken(agent, "send", text="x")["by"] == "unknown"
    plain_tmux(agent.state_dir, "set-option", "-pu", *option)
    assert agent.run("echo yes", session_id="held")["output"] == "yes\n"
    plain_tmux(agent.state_dir, "set-option", "-p", *option, "by hand")
    tmuxmcp(agent, "release", "held")
    assert agent.run("echo yes", session_id="held")["output"] == "yes\n"


def test_what_runs_in_a_session_does_not_give_it_back(agent: Agent):
    tmuxmcp(agent, "take", "held")
    code = f"{sys.executable} -m tmuxmcp release --state-dir {agent.state_dir} held"
    ran = agent.run(f"cd {Path.cwd()}; {code}")
    assert (ran["exit_code"], "PERMISSION_DENIED" in ran["output"]) == (4, True), ran
    refused_as_taken(agent, "send", text="x")


def type_as_person(agent: Agent, *keys: str) -> None:
    """Type into the session as who is attached does: beside all brokers."""
    typed_by_script(agent.state_dir, *keys, session_id="held")


def commands(agent: Agent, count: int) -> list[tuple[str, str]]:
    """Text and origin of the commands that have ended, once there are so many."""
    found: list[dict[str, Any]] = []

    def enough() -> bool:
        found[:] = agent.call("list_commands", session_id="held")["commands"]
        return len(found) == count and all(each["exit_code"] is not None for each in found)

    eventually(enough)
    return [(each["text"], each["by"]) for each in found]


def test_commands_tell_which_of_them_a_person_ran(agent: Agent):
    agent.run("echo agent", session_id="held")
    type_as_person(agent, "echo other", "Enter")
    commands(agent, 2)
    agent.call("send", session_id="held", key="C-l")
    tmuxmcp(agent, "take", "held")
    type_as_person(agent, "echo person", "Enter")
    commands(agent, 3)
    tmuxmcp(agent, "release", "held")
    agent.run("echo agent again", session_id="held")
    who = ["agent", "other", "person", "agent"]
    assert [by for _, by in commands(agent, 4)] == who
    type_as_person(agent, "echo other again", "Enter")
    assert commands(agent, 5)[-1] == ("echo other again", "other")


WAITS: list[tuple[str, dict[str, Any]]] = [
    ("run", {"command": "sleep 60", "timeout_ms": 20000}),
    ("run", {"command": "yes", "timeout_ms": 20000, "max_bytes": 100}),
    ("send", {"text": "sleep 60", "enter": True, "wait_for": "pattern", "pattern": "never", "timeout_ms": 20000}),
    ("read", {"wait_for": "exit", "timeout_ms": 20000}),
]


@pytest.mark.parametrize(("tool", "arguments"), WAITS, ids=["run", "flood", "send", "read"])
def test_who_waits_is_told_at_once_and_the_command_goes_on(agent: Agent, tool: str, arguments: dict[str, Any]):
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(agent.call, tool, session_id="held", **arguments)
        if tool != "read":
            eventually(lambda: agent.call("get_session", session_id="held")["mode"] == "running")
        tmuxmcp(agent, "take", "held")
        told = answer.result(10 * SLOW)
    told = told.get("result") or told
    assert told["outcome"] == "taken"
    if tool == "run":
        assert (told["completed"], told["exit_code"], "goes on" in told["note"]) == (False, None, True)
    if tool != "read":
        assert agent.call("get_session", session_id="held")["mode"] == "running"
