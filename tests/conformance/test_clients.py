"""The official clients call every tool in each era that they speak: TypeScript 1.x and 2.x, Python; the Inspector."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.kit import forks
from tests.kit.agent import Agent
from tests.kit.clients import MODULES, node
from tmuxmcp.contract.operations import OPERATIONS

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
INSPECTOR = MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
ONE = {"session_id": "one"}


R2 = {"r2_open", "r2_cmd", "r2_cmdj", "r2_close"}
"""Called in vain: there may be no radare2."""


def calls(files: Path) -> list[tuple[str, dict[str, Any]]]:
    """One call of each tool at least."""
    path = str(files / "a.txt")
    return [
        ("create_session", {"name": "one"}),
        ("run", ONE | {"command": "printf 'a\\n\\u754c\\n'; false"}),
        ("list_commands", ONE),
        ("wait", {"session_ids": ["one"], "wait_for": "ready", "timeout_ms": 5000}),
        ("send", ONE | {"text": "cat", "enter": True}),
        ("read", ONE | {"view": "screen"}),
        ("mouse", ONE | {"action": "click", "row": 1, "col": 1}),
        ("editor_action", ONE | {"action": "save"}),
        ("pager_action", ONE | {"action": "quit"}),
        ("signal", ONE | {"signal": "INT"}),
        ("search", ONE | {"pattern": "^a$"}),
        ("resize", ONE | {"rows": 30, "cols": 90}),
        ("screenshot", ONE),
        ("get_session", ONE),
        ("list_sessions", {}),
        ("request_user_input", ONE | {"message": "nothing", "timeout_s": 1}),
        ("run_process", {"argv": ["printf", "%s", "x y"]}),
        ("write_file", {"path": path, "data": "hi"}),
        ("read_file", {"path": path}),
        ("list_directory", {"path": str(files)}),
        ("run_process", {"argv": ["git", "init", "-q", str(files)]}),
        ("git_status", {"path": str(files)}),
        ("git_log", {"path": str(files)}),
        ("git_diff", {"path": str(files)}),
        ("r2_open", {"path": str(files / "not there")}),
        ("r2_cmd", {"r2_id": "r2_0", "command": "i"}),
        ("r2_cmdj", {"r2_id": "r2_0", "command": "ij"}),
        ("r2_close", {"r2_id": "r2_0"}),
        ("gdb_open", {"path": "/bin/true"}),
        ("gdb_cmd", {"gdb_id": "gdb_0", "command": "bt"}),
        ("gdb_close", {"gdb_id": "gdb_0"}),
        ("start_recording", ONE),
        ("stop_recording", ONE),
        ("export_recording", ONE | {"format": "txt"}),
        ("health", {}),
        ("run", ONE | {"command": 1}),
        ("destroy_session", ONE),
    ]


def check(results: list[dict[str, Any]], wanted: list[tuple[str, dict[str, Any]]]) -> None:
    """Each call came back as it has to; the mistakes with their codes."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for (name, _), result in zip(wanted, results, strict=True):
        assert "thrown" not in result, (name, result)
        by_name.setdefault(name, []).append(result)
    assert by_name.keys() == OPERATIONS.keys()
    ran, wrong = by_name["run"]
    assert ran["structuredContent"]["output"] == "a\n界\n"
    assert (ran["structuredContent"]["exit_code"], ran["content"][0]["type"]) == (1, "text")
    assert wrong["isError"]
    assert wrong["content"][0]["text"].startswith("INVALID_ARGUMENT: ")
    for name in ("mouse", "editor_action", "pager_action"):  # cat asks for no mouse, edits and pages nothing
        [wrong_mode] = by_name[name]
        assert wrong_mode["content"][0]["text"].startswith("WRONG_MODE: ")
    assert [block["type"] for block in by_name["screenshot"][0]["content"]] == ["image", "text"]
    assert by_name["r2_open"][0]["content"][0]["text"].startswith("FILE_NOT_FOUND: ")
    for name in ("r2_cmd", "r2_cmdj", "r2_close"):
        assert by_name[name][0]["content"][0]["text"].startswith("SESSION_NOT_FOUND: ")
    failed = {name for name, each in by_name.items() if any(result.get("isError") for result in each)}
    failed -= {"gdb_open"}  # where there is no gdb
    unknown = {"gdb_cmd", "gdb_close"}  # of a debugger that is not there
    wanted = R2 | {"run", "mouse", "editor_action", "pager_action"} | unknown
    assert failed == wanted, [by_name[name] for name in failed]


@pytest.mark.parametrize(("line", "era"), [("1", "legacy"), ("2", "legacy"), ("2", "auto")])
def test_typescript_client_calls_every_tool(state_dir: Path, tmp_path: Path, line: str, era: str) -> None:
    if not (MODULES / "@modelcontextprotocol" / "client").exists():
        pytest.skip("needs the TypeScript SDKs: scripts/clients installs them")
    wanted = calls(tmp_path)
    script = tmp_path / "calls.json"
    script.write_text(json.dumps(wanted))
    words = ("--tools", "all", "--state-dir", str(state_dir), "--program", "bash")
    server = (str(forks.command(tmp_path)), "serve", *words)
    said = node(HERE / "drive.mjs", str(MODULES), line, era, str(script), *server, home=tmp_path)
    assert said.returncode == 0, said.stderr
    told = json.loads(said.stdout)
    assert told["version"]["name"] == "tmuxmcp"
    assert set(told["tools"]) == OPERATIONS.keys()
    check(told["results"], wanted)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_python_client_calls_every_tool(state_dir: Path, tmp_path: Path, mode: str) -> None:
    wanted = calls(tmp_path)
    with Agent(state_dir, "--tools", "all", "--program", "bash", mode=mode) as agent:
        answers = [agent.raw(name, **arguments) for name, arguments in wanted]
    check([answer.model_dump(mode="json", by_alias=True, exclude_none=True) for answer in answers], wanted)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector_finds_every_schema_portable(state_dir: Path, tmp_path: Path, era: str) -> None:
    server = (str(forks.command(tmp_path)), "serve", "--tools", "all", "--state-dir", str(state_dir))
    words = ("--cli", *server, "--protocol-era", era, "--method", "tools/list", "--strict", "--format", "json")
    done = node(INSPECTOR, *words, home=tmp_path, cwd=Path(os.getcwd()))
    assert done.returncode == 0, done.stdout + done.stderr
    assert {tool["name"] for tool in json.loads(done.stdout)["result"]["tools"]} == OPERATIONS.keys()
