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
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any

import anyio
import anyio.abc
import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tmuxmcp.contract.errors import IoError, PermissionDenied
from tmuxmcp.faces.access import KNOW, refusal
from tmuxmcp.faces.page.codes import ServedPage
from tmuxmcp.faces.tokens import is_loopback

log = logging.getLogger(__name__)

HEAD_S = 10
"""Longest time from a request's first byte to the end of its head."""

KEEP_ALIVE_S = 30
"""How long a connection without requests is kept."""

STRANGER_HEAD_S = 5
STRANGER_KEEP_ALIVE_S = 5
"""The same, from the connection on, while no token that is accepted has come."""

STALL_S = 30
"""Longest time that a client may leave an answer in our hands."""

MAX_HEAD = 32 * 1024
"""Bytes of a request's head."""

MAX_CONNECTIONS = 512
"""Connections at once on which a token came; requests of those beyond are refused."""

MAX_STRANGERS = 128
"""Connections at once on which none came yet: for one beyond, the oldest is ended."""

ACCEPTED_AT_ONCE = 8
"""Connections taken up in one round of the event loop.

The token of the first is seen some four rounds later. By then far fewer than `MAX_STRANGERS` may have come, so that
none is ended unread.
"""

LISTEN_BACKLOG = 1024
"""Connections that wait in the kernel to be taken up."""

QUICK_S = 0.5
"""What runs when a signal comes has so long to end by itself."""

WRITE_ANSWERS_S = 0.3
"""Then calls are ended, and their answers have so long to be written."""

STOP_GRACE_S = 2
"""What is then left is ended, and has so long for that since the signal."""

END_OF_HEAD = re.compile(rb"\n\r?\n")
FOLDED = re.compile(rb"\r\n[ \t]")
"""A line that goes on with the header before it (RFC 9112, 5.2): some read it so, and some as a header of its own."""

BARE_LF = re.compile(rb"(?<!\r)\n")


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


def served_at(opened: socket.socket) -> ServedPage:
    """Where a browser of this machine reaches what listens."""
    host, port = opened.getsockname()[:2]
    if ipaddress.ip_address(host.partition("%")[0]).is_unspecified:
        host = "127.0.0.1"
    return ServedPage(port, f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")


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
    server = _Server(_config(app, dropped))
    async with anyio.create_task_group() as task_group:
        await task_group.start(_on_signal, server, close, stop, cut)
        await server.serve(sockets=[opened])
        task_group.cancel_scope.cancel()


async def serve_beside(app: ASGIApp, opened: socket.socket, dropped: Callable[[], None]) -> None:
    """Serve until cancelled, beside another face that minds the signals."""
    server = _Server(_config(app, dropped))
    try:
        await server.serve(sockets=[opened])
    finally:
        server.should_exit = server.force_exit = True
        with anyio.move_on_after(STOP_GRACE_S, shield=True):
            await server.shutdown(sockets=[opened])


def _config(app: ASGIApp, dropped: Callable[[], None]) -> uvicorn.Config:
    for name in ("uvicorn", "mcp", "sse_starlette"):  # each tells of every connection
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    return uvicorn.Config(
        app,
        http=partial(Connection, crowd=Crowd(), dropped=dropped),  # type: ignore[arg-type]  # a class is asked for; it is only called
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_GRACE_S,
        backlog=ACCEPTED_AT_ONCE,
    )


class _Server(uvicorn.Server):
    """uvicorn without its hands on the signals: it would raise them again before sessions are let go of."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or []:  # asyncio takes one number for this queue and for what it takes up at once
            each.listen(LISTEN_BACKLOG)


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
            await anyio.sleep(WRITE_ANSWERS_S)
            cut()


class Crowd:
    """The connections of one service: those on which a token came, and strangers'."""

    def __init__(self) -> None:
        self._strangers: dict[Connection, None] = {}
        self._known: set[Connection] = set()

    def came(self, connection: Connection) -> None:
        """A stranger is there; the oldest one goes if there are too many."""
        self._strangers[connection] = None
        if len(self._strangers) > MAX_STRANGERS:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.abort()

    def remove(self, connection: Connection) -> None:
        """A connection is gone."""
        self._strangers.pop(connection, None)
        self._known.discard(connection)

    def know(self, connection: Connection) -> bool:
        """A token came: whether there is still room."""
        if connection not in self._known:
            if len(self._known) >= MAX_CONNECTIONS:
                return False
            self._strangers.pop(connection, None)
            self._known.add(connection)
        return True


class Unfit(h11.RemoteProtocolError):
    """What h11 lets pass and we do not; its text is ours."""


class Framing(h11.Connection):
    """h11, where two who read the same bytes could take them for different requests: stricter."""

    def next_event(self) -> Any:
        """The next event.

        Raises:
            h11.RemoteProtocolError: this is no HTTP, or none that all read alike.
        """
        if self.their_state is h11.IDLE:
            _check_head(self.trailing_data[0])
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise Unfit("Content-Length and Transfer-Encoding are both there")
        return event


def _check_head(data: bytes) -> None:
    """Look at a head, as far as it is here.

    Raises:
        Unfit
    """
    end = END_OF_HEAD.search(data)
    head = data[: end.end()] if end else data
    if len(head) > MAX_HEAD:
        raise Unfit(f"A head may have {MAX_HEAD:,} bytes", error_status_hint=431)
    if BARE_LF.search(head):
        raise Unfit("A line of the head ends without CR")
    if FOLDED.search(head):
        raise Unfit("A header goes on in a second line")


class Connection(H11Protocol):
    """One client's connection."""

    def __init__(self, *args: Any, crowd: Crowd, dropped: Callable[[], None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = Framing(h11.SERVER, MAX_HEAD)
        self.app = self._enter
        self.timeout_keep_alive = STRANGER_KEEP_ALIVE_S
        self._head_s = STRANGER_HEAD_S
        self._crowd = crowd
        self._dropped = dropped
        self._head: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        _notice_a_dead_peer(transport.get_extra_info("socket"))
        self._head = self.loop.call_later(self._head_s, self.abort)
        self._crowd.came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.remove(self)
        self._end_head()
        self._end_stall()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._end_head()
        elif self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(self._head_s, self.abort)

    async def _enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[KNOW] = self._know
        await self.config.loaded_app(scope, receive, send)

    def _know(self) -> bool:
        """A token that is accepted came; whether there is room for one more client."""
        if not self._crowd.know(self):
            return False
        self.timeout_keep_alive, self._head_s = KEEP_ALIVE_S, HEAD_S
        return True

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, in the form of all refusals."""
        error = sys.exception()
        status = getattr(error, "error_status_hint", 400)
        body = refusal(status, str(error) if isinstance(error, Unfit) else msg)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        reason = HTTPStatus(status).phrase.encode()
        start = h11.Response(status_code=status, headers=[*headers, (b"connection", b"close")], reason=reason)
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

    def abort(self) -> None:
        """End it at once."""
        self.transport.abort()

    def _drop(self) -> None:
        self._dropped()
        self.transport.abort()


def _notice_a_dead_peer(connection: socket.socket) -> None:
    """Have the kernel find out within a minute or so that a peer is gone without a word."""
    options = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in options.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
