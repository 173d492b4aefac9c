"""Clients that send nonsense, too much, all at once, that cancel, and that do not read: the server answers the next."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psutil
import pytest

from tests.conftest import SLOW
from tests.kit.agent import Agent, audit_lines, eventually
from tests.kit.service import Service, bearer
from tests.kit.wire import GARBAGE, Server

RUNNING = "tmuxmcp_calls_running"

WRONG = [
    b"",
    b"\n\n\n",
    b"nul" * 7,
    b"\xef\xbb\xbf{}",
    b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":' + b"9" * 10_000 + b',"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run","name":"run"}}',
    b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":[]}',
    b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":7,"arguments":"x"}}',
    b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"run","arguments":{"command":NaN}}}',
    b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"run","arguments":{"command":"\\ud800"}}}',
    b'{"jsonrpc":"2.0","id":"x","method":"\\u0000"}',
    b'{"jsonrpc":"2.0","id":6,"result":{}}',
    b'{"jsonrpc":"2.0","id":7,"error":{"code":"x"}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}',
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
]


@pytest.fixture
def server(state_dir: Path, home: Path) -> Iterator[Server]:
    with contextlib.ExitStack() as stack:
        made = Server(state_dir)
        stack.callback(made.process.__exit__, None, None, None)
        stack.callback(made.process.kill)
        yield made.start()


# ---- nonsense ----------------------------------------------------------------------------------


def mutated(rng: random.Random) -> bytes:
    """A right request with something wrong in it."""
    call = {"name": "list_sessions", "arguments": {"include_exited": True}}
    data = bytearray(json.dumps({"jsonrpc": "2.0", "id": "m", "method": "tools/call", "params": call}).encode())
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(data))
        match rng.randrange(3):
            case 0:
                data[at] = rng.choice(b'{}[]",:\\\x00\xff01eE-ntf ')
            case 1:
                del data[at : at + rng.randrange(1, 9)]
            case _:
                data[at:at] = data[rng.randrange(len(data)) :][:9]
    return bytes(data).replace(b"\n", b" ")


def test_nonsense_on_stdio(server: Server):
    """Every line may have an answer or none; what it may not do is to keep the next from having its own."""
    rng = random.Random(18)
    for line in (*GARBAGE, *WRONG, *(mutated(rng) for _ in range(300))):
        server.write(line + b"\n")
    ran = server.call("run", command="echo fine")
    assert server.result_of(ran)["structuredContent"]["output"] == "fine\n"


def test_nonsense_over_http(state_dir: Path):
    rng = random.Random(18)
    with Service(state_dir) as service:
        with service.http(Accept="application/json, text/event-stream") as client:
            for path in ("/rpc", "/mcp"):
                for body in (*GARBAGE, *WRONG, *(mutated(rng) for _ in range(100))):
                    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
                    assert answer.status_code < 500, (path, body[:100], answer.text)
        assert service.result("run", command="echo fine")["output"] == "fine\n"


# ---- too many, too slow ----------------------------------------------------------------------------


CALLS = 400


def test_many_calls_at_once_are_all_answered(server: Server):
    """Each by what it asked for or by the limit that it is over; none is lost or answered twice."""
    server.answer(server.call("create_session", name="a"))
    tools = [
        ("list_sessions", {}),
        ("get_session", {"session_id": "a"}),
        ("read", {"session_id": "a", "view": "screen"}),
        ("health", {}),
        ("run", {"command": "true", "session_id": "a"}),
        ("read", {"session_id": "a", "wait_for": "pattern", "pattern": "never", "timeout_ms": 300}),
    ]
    asked = {server.call(tools[number % 6][0], **tools[number % 6][1]) for number in range(CALLS)}
    seen: Counter[str] = Counter()
    while asked:
        message = server.receive()
        asked.remove(message["id"])
        error = message["result"].get("_meta", {}).get("tmuxmcp/error")
        seen[error["code"] if error else "ok"] += 1
    assert seen.total() == CALLS
    assert seen["ok"] > 50
    assert set(seen) <= {"ok", "RESOURCE_LIMIT", "SESSION_BUSY"}, seen
    ran = server.call("run", command="echo fine", session_id="a")
    assert server.result_of(ran)["structuredContent"]["output"] == "fine\n"


UNREAD = 24
ANSWER_BYTES = 2 << 20
GROWTH = 64 << 20
"""What the server's memory may grow by: one such answer makes it grow by 20 MiB, and two at once by 43."""


def peak_of(process: psutil.Process) -> int:
    """The most memory that it has until it grows no more."""
    peak, quiet_since = 0, time.monotonic()
    while time.monotonic() - quiet_since < 0.5 * SLOW:
        if (now := process.memory_info().rss) > peak:
            peak, quiet_since = now, time.monotonic()
        time.sleep(0.01)
    return peak


def test_client_that_stops_reading_costs_little_memory(server: Server, state_dir: Path):
    """Its long answers are made one after the other as it reads them, and all come; small calls are done at once."""
    server.answer(server.call("create_session", name="a"))
    size = f"head -c {ANSWER_BYTES} /dev/zero | tr '\\0' x; echo"
    server.answer(server.call("run", command=size, session_id="a", max_bytes=1000))
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss
    long = {"session_id": "a", "view": "raw", "since": 0, "max_bytes": ANSWER_BYTES}
    messages = [server.message("tools/call", name="read", arguments=long) for _ in range(UNREAD)]
    small = server.message("tools/call", name="list_sessions", arguments={})
    server.write(b"".join(json.dumps(each).encode() + b"\n" for each in (*messages, small)))

    def done(tool: str, outcome: str) -> int:
        return sum((line["tool"], line["outcome"]) == (tool, outcome) for line in audit_lines(state_dir))

    grown = peak_of(process) - before
    assert grown < GROWTH, f"{grown >> 20} MiB"
    eventually(lambda: done("list_sessions", "ok"))
    assert done("read", "ok") == 1
    server.cancel(messages.pop()["id"])
    eventually(lambda: done("read", "cancelled"))
    asked = {each["id"] for each in (*messages, small)}
    while asked:
        message = server.receive()
        asked.remove(message["id"])
        if message["id"] != small["id"]:
            assert message["result"]["structuredContent"]["next_offset"] >= ANSWER_BYTES
    server.answer(server.request("ping"))


def test_http_clients_that_stop_reading_cost_little_memory(state_dir: Path):
    """Their long answers wait for each other, too, on as many connections as there are; then all come."""
    service = Service(state_dir)
    answer_bytes = 8 << 20  # more than the kernel takes of an answer that nobody reads
    with contextlib.ExitStack() as stack:
        stack.callback(service.stop)
        service.result("create_session", name="a")
        size = f"head -c {answer_bytes} /dev/zero | tr '\\0' x; echo"
        service.result("run", command=size, session_id="a", max_bytes=1000)
        params = {"session_id": "a", "view": "raw", "since": 0, "max_bytes": answer_bytes}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "read", "params": params})
        fields = {"Host": f"127.0.0.1:{service.port}", "Content-Type": "application/json", "Connection": "close"}
        fields |= {**bearer("agent"), "Content-Length": str(len(body))}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        clients = [stack.enter_context(socket.socket()) for _ in range(6)]
        for client in clients:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            client.connect(("127.0.0.1", service.port))
            client.sendall(f"POST /rpc HTTP/1.1\r\n{head}\r\n{body}".encode())

        def made() -> int:
            return sum(line["tool"] == "read" for line in audit_lines(state_dir))

        eventually(lambda: (made(), service.metric(RUNNING)) == (1, len(clients) - 1))

        def answer_to(client: socket.socket) -> bytes:
            client.settimeout(20 * SLOW)
            with client.makefile("rb") as answer:
                return answer.read()

        with ThreadPoolExecutor(len(clients)) as threads:
            assert all(len(answer) > answer_bytes for answer in threads.map(answer_to, clients))


def test_client_that_asks_on_and_on_is_heard_as_far_as_it_reads(server: Server):
    """Answers that are small are many: each that waits costs more than its bytes."""
    asked = [server.message("ping") for _ in range(10_000)]
    data = rest = b"".join(json.dumps(each).encode() + b"\n" for each in asked)
    os.set_blocking(server.process.stdin.fileno(), False)
    taken_at = time.monotonic()
    while rest and time.monotonic() - taken_at < 0.5 * SLOW:
        try:
            rest = rest[os.write(server.process.stdin.fileno(), rest) :]
            taken_at = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
    assert len(rest) > len(data) / 2, f"{len(data) - len(rest)} of {len(data)} bytes were taken"
    os.set_blocking(server.process.stdin.fileno(), True)
    writing = threading.Thread(target=server.write, args=(rest,))
    writing.start()
    assert [server.receive()["id"] for _ in asked] == [each["id"] for each in asked]
    writing.join()


# ---- cancelling ----------------------------------------------------------------------------------

WAITS: dict[str, tuple[str, dict[str, Any]]] = {
    "run": ("run", {"command": "sleep 30", "session_id": "shell"}),
    "send": (
        "send",
        {"text": "x", "wait_for": "pattern", "pattern": "never", "timeout_ms": 40_000, "session_id": "cat"},
    ),
    "ready": ("read", {"wait_for": "ready", "session_id": "busy"}),
    "idle": ("read", {"wait_for": "idle", "idle_ms": 60_000, "session_id": "cat"}),
    "pattern": ("read", {"wait_for": "pattern", "pattern": "never", "session_id": "cat"}),
    "changed": ("read", {"wait_for": "changed", "session_id": "busy"}),
    "exit": ("read", {"wait_for": "exit", "session_id": "cat"}),
    "create": ("create_session", {"program": "sleep", "args": ["60"], "wait_ready": True, "ready_timeout_ms": 40_000}),
    "destroy": ("destroy_session", {"session_id": "stubborn", "grace_ms": 40_000}),
    "run_process": ("run_process", {"argv": ["sleep", "60"]}),
}


def sleeping(server: psutil.Process) -> list[psutil.Process]:
    """What still sleeps below it; a process may end while it is asked for its name."""
    found = []
    for process in server.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found += [process] if process.name() == "sleep" else []
    return found


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_every_wait_ends_when_it_is_cancelled(state_dir: Path, mode: str):
    """The call ends, what it waited for goes on, and the next call has its answer."""
    with Agent(state_dir, "bash", mode=mode) as agent:
        for name, program, words in (
            ("shell", "bash", []),
            ("cat", "cat", []),
            ("busy", "sleep", ["60"]),
            ("stubborn", "sh", ["-c", "trap '' TERM HUP INT; sleep 60"]),
        ):
            agent.call("create_session", program=program, args=words, name=name, wait_ready=program == "bash")
        agent.call("read", session_id="busy", view="diff")
        calls = [
            agent.portal.start_task_soon(lambda t=tool, w=arguments: agent.client.call_tool(t, w))
            for tool, arguments in WAITS.values()
        ]
        eventually(lambda: agent.in_front("shell") == "sleep 30")
        time.sleep(0.3)  # all wait; one that had ended would be seen below
        assert [name for name, call in zip(WAITS, calls, strict=True) if call.done()] == []
        for call in calls:
            call.cancel()

        def cancelled() -> Counter[str]:
            return Counter(line["tool"] for line in audit_lines(state_dir) if line["outcome"] == "cancelled")

        eventually(lambda: cancelled().total() >= len(WAITS))
        assert cancelled() == Counter(tool for tool, _ in WAITS.values())
        assert agent.call("get_session", session_id="shell")["foreground"]["command"] == "sleep 30"
        agent.call("signal", session_id="shell", signal="INT")
        agent.call("read", session_id="shell", wait_for="ready")
        assert agent.run("echo fine", session_id="shell")["output"] == "fine\n"
        assert agent.call("destroy_session", session_id="stubborn", force=True)["survivors"] == []
        eventually(lambda: not sleeping(agent.server))


@pytest.mark.parametrize("wait_for", ["none", "command"])
def test_cancelled_while_the_answer_was_on_the_way(server: Server, wait_for: str):
    """The client drops that answer: the next one tells the same, and the one after it no more."""
    server.answer(server.call("create_session", name="a", wait_ready=True))
    server.answer(server.call("read", session_id="a"))
    run = server.call("run", command="echo said; sh -c 'exit 3'", session_id="a")
    server.answer(run)
    server.cancel(run)
    for last in (False, True):
        asked = server.call("read", session_id="a", wait_for=wait_for)
        read = server.answer(asked)["structuredContent"]
        assert read["command"]["exit_code"] == 3
        assert "said\n" in read["content"]
        if not last:
            server.cancel(asked)
    assert server.answer(server.call("read", session_id="a", wait_for=wait_for))["structuredContent"]["command"] is None


def test_cancelled_a_moment_after_it_was_asked(server: Server):
    """At each stage of a call; and what is cancelled twice, or never was, is nobody's business."""
    server.answer(server.call("create_session", name="a"))
    rng = random.Random(3)
    for number in range(60):
        tool, arguments = list(WAITS.values())[number % 2]
        asked = server.call(tool, **(arguments | {"session_id": "a"}))
        time.sleep(rng.choice([0, 0, 0.001, 0.005, 0.02]))
        server.cancel(asked)
        server.cancel(asked)
        server.cancel(asked + 1000)
        if tool == "run":  # it may have begun, or begin yet: end it
            ready = False
            while not ready:
                server.result_of(server.call("signal", signal="INT", session_id="a"))
                read = server.call("read", session_id="a", wait_for="ready", timeout_ms=2000)
                ready = server.result_of(read)["structuredContent"]["outcome"] == "ready"
    server.result_of(server.call("send", key="C-c", session_id="a"))
    ran = server.call("run", command="echo fine", session_id="a")
    assert server.result_of(ran)["structuredContent"]["output"] == "fine\n"


def test_clients_that_vanish_over_http(state_dir: Path):
    """Fifty at once, each in the middle of a wait: nothing waits for them afterwards."""
    service = Service(state_dir)
    params = {"session_id": "a", "wait_for": "pattern", "pattern": "never", "timeout_ms": 50_000}
    call = {"jsonrpc": "2.0", "id": 1, "method": "read", "params": params}

    async def all_leave() -> None:
        headers, limits = bearer("agent"), httpx2.Limits(max_connections=None)
        async with (
            httpx2.AsyncClient(base_url=service.url, headers=headers, timeout=60 * SLOW, limits=limits) as client,
            anyio.create_task_group() as task_group,
        ):
            for _ in range(50):
                task_group.start_soon(functools.partial(client.post, "/rpc", json=call))
            await anyio.to_thread.run_sync(eventually, lambda: service.metric(RUNNING) == 50)
            task_group.cancel_scope.cancel()

    try:
        service.result("create_session", program="cat", name="a")
        anyio.run(all_leave)
        eventually(lambda: service.metric(RUNNING) == 0)
    finally:
        service.stop()
