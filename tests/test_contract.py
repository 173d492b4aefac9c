"""The contract that callers rely on, as tables: arguments and defaults, fields, errors, settings, commands, files.

What stands here is fixed. A new argument or field may be added to a table; one that is there never changes or goes.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tmuxmcp
from tests.kit.agent import Agent, an_agent
from tests.kit.cases import for_each
from tests.kit.fixtures import of_file
from tmuxmcp.config import Settings
from tmuxmcp.contract.errors import all_errors
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.faces.cli import main
from tmuxmcp.faces.cli.arguments import parse
from tmuxmcp.faces.mcp import as_tool, select

NEEDED: Any = object()
"""The argument has no default."""

WAIT = {"format": "plain", "pattern": "", "idle_ms": 300, "prompt_pattern": "", "max_bytes": 8192}

ARGUMENTS: dict[str, dict[str, Any]] = {
    "create_session": {
        "program": "", "args": [], "name": "", "rows": 24, "cols": 80, "env": {}, "cwd": "", "wait_ready": "auto",
        "ready_timeout_ms": 5000, "record": False, "sandbox": "none", "host": "", "limits": None,
        "scrollback_lines": 5000, "placement": None,
    },
    "destroy_session": {"session_id": NEEDED, "force": False, "signal": "TERM", "grace_ms": 2000},
    "list_sessions": {"include_exited": True},
    "get_session": {"session_id": ""},
    "run": {
        "command": NEEDED, "session_id": "", "stdin": None, "timeout_ms": 30_000, "idle_ms": 0, "max_bytes": 8192,
        "wait_for": "auto",
    },
    "send": WAIT | {
        "text": "", "key": "", "keys": [], "steps": [], "ctrl": False, "alt": False, "shift": False, "enter": False,
        "session_id": "", "bracketed_paste": "auto", "read": "auto", "wait_for": "ready", "timeout_ms": 5000,
    },
    "read": WAIT | {
        "session_id": "", "view": "new", "since": None, "wait_for": "none", "timeout_ms": 30_000, "offset": None,
        "limit": 1000, "command": None, "at_ms": None,
    },
    "wait": {"session_ids": [], "wait_for": "ready", "patterns": [], "timeout_ms": 30_000},
    "list_commands": {"session_id": "", "limit": 20, "before": None, "failed_only": False},
    "search": {"pattern": NEEDED, "session_id": "", "limit": 100, "context": 0},
    "resize": {"rows": None, "cols": None, "scrollback_lines": None, "session_id": ""},
    "signal": {"signal": NEEDED, "target": "foreground", "session_id": ""},
    "mouse": {"action": NEEDED, "row": None, "col": None, "on_text": "", "button": None, "session_id": ""},
    "screenshot": {"format": "png", "at_ms": None, "session_id": ""},
    "request_user_input": {"session_id": "", "message": "", "secret": False, "timeout_s": 300, "request_id": ""},
    "run_process": {
        "argv": NEEDED, "cwd": "", "env": {}, "stdin": "", "stdin_base64": "", "timeout_ms": 30_000,
        "max_output_bytes": 65_536, "limits": None,
    },
    "read_file": {"path": NEEDED, "offset": None, "max_bytes": 65_536},
    "write_file": {"path": NEEDED, "data": NEEDED, "encoding": "utf-8", "mode": None, "create_dirs": False},
    "list_directory": {"path": NEEDED},
    "git_status": {"path": NEEDED},
    "git_log": {"path": NEEDED, "limit": 20, "ref": ""},
    "git_diff": {"path": NEEDED, "ref": ""},
    "editor_action": {"action": NEEDED, "session_id": "", "line": None, "text": ""},
    "pager_action": {"action": NEEDED, "session_id": "", "text": ""},
    "r2_open": {"path": NEEDED, "args": []},
    "r2_cmd": {"r2_id": NEEDED, "command": NEEDED},
    "r2_cmdj": {"r2_id": NEEDED, "command": NEEDED},
    "r2_close": {"r2_id": NEEDED},
    "gdb_open": {"path": "", "args": [], "core": "", "pid": None},
    "gdb_cmd": {"gdb_id": NEEDED, "command": NEEDED, "timeout_ms": 10_000},
    "gdb_close": {"gdb_id": NEEDED},
    "start_recording": {"session_id": "", "path": "", "format": "cast", "input": False, "idle_limit_s": None},
    "stop_recording": {"session_id": ""},
    "export_recording": {
        "session_id": "", "format": "cast", "path": "", "from_ms": None, "to_ms": None, "command": None, "speed": 1.0,
        "idle_limit_s": None,
    },
    "health": {},
}  # fmt: skip

READ = """session_id content view cursor rows cols mode highlights outcome evidence matched waited_ms has_new_content
    truncated omitted_bytes next_offset exited exit_code effective_timeout_ms encoding command lines time"""

FIELDS = {
    "create_session": "session_id pid program args cwd rows cols mode ready attach_command",
    "destroy_session": "destroyed exit_code exit_signal duration_ms survivors",
    "list_sessions": "sessions count missing default_session_id",
    "get_session": """session_id program args pid created_at cwd rows cols cursor title mode foreground ready exited
        exit_code exit_signal healthy last_activity_at output_bytes alternate_screen recording taken_over usage
        viewers attach_command watch_url""",
    "run": """session_id output exit_code completed outcome evidence duration_ms cwd mode truncated output_bytes
        omitted_bytes start_offset end_offset effective_timeout_ms command_number""",
    "send": "session_id sent_bytes steps_done steps result",
    "read": READ,
    "list_commands": "session_id commands count",
    "wait": "session_id outcome evidence matched pattern waited_ms sessions",
    "search": "session_id matches total",
    "resize": "session_id rows cols scrollback_lines",
    "signal": "session_id delivered pids",
    "mouse": "session_id sent",
    "screenshot": "session_id rows cols",
    "request_user_input": "session_id outcome request_id duration_s attach_command",
    "run_process": "rc cwd signal stdout stderr encoding truncated duration_ms timed_out usage effective_timeout_ms",
    "read_file": "data size truncated encoding",
    "write_file": "bytes",
    "list_directory": "entries",
    "git_status": "branch files",
    "git_log": "commits",
    "git_diff": "text",
    "editor_action": "mode content",
    "pager_action": "mode content",
    "r2_open": "r2_id",
    "r2_cmd": "text",
    "r2_cmdj": "json",
    "r2_close": "closed",
    "gdb_open": "gdb_id session_id",
    "gdb_cmd": "records stopped text",
    "gdb_close": "closed",
    "start_recording": "session_id path bytes duration_s events",
    "stop_recording": "session_id path bytes duration_s events",
    "export_recording": "session_id path bytes duration_s",
    "health": "version tmux_version python_version uptime_s sessions limits checks",
}

CHOICES = {
    ("create_session", "sandbox"): "none auto required",
    ("destroy_session", "signal"): "INT TERM HUP KILL QUIT TSTP CONT USR1 USR2",
    ("send", "bracketed_paste"): "auto always never",
    ("send", "read"): "auto none new screen diff",
    ("read", "view"): "new screen diff scrollback raw",
    ("read", "format"): "plain ansi",
    ("read", "wait_for"): "none ready command idle pattern exit",
    ("send", "wait_for"): "none ready command idle pattern exit",
    ("wait", "wait_for"): "ready command pattern output exit needs_you",
    ("run", "wait_for"): "auto command",
    ("signal", "signal"): "INT TERM HUP KILL QUIT TSTP CONT USR1 USR2",
    ("signal", "target"): "foreground session",
    ("mouse", "action"): "click press release move scroll_up scroll_down",
    ("screenshot", "format"): "png svg html",
}

SETS = {
    "core": """create_session destroy_session list_sessions get_session run send read wait list_commands resize signal
        search screenshot mouse health""",
    "process": "run_process",
    "human": "request_user_input",
    "files": "read_file write_file list_directory",
    "helpers": "editor_action pager_action",
    "gdb": "gdb_open gdb_cmd gdb_close",
    "git": "git_status git_log git_diff",
    "r2": "r2_open r2_cmd r2_cmdj r2_close",
    "recording": "start_recording stop_recording export_recording",
}

CODES = """SESSION_NOT_FOUND SESSION_EXISTS SESSION_EXITED SESSION_BUSY MAX_SESSIONS NO_INPUT INVALID_KEY
    INVALID_PATTERN INVALID_ARGUMENT NOT_A_SHELL WRONG_MODE UNSUPPORTED PERMISSION_DENIED INCOMPLETE_COMMAND
    PROGRAM_NOT_FOUND CWD_NOT_FOUND POLICY_DENIED CONFIRMATION_DECLINED RESOURCE_LIMIT PATH_OUTSIDE_ROOT FILE_NOT_FOUND
    RECORDING_STATE NOT_RETAINED UNAUTHORIZED TMUX_UNAVAILABLE TMUX_ERROR IO_ERROR TIMEOUT CANCELLED INTERNAL
    NODE_UNREACHABLE OUTCOME_UNKNOWN NODE_LOST FLEET_FULL"""

SETTINGS: dict[str, Any] = {
    "program": "", "program_args": [], "cwd": "", "rows": 24, "cols": 80, "term": "tmux-256color",
    "tools": ["core", "process", "human"], "results": "auto", "on_exit": "keep", "history": "session",
    "prompt_pattern": "", "integration": True, "max_sessions": 32, "idle_timeout_s": 86_400, "max_duration_s": 0,
    "max_wait_ms": 50_000, "max_bytes": 8192, "log_max_bytes": 256 << 20, "scrollback_lines": 5000,
    "retention_days": 7, "state_max_bytes": 2 << 30, "max_input_bytes": 1 << 20, "limits": {}, "env_allow": [],
    "env": {}, "sandbox": "none", "files_root": "", "policy": [], "audit": "best-effort", "log_level": "info",
    "log_format": "text", "http": "off", "token_file": None, "allowed_hosts": [],
    "page": False,
}  # fmt: skip

COMMANDS = "serve demo new run send read list view attach watch kill log history search doctor install config"


agent = of_file(an_agent, "--tools", "all", "--max-wait-ms", "20000", "bash")


# ---- the tables ----------------------------------------------------------------------------------


def test_every_operation_is_in_the_contract():
    assert set(OPERATIONS) == set(ARGUMENTS) == set(FIELDS)


@for_each("name", ARGUMENTS)
def test_arguments_and_defaults(name: str):
    schema = as_tool(OPERATIONS[name], "both").input_schema
    given = {key: value.get("default") for key, value in schema["properties"].items()}
    given |= dict.fromkeys(schema.get("required", ()), NEEDED)
    assert {key: value for key, value in given.items() if key in ARGUMENTS[name]} == ARGUMENTS[name]
    assert schema["additionalProperties"] is False


@for_each("name", FIELDS)
def test_fields_are_always_there(name: str):
    schema = as_tool(OPERATIONS[name], "both").output_schema
    assert schema
    assert set(FIELDS[name].split()) <= set(schema["required"])


@for_each(("name", "argument"), CHOICES)
def test_choices(name: str, argument: str):
    property_ = as_tool(OPERATIONS[name], "both").input_schema["properties"][argument]
    assert set(CHOICES[name, argument].split()) <= set(property_["enum"])


def test_rows_of_the_list_say_what_runs_and_whether_it_is_well(agent: Agent):
    agent.call("create_session", program="sleep", args=["600"], name="sleeper")
    [row] = [each for each in agent.call("list_sessions")["sessions"] if each["session_id"] == "sleeper"]
    assert (row["program"], row["args"], row["healthy"]) == ("sleep", ["600"], True)
    agent.call("destroy_session", session_id="sleeper", force=True)


def test_sets_of_tools():
    for name, tools in SETS.items():
        assert set(select([name])) == set(tools.split())
    assert set(select(["all"])) == set(OPERATIONS)


def test_default_tools_are_small():
    tools = [as_tool(row, "both", whole=False) for row in select(Settings.model_fields["tools"].default).values()]
    charged = [{"name": t.name, "description": t.description, "inputSchema": t.input_schema} for t in tools]
    assert len(json.dumps(charged)) <= 12_000


def test_codes_of_errors():
    assert set(CODES.split()) <= {each.code for each in all_errors()}
    statuses = {each.code: each.exit_status for each in all_errors()}
    expected = {"SESSION_NOT_FOUND": 3, "INVALID_ARGUMENT": 2, "POLICY_DENIED": 4, "TIMEOUT": 124, "TMUX_ERROR": 1}
    assert statuses.items() >= expected.items()


def test_settings_and_their_defaults(home: Path, monkeypatch: pytest.MonkeyPatch):
    defaults = Settings().model_dump(mode="json")
    assert defaults.pop("state_dir") == str(home / ".local/state/tmuxmcp")
    assert defaults | SETTINGS == defaults
    for name in SETTINGS:
        assert "--" + name.replace("_", "-") in parse(["serve"]).parser.format_help()


@for_each("verb", COMMANDS.split())
def test_every_command_has_json(verb: str):
    word = {"search": ["pattern"], "install": ["codex"]}.get(verb, [])
    assert parse([verb, "--json", *word]).json


def test_config_as_json_is_the_whole_table(home: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["config", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert {name: table[name]["default"] for name in SETTINGS} == SETTINGS
    assert {row["origin"] for row in table.values()} == {"default"}


# ---- what it looks like from outside -------------------------------------------------------------

CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("get_session", {"session_id": "nowhere"}, "SESSION_NOT_FOUND"),
    ("create_session", {"name": "twice", "program": "cat"}, ""),
    ("create_session", {"name": "twice"}, "SESSION_EXISTS"),
    ("read", {"session_id": "twice", "wait_for": "ready"}, ""),
    ("run", {"command": "true", "session_id": "twice"}, "NOT_A_SHELL"),
    ("create_session", {"name": "a name"}, "INVALID_ARGUMENT"),
    ("create_session", {"program": "no-such-program"}, "PROGRAM_NOT_FOUND"),
    ("create_session", {"cwd": "/no/such/place"}, "CWD_NOT_FOUND"),
    ("create_session", {"record": "sometimes"}, "INVALID_ARGUMENT"),
    ("create_session", {"host": "docker:elsewhere"}, "UNSUPPORTED"),
    ("create_session", {"placement": {"node": "n1"}}, "UNSUPPORTED"),
    ("create_session", {"placement": {"rack": "n1"}}, "INVALID_ARGUMENT"),
    ("create_session", {"record": False, "host": "", "program": "cat"}, ""),
    ("create_session", {"rows": 501}, "INVALID_ARGUMENT"),
    ("run", {"command": "echo 'open"}, "INCOMPLETE_COMMAND"),
    ("run", {"command": "true", "max_bytes": (16 << 20) + 1}, "INVALID_ARGUMENT"),
    ("send", {}, "NO_INPUT"),
    ("send", {"text": "not typed", "keys": ["Enter", "Nokey"]}, "INVALID_KEY"),
    ("send", {"text": "a", "wait_for": "pattern", "pattern": "("}, "INVALID_PATTERN"),
    ("read", {"unknown": 1}, "INVALID_ARGUMENT"),
    ("mouse", {"action": "click", "row": 0, "col": 0}, "WRONG_MODE"),
    ("read_file", {"path": "/no/such/file"}, "FILE_NOT_FOUND"),
    ("destroy_session", {}, "INVALID_ARGUMENT"),
    ("no_such_tool", {}, "INVALID_ARGUMENT"),
]


def test_errors_have_one_form(agent: Agent):
    for name, arguments, code in CALLS:
        answer = agent.raw(name, **arguments)
        assert len(answer.meta["tmuxmcp/call"]) == 12
        assert answer.is_error == bool(code), answer
        if not code:
            continue
        error = answer.meta["tmuxmcp/error"]
        assert set(error) == {"code", "message", "retryable", "hint", "details"}
        assert error["code"] == code
        assert answer.content[0].text == f"{code}: {error['message']} Hint: {error['hint']}"
        assert answer.structured_content is None


def test_a_wait_is_clamped_and_says_so(agent: Agent):
    assert agent.run("true", timeout_ms=60_000)["effective_timeout_ms"] == 20_000
    assert agent.call("read", wait_for="ready", timeout_ms=60_000)["effective_timeout_ms"] == 20_000
    assert agent.call("run_process", argv=["true"], timeout_ms=60_000)["effective_timeout_ms"] == 20_000
    assert agent.run("true")["effective_timeout_ms"] == 20_000  # of 30000 by default


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ({}, "immediate"),
        ({"wait_for": "ready"}, "ready"),
        ({"wait_for": "idle", "idle_ms": 10}, "idle"),
        ({"wait_for": "exit", "timeout_ms": 1}, "timeout"),
        ({"wait_for": "pattern", "pattern": "never", "timeout_ms": 1}, "timeout"),
    ],
)
def test_words_for_the_end_of_a_wait(agent: Agent, arguments: dict[str, Any], outcome: str):
    assert agent.call("read", **arguments)["outcome"] == outcome


def test_a_default_session_is_made_anew_and_said_so(agent: Agent):
    ended = agent.run("exit 3")
    assert (ended["outcome"], ended["exit_code"]) == ("exited", 3)
    anew = agent.run("true")
    assert ended["session_id"] in anew["note"]
    agent.call("destroy_session", session_id=anew["session_id"], force=True)
    again = agent.run("true")
    assert anew["session_id"] in again["note"]
    assert agent.run("true")["note"] is None


def test_a_footer_is_the_last_line(agent: Agent):
    first, last = agent.raw("run", command="echo hi; false").content[0].text.splitlines()
    assert first == "hi"
    assert last.startswith("[exit_code=1 duration_ms=")
    assert last.endswith("]")


def test_since_moves_no_cursor_and_raw_is_base64(agent: Agent):
    begun = agent.run("printf 'one\\ntwo\\n'")
    since = {"since": begun["start_offset"], "max_bytes": 5}
    agent.call("read")
    agent.run("true")
    agent.call("read", wait_for="ready")  # the prompt moves the terminal's cursor
    piece = agent.call("read", **since)
    assert (piece["content"], piece["next_offset"] - begun["start_offset"]) == ("one\n", 5)
    raw = agent.call("read", view="raw", **since)
    assert (raw["content"], raw["encoding"]) == ("b25lDQo=", "base64")
    changing = ("waited_ms", "time")  # times are noted now and then; of what came late on a busy machine none is
    again = agent.call("read", **since)
    assert all(again[name] == value for name, value in piece.items() if name not in changing)


@pytest.mark.parametrize(
    ("paste", "text", "result"),
    [
        ("auto", "echo a\necho b\n", "a\nb"),
        ("auto", "echo a\necho b", ""),
        ("always", "echo a\necho b", ""),
        ("never", "echo a\necho b", "a"),
        ("always", "x", ""),
        ("auto", "echo a\n", "a"),
    ],
)
def test_bracketed_paste(agent: Agent, paste: str, text: str, result: str):
    """Brackets go round text once, and no newline inside of them runs anything."""
    seen = agent.call("send", text=text, bracketed_paste=paste)
    screen = agent.call("read", view="screen")["content"]
    agent.call("send", key="C-c")
    assert seen["sent_bytes"] == len(text)
    assert "200~" not in screen
    printed = [line for line in seen["result"]["content"].splitlines() if line in ("a", "b")]
    assert printed == result.split()


def test_files_are_the_owners_alone(agent: Agent):
    agent.run("true")
    ours = [Path(top, name) for top, directories, files in os.walk(agent.state_dir) for name in (*directories, *files)]
    for path in (agent.state_dir, *ours):
        with suppress(FileNotFoundError):  # some of them come and go
            assert "home" in path.parts or stat.S_IMODE(path.lstat().st_mode) & 0o077 == 0, path
    session = agent.state_dir / "sessions" / agent.run("true")["session_id"]
    assert {"meta.json", "out.raw", "events.jsonl"} <= {path.name for path in session.iterdir()}


@pytest.mark.parametrize(("end", "code", "name"), [("exit 3", 3, None), ("kill -9 $$", None, "KILL")])
def test_what_happened_is_written_down_without_what_was_typed(agent: Agent, end: str, code: int, name: str | None):
    session_id = agent.call("create_session", program="bash")["session_id"]
    agent.run("true # typed", session_id=session_id)
    agent.call("resize", session_id=session_id, rows=30, cols=100)
    agent.call("send", session_id=session_id, text=end, enter=True, wait_for="exit")
    text = (agent.state_dir / "sessions" / session_id / "events.jsonl").read_text()
    events = [json.loads(line) for line in text.splitlines()]
    # Who has typed and the launcher write the last two: whoever is first.
    assert [event["event"] for event in events[:2]] == ["input", "resize"]
    typed, over = sorted(events[2:], key=lambda event: event["event"], reverse=True)
    assert (typed["event"], over["event"]) == ("input", "exit")
    assert (over["exit_code"], over["exit_signal"]) == (code, name)
    assert over["offset"] == agent.call("read", session_id=session_id)["next_offset"]
    assert "typed" not in text
    assert "kill" not in text


def test_the_library_has_the_same_operations(state_dir: Path, home: Path):
    async def use() -> tuple[str, int | None]:
        async with tmuxmcp.open_broker(Settings(state_dir=state_dir, program="bash")) as broker:
            result = await broker.run("echo hi; (exit 4)")
            assert all(callable(getattr(broker, name)) for name in OPERATIONS)
            return result.output, result.exit_code

    assert asyncio.run(use()) == ("hi\n", 4)
