"""The HTTP service, from outside: a server process, real clients, and those who mean no good."""

from __future__ import annotations

import functools
import json
import os
import pty
import re
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp.types import ResourceUpdatedNotification

from tests.conftest import eventually as soon
from tests.conftest import until_exists
from tests.kit import forks
from tests.kit.agent import eventually
from tests.kit.fixtures import of_file
from tests.kit.service import SLOW, TOKENS, Service, a_service, bearer
from tests.kit.tmux import plain_tmux
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.value import fields

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")

HTTP_PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text()
WAITING = "tmuxmcp_calls_running"


service = of_file(a_service)


# ---- who comes in ------------------------------------------------------------------------------


def test_health_and_the_page_itself_need_no_token(service: Service):
    with service.http("") as client:
        assert client.get("/healthz").json()["status"] == "ok"
        assert client.get("/").headers["content-type"].startswith("text/html")
        assert client.head("/healthz").status_code == 200


@pytest.mark.parametrize("path", ["/mcp", "/rpc", "/metrics", "/other", "/healthz/x"])
@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer", f"Basic {TOKENS['agent']}", TOKENS["agent"]])
def test_all_else_does(service: Service, path: str, header: str | None):
    with service.http("") as client:
        answer = client.post(path, headers={"Authorization": header} if header else {}, json={})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["code"] == "UNAUTHORIZED"
    assert TOKENS["agent"] not in answer.text


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.example:{port}", ""])
@pytest.mark.parametrize("path", ["/", "/rpc", "/healthz"])
def test_host_is_compared_exactly(service: Service, host: str, path: str):
    with service.http() as client:
        answer = client.get(path, headers={"Host": host.format(port=service.port)})
    assert answer.status_code == 421
    assert answer.json()["error"]["code"] == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:{port}", 200),
        ("http://LOCALHOST:{port}", 200),
        ("http://evil.example", 403),
        ("http://127.0.0.1:{port}.evil.example", 403),
        ("http://127.0.0.1", 403),
        ("ftp://127.0.0.1:{port}", 403),
        ("null", 403),
    ],
)
def test_origin_is_compared_exactly(service: Service, origin: str, status: int):
    with service.http() as client:
        assert client.get("/healthz", headers={"Origin": origin.format(port=service.port)}).status_code == status


def test_a_header_that_decides_may_be_there_once(service: Service):
    with service.http() as client:
        twice = [("Authorization", "Bearer x"), *bearer("agent").items()]
        assert client.get("/metrics", headers=[*twice, ("Origin", "null")]).status_code in (400, 403)
        raw = f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in twice
        )
        assert b" 400 " in talk(service, raw.encode() + b"\r\n")


def talk(service: Service, data: bytes) -> bytes:
    """What comes back first for some bytes."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=20 * SLOW) as connection:
        connection.sendall(data)
        return connection.recv(65536)


def test_a_large_body_is_refused_before_it_is_sent(service: Service):
    head = f"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nContent-Length: 16777217\r\n"
    auth = f"Authorization: Bearer {TOKENS['agent']}\r\n\r\n"
    assert b" 413 " in talk(service, (head + auth).encode())
    assert b" 401 " in talk(service, f"{head}\r\n".encode())


def test_a_large_body_without_a_length_is_refused_as_well(service: Service):
    pieces = (b" " * 65536 for _ in range(257))
    with service.http() as client:
        answer = client.post("/rpc", content=pieces, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "RESOURCE_LIMIT"


def test_a_large_head_is_refused(service: Service):
    said = talk(service, b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000)
    assert b" 431 " in said
    assert json.loads(said.partition(b"\r\n\r\n")[2])["error"]["code"] == "RESOURCE_LIMIT"


MODERN = {"MCP-Protocol-Version": "2026-07-28"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/nowhere", {}, 404),
        ("GET", "/rpc", {}, 405),
        ("PUT", "/metrics", {}, 405),
        ("POST", "/rpc", {"Content-Type": "text/plain"}, 415),
        ("POST", "/mcp", {"Content-Type": "text/plain"}, 400),
        ("GET", "/mcp", MODERN, 405),
        ("POST", "/mcp", {"Content-Type": "application/json", "Accept": "text/html"} | MODERN, 406),
    ],
)
def test_every_refusal_is_json(service: Service, method: str, path: str, headers: dict[str, str], status: int):
    with service.http() as client:
        answer = client.request(method, path, headers=headers, content=b"{}" if method == "POST" else None)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    error = answer.json()["error"]
    assert (error["code"], bool(error["message"]), bool(error["hint"])) == ("INVALID_ARGUMENT", True, True)
    assert (status != 405) or answer.headers["allow"]
    assert f"| {status} |" in HTTP_PAGE


# ---- JSON-RPC ----------------------------------------------------------------------------------


def test_rpc_answers_as_the_table_says(service: Service):
    result = service.result("run", command="echo hi", session_id=named(service))
    assert list(result) == list(fields(OPERATIONS["run"].result))
    assert (result["output"], result["exit_code"]) == ("hi\n", 0)


def named(service: Service, name: str = "shell") -> str:
    """A named session, which no test ends."""
    service.rpc("create_session", program="bash", name=name)
    return name


@pytest.mark.parametrize(
    ("method", "params", "number", "code"),
    [
        ("run", {"command": 1}, -32602, "INVALID_ARGUMENT"),
        ("run", {"command": "x", "bogus": 1}, -32602, "INVALID_ARGUMENT"),
        ("run", ["true"], -32602, "INVALID_ARGUMENT"),
        ("send", {"key": "Nope"}, -32602, "INVALID_KEY"),
        ("get_session", {"session_id": "none"}, -32000, "SESSION_NOT_FOUND"),
        ("no_such", {}, -32601, "INVALID_ARGUMENT"),
        ("__init__", {}, -32601, "INVALID_ARGUMENT"),
    ],
)
def test_rpc_errors_have_a_number_and_our_object(service: Service, method: str, params, number: int, code: str):
    with service.http() as client:
        answer = client.post("/rpc", json={"jsonrpc": "2.0", "id": "x", "method": method, "params": params}).json()
    assert answer["id"] == "x"
    assert answer["error"]["code"] == number
    assert set(answer["error"]["data"]) == {"code", "message", "retryable", "hint", "details"}
    assert answer["error"]["data"]["code"] == code
    assert answer["error"]["message"] == answer["error"]["data"]["message"]


@pytest.mark.parametrize(
    ("body", "number", "call_id"),
    [
        ("{", -32700, None),
        ("[" * 100_000, -32700, None),
        ("1", -32600, None),
        ("[]", -32600, None),
        (json.dumps([{"jsonrpc": "2.0", "id": 1, "method": "health"}] * 101), -32600, None),
        ('{"id": 7, "method": "health"}', -32600, 7),
        ('{"jsonrpc": "2.0", "id": {}, "method": "health"}', -32600, None),
        ('{"jsonrpc": "2.0", "id": 7}', -32600, 7),
    ],
)
def test_what_is_no_request(service: Service, body: str, number: int, call_id: int | None):
    with service.http() as client:
        answer = client.post("/rpc", content=body, headers={"Content-Type": "application/json"}).json()
    assert (answer["error"]["code"], answer["id"]) == (number, call_id)
    assert answer["error"]["data"]["code"] in ("INVALID_ARGUMENT", "RESOURCE_LIMIT")


def test_a_batch_is_done_in_order_and_notifications_are_not_answered(service: Service):
    name = named(service)
    calls = [
        {"jsonrpc": "2.0", "id": 1, "method": "run", "params": {"command": "x=1", "session_id": name}},
        {"jsonrpc": "2.0", "method": "run", "params": {"command": "x=$x$x; sleep 0.3", "session_id": name}},
        {"jsonrpc": "2.0", "id": None, "method": "no_such"},
        5,
        {"jsonrpc": "2.0", "id": "last", "method": "run", "params": {"command": "echo $x", "session_id": name}},
    ]
    with service.http() as client:
        answer = client.post("/rpc", json=calls)
    got = answer.json()
    assert [each["id"] for each in got] == [1, None, None, "last"]
    assert got[3]["result"]["output"] == "11\n"
    assert [each["error"]["code"] for each in got[1:3]] == [-32601, -32600]
    assert len(set(answer.headers["tmuxmcp-call"].split(","))) == 4
    took_ms = [int(each) for each in answer.headers["tmuxmcp-duration-ms"].split(",")]
    assert len(took_ms) == 4
    assert took_ms[1] >= 300 > took_ms[2]


def test_only_notifications_have_no_answer(service: Service):
    name = named(service)
    call = {"jsonrpc": "2.0", "method": "run", "params": {"command": "y=done", "session_id": name}}
    with service.http() as client:
        for body in (call, [call, call]):
            answer = client.post("/rpc", json=body)
            assert (answer.status_code, answer.content) == (204, b"")
    assert service.result("run", command="echo $y", session_id=name)["output"] == "done\n"


def test_rpc_takes_json_by_post_only(service: Service):
    with service.http() as client:
        assert client.get("/rpc").status_code == 405
        body = '{"jsonrpc": "2.0", "id": 1, "method": "health"}'
        for kind in ("text/plain", "application/x-www-form-urlencoded"):  # what a foreign page can send
            assert client.post("/rpc", content=body, headers={"Content-Type": kind}).status_code == 415


def test_discover_describes_every_operation(service: Service):
    document = service.result("rpc.discover")
    assert [each["name"] for each in document["methods"]] == list(OPERATIONS)

    def check(value: object) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                _, _, kind, name = value["$ref"].split("/")
                assert name in document["components"][kind]
            for inner in value.values():
                check(inner)
        elif isinstance(value, list):
            for inner in value:
                check(inner)

    check(document)
    run = next(each for each in document["methods"] if each["name"] == "run")
    assert [each["name"] for each in run["params"] if each["required"]] == ["command"]


# ---- tokens ------------------------------------------------------------------------------------


def test_scopes_say_who_may_do_what(service: Service):
    name = named(service)
    assert service.result("list_sessions", "viewer")["count"] >= 1
    assert service.result("read", "viewer", session_id=name, view="screen")
    for method, params in (
        ("run", {"command": "true"}),
        ("destroy_session", {"session_id": name}),
        ("read", {}),
        ("read_file", {"path": "/etc/hostname"}),
        ("list_directory", {"path": "/"}),
    ):
        error = service.rpc(method, "viewer", **params)["error"]
        assert error["data"]["code"] == "UNAUTHORIZED"
        assert error["code"] == -32000


def test_a_default_session_belongs_to_a_token(service: Service):
    mine = service.result("run", "agent", command="true")["session_id"]
    assert service.result("get_session", "agent")["session_id"] == mine
    theirs = service.result("run", "other", command="true")["session_id"]
    assert theirs != mine
    for method, params in (
        ("destroy_session", {}),
        ("run", {"command": "touch made"}),
        ("send", {"text": "touch made", "enter": True}),
        ("mouse", {"action": "click", "row": 0, "col": 0}),
        ("resize", {"rows": 10}),
        ("signal", {"signal": "KILL", "target": "session"}),
        ("signal", {"signal": "INT"}),
    ):
        error = service.rpc(method, "agent", session_id=theirs, **params)["error"]["data"]
        assert (error["code"], error["details"]["scope"]) == ("UNAUTHORIZED", "admin"), method
    for method, params in (("get_session", {}), ("read", {"view": "screen"}), ("search", {"pattern": "x"})):
        assert service.result(method, "agent", session_id=theirs, **params)
    assert service.result("run", "other", command="ls made")["exit_code"] != 0
    assert service.result("run", "boss", command="true", session_id=theirs)["exit_code"] == 0
    assert service.result("signal", "boss", signal="CONT", session_id=theirs)["delivered"]
    assert service.result("destroy_session", "boss", session_id=theirs, force=True)["destroyed"]
    assert service.result("destroy_session", "agent", session_id=mine, force=True)["destroyed"]


def test_metrics_count_calls_and_tell_no_names(service: Service):
    before = service.metric('tmuxmcp_errors_total{code="SESSION_NOT_FOUND",operation="get_session"}')
    service.rpc("get_session", session_id="secret-name")
    assert service.metric('tmuxmcp_errors_total{code="SESSION_NOT_FOUND",operation="get_session"}') == before + 1
    named(service)
    assert service.metric('tmuxmcp_sessions{mode="shell_prompt"}') >= 1
    with service.http("viewer") as client:
        page = client.get("/metrics").text
    assert "secret-name" not in page
    assert not any(token in page for token in TOKENS.values())


# ---- MCP ---------------------------------------------------------------------------------------


async def test_mcp_and_rpc_share_sessions(service: Service, mode: str):
    async with service.mcp(mode) as client:
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        answer = await client.call_tool("run", {"command": "cd /usr; echo hi"})
        assert answer.structured_content["output"] == "hi\n"
        assert "tmuxmcp/call" in answer.meta
        facts = await anyio.to_thread.run_sync(service.result, "get_session")
        assert (facts["session_id"], facts["cwd"]) == (answer.structured_content["session_id"], "/usr")
    async with service.mcp(mode, "viewer") as client:
        answer = await client.call_tool("run", {"command": "true"})
        assert answer.meta["tmuxmcp/error"]["code"] == "UNAUTHORIZED"
        assert (await client.read_resource("tmux://sessions")).contents


async def test_progress_comes_over_http(service: Service, mode: str, tmp_path: Path):
    seen: list[str] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message or "")

    async with service.mcp(mode) as client:
        name = await anyio.to_thread.run_sync(named, service, f"progress-{mode}")
        go = tmp_path / "go"
        arguments = {"command": f"echo first; {until_exists(go)}", "session_id": name, "timeout_ms": 50_000}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(functools.partial(client.call_tool, "run", arguments, progress_callback=on_progress))
            await soon(lambda: "first" in seen)
            go.touch()


async def test_history_and_recording_are_read_over_http(service: Service, mode: str):
    name = await anyio.to_thread.run_sync(named, service, f"parts-{mode}")
    async with service.mcp(mode) as client:
        await client.call_tool("run", {"command": "echo hi; (exit 3)", "session_id": name})
    async with service.mcp(mode, "viewer") as client:  # who may only look
        (history,) = (await client.read_resource(f"tmux://sessions/{name}/history")).contents
        (cast,) = (await client.read_resource(f"tmux://sessions/{name}/recording")).contents
    assert [each["exit_code"] for each in json.loads(history.text)["commands"]] == [3]
    assert json.loads(cast.text.splitlines()[0])["version"] == 3
    assert cast.meta["tmuxmcp/recording"]["cut"] is False


@pytest.mark.parametrize("part", ["screen", "history"])
async def test_updates_come_over_http(service: Service, mode: str, part: str):
    name = await anyio.to_thread.run_sync(named, service, f"updates-{mode}-{part}")
    uri = f"tmux://sessions/{name}/{part}"
    heard = anyio.Event()

    async def on_message(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification) and message.params.uri == uri:
            heard.set()

    async def type_until_heard() -> None:
        with anyio.fail_after(20 * SLOW):
            while not heard.is_set():  # the earlier era's client opens its stream in the background
                await client.call_tool("send", {"text": ":", "enter": True, "session_id": name, "read": "none"})
                await anyio.sleep(0.2)

    async def listen() -> None:
        async with client.listen(resource_subscriptions=[uri]) as stream, anyio.create_task_group() as tasks:
            tasks.start_soon(type_until_heard)
            async for event in stream:
                assert event.uri == uri
                heard.set()
                return

    async with service.mcp(mode, message_handler=on_message) as client:
        if mode == "auto":
            await listen()
        else:
            await client.subscribe_resource(uri)
            await type_until_heard()
            assert service.metric("tmuxmcp_viewers") == 1
    await soon(lambda: service.metric("tmuxmcp_viewers") == 0)  # it left without unsubscribing


async def test_an_mcp_session_is_of_no_use_to_another_token(service: Service):
    start = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    accept = {"Accept": "application/json, text/event-stream"}
    with service.http(**accept) as mine, service.http("other", **accept) as theirs:
        answer = mine.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start})
        session = {"Mcp-Session-Id": answer.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert theirs.post("/mcp", json=ping, headers=session).status_code == 404
        assert mine.post("/mcp", json=ping, headers=session).status_code == 200


# ---- who leaves, who is slow -------------------------------------------------------------------


def waits(service: Service, name: str) -> dict[str, object]:
    params = {"session_id": named(service, name), "wait_for": "pattern", "pattern": "never", "timeout_ms": 50_000}
    return {"jsonrpc": "2.0", "id": 1, "method": "read", "params": params}


def open_wait(service: Service, path: str, body: object, **headers: str) -> socket.socket:
    """A request that waits long, by a client that can vanish."""
    before = service.metric(WAITING)
    data = json.dumps(body).encode()
    head = {
        "Host": f"127.0.0.1:{service.port}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Content-Length": str(len(data)),
        **bearer("agent"),
        **headers,
    }
    connection = socket.create_connection(("127.0.0.1", service.port))
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    connection.sendall(f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + data)
    eventually(lambda: service.metric(WAITING) == before + 1)
    return connection


def wait_by_mcp(service: Service, mode: str) -> socket.socket:
    call = waits(service, "slow")
    params = {"name": "read", "arguments": call["params"]}
    body = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}
    if mode == "auto":
        prefix = "io.modelcontextprotocol"
        params["_meta"] = {f"{prefix}/protocolVersion": "2026-07-28", f"{prefix}/clientCapabilities": {}}
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "read"}
        return open_wait(service, "/mcp", body, **headers)
    start = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    with service.http(Accept="application/json, text/event-stream") as client:
        answer = client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start})
        session = answer.headers["mcp-session-id"]
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        client.post("/mcp", json=ready, headers={"Mcp-Session-Id": session})
    return open_wait(service, "/mcp", body, **{"Mcp-Session-Id": session})


def test_a_client_that_vanishes_ends_its_wait(service: Service):
    with open_wait(service, "/rpc", waits(service, "slow")):
        pass
    eventually(lambda: service.metric(WAITING) == 0)


def test_an_mcp_client_that_vanishes_ends_its_wait(service: Service, mode: str):
    with wait_by_mcp(service, mode):
        pass
    eventually(lambda: service.metric(WAITING) == 0)


def test_clients_that_send_little_hold_up_nobody(service: Service):
    slow = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(100)]
    try:
        for connection in slow:
            connection.sendall(b"POST /rpc HTTP/1.1\r\nHost: x\r\nContent-")
        assert service.result("run", command="echo hi", session_id=named(service))["output"] == "hi\n"
    finally:
        for connection in slow:
            connection.close()


# ---- start and stop ----------------------------------------------------------------------------


def test_sigterm_ends_it_soon_and_sessions_live_on(state_dir: Path):
    with Service(state_dir, "--log-level", "debug") as service:
        mine = service.result("run", command="x=kept; echo $$")
        assert service.result("create_session", program="bash", name="named")
        with open_wait(service, "/rpc", waits(service, "named")) as waiting, wait_by_mcp(service, "legacy"):
            stream = threading.Thread(target=listen_for_ever, args=(service,))
            stream.start()
            eventually(lambda: service.metric("tmuxmcp_viewers") == 1)
            status, seconds = service.stop()
            waiting.settimeout(5 * SLOW)
            assert b" 503 " in waiting.recv(65536)
        stream.join(10 * SLOW)
        assert (status, stream.is_alive()) == (0, False)
        assert seconds < 5 * SLOW
        assert b"ended cleanly" in service.said
        assert not any(token.encode() in service.said for token in TOKENS.values())
    assert "named" in plain_tmux(state_dir, "list-sessions")
    with Service(state_dir) as again:  # the same token finds its default session again
        result = again.result("run", command="echo $x $$")
        assert result["session_id"] == mine["session_id"]
        assert result["output"] == f"kept {mine['output']}"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_sigterm_answers_the_calls_of_mcp_clients(state_dir: Path, mode: str):
    service = Service(state_dir)

    def stop() -> None:
        eventually(lambda: service.metric(WAITING) == 1)
        assert service.stop()[0] == 0

    try:
        async with anyio.create_task_group() as tasks, service.mcp(mode) as client:
            tasks.start_soon(anyio.to_thread.run_sync, stop)
            answer = await client.call_tool("run", {"command": "sleep 600", "timeout_ms": 50_000})
        assert answer.is_error
        assert answer.content[0].text.startswith("CANCELLED: The server stops.")
    finally:
        service.stop()


def listen_for_ever(service: Service) -> None:
    async def listen() -> None:
        async with (
            service.mcp("auto") as client,
            client.listen(resource_subscriptions=["tmux://sessions/named/screen"]) as stream,
        ):
            async for _ in stream:
                pass

    anyio.run(listen)


def test_no_token_is_for_loopback(state_dir: Path):
    service = Service(state_dir, "--no-token", "--allowed-hosts", "tmux.example")
    try:
        with service.http("") as client:
            answer = client.post("/rpc", json={"jsonrpc": "2.0", "id": 1, "method": "run", "params": {"command": "id"}})
            assert answer.json()["result"]["exit_code"] == 0
            assert client.get("/metrics", headers={"Host": "tmux.example"}).status_code == 200
            assert client.get("/metrics", headers={"Host": "tmux.example:80"}).status_code == 421
    finally:
        assert service.stop(signal.SIGINT)[0] == 0


NO_TOKEN = ("--token-file", "")


def test_a_service_of_this_machine_alone_makes_its_token(state_dir: Path):
    service = Service(state_dir, *NO_TOKEN)
    file = state_dir / "http_token"
    token = file.read_text().strip()
    assert (len(token), stat.S_IMODE(file.stat().st_mode)) == (64, 0o600)
    call = {"jsonrpc": "2.0", "id": 1, "method": "run", "params": {"command": "echo here"}}
    own = {"Authorization": f"Bearer {token}"}

    def post(**headers: str) -> httpx2.Response:
        return httpx2.post(f"{service.url}/rpc", json=call, headers=headers, timeout=30 * SLOW)

    try:
        assert post(**own).json()["result"]["output"] == "here\n"
        assert post().status_code == 401
        assert post(**own, Host=f"evil.example:{service.port}").status_code == 421
        assert post(**own, Origin="http://evil.example").status_code == 403
        assert post(**bearer("agent")).status_code == 401
        other = Service(state_dir, *NO_TOKEN)  # of the same state directory, and with the same token
        assert other.url != service.url
        other.stop()
        words = Path(f"/proc/{service.process.pid}/cmdline").read_bytes()
    finally:
        service.stop()
    service_again = Service(state_dir, *NO_TOKEN)
    service_again.stop()
    assert file.read_text().strip() == token
    said = service.said + other.said + service_again.said
    assert f"clients send the token in {file}".encode() in said
    assert b"tmuxmcp page" in said
    assert b"#code=" not in said  # no terminal is there
    assert token.encode() not in said + words
    assert [each for each in state_dir.iterdir() if each.name.startswith(".http_token")] == []


def test_its_own_token_is_not_made_where_there_is_another(state_dir: Path):
    for words, variables in (((), {}), (NO_TOKEN, {"TMUXMCP_TOKEN": "x" * 40}), (("--no-token",), {})):
        Service(state_dir, *words, **variables).stop()
        assert not (state_dir / "http_token").exists()


@pytest.mark.parametrize(("text", "mode", "status"), [("", 0o600, 2), ("a b\n", 0o600, 2), ("x" * 64, 0o644, 4)])
def test_its_own_token_that_is_not_right_is_told(state_dir: Path, text: str, mode: int, status: int):
    file = state_dir / "http_token"
    file.write_text(text)
    file.chmod(mode)
    words = ["serve", "--state-dir", str(state_dir), "--http", "127.0.0.1:0"]
    ended = forks.run(words, forks.environment(), Path.cwd(), 20 * SLOW)
    assert ended.returncode == status
    assert str(file) in ended.stderr.decode()
    assert file.read_text() == text


@pytest.mark.parametrize("key", [{}, {"TMUXMCP_KEY": "x"}])
def test_at_a_terminal_of_a_person_an_address_is_told(state_dir: Path, key: dict[str, str]):
    master, terminal = pty.openpty()
    service = subprocess.Popen(
        [sys.executable, "-m", "tmuxmcp", "serve", "--state-dir", str(state_dir), "--http", "127.0.0.1:0"],
        env={"HOME": str(state_dir), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"} | key,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=terminal,
    )  # fmt: skip
    os.close(terminal)
    said = b""

    def answers() -> bool:
        nonlocal said
        if select.select([master], [], [], 0.1)[0]:
            said += os.read(master, 65536)
        found = re.search(rb"on (http://127\.0\.0\.1:\d+)", said)
        with suppress(httpx2.TransportError):
            return bool(found) and httpx2.get(f"{found[1].decode()}/healthz").status_code == 200
        return False

    try:
        eventually(answers)
        service.terminate()
        with suppress(OSError):  # which is how a terminal says that nobody has it open any more
            while piece := os.read(master, 65536):
                said += piece
        assert service.wait(20 * SLOW) == 0
        code = re.search(rb"open (http://127\.0\.0\.1:\d+)/#code=([\w-]{43}) in a browser", said)
        assert bool(code) is not bool(key)
    finally:
        service.kill()
        service.wait()
        os.close(master)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--http", "0.0.0.0:0"], 2, "wants a token"),
        (["--http", "0.0.0.0:0", "--no-token"], 4, "other machines"),
        (["--http", "nowhere"], 2, "no address"),
        (["--no-token"], 2, "for --http"),
        (["--http", "127.0.0.1:0", "--token-file", "/dev/null"], 2, "no regular file"),
        (["--http", "127.0.0.1:0", "--token-file", "/etc/passwd"], 4, "Others may read"),
    ],
)
def test_what_it_does_not_start_with(state_dir: Path, words: list[str], status: int, said: str):
    words = ["serve", "--state-dir", str(state_dir), *words]
    ended = forks.run(words, forks.environment(), Path.cwd(), 20 * SLOW)
    assert ended.returncode == status
    assert said in ended.stderr.decode()
    assert not (state_dir / "tmux.sock").exists()
