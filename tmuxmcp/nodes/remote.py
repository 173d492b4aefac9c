"""Machines whose brokers serve HTTP, as a file names them: the way without an engine, for a few dozen of them.

One JSON-RPC call for each call, over connections that are kept. The gateway's callers are told apart by the header
`tmuxmcp-caller`: behind the one token that the gateway has, each has a default session and read cursors of its own.
Who shows that they know the fleet's secret is believed more (`tmuxmcp-gateway`): that it is the person who calls, and
what a person answers. What a call says before it ends is asked for by calls of its own, at `/fleet/`.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import httpx2
from pydantic import ValidationError

from tmuxmcp import __version__
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call, no_progress, nobody
from tmuxmcp.contract.errors import (
    InvalidArgument,
    IoError,
    NodeUnreachable,
    OutcomeUnknown,
    PermissionDenied,
    SessionNotFound,
    TmuxMcpError,
    Unsupported,
)
from tmuxmcp.contract.follow import Change, Destroyed, Exit, Gap, Lost, Output
from tmuxmcp.contract.request import R, Request
from tmuxmcp.contract.value import replace, value
from tmuxmcp.contract.words import ASCIICAST_METHOD, Cast
from tmuxmcp.nodes import fleetfile, transport
from tmuxmcp.nodes.callnews import NEWS_HELD_S, EndedForQuestion, RemoteCall, RemoteCalls, own_time_s
from tmuxmcp.nodes.fleetfile import FleetFile, MachineEntry
from tmuxmcp.nodes.transport import Machine, Tombstone, VisitAnswer

BROKER_BACK_S = 1.8
"""A broker that is started again is back in a second or two."""

HTTP_CONNECT_S = 1.7
"""Longest time until there is a connection: less than who calls waits for a machine that says nothing."""

KEPT_S = 15.0
"""So long a connection is kept that nothing uses: a broker ends it after 30 s, and no call must meet that moment."""

ASK_S = 4.0
"""Longest time in which a machine has to say how it is."""

GRACE_S = 30.0
"""So much longer than a call may wait its answer may take, while its machine says that it is there."""

LONG_S = 600.0
"""Longest time for what makes films of long logs."""

MAX_WAIT_MS = 50_000
"""As long a machine waits at most, if it has not said how long it does."""

MAX_ANSWER = 128 << 20
"""Bytes of one answer: the most that a result can be asked to hold, as JSON with everything escaped."""

FOLLOW_S = 0.02, 1.0
"""Between two looks at what a session printed: shortest, and longest when nothing comes."""

AWAY_S = 60.0
"""So long a machine may be away from who follows one of its sessions."""

MOST_REFUSAL = 1 << 16
"""Bytes of a refusal that are looked at."""

LOOK_BYTES = 1 << 20
"""Bytes that one look gives."""

NO_ANSWER = "no answer in time"

LONG_OPERATIONS = frozenset({"export_recording", "stop_recording"})
"""Operations whose work may take long, beside what they wait."""


@value(frozen=False)
class _RemoteBroker:
    """A machine's broker, and what it said of itself."""

    entry: MachineEntry
    client: httpx2.AsyncClient
    hearing: RemoteCalls
    believes: bool = False
    """It knows the fleet's secret, as we do."""
    machine_id: str = ""
    max_wait_ms: int = MAX_WAIT_MS
    known: bool = False
    """It said how long it waits at most."""


class HttpTransport:
    """The brokers of a file."""

    patience_s = BROKER_BACK_S

    def __init__(
        self, file: FleetFile, token_of: Callable[[Path], str], secret: str, tasks: anyio.abc.TaskGroup
    ) -> None:
        self._file, self._token_of, self._secret, self._tasks = file, token_of, secret, tasks
        self._brokers: dict[str, _RemoteBroker] = {}
        self._left: list[_RemoteBroker] = []
        """Of entries that the file has no longer; calls may still go on there."""

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, token_of: Callable[[Path], str], secret: str = "") -> AsyncIterator[HttpTransport]:
        """The way to the brokers of a file, while this is open.

        Args:
            token_of: reads the token of a file.
            secret: the fleet's; empty: it has none, and machines believe no more than the token allows.

        Raises:
            IoError, PermissionDenied, InvalidArgument: the file cannot be read, or is not understood.
        """
        file = FleetFile(path)
        file.read()
        async with transport.background_tasks() as tasks:
            remote = cls(file, token_of, secret, tasks)
            try:
                yield remote
            finally:
                tasks.cancel_scope.cancel()
                with anyio.move_on_after(2, shield=True):
                    for each in (*remote._brokers.values(), *remote._left):
                        await each.client.aclose()

    # ---- which machines ------------------------------------------------------------------------

    async def names(self) -> list[str]:
        """Those of the file, without those that were given up."""
        return [name for name in self._file.read().entries if not self._given_up(name)]

    async def machines(self) -> list[Machine]:
        """All of them, asked at once."""
        found: dict[str, Machine] = {}

        async def one(entry: MachineEntry) -> None:
            machine = await self._described(entry)
            if not self._given_up(entry.name):  # now it is known which machine it is
                found[entry.name] = machine

        async with anyio.create_task_group() as tasks:
            for entry in self._file.read().entries.values():
                if not self._given_up(entry.name) or self._file.read().marks[entry.name].tombstone.machine_id:
                    tasks.start_soon(one, entry)
        return [found[name] for name in sorted(found)]

    async def _described(self, entry: MachineEntry) -> Machine:
        mark = self._file.read().marks.get(entry.name)
        drained = mark is not None and mark.said == "drained"
        machine = Machine(entry.name, entry.labels, drained=drained, ssh=entry.ssh)
        with anyio.move_on_after(ASK_S):
            try:
                health = await self._health(self._broker(entry))
            except TmuxMcpError as error:
                return replace(machine, alive=False, note=str(error))
            most = health.limits.get("max_sessions")
            other = "" if health.version == __version__ else f"its tmuxmcp is {health.version}, ours {__version__}"
            unknown = self._secret and not self._broker(entry).believes
            secret = "it does not know the fleet's secret: to it you are an agent" if unknown else ""
            wrong = "; ".join(f"{each.name}: {each.message}" for each in health.checks if not each.ok)
            return replace(
                machine,
                version=health.version,
                live=health.sessions,
                free=None if most is None else max(most - health.sessions, 0),
                machine_id=health.machine_id or "",
                note="; ".join(filter(None, (other, secret, wrong))),
            )
        return replace(machine, alive=False, note=f"it did not answer within {ASK_S:g} s")

    async def _health(self, broker: _RemoteBroker) -> r.HealthResult:
        await self._reach(broker)
        health = await self._send(broker, q.Health(), Call("fleet", person=True))
        broker.machine_id, broker.known = health.machine_id or "", True
        broker.max_wait_ms = health.limits.get("max_wait_ms", MAX_WAIT_MS)
        return health

    def _given_up(self, name: str) -> bool:
        """Whether a machine was given up, and no other one is known to have its name now."""
        mark = self._file.read().marks.get(name)
        if mark is None or mark.said != "forgotten":
            return False
        broker = self._brokers.get(name)
        known = broker.machine_id if broker else ""
        return not (mark.tombstone.machine_id and known and known != mark.tombstone.machine_id)

    def _broker(self, entry: MachineEntry) -> _RemoteBroker:
        """What speaks to a machine.

        Raises:
            NodeUnreachable: its token cannot be read: nothing can be sent.
        """
        broker = self._brokers.get(entry.name)
        if broker is None or broker.entry != entry:
            self._left += [broker] if broker else []
            client = self._client(entry)

            async def exchange(what: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
                return await _say(client, what, asked, _connecting(hearing))

            hearing = RemoteCalls(exchange)
            self._brokers[entry.name] = broker = _RemoteBroker(entry, client, hearing)
            self._tasks.start_soon(hearing.run)
            self._tasks.start_soon(hearing.watch)
        return broker

    def _client(self, entry: MachineEntry) -> httpx2.AsyncClient:
        headers, token = {"content-type": "application/json"}, ""
        if entry.token_file:
            token = self._read_token(entry, entry.token_file)
            headers["authorization"] = f"Bearer {token}"
        if self._secret:
            headers["tmuxmcp-fleet"] = fleetfile.proof(self._secret, token)
        return httpx2.AsyncClient(
            base_url=entry.url,
            headers=headers,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=KEPT_S),
            verify=ssl.create_default_context() if entry.url.startswith("https:") else False,
            trust_env=False,  # no proxy of an environment sees what is typed
            follow_redirects=False,
        )

    def _read_token(self, entry: MachineEntry, file: Path) -> str:
        """
        Raises:
            NodeUnreachable: it cannot be read: nothing can be sent.
        """
        try:
            return self._token_of(file)
        except (InvalidArgument, IoError, PermissionDenied) as error:
            raise NodeUnreachable(f"The token for {entry.name}: {error.message}", hint=error.hint) from None

    # ---- one call ------------------------------------------------------------------------------

    async def call(self, node: str, request: Request[R], call: Call) -> R:
        """One JSON-RPC call."""
        broker = await self._broker_of(node, own_time_s(request, MAX_WAIT_MS))
        return await self._send(broker, request, call)

    async def _broker_of(self, node: str, own_s: float = 0.0) -> _RemoteBroker:
        """What speaks to a machine.

        Args:
            own_s: so long the call may wait there.

        Raises:
            LookupError: the file has none of this name, or it was given up.
        """
        entry = self._file.read().entries.get(node)
        if entry is None or self._given_up(node):
            raise LookupError(node)
        broker = self._broker(entry)
        await self._reach(broker, own_s)
        if not broker.known:
            with anyio.move_on_after(ASK_S), suppress(TmuxMcpError):
                await self._health(broker)
            if self._given_up(node):
                raise LookupError(node)
        return broker

    async def _reach(self, broker: _RemoteBroker, own_s: float = 0.0) -> None:
        """
        Raises:
            NodeUnreachable: it does not say that it is there, and nothing was sent.
        """
        try:
            await broker.hearing.reach(own_s)
        except NodeUnreachable as error:
            broker.known = False
            details = {"url": broker.entry.url, **error.details}
            raise NodeUnreachable(f"{broker.entry.name} does not answer: {error.message}.", **details) from None

    async def _send(self, broker: _RemoteBroker, request: Request[R], call: Call) -> R:
        own_s = own_time_s(request, broker.max_wait_ms)
        bound_s = own_s + (LONG_S if request.operation.name in LONG_OPERATIONS else GRACE_S)
        node, changes = broker.entry.name, not request.operation.read_only
        try:
            async with broker.hearing.of(call, own_s, bound_s, changes=changes) as heard:
                try:
                    return await self._sent(broker, request, call, heard)
                except OutcomeUnknown as error:
                    raise await broker.hearing.given_up(heard, error) from None
        except EndedForQuestion:
            text = f"The way to {node} broke: it asks a question that nobody has heard."
            raise OutcomeUnknown(text, url=broker.entry.url) from None

    async def _sent(self, broker: _RemoteBroker, request: Request[R], call: Call, heard: RemoteCall) -> R:
        sent = transport.request_sent(request)
        body = {"jsonrpc": "2.0", "id": 1, "method": sent["operation"], "params": sent["arguments"]}
        with _broken(broker):
            with heard.bound:
                asked = _post(broker.client, "/rpc", body, self._headers(call, heard.sent))
                asked.extensions["trace"] = _connecting(broker.hearing)
                headers: dict[str, str] = {}
                status, answer = await _exchange(broker.client, asked, headers)
                broker.hearing.hear(json.loads(headers.get("tmuxmcp-now", "null")))
                broker.believes = "tmuxmcp-fleet" in headers
                if isinstance(answer, dict) and answer.get("again") is True:
                    raise EndedForQuestion
                return _received(broker.entry.name, request, status, answer)
            raise ValueError(NO_ANSWER)

    def _headers(self, call: Call, heard: Mapping[str, Any] | None) -> dict[str, str]:
        """Who calls; what only who knows the fleet's secret may say, is said only by them."""
        headers = {"tmuxmcp-caller": call.caller, "tmuxmcp-scopes": ",".join(sorted(call.scopes))}
        headers |= {"tmuxmcp-client": call.client} if call.client else {}
        more: dict[str, Any] = {"talk": heard} if heard else {}
        if self._secret:
            more |= {"call_id": call.call_id, "person": call.person, "answers": call.answers}
        return headers | ({"tmuxmcp-gateway": json.dumps(more)} if more else {})

    async def asciicast(self, node: str, session_id: str, most_bytes: int, call: Call) -> Cast:
        """One JSON-RPC call."""
        broker = await self._broker_of(node)
        params = {"session_id": session_id, "most_bytes": most_bytes}
        body = {"jsonrpc": "2.0", "id": 1, "method": ASCIICAST_METHOD, "params": params}
        async with broker.hearing.of(replace(call, ask=nobody, progress=no_progress), bound_s=LONG_S) as heard:
            with _broken(broker):
                with heard.bound:
                    asked = _post(broker.client, "/rpc", body, self._headers(call, None))
                    answer = _result(node, *await _exchange(broker.client, asked))
                    return Cast.received(answer["result"])
                raise ValueError(NO_ANSWER)

    # ---- what a person asks ---------------------------------------------------------------------

    def shows_page(self, node: str) -> bool:
        """Whether there is a token with which it lets a person in."""
        entry = self._file.read().entries.get(node)
        return bool(self._secret and entry and entry.person_token_file)

    @asynccontextmanager
    async def visit(
        self, node: str, name: str, asked: Mapping[str, Any], silence_s: float
    ) -> AsyncIterator[VisitAnswer]:
        """A request to the machine's page, with the token that lets a person in by this gateway."""
        broker = await self._broker_of(node)
        token = self._person_token(broker.entry)
        headers = {"authorization": f"Bearer {token}", "accept-encoding": "identity"}
        headers["tmuxmcp-fleet"] = fleetfile.proof(self._secret, token)
        request = _post(broker.client, f"/page/{name}", asked, headers, silence_s)
        with _broken(broker):
            response = await broker.client.send(request, stream=True)
        try:
            if response.status_code == 401:
                raise await _not_let_in(broker, response)
            length = response.headers.get("content-length", "")
            yield VisitAnswer(
                response.status_code,
                response.headers.get("content-type", ""),
                int(length) if length.isdigit() else None,
                _pieces(broker, response),
            )
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    def _person_token(self, entry: MachineEntry) -> str:
        """
        Raises:
            PermissionDenied: there is none.
            NodeUnreachable: it cannot be read.
        """
        if entry.person_token_file is None:
            hint = f"Give {entry.name} a person_token_file in {self._file.path}."
            raise PermissionDenied(f"This gateway has no person's token for {entry.name}.", hint=hint)
        if not self._secret:
            hint = "Have the same file of the setting fleet_secret on all machines, and start the gateway anew."
            raise PermissionDenied("This gateway does not know the fleet's secret.", hint=hint)
        return self._read_token(entry, entry.person_token_file)

    # ---- following -----------------------------------------------------------------------------

    async def follow(self, node: str, session_id: str, since: int, call: Call) -> AsyncIterator[Change]:
        """Look again and again: from 50 times a second to once, the longer nothing comes."""
        offset, pause, broke = since, FOLLOW_S[0], 0.0
        while True:
            try:
                read = await self.call(node, q.Read("raw", session_id, since=offset, max_bytes=LOOK_BYTES), call)
                data = base64.b64decode(read.content)
                # What ends behind the read has nothing more to print: it was looked at in one look.
                facts = await self.call(node, q.GetSession(session_id), call) if read.exited and not data else None
                broke = 0.0
            except (NodeUnreachable, OutcomeUnknown) as error:
                broke = broke or time.monotonic()
                if time.monotonic() - broke > AWAY_S:
                    raise NodeUnreachable(error.message, hint=error.hint, **error.details) from None
                await anyio.sleep(FOLLOW_S[1] / 5)
                continue
            except SessionNotFound:
                if offset == since:
                    raise
                yield Destroyed()
                return
            if read.next_offset - len(data) > offset:
                yield Gap(offset, read.next_offset - len(data))
            if data:
                yield Output(read.next_offset - len(data), data)
                offset, pause = read.next_offset, FOLLOW_S[0]
                continue
            if facts:
                yield _end_of(facts)
                return
            await anyio.sleep(pause)
            pause = min(pause * 1.5, FOLLOW_S[1])

    # ---- what an operator says -----------------------------------------------------------------

    async def drain(self, node: str, drained: bool) -> None:
        """Write it into the file; undraining takes back that a machine was given up, too."""
        self._file.mark(node, "drained" if drained else "open")

    async def forget(self, node: str) -> Tombstone:
        """Write it into the file, with the name of the machine's state directory where that is known."""
        entry = self._file.read().entries.get(node)
        if entry and not self._given_up(node):
            with anyio.move_on_after(ASK_S), suppress(TmuxMcpError):
                await self._health(self._broker(entry))
        broker = self._brokers.get(node)
        return self._file.mark(node, "forgotten", broker.machine_id if broker else "").tombstone

    async def tombstones(self) -> list[Tombstone]:
        """Those of the file."""
        marks = self._file.read().marks
        return [marks[node].tombstone for node in sorted(marks) if marks[node].said == "forgotten"]


@contextmanager
def _broken(broker: _RemoteBroker) -> Iterator[None]:
    """Say what it means when the way breaks while this is open.

    Raises:
        NodeUnreachable: nothing was sent.
        OutcomeUnknown: it may have been sent.
    """
    node, url, begun = broker.entry.name, broker.entry.url, time.monotonic()
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol) as error:
        broker.known, broker.hearing.silent = False, True
        raise NodeUnreachable(f"{node} does not answer: {_why(error)}.", url=url) from None
    except (httpx2.HTTPError, ValueError) as error:
        broker.known = False
        after = f"after {time.monotonic() - begun:.1f} s"
        raise OutcomeUnknown(f"The way to {node} broke {after}: {_why(error)}.", url=url) from None


async def _not_let_in(broker: _RemoteBroker, response: httpx2.Response) -> PermissionDenied:
    """Why a machine's page is not open to a gateway."""
    node = broker.entry.name
    with _broken(broker):
        said = (await response.aread())[:MOST_REFUSAL]
    try:
        error = json.loads(said)["error"]
        if "secret" in error["message"]:
            return PermissionDenied(f"{node}: {error['message']}", hint=error["hint"])
    except (ValueError, TypeError, KeyError):
        pass
    hint = f"In {node}'s file of tokens it has to be a line: NAME person TOKEN."
    return PermissionDenied(f"{node} does not take the person's token of this gateway.", hint=hint)


async def _pieces(broker: _RemoteBroker, response: httpx2.Response) -> AsyncIterator[bytes]:
    """The bytes of an answer as they come."""
    with _broken(broker):
        async for piece in response.aiter_bytes():
            yield piece


def _post(
    client: httpx2.AsyncClient,
    path: str,
    body: Mapping[str, Any],
    headers: Mapping[str, str],
    read_s: float | None = None,
) -> httpx2.Request:
    timeout = httpx2.Timeout(read_s, connect=HTTP_CONNECT_S)
    return client.build_request("POST", path, content=json.dumps(body).encode(), headers=headers, timeout=timeout)


async def _say(
    client: httpx2.AsyncClient, what: str, asked: Mapping[str, Any], trace: Callable[[str, Any], Awaitable[None]]
) -> Mapping[str, Any]:
    """One exchange about calls that go on.

    Raises:
        NodeUnreachable: there is no answer.
        Unsupported: it is none that is understood.
    """
    asks = _post(client, f"/fleet/{what}", asked, {}, NEWS_HELD_S + ASK_S)
    asks.extensions["trace"] = trace
    try:
        status, answer = await _exchange(client, asks)
    except httpx2.HTTPError as error:
        raise NodeUnreachable(_why(error)) from None
    except ValueError as error:
        raise Unsupported(str(error)) from None
    if status != 200 or not isinstance(answer, dict):
        raise Unsupported(f"It answers {status}.")
    return answer


def _connecting(hearing: RemoteCalls) -> Callable[[str, Any], Awaitable[None]]:
    """Has a way's hearing know how long it takes until there is a connection."""
    begun = 0.0

    async def trace(event: str, info: Any) -> None:
        nonlocal begun
        if event == "connection.connect_tcp.started":
            begun = time.monotonic()
        elif event == "connection.connect_tcp.complete":
            hearing.connected(time.monotonic() - begun)

    return trace


async def _exchange(
    client: httpx2.AsyncClient, asked: httpx2.Request, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """The status and the JSON of an answer.

    Args:
        headers: takes those of the answer.

    Raises:
        httpx2.HTTPError, ValueError: there is none, or it is something else.
    """
    response = await client.send(asked, stream=True)
    if headers is not None:
        headers.update(response.headers)
    try:
        data = bytearray()
        async for piece in response.aiter_bytes():
            data += piece
            if len(data) > MAX_ANSWER:
                raise ValueError(f"its answer has more than {MAX_ANSWER:,} bytes")
    finally:
        with anyio.CancelScope(shield=True):
            await response.aclose()
    try:
        return response.status_code, json.loads(data)
    except ValueError:
        raise ValueError(f"it answers {response.status_code} and no JSON; is it a tmuxmcp?") from None


def _received(node: str, request: Request[R], status: int, answer: Any) -> R:
    try:
        return transport.answer_received(request, _result(node, status, answer))
    except ValidationError:
        raise OutcomeUnknown(
            f"{node} answers {request.operation.name} in another form than this version knows.",
            hint="It was done. Have the same version of tmuxmcp on all machines.",
        ) from None


def _result(node: str, status: int, answer: Any) -> dict[str, Any]:
    """An answer that has a `result`.

    Raises:
        OutcomeUnknown: it is something else.
        TmuxMcpError: the error that it has.
    """
    error = answer.get("error") if isinstance(answer, dict) else None
    if isinstance(error, dict) and isinstance(error.get("data"), dict):
        raise TmuxMcpError.received(error["data"])
    if isinstance(error, dict) and "code" in error and "message" in error:  # a refusal at the entrance
        if error["code"] == "CANCELLED":
            raise OutcomeUnknown(f"The server of {node} stopped while it had the call.")
        raise TmuxMcpError.received(error)
    if status != 200 or not isinstance(answer, dict) or "result" not in answer:
        raise OutcomeUnknown(f"{node} answers {status} with something else than a result.")
    return answer


def _why(error: Exception) -> str:
    """What went wrong, in words; httpx has none for some."""
    said = str(error).strip().rstrip(".")
    kind = {"ReadTimeout": "no answer in time", "ConnectTimeout": "no connection in time"}.get(type(error).__name__)
    return said or kind or type(error).__name__


def _end_of(facts: r.SessionFacts) -> Change:
    if facts.ended and facts.ended.reason == "destroyed":
        return Destroyed()
    if facts.mode == "lost":
        return Lost()
    return Exit(facts.exit_code, facts.exit_signal)
