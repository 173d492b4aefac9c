"""The sessions of many machines as one list: each machine's page tells its own, one connection for all open pages.

A machine that does not tell is missing, and said to be: of its sessions nothing is shown.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio

from tmuxmcp.contract.errors import (
    Internal,
    InvalidArgument,
    NodeUnreachable,
    OutcomeUnknown,
    PermissionDenied,
    SessionNotFound,
    TmuxMcpError,
    Unauthorized,
)
from tmuxmcp.contract.value import field, value
from tmuxmcp.faces.page.answers import PageArguments
from tmuxmcp.faces.page.overview import Missing, PageListing, PageWait, Row
from tmuxmcp.faces.page.stream import TAIL_FIELD, as_json
from tmuxmcp.nodes.gateway import Gateway
from tmuxmcp.nodes.ids import ASKED_AT, SESSION_FIELDS, check_node, fleet_id, split
from tmuxmcp.nodes.transport import VisitAnswer

log = logging.getLogger(__name__)

MACHINES_LOOK_S = 2.0
"""Time between two looks for machines that came and went."""

MACHINE_AGAIN_S = 1.0
"""Time before a machine is asked again that does not tell."""

MACHINES_FIRST_S = 1.0
"""So long all machines have to begin before a page is told anything."""

FLEET_COALESCE_S = 0.1
"""What changes within this time is told at once."""


@value(frozen=False)
class _MachineListing:
    """What a machine has told."""

    rows: dict[str, Row] = field(default_factory=dict)
    waits: list[PageWait] = field(default_factory=list)
    missing: Missing | None = None
    """Why nothing is known of it."""
    began: bool = False
    """It has told something, or is known to be missing."""


class FleetListing(PageListing):
    """The sessions of all machines."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__()
        self._gateway = gateway
        self._machines: dict[str, _MachineListing] = {}
        self._news = anyio.Event()

    def _forget(self) -> None:
        super()._forget()
        self._machines = {}

    async def _keep(self) -> None:
        kept: dict[str, anyio.CancelScope] = {}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tell_together)
            while True:
                try:
                    names = set(await self._gateway.transport.names())
                except TmuxMcpError as error:
                    log.debug("the machines cannot be listed: %s", error)
                    names = set(kept)
                    self._machines.setdefault("", _MachineListing(began=True)).missing = _missing("", error)
                else:
                    self._machines.pop("", None)
                for name in kept.keys() - names:
                    kept.pop(name).cancel()
                    del self._machines[name]
                for name in names - kept.keys():
                    kept[name], self._machines[name] = anyio.CancelScope(), _MachineListing()
                    tasks.start_soon(self._listen, name, self._machines[name], kept[name])
                self._news.set()
                await anyio.sleep(MACHINES_LOOK_S)

    async def _tell_together(self) -> None:
        with anyio.move_on_after(MACHINES_FIRST_S):
            while not self._machines or not all(each.began for each in self._machines.values()):
                await self._news.wait()
                self._news = anyio.Event()
        while True:
            self._news = anyio.Event()
            self._gather()
            await anyio.sleep(FLEET_COALESCE_S)
            await self._news.wait()

    def _gather(self) -> None:
        """Put together what the machines have told."""
        machines = sorted(self._machines.items())
        self.rows = {name: row for _, each in machines for name, row in each.rows.items()}
        waits = sorted((wait for _, each in machines for wait in each.waits), key=_order)
        self.waits = self.waits if waits == self.waits else waits
        missing = [each.missing or _silent(name) for name, each in machines if each.missing or not each.began]
        self.missing = self.missing if missing == self.missing else missing
        self._tell()

    async def _listen(self, node: str, told: _MachineListing, scope: anyio.CancelScope) -> None:
        """Take what a machine tells, again and again."""
        with scope:
            while True:
                try:
                    async with lines(self._gateway, node, {"session": "", "page": 0}) as messages:
                        async for message in messages:
                            if message.get("kind") == "list":
                                _take(told, node, message)
                                self._news.set()
                except TmuxMcpError as error:
                    log.debug("the page of %s tells nothing: %s", node, error)
                    told.rows, told.waits, told.missing, told.began = {}, [], _missing(node, error), True
                self._news.set()
                await anyio.sleep(MACHINE_AGAIN_S)


def _take(told: _MachineListing, node: str, message: Mapping[str, Any]) -> None:
    """Take in what has changed; a machine that begins anew tells all.

    Raises:
        OutcomeUnknown: it is not understood.
    """
    rows, waits = {} if message.get("whole") else dict(told.rows), told.waits
    try:
        rows |= {fleet_id(row["session_id"], node): named_row(row, node) for row in message["rows"]}
        for name in message["gone"]:
            rows.pop(fleet_id(name, node), None)
        if "waits" in message:
            ahead_ms = round(time.time() * 1000) - message["now_ms"]
            waits = [named_wait(each, node, ahead_ms) for each in message["waits"]]
    except (LookupError, TypeError, ValueError, AttributeError):
        raise other_form(node) from None
    told.rows, told.waits, told.missing, told.began = rows, waits, None, True


def _order(wait: PageWait) -> tuple[bool, int]:
    """Who asked first first, what the person holds last."""
    return wait["kind"] == "held", wait["asked_ms"] or 0


def _missing(node: str, error: TmuxMcpError) -> Missing:
    return {"node": node, "code": error.code, "message": error.message, "hint": error.hint}


def _silent(node: str) -> Missing:
    return {"node": node, "code": "NODE_UNREACHABLE", "message": f"{node} has not answered yet.", "hint": ""}


# ---- How a gateway's page asks the page of a machine: answers whole, or line by line ---------------------------------

VISIT_BEAT_S = 2
"""A stream says something at least so often."""

SILENCE_S = 7.0
"""A machine whose stream says nothing for so long is away."""

VISITED_BYTES = 64 << 20
"""Of one answer that is no file, and of one line."""


@asynccontextmanager
async def visit(
    gateway: Gateway, node: str, name: str, asked: Mapping[str, Any], silence_s: float
) -> AsyncIterator[VisitAnswer]:
    """What a machine's page answers, where that is no refusal.

    Raises:
        TmuxMcpError: the machine refuses, or cannot be asked. It is never `Unauthorized`, which would tell the browser
            that it is not let in here.
    """
    async with gateway.visit(node, name, asked, silence_s) as visited:
        if visited.status >= 400:
            error = _refusal(await whole(visited, node), node)
            if isinstance(error, Unauthorized):
                raise PermissionDenied(error.message, hint=error.hint, **error.details)
            raise error
        yield visited


async def whole(visited: VisitAnswer, node: str) -> Any:
    """The value that an answer is, with ids that name the machine.

    Raises:
        OutcomeUnknown: it is none.
    """
    data = bytearray()
    async for piece in visited.pieces:
        data += piece
        if len(data) > VISITED_BYTES:
            raise OutcomeUnknown(f"The answer of {node} has more than {VISITED_BYTES:,} bytes.", node=node)
    return with_node_ids(_value(data, node), node)


@asynccontextmanager
async def lines(gateway: Gateway, node: str, wish: Mapping[str, Any]) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """The messages of a machine's stream; `NodeUnreachable` when it ends.

    Args:
        wish: what is wanted: `session`, `page`, `lists`.
    """
    async with (
        visit(gateway, node, "stream", {**wish, "beat_s": VISIT_BEAT_S}, SILENCE_S) as visited,
        aclosing(_messages(visited, node)) as messages,
    ):
        yield messages


async def _messages(visited: VisitAnswer, node: str) -> AsyncGenerator[dict[str, Any]]:
    rest = b""
    async for piece in visited.pieces:
        *found, rest = (rest + piece).split(b"\n")
        for line in found:
            message = _value(line, node)
            if not isinstance(message, dict):
                raise other_form(node)
            yield message
        if len(rest) > VISITED_BYTES:
            break
    raise NodeUnreachable(f"{node} has ended the connection.", hint="It is tried again.", node=node)


def other_form(node: str) -> OutcomeUnknown:
    """What is told of a machine whose answer is not understood."""
    return OutcomeUnknown(
        f"The page of {node} answers in another form than this version knows.",
        hint="Have the same version of tmuxmcp on all machines.",
        node=node,
    )


def _value(data: bytes | bytearray, node: str) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise OutcomeUnknown(f"{node} answers with no JSON; is it a tmuxmcp?", node=node) from None


def _refusal(answer: Any, node: str) -> TmuxMcpError:
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        return Internal(f"{node} refuses without a reason.", node=node)
    told = TmuxMcpError.received(error)
    told.details = {**told.details, "node": node}
    return told


# ---- What pages ask and are told of many machines --------------------------------------------------------------------
#
# Ids that name the machine, put into the form that it knows, and back.
#
# Pure.


def local(session: str) -> tuple[str, str]:
    """A session as its machine knows it, and the machine: `ID@NODE`, of an earlier one of that name `ID@NODE.N`.

    Raises:
        InvalidArgument, SessionNotFound: no machine is named, or none can be called so.
    """
    name, dot, generation = session.partition(".")
    there, node = split(name)
    if not (there and node):
        raise SessionNotFound(f"There is no session {session[:100]!r}.", hint="Its id has a machine: NAME@MACHINE.")
    return there + dot + generation, node


def local_wait(wait: str) -> tuple[str, str]:
    """What waits for a person as its machine knows it, and the machine.

    Raises:
        InvalidArgument: no machine is named, or none can be called so.
    """
    name, at, node = wait.rpartition(ASKED_AT)
    if not at:
        raise InvalidArgument(f"Nothing waits as {wait[:100]!r}.")
    return name, check_node(node)


def local_asked(asked: PageArguments) -> tuple[PageArguments, str]:
    """A request as the machine knows it that it is for, and the machine: that of the session, or of the question.

    Raises:
        InvalidArgument, SessionNotFound
    """
    found, node = dict(asked), ""
    for name, part in (("session", local), ("request", local_wait), ("question", local_wait)):
        if isinstance(asked.get(name), str):
            found[name], there = part(asked[name])
            if node not in ("", there):
                raise InvalidArgument(f"{name} is of another machine than the session.")
            node = there
    if not node:
        raise InvalidArgument("session is missing.")
    return found, node


def with_node_ids(value: Any, node: str) -> Any:
    """An answer of a machine with ids that name it."""
    match value:
        case dict():
            return {
                name: fleet_id(each, node)
                if name in SESSION_FIELDS and isinstance(each, str) and each
                else with_node_ids(each, node)
                for name, each in value.items()
            }
        case list():
            return [with_node_ids(each, node) for each in value]
    return value


def named_row(row: Mapping[str, Any], node: str) -> Row:
    """A row of a machine's list, in the form that `Stream` tells."""
    ours = {"session_id": fleet_id(row["session_id"], node), "node": node, TAIL_FIELD: [*map(as_json, row[TAIL_FIELD])]}
    held = row["taken_over"]
    return {**row, **ours, "taken_over": held and {**held, "page": int(held["page"])}}


def named_wait(wait: Mapping[str, Any], node: str, ahead_ms: int) -> PageWait:
    """What waits for a person on a machine.

    Args:
        ahead_ms: how far our clock is ahead of the machine's.
    """
    times = {name: wait[name] and wait[name] + ahead_ms for name in ("asked_ms", "until_ms")}
    session_id = fleet_id(wait["session_id"], node) if wait["session_id"] else ""
    kind = str(wait["kind"])
    return {**wait, **times, "kind": kind, "id": f"{wait['id']}{ASKED_AT}{node}", "session_id": session_id}
