"""The HTTP service as one ASGI application: /mcp in both protocol eras, /rpc, /healthz, /metrics, and the page at /.

Here paths are given to what answers them; who may come in is `access`'s business, sockets are `listener`'s.
"""

from __future__ import annotations

import json
import logging
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tmuxmcp import __version__
from tmuxmcp.contract.call import ALL_SCOPES, Call
from tmuxmcp.contract.errors import LOOK_BEFORE, Cancelled, InvalidArgument, IoError, TmuxMcpError, Unauthorized
from tmuxmcp.contract.settings import DEFAULT_SETTINGS, BrokerSettings
from tmuxmcp.contract.value import field, replace, value
from tmuxmcp.faces import listener
from tmuxmcp.faces.access import GONE, MAX_BODY, PROOF_HEADER, TASK, TOKEN, Entrance
from tmuxmcp.faces.mcp import Context, McpFace, Results
from tmuxmcp.faces.metrics import Metrics
from tmuxmcp.faces.page import codes
from tmuxmcp.faces.page.codes import AccessSecrets, ServedPage
from tmuxmcp.faces.page.lookups import desk_of
from tmuxmcp.faces.page.routes import Page
from tmuxmcp.faces.rpc import Rpc, encode
from tmuxmcp.faces.subscriptions import Subscriptions
from tmuxmcp.faces.text import AnswerRoom
from tmuxmcp.faces.tokens import PERSON_TOKEN, Token, Tokens, bearer
from tmuxmcp.nodes import fleetfile
from tmuxmcp.nodes.callnews import GatewayCalls
from tmuxmcp.nodes.fleet import AnyBroker
from tmuxmcp.nodes.transport import background_tasks

log = logging.getLogger(__name__)

ANONYMOUS = "anybody"
"""The identity of all clients where no token is asked for."""

CALLER_HEADER, CLIENT_HEADER, SCOPES_HEADER = "tmuxmcp-caller", "tmuxmcp-client", "tmuxmcp-scopes"
"""By which a gateway of many machines says in whose name it calls: each caller behind its token has a default session
and read cursors of its own, and each client's `request_id`s are its own. The scopes are at most the token's."""

GATEWAY_HEADER = "tmuxmcp-gateway"
"""What else a gateway says of its call, as JSON; and that it knows the fleet's secret. Without that proof it is only
told how its own calls go on: it is not believed that the person calls, nobody is asked, and it gives no call its id."""

NOW_HEADER = "tmuxmcp-now"
"""The time here, for gateways: by it they say how long they wait."""

CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

CALLER_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")

SESSION_IDLE_S = 1800
MAX_MCP_SESSIONS = 1000
HEALTH_S = 2
"""Longest time in which tmux has to answer for the service to count as healthy."""


class Service:
    """One broker's HTTP service."""

    def __init__(
        self,
        broker: AnyBroker,
        *,
        tokens: Tokens | None,
        hosts: Iterable[str],
        page: Page,
        settings: BrokerSettings = DEFAULT_SETTINGS,
        tools: Sequence[str] = ("core",),
        results: Results = "both",
        fleet_secret: str = "",
    ) -> None:
        """Build the application.

        Args:
            tokens: those that are accepted; None: none is asked for.
            hosts: exact values of the Host header.
            page: what a person's browser shows.
            settings: whose values the schemas give as defaults.
            tools: names of the tool sets that MCP offers; /rpc has every operation.
            fleet_secret: who shows that they know it is a gateway of many machines; empty: nobody is.
        """
        self._broker, self._page = broker, page
        self._secret, self._gateway_calls = fleet_secret, GatewayCalls()
        self._stopping = anyio.Event()
        self._callers: dict[str, str] = {}
        for name in (
            [token.name for token in tokens if PERSON_TOKEN not in token.scopes] if tokens is not None else [ANONYMOUS]
        ):
            self._callers[name] = broker.claim_identity(f"http:{name}")
            log.info("the client %s is the caller %s", name, self._callers[name])
        self._rooms = {caller: AnswerRoom() for caller in self._callers.values()}
        self.metrics = Metrics()
        self._subscriptions = Subscriptions(self.opened, self.metrics.dropped)
        self._rpc = Rpc(broker, self.metrics.call, settings)
        face = _HttpMcp(self, settings=settings, tools=tools, results=results, subscriptions=self._subscriptions)
        self._manager = StreamableHTTPSessionManager(
            face.server(),
            session_idle_timeout=SESSION_IDLE_S,
            max_sessions=MAX_MCP_SESSIONS,
            max_request_body_size=MAX_BODY,
        )
        self.app = Entrance(
            self._routes(),
            tokens,
            hosts,
            self.metrics.request,
            knows_person=page.knows,
            proves=lambda said, token: bool(fleet_secret) and fleetfile.proves(said, fleet_secret, token),
            open_paths=page.open_paths,
        )

    def _routes(self) -> Starlette:
        app = Starlette(
            routes=[
                Route("/mcp", StreamableHTTPASGIApp(self._manager)),
                Route("/rpc", self._answer_rpc, methods=["POST"]),
                Route("/fleet/{what}", self._talk, methods=["POST"]),
                Route("/healthz", self._healthz),
                Route("/metrics", self._metrics),
                *self._page.routes(),
            ]
        )
        app.router.redirect_slashes = False
        return app

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Serve MCP sessions and subscribers while this is open."""
        async with self._manager.run(), self._page.run():
            yield

    def close(self) -> None:
        """Tell subscribers that it is over; calls may still end by themselves."""
        self._subscriptions.close()

    def stop(self) -> None:
        """End all calls of tools; their clients are told."""
        self._stopping.set()

    async def opened(self) -> AnyBroker:
        """The broker."""
        return self._broker

    def call_of(self, scope: Any) -> Call:
        """What an HTTP request says of who calls."""
        token = cast("Token | None", scope[TOKEN])
        caller = self._callers[token.name if token else ANONYMOUS]
        room = self._rooms[caller].until_done(scope[TASK])
        return Call(caller, token.scopes if token else ALL_SCOPES, _client(scope), room=room)

    @asynccontextmanager
    async def counted(self, scope: Any, name: str) -> AsyncIterator[None]:
        """Count a call of a tool, and end it when its client leaves or the server stops."""
        with self.metrics.call(name):
            async with unless({scope[GONE]: "The client has left.", self._stopping: "The server stops."}):
                yield

    # ---- what answers --------------------------------------------------------------------------

    async def _answer_rpc(self, request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":  # a page of another site cannot send this without asking
            return Response(status_code=415)
        try:
            call = _call_of_gateway(request, self.call_of(request.scope))
            said = self._gateway_headers(request)
        except (InvalidArgument, Unauthorized) as error:
            return _refusal(error)
        try:
            async with unless({request.scope[GONE]: "The client has left."}):
                with said.heard(self._gateway_calls, request, call) as heard:
                    reply = await self._rpc.answer(await request.body(), heard, said.call_id)
        except Cancelled:
            return Response(status_code=503)  # to nobody
        headers = {PROOF_HEADER: "known"} if said.proven else {}
        headers |= {NOW_HEADER: json.dumps(self._gateway_calls.now())} if said.talk else {}
        if reply.call_ids:
            headers["tmuxmcp-call"] = ",".join(reply.call_ids)
            headers["tmuxmcp-duration-ms"] = ",".join(map(str, reply.durations_ms))
        if reply.body is None:
            return Response(status_code=204, headers=headers)
        return Response(reply.body, media_type="application/json", headers=headers)

    def _gateway_headers(self, request: Request) -> _GatewayHeaders:
        """What a gateway says of its call, as far as it is believed.

        Raises:
            Unauthorized: it shows another secret than ours.
            InvalidArgument: it is not understood.
        """
        proof = request.headers.get(PROOF_HEADER, "")
        proven = bool(proof and self._secret)
        if proven and not fleetfile.proves(proof, self._secret, bearer(request.headers.get("authorization"))):
            hint = "The file of the setting fleet_secret has to be the same on all machines of the fleet."
            raise Unauthorized("The call does not have the fleet's secret of this machine.", hint=hint)
        try:
            return _GatewayHeaders.of(json.loads(request.headers.get(GATEWAY_HEADER, "{}")), proven)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InvalidArgument(f"{GATEWAY_HEADER} is not understood.", hint="Gateways of tmuxmcp send it.") from None

    async def _talk(self, request: Request) -> Response:
        """What a gateway and its calls that go on have to say to each other."""
        what = request.path_params["what"]
        try:
            said = self._gateway_headers(request)
            if what == "answer" and not said.proven:
                raise Unauthorized("Only who knows the fleet's secret answers for a person.")
            asked = json.loads(await request.body())
            async with unless({request.scope[GONE]: "The client has left.", self._stopping: "The server stops."}):
                told = await self._gateway_calls.do(what, _line(request, asked), asked)
        except TmuxMcpError as error:
            return _refusal(error)
        except (ValueError, TypeError, KeyError, AttributeError):
            return _refusal(InvalidArgument("This is not understood.", hint="Gateways of tmuxmcp ask here."))
        return Response(encode(told), media_type="application/json")

    async def _healthz(self, request: Request) -> Response:
        if not await self._broker.answers(HEALTH_S):
            return JSONResponse({"status": "tmux does not answer", "version": __version__}, 503)
        return JSONResponse({"status": "ok", "version": __version__})

    async def _metrics(self, request: Request) -> Response:
        return Response(await self.metrics.page(self._broker), media_type=CONTENT_TYPE_LATEST)


class _HttpMcp(McpFace):
    """MCP over HTTP: several clients, each known by its token."""

    def __init__(self, service: Service, **how: Any) -> None:
        super().__init__(service.opened, **how)
        self._service = service

    def caller_of(self, ctx: Context) -> Call:
        return self._service.call_of(_scope(ctx))

    def around(self, ctx: Context, name: str) -> AbstractAsyncContextManager[None]:
        return self._service.counted(_scope(ctx), name)


@value
class _GatewayHeaders:
    """What a gateway says of its call, as far as it is believed."""

    proven: bool = False
    """It knows the fleet's secret."""
    call_id: str = ""
    person: bool = False
    answers: str = ""
    talk: Mapping[str, Any] = field(default_factory=dict)
    """What it wants to hear while the call goes on; empty: nothing."""

    @classmethod
    def of(cls, told: Mapping[str, Any], proven: bool) -> _GatewayHeaders:
        """Raises what comes of a value that is of another kind."""
        talk = told.get("talk", {})
        if talk:
            begin = [str(talk["begin"][0]), float(talk["begin"][1])] if talk.get("begin") else None
            talk = {"line": str(talk["line"]), "key": str(talk["key"]), "asks": talk["asks"], "tells": talk["tells"]}
            talk |= {"begin": begin}
        if not proven:
            return cls(talk=talk)
        call_id = str(told.get("call_id", ""))
        if call_id and not CALL_ID.fullmatch(call_id):
            raise ValueError(call_id)
        return cls(True, call_id, told.get("person") is True, str(told.get("answers", "")), talk)

    @contextmanager
    def heard(self, calls: GatewayCalls, request: Request, call: Call) -> Iterator[Call]:
        """The call as it is to be done."""
        # A token that may not write has nobody behind it who may do more.
        call = replace(call, person=self.person and "write" in call.scopes, answers=self.answers)
        if not self.talk:
            yield call
            return
        with calls.of(_line(request, self.talk), self.talk, call, asks=self.proven) as made:
            yield made


def _line(request: Request, asked: Mapping[str, Any]) -> str:
    """A gateway's name for its calls; behind another token it is another gateway."""
    return f"{_client(request.scope)} {asked['line']}"


def _refusal(error: TmuxMcpError) -> Response:
    return Response(encode({"error": error.as_dict()}), error.http_status, media_type="application/json")


def _scope(ctx: Context) -> Any:
    """The HTTP request that an MCP request came in."""
    assert ctx.request is not None
    return ctx.request.scope


def _call_of_gateway(request: Request, call: Call) -> Call:
    """The call of one of several callers behind one token: a gateway's. It can do no more than the token itself.

    Raises:
        InvalidArgument: what it is called is no name.
    """
    given = {name: request.headers[name] for name in (CALLER_HEADER, CLIENT_HEADER) if name in request.headers}
    for name, word in given.items():
        if not CALLER_NAME.fullmatch(word):
            raise InvalidArgument(f"{name}: {word[:100]!r} is no name.", hint="Letters, digits, `_` and `-`.")
    if caller := given.get(CALLER_HEADER):
        call = replace(call, caller=f"{call.caller}_{caller}")
    if client := given.get(CLIENT_HEADER):
        call = replace(call, client=f"{call.client}.{client}")  # no token's name has a point
    scopes = request.headers.get(SCOPES_HEADER)
    return call if scopes is None else replace(call, scopes=call.scopes & set(scopes.split(",")))


def _client(scope: Any) -> str:
    """Whose `request_id`s are meant: the same in every broker that takes this token."""
    token = cast("Token | None", scope[TOKEN])
    return token.name if token else ANONYMOUS


@asynccontextmanager
async def unless(reasons: Mapping[anyio.Event, str]) -> AsyncIterator[None]:
    """Cancel what is inside at the first of some events.

    Raises:
        Cancelled: there was one before what is inside was done; the message is its reason.
    """
    done = False
    async with background_tasks() as tasks:
        for event in reasons:
            tasks.start_soon(_when, event, tasks.cancel_scope.cancel)
        yield
        done = True
    if not done:
        why = next(reason for event, reason in reasons.items() if event.is_set())
        raise Cancelled(why, hint=LOOK_BEFORE)


async def _when(event: anyio.Event, then: Callable[[], None]) -> None:
    await event.wait()
    then()


# ---- The page beside a server on stdin and stdout --------------------------------------------------------------------
#
# Or alone: on a loopback port of its own, and nothing else there.

LOOPBACK = "127.0.0.1"


async def page_beside(
    broker: AnyBroker,
    state_dir: Path,
    port: int | None = None,
    shown: Callable[[ServedPage], None] = lambda served: None,
) -> None:
    """Show the page, until cancelled.

    Args:
        port: where; `None`: any.
        shown: called once it is served; must not block.

    Raises:
        IoError: there is no port.
    """
    with listener.bind(LOOPBACK, port, only_loopback=True) if port else _bound(state_dir) as opened:
        served = listener.served_at(opened)
        page = Page(desk_of(broker), AccessSecrets(state_dir, served.port), bearer)
        app = Entrance(
            Starlette(routes=page.routes()),
            Tokens([]),
            listener.hosts_of(opened, LOOPBACK),
            lambda status, received, sent: None,
            knows_person=page.knows,
            open_paths=page.open_paths,
        )
        with codes.announced(state_dir, served):
            broker.shows_page(served.url)
            log.info("the page is at %s", served.url)
            shown(served)
            try:
                async with page.run():
                    await listener.serve_beside(app, opened, lambda: None)
            finally:
                app.stop()
                broker.shows_page("")


def _bound(state_dir: Path) -> socket.socket:
    """The port that a server before this one had, if nobody has it; so pages that are open find this one."""
    last = codes.last_port(state_dir)
    if last:
        try:
            return listener.bind(LOOPBACK, last, only_loopback=True)
        except IoError:
            pass
    opened = listener.bind(LOOPBACK, 0, only_loopback=True)
    if last not in [each.port for each in codes.running(state_dir)]:
        codes.keep_port(state_dir, opened.getsockname()[1])
    return opened
