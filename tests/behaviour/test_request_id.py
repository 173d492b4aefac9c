"""A call's `request_id` on every way in: as an argument, beside it, and after its server or its connection is gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.kit.agent import Agent, audit_lines, eventually, run_command_line
from tests.kit.service import a_service
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.faces.stdio import with_request_id

ERAS = ("legacy", "2026-07-28")


def count(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_where_it_is_looked_for():
    run, read = OPERATIONS["run"], OPERATIONS["read"]
    for given, meta, expected in (
        ({}, {"tmuxmcp/request_id": "abcdefgh"}, {"request_id": "abcdefgh"}),
        ({}, {"request_id": "abcdefgh", "progressToken": 1}, {"request_id": "abcdefgh"}),
        ({"request_id": "abcdefgh"}, {"request_id": "abcdefgh"}, {"request_id": "abcdefgh"}),
        ({"request_id": "abcdefgh"}, None, {"request_id": "abcdefgh"}),
        ({}, {"progressToken": 1}, {}),
    ):
        assert with_request_id(run, given, meta) == expected
    for operation in (read, OPERATIONS["request_user_input"]):
        assert with_request_id(operation, {}, {"request_id": "abcdefgh"}) == {}
    with pytest.raises(InvalidArgument):
        with_request_id(run, {"request_id": "abcdefgh"}, {"tmuxmcp/request_id": "ijklmnop"})
    assert with_request_id(run, {}, {"request_id": 7}) == {"request_id": 7}, "refused as every wrong argument is"


async def test_over_http_by_every_way_in_and_by_token(tmp_path: Path):
    side = tmp_path / "side"
    command = f"echo x >> {side}; sleep 0.5; echo out"
    with a_service() as service:
        service.result("run", command="true")
        given = {"command": command, "_meta": {"tmuxmcp/request_id": "over-http"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "run", "params": given}
        with service.http() as client, pytest.raises(httpx2.TimeoutException):
            client.post("/rpc", json=body, timeout=0.2)  # and the connection is closed
        result = service.result("run", **given)
        assert (result["output"], result["exit_code"]) == ("out\n", 0)
        again = service.result("run", command=command, request_id="over-http")
        assert again == result | {"replayed": True}
        for era in ERAS:
            async with service.mcp(era) as client:
                for meta in ({"tmuxmcp/request_id": "over-http"}, {"request_id": "over-http"}):
                    answer = await client.call_tool("run", {"command": command}, meta=meta)
                    assert answer.structured_content == again, era
                    assert "replayed=true" in answer.content[0].text
        assert count(side) == 1
        theirs = service.result("run", "other", command=command, request_id="over-http")
        assert (theirs["replayed"], count(side)) == (False, 2), "each token's client has ids of its own"
        # A gateway's callers each have their own, too.
        for client, number in (("a", 3), ("b", 4), ("a", 4)):
            headers = {"tmuxmcp-caller": "any", "tmuxmcp-client": client}
            with service.http(**headers) as http:
                told = http.post("/rpc", json=body).json()["result"]
            assert (told["output"], count(side)) == ("out\n", number)
        refused = service.rpc("run", command="echo another", request_id="over-http")["error"]["data"]
        assert refused["code"] == "INVALID_ARGUMENT"
        unread = service.rpc("read", _meta={"request_id": "over-http"})["error"]["data"]
        assert unread["code"] == "INVALID_ARGUMENT"
        seen = [each for each in audit_lines(service.state_dir) if each.get("request_id") == "over-http"]
        assert {"CANCELLED", None, "INVALID_ARGUMENT"} == {each["error_code"] for each in seen}
        assert any(each.get("replayed") for each in seen)
        events = (service.state_dir / "sessions" / result["session_id"] / "events.jsonl").read_text()
        assert [each["request_id"] for each in map(json.loads, events.splitlines()) if each["event"] == "noted"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_new_server_knows_what_a_killed_one_did(state_dir: Path, tmp_path: Path, mode: str):
    side, gate = tmp_path / "side", tmp_path / "gate"
    command = f"echo x >> {side}; until test -e {gate}; do sleep 0.02; done; echo out; (exit 3)"
    meta: Any = {"tmuxmcp/request_id": "over-stdio"}
    with Agent(state_dir, "bash", mode=mode) as agent:
        agent.run("true")
        agent.portal.start_task_soon(lambda: agent.client.call_tool("run", {"command": command}, meta=meta))
        eventually(side.exists)
        agent.kill()
    gate.touch()
    with Agent(state_dir, "bash", mode=mode) as agent:
        for _ in range(2):
            answer = agent.portal.call(lambda: agent.client.call_tool("run", {"command": command}, meta=meta))
            result = answer.structured_content
            assert (result["output"], result["exit_code"], result["replayed"]) == ("out\n", 3, True)
    done = run_command_line(state_dir, "run", "--request-id", "over-stdio", command, status=3)
    assert done.stdout == "out\n", "the command line is the same person's"
    assert count(side) == 1


def test_command_line(state_dir: Path, tmp_path: Path):
    side = tmp_path / "side"
    name = run_command_line(state_dir, "new", "--request-id", "make-one-1", "--", "bash").stdout
    assert run_command_line(state_dir, "new", "--request-id", "make-one-1", "--", "bash").stdout == name
    for _ in range(2):
        words = ["-s", name.strip(), "--request-id", "type-it-1", "--enter", f"echo x >> {side}; echo done"]
        assert "done" in run_command_line(state_dir, "send", *words).stdout
    assert count(side) == 1
    failed = run_command_line(state_dir, "run", "--request-id", "short", "true", status=125)
    assert "request_id" in failed.stderr
