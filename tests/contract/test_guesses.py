"""What a caller writes who guesses: each guess is understood, or answered with the right call, and does nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.agent import Agent, ToolFailed, an_agent
from tests.kit.fixtures import of_file
from tmuxmcp.contract import guesses
from tmuxmcp.contract.operations import OPERATIONS

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("run", {"command": "x", "timeout": 30}, "timeout_ms=30000 for 30 s, timeout_ms=30 for 30 ms"),
    ("run", {"command": "x", "timeout_seconds": 0.5}, "timeout_ms=500 for 0.5 s"),
    ("run", {"command": "x", "timeout_ms": "500"}, "Give timeout_ms=500, without quotes."),
    ("run", {"command": "x", "cwd": "/tmp"}, 'command="cd DIR && ..."'),
    ("run", {"command": "x", "env": {"A": "b"}}, 'command="NAME=value ..."'),
    ("run", {"cmd": "x"}, "Did you mean command by cmd?"),
    ("run", {"command": ["ls", "a b"]}, "Give command=\"ls 'a b'\""),
    ("run", {"command": "x", "run_in_background": True}, "wait_for=command waits on"),
    ("run", {"command": "x", "session": "a"}, "Did you mean session_id by session?"),
    ("run", {"command": "x", "session_id": None}, "Leave session_id out."),
    ("run", {"command": "x", "input": "y"}, "Did you mean stdin by input?"),
    ("create_session", {"command": "gdb -q ./x"}, 'Give program="gdb", args=["-q", "./x"]'),
    ("create_session", {"program": "gdb", "args": "-q x"}, 'Give args=["-q", "x"].'),
    ("create_session", {"session_id": "a"}, "Did you mean name by session_id?"),
    ("create_session", {"width": 100, "height": 40}, "Did you mean cols by width? Did you mean rows by height?"),
    ("create_session", {"working_dir": "/tmp"}, "Did you mean cwd by working_dir?"),
    ("create_session", {"env": ["A=b"]}, 'Give env={"NAME": "value"}.'),
    ("create_session", {"program": "ls -l"}, "args"),
    ("run_process", {"command": "ls -l"}, 'Give argv=["ls", "-l"]'),
    ("run_process", {"argv": "ls"}, 'Give argv=["ls"].'),
    ("run_process", {"argv": ["ls"], "timeout": 5}, "timeout_ms=5000 for 5 s"),
    ("run_process", {"argv": ["ls"], "shell": True}, "run has one"),
    ("send", {"command": "ls"}, "Give text and enter=true"),
    ("send", {"input": "ls"}, "Did you mean text by input?"),
    ("send", {"text": "ls", "press_enter": True}, "Did you mean enter by press_enter?"),
    ("send", {"text": "ls", "wait_for": "prompt"}, "Did you mean wait_for=ready?"),
    ("send", {"text": "ls", "pattern": "done"}, "Give wait_for=pattern."),
    ("send", {"keys": ["ls", "Enter"]}, "Hint: One key an element, as in `C-c`; send text as `text`."),
    ("read", {"lines": 20}, "view=scrollback, limit=N"),
    ("read", {"strip_ansi": True}, "text is clean"),
    ("read", {"pattern": "done"}, "Give wait_for=pattern."),
    ("read", {"wait_for": True}, "Give wait_for=ready."),
    ("read", {"regex": "x"}, "Did you mean pattern by regex?"),
    ("search", {"query": "x"}, "Did you mean pattern by query?"),
    ("wait", {"session_id": "a"}, "Did you mean session_ids by session_id?"),
    ("wait", {"session_ids": "a"}, 'Give session_ids=["a"].'),
    ("destroy_session", {"name": "a"}, "Did you mean session_id by name?"),
    ("destroy_session", {}, "session_id"),
    ("signal", {"name": "INT"}, "Did you mean signal by name?"),
    ("resize", {"width": 100}, "Did you mean cols by width?"),
    ("mouse", {"action": "click", "x": 1, "y": 2}, "Did you mean col by x? Did you mean row by y?"),
    ("request_user_input", {"prompt": "x"}, "Did you mean message by prompt?"),
    ("request_user_input", {"message": "x", "timeout_ms": 5000}, "5000 ms are 5 s"),
    ("list_commands", {"count": 3}, "Did you mean limit by count?"),
    ("bash", {"command": "ls"}, "Did you mean run?"),
    ("terminal__send_keys", {"keys": "C-c"}, "Did you mean send?"),
    ("read_output", {}, "Did you mean read?"),
    ("fs.readFile", {"path": "x"}, "read_file does that, but is not offered here"),
]

UNDERSTOOD: list[tuple[str, dict[str, Any]]] = [
    ("send", {"keys": "C-c"}),
    ("send", {"key": "ctrl+c"}),
    ("send", {"key": "c", "ctrl": True}),
    ("send", {"keys": ["ctrl_c", "<enter>"]}),
    ("send", {"keys": [{"text": "echo hi"}, "Enter"]}),
    ("send", {"text": "echo hi\n"}),
    ("signal", {"signal": "SIGINT"}),
    ("read", {"view": "screen", "timeout_ms": 0}),
]


agent = of_file(an_agent, "bash", first="true")


@pytest.mark.parametrize(("tool", "arguments", "right"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_guess_is_answered_with_the_right_call(agent: Agent, tool: str, arguments: dict[str, Any], right: str):
    before = agent.call("list_sessions")["count"]
    with pytest.raises(ToolFailed) as failed:
        agent.call(tool, **arguments)
    assert right in str(failed.value)
    assert failed.value.code in ("INVALID_ARGUMENT", "INVALID_KEY", "PROGRAM_NOT_FOUND")
    assert agent.call("list_sessions")["count"] == before


def test_nothing_was_typed_by_a_guess(agent: Agent):
    assert agent.call("read", view="screen")["content"].strip().count("\n") == 1  # echo of `true`, and the prompt


@pytest.mark.parametrize(("tool", "arguments"), UNDERSTOOD, ids=lambda value: str(value)[:40])
def test_a_guess_is_understood(agent: Agent, tool: str, arguments: dict[str, Any]):
    agent.call(tool, **arguments)


def test_what_is_advised_exists():
    known = {name for row in OPERATIONS.values() for name in row.arguments}
    assert {*guesses.COMMON_SYNONYMS.values()} <= known
    assert {*guesses.OTHER_TOOL_NAMES.values()} <= OPERATIONS.keys()
    for name, others in guesses.ARGUMENT_NAMES.items():
        assert {*others.values()} <= OPERATIONS[name].arguments.keys()
        assert not others.keys() & OPERATIONS[name].arguments.keys()
    for name, others in guesses.INSTEAD_OF_ARGUMENT.items():
        assert not others.keys() & OPERATIONS[name].arguments.keys()
    for name in guesses.WAIT_FOR_SYNONYMS.values():
        assert name in ("ready", "command", "pattern", "idle", "exit")
