"""The socket of the HTTP service, and how long each step of a client may take.

uvicorn speaks HTTP; what it does not bound is bounded here: a head that does not come, an answer that nobody takes, a
peer that is gone without a word. TLS is a proxy's business.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio
import anyio.abc
import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tmuxmcp.errors import InvalidArgument, IoError, PermissionDenied
from tmuxmcp.faces.refusal import refusal

log = logging.getLogger(__name__)

HEAD_S = 10
"""Longest time from the connection, or from a request's first byte, to the end of its head."""

KEEP_ALIVE_S = 30
"""How long a connection without requests is kept."""

STALL_S = 30
"""Longest time that a client may leave an answer in our hands."""

MAX_HEAD = 32 * 1024
"""Bytes of a request's head."""

MAX_CONNECTIONS = 512
"""Connections at once; requests of those beyond are refused."""

QUICK_S = 0.5
"""What runs when a signal comes has so long to end by itself."""

ANSWER_S = 0.3
"""Then calls are ended, and their answers have so long to be written."""

GRACE_S = 2
"""What is then left is ended, and has so long for that since the signal."""

WHERE = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]:]+):)?(?P<port>\d{1,5})\Z")


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT` or `PORT`, which is on the loopback address; IPv6 in brackets; port 0: any that is free.

    Raises:
        InvalidArgument: it is neither.
    """
    match = WHERE.match(text)
    if not match or int(match["port"]) > 65535:
        raise InvalidArgument(f"{text!r} is no address to listen on.", hint="Give HOST:PORT, such as 127.0.0.1:7433.")
    return (match["host"] or "127.0.0.1").strip("[]"), int(match["port"])


def is_loopback(address: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def bind(host: str, port: int, *, only_loopback: bool) -> socket.socket:
    """A socket to listen on.

    Raises:
        IoError: there is no such address here, or somebody listens there already.
        PermissionDenied: it can be reached from elsewhere, and `only_loopback` is set.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
        if only_loopback and not is_loopback(str(address[0])):
            raise PermissionDenied(
                f"{host} can be reached from other machines: that needs a token.",
                hint="Give --token-file FILE or TMUXMCP_TOKEN, or listen on 127.0.0.1.",
            )
        return _listen(family, address)
    except OSError as error:
        hint = "Choose another address with --http HOST:PORT."
        raise IoError(f"{host} port {port} cannot be listened on: {error.strerror}.", hint=hint) from error


def _listen(family: socket.AddressFamily, address: Any) -> socket.socket:
    # With the protocol named: asyncio turns Nagle's delay off (40 ms a call) only where it sees that it is TCP.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(128)
    except BaseException:
        opened.close()
        raise
    opened.setblocking(False)
    return opened


def hosts_of(opened: socket.socket, host: str) -> set[str]:
    """Values of the Host header under which a socket is meant: the loopback names, and its own address."""
    port = opened.getsockname()[1]
    names = {"127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host}
    return {f"{name}:{port}" for name in names} | (names if port == 80 else set())


async def serve(
    app: ASGIApp,
    opened: socket.socket,
    *,
    close: Callable[[], None],
    stop: Callable[[], None],
    cut: Callable[[], None],
    dropped: Callable[[], None],
) -> None:
    """Serve until a signal comes; then within a few seconds no request is left.

    Args:
        close: called at once, for what can end in good order.
        stop: called a moment later: ends the calls that still run, which are answered.
        cut: called when those answers are written: ends every request.
        dropped: called when a connection is ended because its client takes nothing.
    """
    for name in ("uvicorn", "mcp", "sse_starlette"):  # each tells of every connection
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    config = uvicorn.Config(
        app,
        http=partial(Connection, dropped=dropped),  # type: ignore[arg-type]  # a class is asked for; it is only called
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
        h11_max_incomplete_event_size=MAX_HEAD,
    )
    server = _Server(config)
    async with anyio.create_task_group() as task_group:
        await task_group.start(_on_signal, server, close, stop, cut)
        await server.serve(sockets=[opened])
        task_group.cancel_scope.cancel()


class _Server(uvicorn.Server):
    """uvicorn without its hands on the signals: it would raise them again before sessions are let go of."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _on_signal(
    server: uvicorn.Server,
    close: Callable[[], None],
    stop: Callable[[], None],
    cut: Callable[[], None],
    *,
    task_status: anyio.abc.TaskStatus[None],
) -> None:
    ends = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup does
        ends.append(signal.SIGHUP)
    with anyio.open_signal_receiver(*ends) as signals:
        task_status.started()
        async for number in signals:
            if server.should_exit:
                server.force_exit = True
            log.info("%s: stopping", signal.Signals(number).name)
            server.should_exit = True
            close()
            await anyio.sleep(QUICK_S)
            stop()
            await anyio.sleep(ANSWER_S)
            cut()


class Connection(H11Protocol):
    """One client's connection."""

    def __init__(self, *args: Any, dropped: Callable[[], None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._dropped = dropped
        self._head: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        _notice_a_dead_peer(transport.get_extra_info("socket"))
        self._head = self.loop.call_later(HEAD_S, self._abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._end_stall()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.app = self.config.loaded_app if len(self.connections) <= MAX_CONNECTIONS else _too_many
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._end_head()
        elif self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(HEAD_S, self._abort)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, in the form of all refusals."""
        body = refusal(400, msg)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        start = h11.Response(status_code=400, headers=[*headers, (b"connection", b"close")], reason=b"Bad Request")
        events = (start, h11.Data(data=body), h11.EndOfMessage())
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall = self._stall or self.loop.call_later(STALL_S, self._drop)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end_stall()

    def _end_head(self) -> None:
        if self._head:
            self._head.cancel()
            self._head = None

    def _end_stall(self) -> None:
        if self._stall:
            self._stall.cancel()
            self._stall = None

    def _abort(self) -> None:
        self.transport.abort()

    def _drop(self) -> None:
        self._dropped()
        self.transport.abort()


async def _too_many(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a request of a connection too many."""
    body = refusal(503, f"There are more than {MAX_CONNECTIONS} connections")
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _notice_a_dead_peer(connection: socket.socket) -> None:
    """Have the kernel find out within a minute or so that a peer is gone without a word."""
    options = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in options.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
