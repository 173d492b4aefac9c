"""Shells behind ssh: adopted by consent, unasked only in a session that was made there."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.conftest import SLOW
from tests.kit.agent import Agent, ToolFailed, eventually, refused
from tests.kit.fixtures import of_file
from tests.kit.sshd import LINUX, Box, a_box, an_agent_near

pytestmark = pytest.mark.skipif(not LINUX, reason="only Linux has this witness")

LONG = int(20_000 * SLOW)


box = of_file(a_box)


@pytest.fixture(scope="module")
def agent(box: Box) -> Iterator[Agent]:
    with an_agent_near(box) as agent:
        yield agent


def run(agent: Agent, session_id: str, command: str, **more: Any) -> tuple[str, int | None, str]:
    result = agent.call("run", command=command, session_id=session_id, timeout_ms=LONG, **more)
    return result["output"], result["exit_code"], result["outcome"]


def go(agent: Agent, session_id: str, command: str, prompt: str) -> None:
    """Go on to another shell; the prompt that is there may look like the one that is to come."""
    agent.call("read", session_id=session_id, wait_for="ready", timeout_ms=LONG)
    wait = {"wait_for": "pattern", "pattern": prompt, "timeout_ms": LONG}
    answer = agent.call("send", session_id=session_id, text=command, enter=True, **wait)["result"]
    assert answer["outcome"] == "matched", answer


def test_a_session_on_another_host_runs_at_once(agent: Agent, box: Box):
    made = agent.call("create_session", host=f"{box.user()}box", name="there", ready_timeout_ms=LONG)
    assert made["ready"]
    first = agent.call("run", command="cd /usr; sh -c 'exit 3'", session_id="there", timeout_ms=LONG)
    assert (first["output"], first["exit_code"], first["cwd"]) == ("", 3, "/usr")
    host = f"{box.user()}box"
    assert first["shell"] == {"kind": "bash", "where": "remote", "level": 1, "adopted": True, "host": host}
    assert run(agent, "there", "pwd") == ("/usr\n", 0, "ready")
    assert run(agent, "there", "exit 4")[1:] == (4, "exited")


def test_shells_behind_ssh_are_adopted_by_consent_and_end_with_their_codes(agent: Agent, box: Box):
    agent.call("create_session", program="bash", name="here")
    go(agent, "here", f"ssh {box.user()}box", r"[$] $")
    failed = refused("NOT_A_SHELL", run, agent, "here", "echo no")
    assert "adopt=yes" in failed.error["hint"]
    assert run(agent, "here", "echo one", adopt="yes") == ("one\n", 0, "ready")
    assert run(agent, "here", "cd /usr; false") == ("", 1, "ready")
    go(agent, "here", "dash", r"\$ $")
    with pytest.raises(ToolFailed):
        run(agent, "here", "echo no")
    assert run(agent, "here", "pwd", adopt="yes") == ("/usr\n", 0, "ready")
    facts = agent.call("get_session", session_id="here")
    assert [(each["level"], each["kind"]) for each in facts["levels"]] == [(0, "bash"), (1, "bash"), (2, "sh")]
    assert run(agent, "here", "exit 4")[1:] == (4, "left")
    assert run(agent, "here", "echo $?") == ("4\n", 0, "ready")
    assert run(agent, "here", "exit 5")[1:] == (5, "left")
    assert run(agent, "here", "echo $?") == ("5\n", 0, "ready")
    ran = agent.call("list_commands", session_id="here")["commands"]
    assert len({each["number"] for each in ran}) == len(ran)
    assert [(each["text"], each["level"], each["exit_code"]) for each in ran if each["exit_code"]] == [
        (f"ssh {box.user()}box", 0, 5),
        ("cd /usr; false", 1, 1),
        ("dash", 1, 4),
        ("exit 4", 2, 4),
        ("exit 5", 1, 5),
    ]


def test_a_connection_that_is_cut_takes_its_shells_with_it(agent: Agent, box: Box):
    agent.call("create_session", program="bash", name="cut")
    go(agent, "cut", f"ssh {box.user()}box", r"[$] $")
    assert run(agent, "cut", "echo one", adopt="yes") == ("one\n", 0, "ready")
    given = {"command": "echo $PPID; sleep 100", "session_id": "cut"}
    running = agent.portal.start_task_soon(lambda: agent.client.call_tool("run", given))
    read = partial(agent.call, "read", session_id="cut", since=0)
    (server,) = eventually(lambda: re.findall(r"^(\d+)$", read()["content"], re.MULTILINE))
    os.kill(int(server), signal.SIGKILL)
    left = running.result(30 * SLOW).structured_content
    assert (left["outcome"], left["completed"], left["exit_code"]) == ("left", False, None)
    assert "cut" in left["note"]
    (listed,) = [each for each in agent.call("list_commands", session_id="cut")["commands"] if "PPID" in each["text"]]
    assert listed["exit_code"] is None
    assert run(agent, "cut", "echo $?") == ("255\n", 0, "ready")


def test_what_does_not_answer_is_not_adopted_and_its_screen_is_told(agent: Agent, box: Box):
    """The caller took a question for a prompt: the line is its answer, and nothing more is typed."""
    agent.call("create_session", program="bash", name="asks")
    go(agent, "asks", f"ssh -t {box.user()}box 'read -p \"Name: \" x; echo got it; sleep 600'", "Name: $")
    failed = refused("ADOPTION_FAILED", run, agent, "asks", "echo two", adopt="yes")
    assert "got it" in failed.error["details"]["screen"]
    assert [each["level"] for each in agent.call("get_session", session_id="asks")["levels"]] == [0]
    agent.call("send", session_id="asks", key="C-c", read="none")
    agent.call("read", session_id="asks", wait_for="command", timeout_ms=LONG)
    assert run(agent, "asks", "echo still") == ("still\n", 0, "ready")
