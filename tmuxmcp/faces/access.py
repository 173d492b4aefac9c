"""The entrance of the HTTP service: who may come in, how much they may bring, and what becomes of it when they leave.

Nothing of a request reaches the application before its Host, its Origin and its token are found good, and its body is
there whole. A client that leaves ends its call; a server that stops ends all.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from uuid import uuid4

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tmuxmcp.contract.errors import (
    Cancelled,
    Internal,
    InvalidArgument,
    PermissionDenied,
    ResourceLimit,
    TimedOut,
    TmuxMcpError,
    Unauthorized,
)
from tmuxmcp.contract.value import value
from tmuxmcp.faces.rpc import encode
from tmuxmcp.faces.text import current_task
from tmuxmcp.faces.tokens import PERSON_TOKEN as PERSON_SCOPE
from tmuxmcp.faces.tokens import Token, Tokens, bearer

log = logging.getLogger(__name__)

MAX_BODY = 16 * 1024 * 1024
"""Bytes of a request's body; as many as a line on stdio may have."""

MAX_HELD = 8 * MAX_BODY
"""Bytes of all bodies that are on their way or being dealt with: clients with tokens are many, too."""

BODY_S = 30
"""Longest time in which a body has to arrive."""

STRANGER_BODY, STRANGER_BODY_S = 1024, 5
"""The same for requests without a token: to what needs none."""

OPEN_PATHS = frozenset({"/healthz"})
"""What needs no token: it tells nothing of sessions."""

PROOF_HEADER = "tmuxmcp-fleet"
"""By which a gateway shows that it knows the fleet's secret: good together with the token beside it alone."""

PAGE_PREFIX = "/page/"
"""What the page asks for: by a person's token, which is good for nothing else."""

PIECE_BYTES = 64 * 1024
"""Bytes of an answer that are handed over at once."""

MAX_REFUSAL = 1000
"""Bytes of a library's refusal that are kept."""

TOKEN, GONE, KNOW, TASK = "tmuxmcp.token", "tmuxmcp.gone", "tmuxmcp.know", "tmuxmcp.task"
"""Where the request's scope has its `Token`, the event that its client has left, what tells the listener that a
token came (it answers whether there is room for one more such client), and the task that ends when the answer is
written."""

PAGE_TOKEN = Token("person", frozenset({PERSON_SCOPE}), b"")
"""Whose a request of the page is. The scope opens no operation."""

CountBytes = Callable[[int, int, int], None]
"""`count(status, received_bytes, sent_bytes)` of one request."""


@value(frozen=False)
class RefusedRequest(Exception):
    """A request that does not come in."""

    status: int
    error: TmuxMcpError


class Entrance:
    """An ASGI application around another."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens | None,
        hosts: Iterable[str],
        count: CountBytes,
        *,
        knows_person: Callable[[str], bool] = lambda token: False,
        proves: Callable[[str, str], bool] = lambda said, token: False,
        open_paths: Iterable[str] = (),
    ) -> None:
        """Let requests through to `app`.

        Args:
            tokens: those that are accepted; None: none is asked for.
            hosts: exact values of Host, `name` or `name:port`; an Origin is one of these behind its scheme.
            knows_person: whether a token is that of a person's page.
            proves: whether what a gateway says beside a token shows that it knows the fleet's secret.
            open_paths: what needs no token beside `OPEN_PATHS`.
        """
        self._app, self._tokens, self._count = app, tokens, count
        self._knows_person, self._proves = knows_person, proves
        self._open = OPEN_PATHS | frozenset(open_paths)
        self._hosts = frozenset(host.lower() for host in hosts)
        self._scopes: set[anyio.CancelScope] = set()
        self._stopping = False
        self._held = 0

    def stop(self) -> None:
        """End all requests; from now on nothing comes in."""
        self._stopping = True
        for scope in self._scopes:
            scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        answer = _Response(send)
        body = bytearray()
        try:
            scope[TOKEN] = token = self._check(scope)
            known = token is not None or (self._tokens is None and not scope["path"].startswith(PAGE_PREFIX))
            if known and not scope.get(KNOW, _room)():
                raise RefusedRequest(
                    503, ResourceLimit("There are too many connections.", hint="Try again in a moment.")
                )
            if token:
                user = AccessToken(token="-", client_id=token.name, scopes=sorted(token.scopes))
                scope["user"] = AuthenticatedUser(user)  # the SDK binds its sessions to whoever made them
            most, limit_s = (MAX_BODY, BODY_S) if known else (STRANGER_BODY, STRANGER_BODY_S)
            await self._read(body, scope, receive, most, limit_s)
            await self._serve(scope, bytes(body), receive, answer)
        except RefusedRequest as refused:
            await answer.refuse(refused.status, refused.error)
        finally:
            self._held -= len(body)
            self._count(answer.status, len(body), answer.sent)

    def _check(self, scope: Scope) -> Token | None:
        """The token that a request came with; None where none is asked for.

        Raises:
            RefusedRequest: it does not come in.
        """
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        if self._stopping:
            raise RefusedRequest(503, Cancelled("The server stops.", hint="Sessions go on; try again when it is back."))
        host = _only(headers, "host")
        if host is None or host.lower() not in self._hosts:
            hint = "Name it in the setting allowed_hosts, with its port if the client's address has one."
            raise RefusedRequest(421, PermissionDenied("This server does not answer to that Host.", hint=hint))
        origin = _only(headers, "origin")
        if origin is not None and not self._is_ours(origin):
            hint = "Only pages of this server's own hosts may call it (allowed_hosts)."
            raise RefusedRequest(403, PermissionDenied("This server does not answer to that Origin.", hint=hint))
        authorization = _only(headers, "authorization")
        if scope["path"].startswith(PAGE_PREFIX):
            return self._check_person(scope["path"], authorization, host, origin, _only(headers, PROOF_HEADER) or "")
        if self._tokens is None:
            return None
        token = self._tokens.find(authorization)
        if token is None and scope["path"] not in self._open:
            hint = "Send the header: Authorization: Bearer TOKEN."
            raise RefusedRequest(401, Unauthorized("A token that is accepted is missing.", hint=hint))
        return token

    def _check_person(
        self, path: str, authorization: str | None, host: str, origin: str | None, proof: str
    ) -> Token | None:
        """As `_check`, of what the page asks for: a page of this very address, of a person or a gateway."""
        if origin is not None and origin.lower().partition("://")[2] != host.lower():
            hint = "Open the page by one address only."
            raise RefusedRequest(403, PermissionDenied("The page does not answer to that Origin.", hint=hint))
        if self._knows_person(bearer(authorization)):
            return PAGE_TOKEN
        if self._tokens is not None and (gateway := self._tokens.find(authorization, person=True)):
            if self._proves(proof, bearer(authorization)):
                return gateway
            hint = "The file of the setting fleet_secret has to be the same there and here, before servers start."
            raise RefusedRequest(
                401, Unauthorized("The gateway does not have the fleet's secret of this machine.", hint=hint)
            )
        if path in self._open:
            return None
        raise RefusedRequest(401, Unauthorized("The page is not open to this.", hint="Open it anew: tmuxmcp page"))

    def _is_ours(self, origin: str) -> bool:
        scheme, _, host = origin.lower().partition("://")
        return scheme in ("http", "https") and host in self._hosts

    async def _read(self, body: bytearray, scope: Scope, receive: Receive, most: int, limit_s: float) -> None:
        """Read the whole body.

        Raises:
            RefusedRequest: it is too large, or takes too long.
        """
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        _check_size(int(declared), most)
        with anyio.move_on_after(limit_s):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RefusedRequest(400, Cancelled("The client has left."))
                piece = message.get("body", b"")
                body += piece
                self._held += len(piece)
                _check_size(len(body), most)
                if self._held > MAX_HELD:
                    raise RefusedRequest(
                        503, ResourceLimit("Too much is on its way here.", hint="Try again in a moment.")
                    )
                if not message.get("more_body", False):
                    return
        raise RefusedRequest(408, TimedOut(f"The body did not arrive within {limit_s} s."))

    async def _serve(self, scope: Scope, body: bytes, receive: Receive, answer: _Response) -> None:
        gone = scope[GONE] = anyio.Event()
        scope[TASK] = current_task()
        asked: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            if asked:
                return asked.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set()

        with anyio.CancelScope() as stop:
            self._scopes.add(stop)
            try:
                async with anyio.create_task_group() as task_group:
                    task_group.start_soon(watch)
                    await self._app(scope, replay, answer.send)
                    task_group.cancel_scope.cancel()
            except Exception:
                incident = uuid4().hex[:12]
                log.exception("%s failed, incident %s", scope["path"], incident)
                hint = f"The server's log (stderr) has it under incident {incident}."
                error = Internal("Something unexpected failed inside tmuxmcp.", hint=hint, incident=incident)
                await answer.refuse(500, error)
            finally:
                self._scopes.discard(stop)
        if stop.cancelled_caught:
            await answer.refuse(503, Cancelled("The server stops.", hint="Sessions go on."))


class _Response:
    """What goes back for one request: counted, every refusal as JSON, and brought to an end even when the application
    was stopped."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status, self.sent, self._complete = 0, 0, False
        self._refusal: _LibraryRefusal | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_plain_refusal(message):
            self._refusal = _LibraryRefusal(message)
        elif self._refusal is None:
            await self._pass(message)
        elif self._refusal.is_whole(message):
            for each in self._refusal.as_json():
                await self._pass(each)

    async def _pass(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            await self._send(message)
        else:
            self.sent += len(message.get("body", b""))
            self._complete = not message.get("more_body", False)
            for piece in _pieces(message):
                await self._send(piece)

    async def refuse(self, status: int, error: TmuxMcpError) -> None:
        """Answer with an error; if an answer has begun, only end it."""
        if self._complete:
            return
        with anyio.move_on_after(1, shield=True):
            body = b""
            if not self.status:
                body = encode({"error": error.as_dict()})
                await self._pass({"type": "http.response.start", "status": status, "headers": _headers(status, body)})
            await self._pass({"type": "http.response.body", "body": body, "more_body": False})


class _LibraryRefusal:
    """A refusal that a library words as plain text, or not at all."""

    def __init__(self, start: Message) -> None:
        self._status, self._headers = start["status"], start["headers"]
        self._said = b""

    def is_whole(self, message: Message) -> bool:
        """Take a piece of its body; true when that was the last."""
        self._said += message.get("body", b"")[: MAX_REFUSAL - len(self._said)]
        return not message.get("more_body", False)

    def as_json(self) -> Iterator[Message]:
        """The same refusal with the object of all errors; headers that say what is allowed stay."""
        body = refusal(self._status, self._said.decode(errors="replace"))
        kept = [each for each in self._headers if each[0] not in (b"content-type", b"content-length")]
        headers = kept + _headers(self._status, body)
        yield {"type": "http.response.start", "status": self._status, "headers": headers}
        yield {"type": "http.response.body", "body": body, "more_body": False}


def _pieces(message: Message) -> Iterator[Message]:
    """A body as the listener is to have it: it keeps what the client has not taken, and takes no more until it has."""
    body, more = message.get("body", b""), message.get("more_body", False)
    for begin in range(0, len(body) or 1, PIECE_BYTES):
        end = begin + PIECE_BYTES
        yield {**message, "body": body[begin:end], "more_body": more or end < len(body)}


def _is_plain_refusal(start: Message) -> bool:
    kind = next((value for name, value in start["headers"] if name == b"content-type"), b"")
    return bool(start["status"] >= 400 and not kind.startswith((b"application/json", b"text/event-stream")))


def _headers(status: int, body: bytes) -> list[tuple[bytes, bytes]]:
    found = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status == 401:
        found.append((b"www-authenticate", b"Bearer"))
    if status in (408, 413, 503):  # the rest of the body is on its way, and nobody will read it
        found.append((b"connection", b"close"))
    return found


def _only(headers: list[tuple[str, str]], name: str) -> str | None:
    """The value of a header that may be there once.

    Raises:
        RefusedRequest: it is there more than once: two who read it could take different ones.
    """
    values = [value for each, value in headers if each == name]
    if len(values) > 1:
        raise RefusedRequest(
            400, InvalidArgument(f"The header {name} is there {len(values)} times.", hint="Send it once.")
        )
    return values[0] if values else None


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise RefusedRequest(413, ResourceLimit(f"A body may have {most:,} bytes.", hint="Send it in pieces."))


def _room() -> bool:
    """There is always room where nobody counts connections."""
    return True


# ---- HTTP refusals that a library words as plain text, or not at all, as the object of all errors. Pure --------------

HINT_BY_STATUS = {
    400: "The request has to be whole HTTP/1.1, its Content-Type application/json.",
    404: "Paths are /mcp, /rpc, /metrics, /healthz and /.",
    405: "The header Allow names the methods that are taken.",
    406: "Accept has to name application/json and text/event-stream.",
    415: "The Content-Type has to be application/json.",
    431: "Send fewer or shorter headers.",
    503: "Try again in a moment.",
}
"""What to do about a refusal that comes without an error of ours, by its status."""


def refusal(status: int, said: str = "") -> bytes:
    """The body of a refusal that comes without an error of ours.

    Args:
        said: what it says; empty: what the status means.
    """
    message = said.strip().rstrip(".") or HTTPStatus(status).phrase
    kind = ResourceLimit if status in (413, 431, 503) else InvalidArgument if status < 500 else Internal
    error = kind(f"{message}.", hint=HINT_BY_STATUS.get(status, ""))
    return json.dumps({"error": error.as_dict()}).encode()
