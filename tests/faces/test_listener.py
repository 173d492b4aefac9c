from __future__ import annotations

import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketStream

from tests.conftest import SLOW, eventually
from tmuxmcp.contract.errors import IoError, PermissionDenied
from tmuxmcp.faces import listener
from tmuxmcp.faces.access import KNOW
from tmuxmcp.faces.listener import bind, hosts_of


def test_beyond_loopback_needs_a_token():
    with pytest.raises(PermissionDenied, match="token"):
        bind("0.0.0.0", 0, only_loopback=True)
    with bind("0.0.0.0", 0, only_loopback=False), bind("localhost", 0, only_loopback=True):
        pass


def test_a_port_in_use_is_an_error():
    with bind("127.0.0.1", 0, only_loopback=True) as first, pytest.raises(IoError, match="in use"):
        bind("127.0.0.1", first.getsockname()[1], only_loopback=True)


def test_hosts_are_the_loopback_names_and_its_own():
    with bind("127.0.0.1", 0, only_loopback=True) as opened:
        port = opened.getsockname()[1]
        assert hosts_of(opened, "0.0.0.0") == {f"{n}:{port}" for n in ("127.0.0.1", "localhost", "[::1]", "0.0.0.0")}
        assert f"[fe80::1]:{port}" in hosts_of(opened, "fe80::1")


@asynccontextmanager
async def serving(app: Callable[..., object]) -> AsyncIterator[tuple[int, list[str]]]:
    """An application being served in this process; a signal ends it."""
    told: list[str] = []
    with bind("127.0.0.1", 0, only_loopback=True) as opened:
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                await listener.serve(
                    app,
                    opened,
                    close=lambda: told.append("close"),
                    stop=lambda: told.append("stop"),
                    cut=lambda: told.append("cut"),
                    dropped=lambda: told.append("dropped"),
                )
                told.append("ended")

            tasks.start_soon(serve)
            yield opened.getsockname()[1], told
            await eventually(lambda: signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)
            await eventually(lambda: "ended" in told)


async def hello(scope, receive, send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


async def welcome(scope, receive, send) -> None:
    """An application to which every client has a token."""
    body = b"hi" if scope[KNOW]() else b"no"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": body})


async def ask(client: SocketStream) -> bytes:
    """The body of the answer to one request: two bytes."""
    await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = b""
    with anyio.fail_after(10 * SLOW):
        while len(answer.partition(b"\r\n\r\n")[2]) < 2:
            answer += await client.receive()
    return answer.partition(b"\r\n\r\n")[2]


async def ended(client: SocketStream) -> None:
    """Wait until the server ends a connection."""
    with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)), anyio.fail_after(10 * SLOW):
        await client.receive()


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-", b"GET / HTTP/1.1\r\nHost: x\r\n"]
)
async def test_a_head_that_does_not_come_ends_the_connection(sent: bytes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listener, "STRANGER_HEAD_S", 0.2)
    async with serving(hello) as (port, _), await anyio.connect_tcp("127.0.0.1", port) as slow:
        if sent:
            await slow.send(sent)
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)), anyio.fail_after(10 * SLOW):
            await slow.receive()


@pytest.mark.parametrize(("app", "limit"), [("hello", "STRANGER_HEAD_S"), ("welcome", "HEAD_S")])
async def test_so_does_the_head_of_a_second_request(app: str, limit: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listener, limit, 0.5 * SLOW)  # the first one is to come in time
    served = {"hello": hello, "welcome": welcome}[app]
    async with serving(served) as (port, _), await anyio.connect_tcp("127.0.0.1", port) as slow:
        assert await ask(slow) == b"hi"
        await slow.send(b"GET / HTTP")
        await ended(slow)


async def test_strangers_do_not_keep_their_connections(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listener, "STRANGER_KEEP_ALIVE_S", 0.2)
    async with serving(hello) as (port, _), await anyio.connect_tcp("127.0.0.1", port) as stranger:
        assert await ask(stranger) == b"hi"
        await ended(stranger)
    async with serving(welcome) as (port, _), await anyio.connect_tcp("127.0.0.1", port) as client:
        assert await ask(client) == b"hi"
        with anyio.move_on_after(0.5) as waited:
            await client.receive()
        assert waited.cancelled_caught
        assert await ask(client) == b"hi"


async def test_the_oldest_stranger_goes_for_one_too_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listener, "MAX_STRANGERS", 2)
    monkeypatch.setattr(listener, "STRANGER_HEAD_S", 60 * SLOW)
    async with serving(welcome) as (port, _), AsyncExitStack() as stack:

        async def connect() -> SocketStream:
            return await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))

        client = await connect()
        assert await ask(client) == b"hi"
        strangers = [await connect() for _ in range(4)]
        for each in strangers[:2]:
            await ended(each)
        for each in (client, *strangers[2:]):
            assert await ask(each) == b"hi"


async def test_a_client_that_takes_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listener, "STALL_S", 0.2)
    ended = anyio.Event()

    async def endless(scope, receive, send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await receive()
        async with anyio.create_task_group() as tasks:

            async def until_gone() -> None:
                await receive()
                tasks.cancel_scope.cancel()

            tasks.start_soon(until_gone)
            while True:
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
                await anyio.lowlevel.checkpoint()
        ended.set()

    async with serving(endless) as (port, told):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await eventually(lambda: "dropped" in told)
        with connection, anyio.fail_after(10 * SLOW):
            await ended.wait()


async def test_a_client_too_many_is_told_that_there_is_no_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 1)
    async with serving(welcome) as (port, _), await anyio.connect_tcp("127.0.0.1", port) as second:
        async with await anyio.connect_tcp("127.0.0.1", port) as first:
            assert await ask(first) == b"hi"
            assert await ask(second) == b"no"
            assert await ask(first) == b"hi"

        async def room() -> bool:
            return await ask(second) == b"hi"

        await eventually(room)


async def test_a_signal_closes_and_then_stops():
    async with serving(hello) as (_, told):
        await anyio.lowlevel.checkpoint()
    assert told[0] == "close"
    assert told[-1] == "ended"


async def test_answers_are_not_held_back_to_be_sent_together():
    delayed: list[int] = []
    original = listener.Connection.connection_made

    def noting(self: listener.Connection, transport) -> None:
        original(self, transport)
        delayed.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listener.Connection, "connection_made", noting)
        async with serving(hello) as (port, _), await anyio.connect_tcp("127.0.0.1", port) as client:
            await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await client.receive()
    assert delayed == [1]
