"""`send` with steps: what each typed and how it ended, where it stops, and that nothing is typed twice or unseen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SLOW
from tests.kit.agent import Agent, an_agent, audit_lines, refused
from tests.kit.fixtures import of_file

agent = of_file(an_agent, "bash", first="PS1='$ '; true")


@pytest.fixture
def session(agent: Agent, request: pytest.FixtureRequest) -> Iterator[str]:
    made = agent.call("create_session", program="bash")["session_id"]
    agent.run("PS1='$ '", session_id=made)
    yield made
    agent.call("destroy_session", session_id=made, force=True)


def line(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, "enter": True, "timeout_ms": int(5000 * SLOW)} | more


def steps(agent: Agent, session: str, *given: dict[str, Any], **more: Any) -> dict[str, Any]:
    return agent.call("send", session_id=session, steps=list(given), **more)


def test_all_steps_are_typed_and_what_they_printed_is_one_text(agent: Agent, session: str):
    answer = steps(
        agent,
        session,
        line("python3 -q", wait_for="pattern", pattern=">>> "),
        line("x = 6 * 7"),
        line("print('it is', x)", wait_for="pattern", pattern="it is [0-9]+"),
        line("exit()"),
    )
    assert answer["steps_done"] == 4
    assert [each["outcome"] for each in answer["steps"]] == ["matched", "ready", "matched", "ready"]
    assert answer["steps"][2]["matched"] == "it is 42"
    assert answer["sent_bytes"] == sum(each["sent_bytes"] for each in answer["steps"])
    assert answer["result"]["mode"] == "shell_prompt"
    for shown in ("$ python3 -q", ">>> x = 6 * 7", "it is 42", ">>> exit()"):
        assert answer["result"]["content"].count(shown) == 1
    assert answer["note"] is None
    assert agent.call("read", session_id=session)["content"] == ""  # no more and no less


def test_a_screen_is_told_by_what_the_caller_has_seen(agent: Agent, session: str):
    """The screens between the steps were seen by nobody: what changed in them is in the last one."""
    draws = "tput smcup; clear; for i in 1 2 3; do read -rsn1; tput cup $((3 * i)) 0; echo row-$i; done; tput rmcup"
    agent.call("send", session_id=session, **line(draws))
    agent.call("read", session_id=session, view="screen")
    wait = {"text": "x", "wait_for": "pattern"}
    answer = steps(agent, session, wait | {"pattern": "row-1"}, wait | {"pattern": "row-2", "read": "diff"})
    assert answer["result"]["view"] == "diff"
    assert answer["result"]["content"].split()[1::2] == ["row-1", "row-2"]
    agent.call("send", session_id=session, key="x")


@pytest.mark.parametrize(
    ("step", "outcome", "why"),
    [
        (line("sleep 30", timeout_ms=200), "timeout", "its outcome is timeout, not ready"),
        (line("sleep 30", wait_for="idle", timeout_ms=100), "timeout", "timeout, not idle"),
        (line("sleep 9", wait_for="pattern", pattern="never", timeout_ms=200), "timeout", "timeout, not matched"),
        (line("echo a", wait_for="pattern", pattern="never"), "command", "command, not matched"),
        (line("exit 3"), "exited", "ended the program"),
        (line("read -rsp 'Code: ' x"), "ready", "mode=password"),
    ],
    ids=["ready", "idle", "pattern", "command", "exit", "password"],
)
def test_the_first_that_does_not_end_as_asked_is_the_last(
    agent: Agent, session: str, step: dict[str, Any], outcome: str, why: str
):
    answer = steps(agent, session, line("echo one"), step, line("echo two"), line("echo three"))
    assert answer["steps_done"] == 2
    assert [each["outcome"] for each in answer["steps"]] == ["ready", outcome]
    assert why in answer["note"]
    assert "Not typed: steps 3 to 4." in answer["note"]
    content = answer["result"]["content"]
    assert "one" in content
    assert "echo two" not in content
    assert answer["result"]["outcome"] == outcome
    assert "two" not in agent.call("read", session_id=session, view="screen")["content"]


def test_exit_codes_of_commands_that_are_waited_for(agent: Agent, session: str):
    answer = steps(agent, session, *(line(f"(exit {code})", wait_for="command") for code in (0, 3, 5)))
    assert [each["exit_code"] for each in answer["steps"]] == [0, 3, 5]
    assert answer["result"]["command"]["exit_code"] == 5


@pytest.mark.parametrize(
    ("wrong", "code", "why"),
    [
        ({"keys": ["Nonsense"]}, "INVALID_KEY", "Step 2: "),
        ({"text": "x", "wait_for": "pattern"}, "INVALID_ARGUMENT", "Step 2: wait_for=pattern needs a pattern"),
        ({"text": "x", "wait_for": "pattern", "pattern": "("}, "INVALID_PATTERN", "Step 2: "),
        ({}, "NO_INPUT", "Step 2: "),
        ({"text": "x", "timeout": 3}, "INVALID_ARGUMENT", "timeout_ms=3000 for 3 s"),
        ({"text": "x", "session_id": "a"}, "INVALID_ARGUMENT", "Step 2: session_id goes beside steps"),
        ({"steps": [{"key": "x"}]}, "INVALID_ARGUMENT", "Step 2: steps goes beside"),
        ({"secret": "none"}, "INVALID_ARGUMENT", "Step 2: There is no secret"),
        ({"text": "x" * (1 << 20)}, "RESOURCE_LIMIT", "max_input_bytes"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_wrong_step_has_none_typed(agent: Agent, wrong: dict[str, Any], code: str, why: str):
    before = agent.call("get_session")["output_bytes"]
    failed = refused(code, agent.call, "send", steps=[line("echo never"), wrong])
    assert why in str(failed)
    assert agent.call("get_session")["output_bytes"] == before


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"steps": [{"key": "x"}], "text": "y"}, "text: does not go with steps"),
        ({"steps": [{"key": "x"}], "timeout_ms": 6}, "timeout_ms: does not go with steps"),
        ({"steps": [{"key": "x"}] * 33}, "33 steps are more than 32"),
        ({"steps": ["ls", "pwd"]}, 'Give steps=[{"text": "ls", "enter": true}'),
    ],
    ids=["text", "timeout_ms", "many", "texts"],
)
def test_what_is_no_list_of_steps_is_refused(agent: Agent, arguments: dict[str, Any], why: str):
    failed = refused("INVALID_ARGUMENT", agent.call, "send", **arguments)
    assert why in str(failed)


def test_all_texts_together_are_bounded(agent: Agent):
    refused("RESOURCE_LIMIT", agent.call, "send", steps=[{"text": "x" * 600_000}] * 2)


def test_a_text_client_sees_how_each_ended(agent: Agent, session: str):
    raw = agent.raw("send", session_id=session, steps=[line("echo one"), line("echo two")])
    text = raw.content[0].text
    assert 'steps_done=2 outcomes=["ready","ready"]' in text
    assert text.index("one") < text.index("two")


def test_a_rule_and_the_audit_see_each_step(tmp_path: Path):
    policy = tmp_path / "policy.toml"
    policy.write_text('program = "bash"\n[[policy]]\ntool = "send"\nargv = ["rm", "**"]\naction = "deny"\n')
    with an_agent("--config", str(policy)) as agent:
        agent.run("PS1='$ '")
        answer = agent.call("send", steps=[line("echo one"), line("rm -r nothing"), line("echo two")])
        assert answer["steps_done"] == 1
        assert "Step 2 was not done: POLICY_DENIED" in answer["note"]
        assert "Not typed: steps 2 to 3." in answer["note"]
        assert answer["result"] is None
        assert "one" in agent.call("read")["content"]  # which is told now
        sent = [each for each in audit_lines(agent.state_dir) if each["tool"] == "send"]
        assert [(each["outcome"], each["error_code"]) for each in sent] == [("ok", None), ("denied", "POLICY_DENIED")]
        assert len({each["call_id"] for each in sent}) == 1
        refused("POLICY_DENIED", agent.call, "send", steps=[line("rm -r nothing"), line("echo two")])
        assert json.dumps(sent).count("nothing") == 0


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_question_about_a_later_step_has_no_step_typed_twice(mode: str):
    """In the newer protocol a question ends the call, which is then made again: with it, the steps before would be."""
    rule = json.dumps([{"tool": "send", "argv": ["touch", "**"], "action": "confirm"}])
    with an_agent("bash", mode=mode, person=lambda message: "accept", TMUXMCP_POLICY=rule) as agent:
        agent.run("true")
        answer = agent.call("send", steps=[line("echo one >> f"), line("touch g", wait_for="command")])
        assert agent.run("cat f")["output"] == "one\n"
        if mode == "legacy":  # it asks within the call
            assert answer["steps_done"] == 2
        else:
            assert answer["steps_done"] == 1
            assert "Step 2 was not done: POLICY_DENIED" in answer["note"]
            assert agent.call("send", steps=[line("touch g"), line("echo two")])["steps_done"] == 2
        assert len(agent.asked) >= 1


def test_all_steps_together_take_no_longer_than_one_call():
    with an_agent("--max-wait-ms", "1000", "bash") as agent:
        agent.run("true")
        sleeps = [line("sleep 0.6", wait_for="command") for _ in range(4)]
        answer = agent.call("send", steps=sleeps)
        assert [each["outcome"] for each in answer["steps"]] == ["command", "timeout"]
        assert "its outcome is timeout" in answer["note"]


def test_steps_of_a_session_that_ends_make_no_other_session():
    """Not even where the id is left out."""
    with an_agent("bash") as own:
        own.run("true")
        answer = own.call("send", steps=[line("exit 3", wait_for="idle", timeout_ms=300), line("echo elsewhere")])
        assert answer["steps_done"] == 1
        assert own.call("list_sessions")["count"] == 1
