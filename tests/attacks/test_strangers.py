"""Who has no token costs those who have one nothing; what two could read in two ways is refused."""

from __future__ import annotations

import json
import re
import signal
import socket
from contextlib import ExitStack, suppress

import pytest

from tests.conftest import SLOW
from tests.kit.fixtures import of_file
from tests.kit.service import TOKENS, Service, a_service
from tmuxmcp.faces.listener import MAX_STRANGERS

service = of_file(a_service)


HALF = [
    b"",
    b"POST /rpc HTTP/1.1\r\nHost: x\r\nContent-",
    b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n",
    b"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer wrong\r\nContent-Length: 99999\r\n\r\nx",
]


def test_connections_without_a_token_shut_nobody_out(service: Service):
    """Four times as many as may be there, opened anew while a client works."""
    name = service.result("create_session", program="bash")["session_id"]
    with ExitStack() as stack:

        def flood(count: int) -> None:
            for number in range(count):
                each = stack.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=20 * SLOW))
                with suppress(OSError):
                    each.sendall(HALF[number % len(HALF)])

        flood(3 * MAX_STRANGERS)
        for number in range(30):
            flood(MAX_STRANGERS // 20)
            assert service.result("run", command=f"echo {number}", session_id=name)["output"] == f"{number}\n"
    assert service.result("run", command="echo after", session_id=name)["output"] == "after\n"


@pytest.mark.parametrize("behind", [False, True], ids=["", "behind"])
def test_a_client_at_work_is_not_pushed_out_by_strangers(service: Service, behind: bool):
    """A call that takes its time is on a connection that is known, however old it is.

    Args:
        behind: the server is held up until all are there.
    """
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "run", "params": {"command": "sleep 1; echo ok"}}).encode()
    head = f"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer {TOKENS['agent']}\r\nContent-Length: {len(body)}\r\n\r\n"
    with ExitStack() as stack:

        def connected() -> socket.socket:
            made = socket.create_connection(("127.0.0.1", service.port), timeout=60 * SLOW)
            return stack.enter_context(made)

        stack.callback(service.process.send_signal, signal.SIGCONT)
        service.result("list_sessions")
        if behind:
            service.process.send_signal(signal.SIGSTOP)
        ours = connected()
        ours.sendall(head.encode() + body)
        for _ in range(2 * MAX_STRANGERS):
            connected()
        service.process.send_signal(signal.SIGCONT)
        status, said, _ = receive(ours)
    assert (status, json.loads(said)["result"]["output"]) == (200, "ok\n")


def receive(connection: socket.socket) -> tuple[int, bytes, bool]:
    """The status and body of one answer, and whether the connection ends with it."""
    said, size = b"", None
    while size is None or len(said) < size:
        piece = connection.recv(65536)
        assert piece, said
        said += piece
        if size is None and b"\r\n\r\n" in said:
            found = re.search(rb"(?i)content-length: (\d+)", said)
            assert found
            size = said.index(b"\r\n\r\n") + 4 + int(found[1])
    head, _, body = said.partition(b"\r\n\r\n")
    return int(head.split()[1]), body, b"connection: close" in head.lower()


def talk(service: Service, data: bytes) -> tuple[int, bytes, bool]:
    """The first answer to some bytes."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=20 * SLOW) as connection:
        connection.sendall(data)
        return receive(connection)


def head(service: Service, *lines: bytes, request: bytes = b"POST /rpc HTTP/1.1", end: bytes = b"\r\n") -> bytes:
    token = b"Authorization: Bearer " + TOKENS["agent"].encode()
    first = [request, b"Host: 127.0.0.1:%d" % service.port, token, b"Content-Type: application/json"]
    return end.join([*first, *lines, b"", b""])


LIST = b'{"jsonrpc": "2.0", "id": 1, "method": "list_sessions", "params": {}}'
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(LIST), LIST)


def test_whole_requests_are_answered(service: Service):
    length = b"Content-Length: %d" % len(LIST)
    for data in (
        head(service, length) + LIST,
        head(service, b"Transfer-Encoding: chunked") + CHUNKED,
        head(service, length, b"X-Long: " + b"x" * 31_000) + LIST,
        head(service, length, *(b"X-%d: y" % number for number in range(50))) + LIST,
    ):
        status, body, closed = talk(service, data)
        assert (status, closed) == (200, False)
        assert b'"sessions"' in body


@pytest.mark.parametrize("size", [33_000, 100_000, 200_000])
def test_a_head_over_its_limit_is_refused_however_it_arrives(service: Service, size: int):
    status, body, closed = talk(service, head(service, b"X: " + b"x" * size, request=b"GET /metrics HTTP/1.1"))
    assert (status, closed) == (431, True)
    assert json.loads(body)["error"]["code"] == "RESOURCE_LIMIT"


def test_what_can_be_read_in_two_ways_is_refused(service: Service):
    length, chunked = b"Content-Length: %d" % len(LIST), b"Transfer-Encoding: chunked"
    smuggled = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    for data in (
        head(service, length, chunked) + CHUNKED,
        head(service, chunked, b"Content-Length: 5") + CHUNKED,
        head(service, b"Content-Length: 0", chunked) + CHUNKED + smuggled,
        head(service, length, b"Content-Length: 5") + LIST,
        head(service, b"Content-Length: 5, 6") + LIST,
        head(service, b"Content-Length: +5") + LIST,
        head(service, b"Content-Length: 0x5") + LIST,
        head(service, length, b"Content-Length : 5") + LIST,
        head(service, b"X: y\nTransfer-Encoding: chunked", length) + LIST,
        head(service, length, end=b"\n") + LIST,
        head(service, length, b" folded: 1\nX: y") + LIST,
        head(service, length, b"X: y\r\n folded") + LIST,
        head(service, b"X: y\r\n\tTransfer-Encoding: chunked", length) + LIST,
        head(service, b"Content-Length:\r\n %d" % len(LIST)) + LIST,
    ):
        status, body, closed = talk(service, data)
        assert (status, closed) == (400, True), data
        assert json.loads(body)["error"]["code"] == "INVALID_ARGUMENT"
    status, _, closed = talk(service, head(service, b"Transfer-Encoding: gzip, chunked") + CHUNKED)
    assert (status in (400, 501), closed) == (True, True)


def test_a_second_head_on_a_connection_is_read_as_strictly(service: Service):
    first = head(service, b"Content-Length: %d" % len(LIST)) + LIST
    with socket.create_connection(("127.0.0.1", service.port), timeout=20 * SLOW) as connection:
        connection.sendall(first + head(service, b"Content-Length: %d" % len(LIST), end=b"\n") + LIST)
        said = b""
        with suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                said += piece
    assert said.count(b"HTTP/1.1 200 ") == 1
    assert said.count(b"HTTP/1.1 400 ") == 1


def test_without_a_token_there_is_no_body_to_speak_of(service: Service):
    lines = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nContent-Length: %d\r\n\r\n"
    assert talk(service, (lines % 1000).encode() + b"x" * 1000)[0] == 200
    assert talk(service, (lines % 1025).encode())[0] == 413
