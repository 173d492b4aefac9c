from __future__ import annotations

import base64
import json
import logging
import os
import re
import subprocess
import sys
from functools import partial

import anyio
import pytest
from mcp import Client
from mcp.types import Implementation

from tests.conftest import SLOW
from tests.kit.double import EXAMPLES, READ, REQUIRED, RUN, Double, source
from tmuxmcp import __version__
from tmuxmcp.contract.errors import TmuxUnavailable
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.request import Seldom
from tmuxmcp.contract.value import asdict, fields, replace
from tmuxmcp.faces import mcp
from tmuxmcp.faces.mcp import INSTRUCTIONS, McpFace, as_result, as_tool, lean, select, stdio_identity
from tmuxmcp.faces.text import footer, portable, render


@pytest.fixture
def double():
    return Double()


@pytest.fixture
def connect(mode, double):
    def connect(**options):
        return Client(McpFace(partial(source, double), caller=lambda: "me", **options).server(), mode=mode)

    return connect


async def tools_of(client):
    return {tool.name: tool for tool in (await client.list_tools()).tools}


async def test_server_says_who_it_is(connect, mode):
    async with connect() as client:
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        assert (client.server_info.name, client.server_info.version) == ("tmuxmcp", __version__)
        assert client.server_info.website_url is None
        assert client.instructions == INSTRUCTIONS


def test_instructions_fit_what_clients_show():
    assert len(INSTRUCTIONS.encode()) < 2048  # Claude Code cuts there
    assert INSTRUCTIONS.index("`run`") < 200


async def test_tools_are_described_when_they_are_asked_for_and_once(connect, monkeypatch):
    described = []

    def counted(operation, *rest, **how):
        described.append(operation.name)
        return as_tool(operation, *rest, **how)

    monkeypatch.setattr(mcp, "as_tool", counted)
    async with connect(results="auto") as client:
        assert not described
        for _ in range(2):
            await client.list_tools()
        assert described == list(select(["core", "process", "human"]))


async def test_tools_are_the_table_in_its_order(connect):
    async with connect() as client:
        assert list(await tools_of(client)) == list(select(["core", "process", "human"]))
    async with connect(tools=["all"]) as client:
        assert list(await tools_of(client)) == list(OPERATIONS)
    async with connect(tools=[]) as client:
        assert await tools_of(client) == {}


async def test_tools_carry_all_hints(connect):
    async with connect() as client:
        for name, tool in (await tools_of(client)).items():
            row, hints = OPERATIONS[name], tool.annotations
            assert tool.title == row.title
            assert (hints.read_only_hint, hints.destructive_hint) == (row.read_only, row.destructive)
            assert (hints.idempotent_hint, hints.open_world_hint) == (row.repeatable, row.open_world)
            large = "anthropic/maxResultSizeChars" in (tool.meta or {})
            assert large == (name in ("run", "send", "read", "run_process", "read_file"))


async def test_models_are_charged_little_for_the_tools(connect):
    async with connect() as client:
        charged = [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
            for tool in (await tools_of(client)).values()
        ]
    assert len(json.dumps(charged, separators=(",", ":")).encode()) <= 12_000


async def test_arguments_that_are_seldom_needed_stand_in_whole_schemas_alone(connect):
    def seldom(name):
        return set(OPERATIONS[name].marks(Seldom))

    async with connect() as client:
        for name, tool in (await tools_of(client)).items():
            assert set(tool.input_schema["properties"]) == set(OPERATIONS[name].arguments) - seldom(name)
    async with connect(tools=["all"]) as client:
        for name, tool in (await tools_of(client)).items():
            assert set(tool.input_schema["properties"]) == set(OPERATIONS[name].arguments)
    assert {"ctrl", "idle_ms"} <= seldom("send")
    assert "idle_ms" not in seldom("read")
    for name in {name for operation in OPERATIONS for name in seldom(operation)}:
        assert name in INSTRUCTIONS


async def test_schemas_are_closed_typed_and_lean(connect):
    def check(schema):
        assert "title" not in schema or isinstance(schema["title"], dict)
        assert schema.keys() & {"type", "anyOf", "enum", "const", "$ref"}, f"any value goes: {schema}"
        if schema.get("type") == "object":
            assert "additionalProperties" in schema
        for inner in (
            *schema.get("properties", {}).values(),
            *schema.get("$defs", {}).values(),
            *schema.get("anyOf", ()),
        ):
            check(inner)
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                check(schema[key])

    async with connect() as client:
        for tool in (await tools_of(client)).values():
            for schema in (tool.input_schema, tool.output_schema):
                assert schema["type"] == "object"
                assert schema["additionalProperties"] is False
                check(schema)
        run = (await tools_of(client))["run"]
        assert run.input_schema["properties"]["timeout_ms"]["default"] == 30_000
        assert run.input_schema["required"] == ["command"]
        assert list(run.output_schema["properties"])[-1] == "output"


def test_lean_keeps_a_field_that_is_called_title():
    assert lean({"title": "X", "properties": {"title": {"title": "Title", "type": "string"}}}) == {
        "properties": {"title": {"type": "string"}}
    }


async def test_every_result_fits_its_schema_and_says_all_twice(connect):
    async with connect(tools=["all"]) as client:
        await client.list_tools()  # the SDK's client holds results against the schemas it has seen
        for name in OPERATIONS:
            answer = await client.call_tool(name, REQUIRED.get(name, {}))
            assert not answer.is_error, name
            example = asdict(EXAMPLES[name])
            assert answer.structured_content == (example | {"data": None} if name == "screenshot" else example), name
            assert list(answer.structured_content) == list(fields(EXAMPLES[name])), name
            assert [block.text for block in answer.content if block.type == "text"] == [render(EXAMPLES[name])], name


@pytest.mark.parametrize(
    ("update", "kind", "mime_type"),
    [
        ({"format": "png", "mime_type": "image/png", "data": "iVBORw=="}, "image", "image/png"),
        ({"format": "svg", "mime_type": "image/svg+xml", "data": "<p>"}, "resource", "image/svg+xml"),
        ({"format": "html", "mime_type": "text/html", "data": "<p>"}, "resource", "text/html"),
    ],
)
async def test_a_picture_is_a_block_of_its_own(update, kind, mime_type):
    shot = replace(EXAMPLES["screenshot"], **update)
    picture, text = as_result(shot, "both", "call").content
    assert picture.type == kind
    if kind == "image":
        assert picture.mime_type == mime_type
        assert base64.b64decode(picture.data) == b"\x89PNG"
    else:
        assert (picture.resource.mime_type, picture.resource.text) == (mime_type, "<p>")
    assert "rows=24 cols=80" in text.text
    assert "data" not in text.text


async def test_results_as_text_only(connect):
    async with connect(results="text") as client:
        assert all(tool.output_schema is None for tool in (await tools_of(client)).values())
        answer = await client.call_tool("read", {})
    assert answer.structured_content is None
    assert answer.content[0].text == render(READ)
    assert answer.meta["tmuxmcp/result"] == asdict(READ)


@pytest.mark.parametrize(
    ("name", "text"), [("claude-code", True), ("qwen-cli-mcp-client-tmuxmcp", True), ("mine", False)]
)
async def test_results_as_the_client_shows_them(connect, name, text):
    client = connect(results="auto")
    client.client_info = Implementation(name=name, version="1")
    async with client:
        tools = await tools_of(client)
        answer = await client.call_tool("read", {})
    assert (tools["read"].output_schema is None, answer.structured_content is None) == (text, text)
    assert answer.content[0].text == render(READ)


async def test_results_as_structure_only(connect):
    async with connect(results="structured") as client:
        answer = await client.call_tool("run", {"command": "true"})
    assert answer.structured_content["output"] == "hi\n"
    assert answer.content[0].text == footer(RUN)


async def test_broker_learns_who_calls_and_clients_the_call_id(connect, double):
    async with connect() as client:
        answer = await client.call_tool("read", {"view": "screen"})
        failed = await client.call_tool("run", {"command": "missing"})
    (name, arguments, first), (_, _, second) = double.calls
    assert (name, arguments) == ("read", {"view": "screen"})
    assert first.caller == "me"
    assert answer.meta["tmuxmcp/call"] == first.call_id
    assert failed.meta["tmuxmcp/call"] == second.call_id != first.call_id
    for each in (answer, failed):
        assert 0 <= each.meta["tmuxmcp/duration_ms"] < 60_000
        assert isinstance(each.meta["tmuxmcp/duration_ms"], int)


@pytest.mark.parametrize("text", ["null", "[1]", '{"a":1}', "true", "1", " ", "\x00\x1b"])
async def test_free_text_arrives_as_it_was_sent(connect, double, text):
    async with connect() as client:
        await client.call_tool("send", {"text": text, "keys": ["null"]})
    assert double.calls[0][1] == {"text": text, "keys": ["null"]}


async def test_error_has_its_code_in_the_text(connect):
    async with connect() as client:
        answer = await client.call_tool("run", {"command": "missing"})
    assert answer.is_error
    assert answer.structured_content is None
    assert answer.content[0].text == "SESSION_NOT_FOUND: No session x. Hint: list_sessions lists them."
    assert answer.meta["tmuxmcp/error"] == {
        "code": "SESSION_NOT_FOUND",
        "message": "No session x.",
        "retryable": False,
        "hint": "list_sessions lists them.",
        "details": {"session_id": "x", "at": "b'\\xff'"},
    }


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("run", {"command": 1}, "command"),
        ("run", {"command": "true", "timeout_ms": "5"}, "timeout_ms"),
        ("run", {"command": "true", "bogus": 1}, "bogus"),
        ("run", None, "command"),
        ("no_such_tool", {}, "Tools: create_session, "),
        ("x" * 10_000, {}, "Tools: create_session, "),
    ],
)
async def test_wrong_calls_are_tool_errors(connect, double, name, arguments, said):
    async with connect() as client:
        answer = await client.call_tool(name, arguments)
    assert answer.is_error
    assert answer.meta["tmuxmcp/error"]["code"] == "INVALID_ARGUMENT"
    assert answer.meta["tmuxmcp/call"]
    text = answer.content[0].text
    assert text.startswith("INVALID_ARGUMENT: ")
    assert said in text
    assert len(text) < 1000
    assert double.calls == []


async def test_tool_of_another_set_is_unknown(connect, double):
    async with connect(tools=["files"]) as client:
        answer = await client.call_tool("run", {"command": "true"})
    assert answer.meta["tmuxmcp/error"]["code"] == "INVALID_ARGUMENT"
    assert double.calls == []


async def test_crash_is_logged_whole_and_told_as_an_incident(connect, caplog):
    async with connect() as client:
        answer = await client.call_tool("run", {"command": "crash"})
        assert not (await client.call_tool("run", {"command": "true"})).is_error
    assert answer.is_error
    error = answer.meta["tmuxmcp/error"]
    assert error["code"] == "INTERNAL"
    assert "secret detail" not in answer.model_dump_json()
    record = next(record for record in caplog.records if record.levelno == logging.ERROR)
    assert error["details"]["incident"] in record.getMessage()
    assert answer.meta["tmuxmcp/call"] in record.getMessage()
    assert "secret detail" in str(record.exc_info)


async def test_broker_that_does_not_open_is_an_answer(mode):
    async def none():
        raise TmuxUnavailable("tmux is missing.", hint="Install it.")

    async with Client(McpFace(none).server(), mode=mode) as client:
        answer = await client.call_tool("health", {})
    assert answer.content[0].text == "TMUX_UNAVAILABLE: tmux is missing. Hint: Install it."


async def test_progress_reaches_who_asked_for_it(connect):
    seen, done = [], anyio.Event()

    async def on_progress(progress, total, message):
        seen.append((progress, total, message))
        if len(seen) == 3:
            done.set()

    async with connect() as client:
        await client.call_tool("run", {"command": "progress"}, progress_callback=on_progress)
        with anyio.fail_after(5 * SLOW):
            await done.wait()
        assert not (await client.call_tool("run", {"command": "progress"})).is_error
    assert seen == [(1, None, "line 1"), (2, None, "line 2"), (3, None, "line 3")]


async def test_cancelling_reaches_the_operation_and_is_no_failure(connect, double, caplog):
    async with connect() as client:
        async with anyio.create_task_group() as tg:
            tg.start_soon(client.call_tool, "run", {"command": "sleep 600"})
            await double.started.wait()
            tg.cancel_scope.cancel()
        with anyio.fail_after(5 * SLOW):
            await double.cancelled.wait()
        assert not (await client.call_tool("read", {})).is_error
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_many_calls_at_once_do_not_wait_for_each_other(connect, double):
    async with connect() as client, anyio.create_task_group() as tg:
        tg.start_soon(client.call_tool, "run", {"command": "sleep 600"})
        await double.started.wait()
        answers = []

        async def one(number):
            answers.append(await client.call_tool("run", {"command": f"seq {number}"}))

        with anyio.fail_after(10 * SLOW):
            async with anyio.create_task_group() as fifty:
                for number in range(50):
                    fifty.start_soon(one, number)
        tg.cancel_scope.cancel()
    assert sorted(answer.structured_content["output"].count("\n") for answer in answers) == list(range(50))
    assert len({answer.meta["tmuxmcp/call"] for answer in answers}) == 50


async def test_names_that_are_not_utf8_arrive_readable(mode):
    class Odd(Double):
        async def _ran(self, command, call):
            return replace(RUN, cwd=os.fsdecode(b"/\xff"), output="\ud800")

    async with Client(McpFace(partial(source, Odd())).server(), mode=mode) as client:
        answer = await client.call_tool("run", {"command": "true"})
    assert answer.structured_content["cwd"] == "/\\udcff"
    assert answer.structured_content["output"] == "\\ud800"
    json.dumps(answer.model_dump(mode="json")).encode()


def test_portable_values_are_json():
    value = {"path": __file__, 1: (1, None, {2.5: True}), "error": OSError("no"), "s": {"x"}}
    assert json.loads(json.dumps(portable(value))) == {
        "path": __file__,
        "1": [1, None, {"2.5": True}],
        "error": "no",
        "s": "{'x'}",
    }


def identities_of_a_child(*directories):
    """What a process of ours is called in one directory after the other."""
    code = """
import os, sys
from tmuxmcp.faces.mcp import stdio_identity
for directory in sys.argv[1:]:
    os.chdir(directory)
    print(stdio_identity())
"""
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    return subprocess.check_output([sys.executable, "-c", code, *directories], env=environment, text=True).split()


def test_caller_is_the_client_and_its_directory(tmp_path):
    first, elsewhere = identities_of_a_child("/", tmp_path)
    assert identities_of_a_child("/") == [first]  # the same client has started us anew
    assert elsewhere != first
    assert stdio_identity() != first  # another client
    assert re.fullmatch(rf"stdio:{os.getpid()}:[0-9.]+:[0-9a-f]{{12}}", first)
