from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters
from mcp.shared.message import SessionMessage
from mcp.types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from tests.conftest import SLOW, eventually
from tests.kit import forks
from tests.kit.wire import DOUBLE, GARBAGE, INITIALIZE, ROOT, SERVER, Wire
from tmuxmcp.app import late_broker
from tmuxmcp.config import Settings
from tmuxmcp.faces.mcp import only_waits
from tmuxmcp.faces.stdio import (
    LONG_LINE_ENDS,
    MAX_BACKLOG_BYTES,
    MAX_LINE,
    LineSplitter,
    LongLine,
    MessageReader,
    OpenCalls,
    Writer,
    id_in,
    parse,
)


@pytest.fixture
def wire():
    with contextlib.ExitStack() as stack:

        def open_wire(command=SERVER):
            wire = Wire(command)
            stack.callback(wire.process.__exit__, None, None, None)
            stack.callback(wire.process.kill)
            return wire

        yield open_wire


END = {
    "eof": lambda process: process.stdin.close(),
    "int": lambda process: process.send_signal(signal.SIGINT),
    "term": lambda process: process.send_signal(signal.SIGTERM),
    "hup": lambda process: process.send_signal(signal.SIGHUP),
}


@pytest.fixture(params=END)
def end(request):
    """Each way in which a client ends its server."""
    return END[request.param]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_sdk_client_is_served_in_both_eras(mode, tmp_path):
    parameters = StdioServerParameters(command=str(forks.command(tmp_path, SERVER[-1])), cwd=ROOT)
    async with Client(parameters, mode=mode) as client:
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        answer = await client.call_tool("run", {"command": "seq 3"})
        assert answer.structured_content["output"] == "1\n2\n3\n"
        big = await client.call_tool("run", {"command": "seq 40000"})
        assert big.structured_content["output"].endswith("\n40000\n")


def test_idle_server_ends(wire, end):
    server = wire().start()
    end(server.process)
    server.ends_soon()


def test_server_ends_before_anybody_spoke(wire, end):
    server = wire()
    server.write(b"\n{}\n")  # answered, so it listens
    server.receive()
    end(server.process)
    server.ends_soon()


def test_server_ends_while_a_call_is_pending(wire, end):
    server = wire().start()
    server.run("sleep 600")
    server.answer(server.request("ping"))
    end(server.process)
    server.ends_soon()


def test_server_ends_while_the_client_does_not_read(wire, end):
    server = wire().start()
    for _ in range(20):
        server.run("seq 40000")  # each answer is larger than the pipe
    server.run("sleep 600")
    server.receive()
    end(server.process)
    server.ends_soon()


def test_server_ends_though_clean_up_does_not(wire, end):
    server = wire(DOUBLE).start()
    server.run("stubborn")
    server.answer(server.request("ping"))
    end(server.process)
    server.ends_soon(cleanly=False)


def test_second_signal_does_not_spoil_a_clean_end(wire):
    server = wire(DOUBLE).start()
    server.run("stubborn")
    server.answer(server.request("ping"))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGTERM):  # as Claude Code does it
        server.process.send_signal(number)
        time.sleep(0.1)
    server.ends_soon(cleanly=False)


def test_signal_after_the_end_is_ignored(wire):
    server = wire([*DOUBLE, "--linger"]).start()
    server.process.stdin.close()
    while b"ended cleanly" not in server.process.stderr.readline():
        pass
    server.process.terminate()
    assert server.process.wait(20 * SLOW) == 0


def test_server_ends_when_nobody_reads_any_more(wire):
    server = wire().start()
    server.process.stdout.close()
    server.run("true")
    server.ends_soon()


def piped(*calls):
    """What comes back for calls that are all said before anything is read, as in `printf ... | tmuxmcp serve`."""
    said = [INITIALIZE, *({"method": "tools/call", "params": call} for call in calls)]
    said = [{"jsonrpc": "2.0", "id": at} | each for at, each in enumerate(said)]
    lines = "".join(json.dumps(each) + "\n" for each in said)
    done = forks.run([], forks.environment(), ROOT, 60 * SLOW, lines.encode(), SERVER[-1])
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(each["id"] for each in answers) == list(range(len(said)))  # each once
    return {each["id"]: each for each in answers}


def ran(command):
    return {"name": "run", "arguments": {"command": command}}


def test_what_was_asked_before_the_end_of_stdin_is_answered():
    answers = piped(ran("seq 3"), ran("pause 0.3"), ran("seq 40000"))
    assert answers[1]["result"]["structuredContent"]["output"] == "1\n2\n3\n"
    assert not answers[2]["result"]["isError"]
    assert answers[3]["result"]["structuredContent"]["output"].endswith("\n40000\n")


def test_what_does_not_end_in_time_is_cancelled_and_says_so():
    answers = piped(ran("true"), ran("sleep 600"))
    assert "result" in answers[1]
    assert answers[2]["error"]["message"].startswith("CANCELLED: ")
    assert answers[2]["error"]["data"]["code"] == "CANCELLED"
    assert answers[2]["error"]["data"]["retryable"] is False  # it goes on: a second call would run it twice
    assert "list_commands before you make the call again" in answers[2]["error"]["message"]


def test_requests_with_the_same_number_are_all_waited_for():
    asked = OpenCalls(only_waits)
    for command in ("sleep 1", "true"):
        asked.read(JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call", params=ran(command)))
    asked.written(JSONRPCError(jsonrpc="2.0", id=1, error=ErrorData(code=1, message="x")))
    assert asked.unanswered(waits=False) == [1]
    asked.read(JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 1}))
    assert asked.unanswered(waits=True) == []


def test_calls_that_only_wait_are_not_waited_for_long():
    asked = OpenCalls(only_waits)
    read = {"name": "read", "arguments": {"wait_for": "exit"}}
    calls = [ran("true"), read, {"name": "read", "arguments": {}}, {"name": "send", "arguments": {"wait_for": "exit"}}]
    for at, call in enumerate(calls):
        asked.read(JSONRPCRequest(jsonrpc="2.0", id=at, method="tools/call", params=call))
    asked.read(JSONRPCRequest(jsonrpc="2.0", id=9, method="subscriptions/listen", params={}))
    assert (asked.unanswered(waits=False), asked.unanswered(waits=True)) == ([0, 2, 3], [0, 1, 2, 3, 9])
    asked.written(JSONRPCError(jsonrpc="2.0", id=0, error=ErrorData(code=1, message="x")))
    asked.read(JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 2}))
    assert asked.unanswered(waits=True) == [1, 3, 9]


def test_a_request_that_is_nearly_json_is_answered_with_a_code():
    line = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"run","arguments":{"command":"\\ud800"}}}'
    error = parse(line)
    assert isinstance(error, ErrorData)
    assert (error.code, error.data["code"], id_in(line)) == (-32602, "INVALID_ARGUMENT", 7)


def nested(depth, inside="1"):
    return f'{{"jsonrpc":"2.0","id":7,"method":"x","params":{{"a":{"[" * depth}{inside}{"]" * depth}}}}}'.encode()


@pytest.mark.parametrize("line", [nested(300), nested(900, '"\\ud800"')])
def test_a_request_that_is_nested_too_deep_is_told_so_by_its_id(line):
    error = parse(line)
    assert isinstance(error, ErrorData)
    assert (error.code, error.data["code"], id_in(line)) == (-32602, "INVALID_ARGUMENT", 7)
    assert "recursion limit" in error.message


def test_an_answer_that_is_no_json_is_no_request():
    line = b'{"jsonrpc":"2.0","id":7,"result":{"a":"\\ud800"}}'
    error = parse(line)
    assert isinstance(error, ErrorData)
    assert (error.code, id_in(line)) == (-32700, None)


@pytest.mark.parametrize("stdin", ["/dev/null", __file__])
def test_stdin_that_is_no_pipe_is_read_to_its_end(stdin, tmp_path):
    with open(stdin, "rb") as file, open(tmp_path / "out", "w+b") as out, open(tmp_path / "err", "wb") as err:
        files = [each.fileno() for each in (file, out, err)]
        assert forks.Fork([], forks.environment(), ROOT, files, SERVER[-1]).wait(20 * SLOW) == 0
        out.seek(0)
        codes = [json.loads(line)["error"]["code"] for line in out]
    assert all(code in (-32700, -32600) for code in codes)
    assert bool(codes) == (stdin == __file__)


def test_what_is_printed_goes_to_stderr(wire):
    server = wire(DOUBLE).start()
    server.answer(server.run("true"))
    server.process.stdin.close()
    assert "printed by the double" in server.ends_soon()


def test_garbage_is_refused_and_the_next_request_answered(wire):
    server, began = wire(), wire().start()
    for at, garbage in enumerate(GARBAGE):
        for each in (server, began):
            each.write(garbage + b"\n")
            refusal = each.receive()
            assert refusal["id"] is None, at
            assert refusal["error"]["code"] in (-32700, -32600), at
        began.answer(began.request("ping"))
    server.start()
    server.answer(server.request("ping"))


def test_endless_line_is_refused_and_the_next_request_answered(wire):
    server = wire().start()
    for _ in range(20):
        server.write(b"x" * 1024 * 1024)
    server.write(b"\n")
    assert "16777216" in server.receive()["error"]["message"]
    server.answer(server.request("ping"))


def test_a_request_that_is_too_long_is_refused_by_its_id(wire):
    server = wire().start()
    line = json.dumps({"method": "tools/call", "params": {"x": "x" * MAX_LINE}, "jsonrpc": "2.0", "id": "long"})
    server.write(line.encode() + b"\n")
    refusal = server.receive()
    assert (refusal["id"], refusal["error"]["code"]) == ("long", -32600)
    server.answer(server.request("ping"))


@pytest.mark.parametrize("number", ['"\\ud800"', '"a\\udfff"'])
def test_an_id_that_is_no_text_ends_nothing(wire, number):
    server = wire(DOUBLE).start()
    pending = server.run("sleep 600")
    server.write(b'{"jsonrpc":"2.0","id":%s,"method":"ping"}\n' % number.encode())
    refusal = server.receive()
    assert (refusal["id"], refusal["error"]["code"]) == (None, -32602)
    server.answer(server.request("ping"))
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": pending}}
    server.write(json.dumps(cancelled).encode() + b"\n")


def test_large_request_is_served(wire):
    server = wire(DOUBLE).start()
    assert server.answer(server.run("true" + " " * (MAX_LINE - 1000)))["isError"] is False


def test_deep_arguments_are_an_error_of_that_call(wire):
    server = wire().start()
    deep = json.loads("[" * 100 + "]" * 100)
    answer = server.answer(server.request("tools/call", name="run", arguments={"command": deep}))
    assert answer["isError"] is True
    server.answer(server.request("ping"))


def test_fifty_calls_at_once_are_all_answered(wire):
    server = wire(DOUBLE).start()
    pending = server.run("sleep 600")
    numbers = {server.run(f"seq {number * 100}"): number * 100 for number in range(50)}
    while numbers:
        message = server.receive()
        assert message["id"] != pending
        assert message["result"]["structuredContent"]["output"].count("\n") == numbers.pop(message["id"])


def test_cancelled_call_is_not_answered_and_others_are(wire):
    server = wire().start()
    cancelled = server.run("sleep 600")
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": cancelled}}
    server.write(json.dumps(notice).encode() + b"\n")
    server.answer(server.run("true"))


def test_progress_goes_to_the_token_of_the_call(wire):
    server = wire(DOUBLE).start()
    call = {"name": "run", "arguments": {"command": "progress"}, "_meta": {"progressToken": "p"}}
    number = server.request("tools/call", **call)
    messages = [server.receive() for _ in range(4)]
    assert [m["params"]["message"] for m in messages[:3]] == ["line 1", "line 2", "line 3"]
    assert {m["params"]["progressToken"] for m in messages[:3]} == {"p"}
    assert messages[3]["id"] == number


# --- the command line -------------------------------------------------------------------------------


def test_version_is_told_without_the_sdk():
    code = (
        "import sys, tmuxmcp.faces.cli\ntry: tmuxmcp.faces.cli.main(['--version'])\nfinally: print(sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("tmuxmcp 0.")
    assert "'pydantic'" not in done.stdout
    assert "'mcp'" not in done.stdout


def test_wrong_setting_is_one_line_and_status_2():
    done = forks.run(["serve", "--log-level", "loud"], forks.environment(), ROOT, 20 * SLOW)
    assert done.returncode == 2
    assert done.stderr.startswith(b"tmuxmcp: INVALID_ARGUMENT: Setting log_level (from flag): ")
    assert done.stderr.count(b"\n") == 1


@pytest.fixture
def serve_command(state_dir):
    """`tmuxmcp serve` on a state directory of its own. A server ends before: it would start tmux again."""
    return [sys.executable, "-m", "tmuxmcp", "serve", "--state-dir", str(state_dir)]


def test_command_runs_in_a_real_shell(serve_command, wire):
    server = wire(serve_command).start()
    result = server.answer(server.run("echo $((6*7))"))["structuredContent"]
    assert (result["output"], result["exit_code"]) == ("42\n", 0)
    server.process.send_signal(signal.SIGINT)
    server.ends_soon()


def test_server_whose_directory_was_removed_works_at_home(serve_command, tmp_path):
    (tmp_path / "gone").mkdir()
    removed = ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(tmp_path / "gone"), *serve_command]
    calls = [
        {"id": 1, **INITIALIZE},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "run", "arguments": {"command": "pwd; echo ~"}}},
    ]
    env = forks.environment() | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(removed, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        server.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **call}) + "\n" for call in calls))
        server.stdin.flush()
        answers = {answer["id"]: answer for answer in map(json.loads, (server.stdout.readline() for _ in "12"))}
        server.stdin.close()
    output = answers[2]["result"]["structuredContent"]["output"]
    assert len(output.split()) == 2
    assert len(set(output.split())) == 1


def test_program_of_the_default_session_is_an_argument(serve_command, wire):
    server = wire([*serve_command, "cat", "-u"]).start()
    answer = server.answer(server.request("tools/call", name="get_session", arguments={}))
    assert (answer["structuredContent"]["program"], answer["structuredContent"]["args"]) == ("cat", ["-u"])
    server.process.terminate()
    server.ends_soon()


def test_broker_that_cannot_open_is_the_answer_to_a_call_and_tried_again(serve_command, wire):
    home = Path(serve_command[-1])
    home.chmod(0o777)
    server = wire(serve_command).start()
    for _ in range(2):
        answer = server.answer(server.run("true"))
        assert answer["_meta"]["tmuxmcp/error"]["code"] == "PERMISSION_DENIED"
    home.chmod(0o700)
    assert server.answer(server.run("true"))["isError"] is False
    server.process.terminate()
    server.ends_soon()


def test_restarted_server_is_the_same_caller(serve_command, wire):
    sessions = []
    for _ in range(2):
        server = wire(serve_command).start()
        sessions.append(server.answer(server.run("true"))["structuredContent"]["session_id"])
        server.process.terminate()
        server.ends_soon()
    assert sessions[0] == sessions[1]


def test_two_servers_of_one_client_have_sessions_of_their_own(serve_command, wire):
    servers = [wire(serve_command).start() for _ in range(2)]
    ids = {server.answer(server.run("true"))["structuredContent"]["session_id"] for server in servers}
    assert len(ids) == 2
    for server in servers:
        server.process.terminate()
        server.ends_soon()


def test_log_is_json_on_stderr(serve_command, wire):
    server = wire([*serve_command, "--log-format", "json"]).start()
    server.process.terminate()
    entries = [json.loads(line) for line in server.ends_soon().splitlines()]
    assert {"time", "level", "logger", "message"} <= entries[0].keys()
    assert any(each["message"].startswith("serving stdio:") for each in entries)


def test_trace_names_commands_and_looks_and_not_what_is_typed(serve_command, wire):
    server = wire([*serve_command, "--log-level", "trace"]).start()
    server.answer(server.request("tools/call", name="run", arguments={"command": "echo typed-and-printed"}))
    server.answer(server.request("tools/call", name="read", arguments={"wait_for": "ready"}))
    server.process.terminate()
    said = server.ends_soon()
    assert re.search(r"TRACE tmuxmcp.tmux.control: tmux [a-z-]+: \d+ lines, \d+ ms", said)
    assert re.search(r"TRACE tmuxmcp.readiness.wait: \S+: wait for ready at \d+ bytes: (goes on|ready)", said)
    assert "typed-and-printed" not in said


def test_log_that_nobody_reads_stops_nothing(serve_command, wire):
    server = wire([*serve_command, "--log-level", "debug"]).start()
    for _ in range(1000):  # each is logged with more than 100 bytes; the pipe holds 64 KB
        server.write(b"not json\n")
        server.receive()
    server.answer(server.request("ping"))
    server.process.terminate()
    server.ends_soon(cleanly=False)  # says it, but nobody reads


# --- the parts ---------------------------------------------------------------------------------------


def test_lines_whole_byte_by_byte_and_with_trailing_data():
    data = b"one\n\ntwo\r\nrest"
    assert LineSplitter().feed(data) == [b"one", b"", b"two\r"]
    lines = LineSplitter()
    assert [line for byte in data for line in lines.feed(bytes([byte]))] == [b"one", b"", b"two\r"]
    assert lines.feed(b" of it\n") == [b"rest of it"]


def test_line_over_the_limit_is_not_kept():
    lines = LineSplitter(max_line=4)
    assert lines.feed(b"1234\n12345\n1") == [b"1234", LongLine(b"12345", b"12345")]
    for _ in range(1000):
        assert lines.feed(b"x" * 1000) == []
        assert len(lines._line) + len(lines._begin) <= 2 * LONG_LINE_ENDS
    ends = LongLine(b"1" + b"x" * (LONG_LINE_ENDS - 1), b"x" * LONG_LINE_ENDS)
    assert lines.feed(b"\nok\n") == [ends, b"ok"]


@pytest.mark.parametrize(
    ("begin", "end", "found"),
    [
        ('{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{', '"}}}', 7),
        ('{"id": "a\\"b", "method":"x","params":{', "}}", 'a"b'),
        ('{"method":"tools/call","params":{"a":"', '"},"jsonrpc":"2.0","id":8}', 8),
        ('{"method":"tools/call","params":{"a":"', '"},"id":"x","jsonrpc":"2.0"}\r', "x"),
        ('{"params":{"a":"', '"},"jsonrpc":"2.0","id":6,"method":"x"}', 6),
        ('{"method":"x","params":{"id":9,"a":"', '","id":9}}', None),  # another id than the request's
        ('{"method":"x","params":{"a":"', '\\"id\\":9}"}', None),
        ('{"id":"\\ud800","method":"x","params":{"a":"', '"}}', None),
        ('{"id":null,"method":"x","params":{"a":"', '"}}', None),
        ('{"id":1.5,"method":"x","params":{"a":"', '"}}', None),
        ('{"jsonrpc":"2.0","id":7,"result":{"method":"x","a":"', '"}}', None),  # it answers, by an id of ours
        ("", "", None),
    ],
)
def test_the_id_of_a_line_that_is_too_long(begin, end, found):
    assert id_in(LongLine(begin.encode(), end.encode())) == found


@given(data=st.binary(max_size=60), cuts=st.lists(st.integers(0, 60), max_size=6))
def test_lines_do_not_depend_on_how_the_input_was_cut(data, cuts):
    data = data.replace(b"a", b"\n")
    lines, found, start = LineSplitter(max_line=5), [], 0
    for cut in [*sorted(cuts), len(data)]:
        found += lines.feed(data[start:cut])
        start = max(start, cut)
    assert found == LineSplitter(max_line=5).feed(data)


@given(st.binary(max_size=200))
def test_parse_takes_any_bytes(line):
    parse(line)
    assert isinstance(parse(b"\xff" + line), ErrorData)


def message(text):
    return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="m", params={"text": text}))


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)


async def test_message_whose_sender_was_cancelled_is_finished_by_the_next(pipe):
    writer = Writer(pipe[1], broken=lambda: None)
    with anyio.move_on_after(0.1) as given_up:
        await writer.send(message("x" * 200_000))  # more than a pipe holds: it waits in the middle
    assert given_up.cancelled_caught

    received = bytearray()
    async with anyio.create_task_group() as tg:
        tg.start_soon(writer.send, message("next"))
        while received.count(b"\n") < 2:
            await anyio.wait_readable(pipe[0])
            received += os.read(pipe[0], 65536)
    first, second = received.splitlines()
    assert len(json.loads(first)["params"]["text"]) == 200_000
    assert json.loads(second)["params"]["text"] == "next"


async def test_long_answer_that_finds_too_many_waiting_becomes_an_error(pipe):
    writer = Writer(pipe[1], broken=lambda: None)
    text = "x" * (MAX_BACKLOG_BYTES // 4)
    received = bytearray()
    async with anyio.create_task_group() as tg:
        for number in range(8):
            tg.start_soon(writer.write, JSONRPCResponse(jsonrpc="2.0", id=number, result={"text": text}))
        tg.start_soon(writer.write, JSONRPCResponse(jsonrpc="2.0", id=8, result={}))
        await anyio.wait_all_tasks_blocked()
        assert writer.full()
        while received.count(b"\n") < 9:
            await anyio.wait_readable(pipe[0])
            received += os.read(pipe[0], 65536)
    answers = [json.loads(line) for line in received.splitlines()]
    assert [each["id"] for each in answers if "error" in each] == [5, 6, 7]
    assert {each["error"]["data"]["code"] for each in answers if "error" in each} == {"RESOURCE_LIMIT"}
    assert not writer.full()


async def test_reader_ends_once_and_says_so(pipe):
    ended = []

    async def end() -> None:
        ended.append(True)

    reader = MessageReader(pipe[0], refuse=None, ended=end)
    os.write(pipe[1], b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n\n  \nunfinished')
    os.close(pipe[1])
    assert [item.message.method async for item in reader] == ["ping"]
    assert ended == [True]


async def test_broker_opens_once_the_client_is_greeted(state_dir: Path, home: Path):
    greeted = anyio.Event()
    async with late_broker(Settings(state_dir=state_dir), "key", greeted) as late:
        await anyio.wait_all_tasks_blocked()
        assert not late.caller
        assert not late._opening.locked()
        greeted.set()
        await eventually(lambda: late.caller)


async def test_broker_opens_for_a_call_without_a_greeting(state_dir: Path, home: Path):
    async with late_broker(Settings(state_dir=state_dir), "key", anyio.Event()) as late:
        assert not (await (await late()).list_sessions()).sessions
