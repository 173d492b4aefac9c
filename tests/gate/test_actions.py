from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Parsed
from tests.kit.cases import for_each
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.requests import Send
from tmuxmcp.gate.actions import ShellContext, TypedLine, action_of, line_after, pending_after
from tmuxmcp.gate.policy.judge import Action
from tmuxmcp.gate.policy.shelltext import UNKNOWN_COMMAND

SHELL = ShellContext("a", "/w", "shell_prompt", "bash")


@for_each(
    ("pending", "text", "keys", "result"),
    [
        ("", "ls", [], TypedLine("", "ls", False)),
        ("", "ls", ["Enter"], TypedLine("ls\n", "", True)),
        ("l", "s\n", [], TypedLine("ls\n", "", True)),
        ("", "a\r\nb", [], TypedLine("a\n\n", "b", True)),
        ("", "a\nb", ["C-m"], TypedLine("a\nb\n", "", True)),
        ("rm x", "", ["C-u", "l", "s", "Space", "Enter"], TypedLine("ls \n", "", True)),
        ("rm x", "y", ["C-c"], TypedLine("", "", False)),
        ("", "l", ["Tab"], TypedLine("", None, False)),
        ("", "", ["Up", "Enter"], TypedLine(None, "", True)),
        (None, "ls", ["Enter"], TypedLine(None, "", True)),
        (None, "", ["C-u", "l", "Enter"], TypedLine("l\n", "", True)),
        ("rm", "", ["C-d", "C-z", "Enter"], TypedLine("rm\n", "", True)),
        ("rm", "", ["C-a", "C-d", "Enter"], TypedLine(None, "", True)),
        ("rm", "", ["M-a"], TypedLine("rm\n", None, True)),
        ("", "rm\x0f", [], TypedLine("rm\n", "", True)),
        ("", "l\x08s", ["Enter"], TypedLine(None, "", True)),
        ("", "x" * 70_000, ["Enter"], TypedLine(None, "", True)),
        ("", "Up", ["Enter"], TypedLine("Up\n", "", True)),
    ],
)
def test_what_a_shell_gets(pending: str | None, text: str, keys: list[str], result: TypedLine):
    assert line_after(pending, text, keys) == result


Acting = Callable[..., Action]


@pytest.fixture
def action(commands: Parsed) -> Acting:
    def act(
        tool: str, place: ShellContext = SHELL, pending: str | None = "", base: str = "/base", **arguments: Any
    ) -> Action:
        request = OPERATIONS[tool].parse(arguments)
        return commands.portal.call(action_of, request, place, commands.parsing, pending, ["/bin/bash", "-l"], base)

    return act


@pytest.fixture
def programs(action: Acting) -> Callable[..., list[str | None]]:
    return lambda *words, **arguments: [command.program for command in action(*words, **arguments).commands]


def test_what_would_run(programs: Callable[..., list[str | None]]):
    assert programs("run", command="a; b $(c)") == ["a", "b", "c"]
    assert programs("send", text="a", enter=True) == ["a"]
    assert programs("send", text="a") == []
    assert programs("send", text="m x", key="Enter", pending="r") == ["rm", "m"]
    assert programs("send", text="rm #'", enter=True, pending="echo '") == ["echo", "rm"]  # cleared, or not
    assert programs("send", key="m", ctrl=True, pending="rm") == ["rm"]
    assert programs("send", key="NoSuchKey", text="a") == []
    assert programs("create_session", program="sudo", args=["rm"]) == ["sudo", "rm"]
    assert programs("create_session") == ["/bin/bash"]
    assert programs("create_session", args=["-c", "rm x"]) == ["/bin/bash", "rm"]
    assert programs("run_process", argv=["env", "rm"]) == ["env", "rm"]
    assert programs("read") == []


@pytest.mark.parametrize(
    ("place", "program"),
    [
        (SHELL, "a"),
        (ShellContext(), "a"),  # no session yet: a shell will be made
        (ShellContext("a", "/w", "unknown", "ssh"), "a"),
        (ShellContext("a", "/w", "line_input", "python3", hidden=True), "a"),
        (ShellContext("a", "/w", "line_input", "bash"), "a"),
        (ShellContext("a", "/w", "line_input", "python3"), "python3"),
        (ShellContext("a", "/w", "password", "bash", secret=True), "bash"),
    ],
)
def test_text_is_a_command_where_a_shell_may_read_it(
    programs: Callable[..., list[str | None]], place: ShellContext, program: str | None
):
    assert programs("send", place, text="a", enter=True) == [program]


def test_what_nobody_reads_yet_may_be_a_command(programs: Callable[..., list[str | None]], action: Acting):
    busy = ShellContext("a", "/w", "running", "sleep")
    assert programs("send", busy, text="a", enter=True) == ["sleep", "a"]
    assert programs("send", busy, text="a") == ["sleep"]
    assert programs("send", ShellContext("a", "/w", "running", ""), text="a", enter=True) == [None, "a"]
    assert action("send", busy, text="a", enter=True).text == "a\n"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("run", {"command": "bash", "stdin": "rm x"}),
        ("run", {"command": "env sh -s", "stdin": "rm x"}),
        ("run", {"command": "sh /dev/stdin", "stdin": "rm x"}),
        ("run", {"command": ". /dev/stdin", "stdin": "rm x"}),
        ("run", {"command": "ssh h", "stdin": "rm x"}),
        ("run_process", {"argv": ["sh"], "stdin": "rm x"}),
        ("run_process", {"argv": ["sh"], "stdin_base64": "cm0geA=="}),
    ],
)
def test_commands_that_a_shell_is_given_to_read_cannot_be_known(action: Acting, tool: str, arguments: dict[str, Any]):
    assert UNKNOWN_COMMAND.argv in [each.argv for each in action(tool, **arguments).commands]
    without = {name: value for name, value in arguments.items() if "stdin" not in name}
    assert UNKNOWN_COMMAND.argv not in [each.argv for each in action(tool, **without).commands]


def test_lines_of_the_history_cannot_be_known(action: Acting):
    assert action("send", keys=["Up", "Enter"]).commands == (UNKNOWN_COMMAND,)
    assert pending_after("", Send(key="Up")) is None


def test_keys_of_text_and_of_keys(action: Acting):
    assert action("send", text="a\x03\x1b\t\n", keys=["^D", "x"], enter=True).keys == (
        "C-c",
        "Escape",
        "Tab",
        "Enter",
        "C-d",
        "x",
        "Enter",
    )


def test_files_are_told_by_both_of_their_names(action: Acting, tmp_path: Path):
    (tmp_path / "link").symlink_to("/etc")
    looked = action("read_file", ShellContext(), base=str(tmp_path), path="link/passwd")
    assert set(looked.paths) == {str(tmp_path / "link/passwd"), "/etc/passwd"}
    assert action("create_session", ShellContext(), cwd="/x/../y").paths == ("/y",)
