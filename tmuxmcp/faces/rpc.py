"""The table of operations as JSON-RPC 2.0: a method for each row, its arguments by name, single calls and batches.

Here only the envelopes are made and taken apart; HTTP is `http`'s business. `rpc.discover` describes the table as an
OpenRPC document.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pydantic import TypeAdapter

from tmuxmcp import __version__
from tmuxmcp.contract.call import Call, CallAgain
from tmuxmcp.contract.errors import Internal, InvalidArgument, ResourceLimit, TmuxMcpError, all_errors, unexpected
from tmuxmcp.contract.guesses import right_tool
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.request import NamesCall, Operation
from tmuxmcp.contract.settings import DEFAULT_SETTINGS, BrokerSettings
from tmuxmcp.contract.value import asdict, field, replace, value
from tmuxmcp.contract.words import ASCIICAST_METHOD
from tmuxmcp.faces.stdio import with_request_id
from tmuxmcp.faces.text import portable

if TYPE_CHECKING:
    from tmuxmcp.nodes.fleet import AnyBroker

log = logging.getLogger(__name__)

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
APPLICATION_ERROR = -32000
"""Every error that the specification has no number for; `data.code` tells them apart."""

MAX_BATCH = 100

MAX_BATCH_BYTES = 32 << 20
"""Once the answers to a batch have more bytes, the next call that is answered is refused, and all behind it."""

MOST_CAST = 1 << 20
"""Bytes of an asciicast."""
DISCOVER_METHOD = "rpc.discover"

Json = dict[str, Any]


@value(frozen=False)
class RpcReply:
    """What goes back: nothing when there were only notifications."""

    body: bytes | None
    call_ids: list[str] = field(default_factory=list)
    """Correlation ids of the calls, in their order."""
    durations_ms: list[int] = field(default_factory=list)
    """How long each of them took."""


class Rpc:
    """Answers JSON-RPC for one broker."""

    def __init__(
        self,
        broker: AnyBroker,
        measure: Callable[[str], AbstractContextManager[None]],
        settings: BrokerSettings = DEFAULT_SETTINGS,
    ) -> None:
        self._broker, self._measure, self._settings = broker, measure, settings

    async def answer(self, body: bytes, call: Call, call_id: str = "") -> RpcReply:
        """Do what a body asks for: one call, or a batch of which one begins when the one before has ended.

        Args:
            call: who calls; each call of a batch gets an id of its own.
            call_id: that of a single call; empty: it gets one.
        """
        reply = RpcReply(None)
        try:
            asked = json.loads(body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            reply.body = encode(_failure(None, PARSE_ERROR, InvalidArgument("The body is not JSON.")))
            return reply
        if not isinstance(asked, list):
            one = await self._answer_one(asked, call, reply, call_id)
            reply.body = encode(one) if one else None
            return reply
        if not 1 <= len(asked) <= MAX_BATCH:
            error = ResourceLimit(f"A batch has 1 to {MAX_BATCH} calls, not {len(asked)}.", hint="Split it.")
            reply.body = encode(_failure(None, INVALID_REQUEST, error))
            return reply
        answers: list[bytes] = []
        size, refused = 0, False
        for each in asked:
            refused = refused or (size > MAX_BATCH_BYTES and not _is_notification(each))
            answer = _not_done(each) if refused else await self._answer_one(each, call, reply)
            if answer:
                answers.append(encode(answer))
                size += len(answers[-1])
        reply.body = b"[%s]" % b",".join(answers) if answers else None
        return reply

    async def _answer_one(self, asked: Any, call: Call, reply: RpcReply, call_id: str = "") -> Json | None:
        """The answer to one call; None for a notification."""
        wrong = _wrong(asked)
        if wrong:
            return _failure(_id_of(asked), INVALID_REQUEST, InvalidArgument(wrong))
        call = replace(call, call_id=call_id or uuid4().hex[:12])
        reply.call_ids.append(call.call_id)
        began = time.monotonic()
        answer = await self._call(asked["method"], asked.get("params", {}), call)
        reply.durations_ms.append(round((time.monotonic() - began) * 1000))
        if "id" not in asked:
            return None
        return {"jsonrpc": "2.0", "id": asked["id"], **answer}

    async def _call(self, method: str, params: Any, call: Call) -> Json:
        if method == DISCOVER_METHOD:
            return {"result": openrpc(self._settings)}
        if method == ASCIICAST_METHOD:
            return await self._answered(method, call, partial(self._cast, params, call))
        operation = OPERATIONS.get(method)
        if operation is None:
            meant = right_tool(method)
            hint = f"{DISCOVER_METHOD} describes all." + (f" Did you mean {meant}?" if meant else "")
            error = InvalidArgument(f"There is no method {method[:100]!r}.", hint=hint)
            return {"error": error_object(METHOD_NOT_FOUND, error)}
        return await self._answered(method, call, partial(self._do, operation, params, call))

    async def _answered(self, method: str, call: Call, do: Callable[[], Awaitable[Any]]) -> Json:
        """A result, or the error that came in its place."""
        try:
            with self._measure(method):
                return {"result": await do()}
        except TmuxMcpError as error:
            log.debug("call %s: %s: %s: %s", call.call_id, method, error.code, error.message)
            return {"error": error_object(number(error), error)}
        except CallAgain:  # of a gateway's client, whom it asks
            return {"again": True}
        except Exception:
            log.exception("call %s: %s failed, incident %s", call.call_id, method, call.call_id)
            return {"error": error_object(INTERNAL_ERROR, unexpected(call.call_id))}

    async def _cast(self, params: Any, call: Call) -> Json:
        given = params if isinstance(params, dict) else {}
        session_id, most = given.get("session_id"), given.get("most_bytes")
        if not isinstance(session_id, str) or not session_id or type(most) is not int or not 0 < most <= MOST_CAST:
            raise InvalidArgument(f"session_id is a text, and most_bytes a number from 1 to {MOST_CAST}.")
        return (await self._broker.asciicast(session_id, most, call)).sent()

    async def _do(self, operation: Operation, params: Any, call: Call) -> Any:
        if not isinstance(params, dict):
            raise InvalidArgument("params is an object: arguments go by name.", hint=operation.takes)
        if operation.marks(NamesCall) and isinstance(params.get("_meta"), dict):
            meta = params["_meta"]
            params = with_request_id(operation, {name: params[name] for name in params if name != "_meta"}, meta)
        result = await self._broker.perform(operation, params, call)
        return portable(asdict(result))


def _refuse_constant(word: str) -> None:
    """NaN and infinities, which Python's reader takes and JSON does not have."""
    raise ValueError(word)


def encode(value: Any) -> bytes:
    """JSON as it is sent; of what is none, an error."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        log.exception("an answer cannot be written as JSON")
        return encode(_failure(None, INTERNAL_ERROR, Internal("The answer cannot be written as JSON.")))


def number(error: TmuxMcpError) -> int:
    """The number that JSON-RPC has for an error."""
    match error:
        case InvalidArgument():
            return INVALID_PARAMS
        case Internal():
            return INTERNAL_ERROR
        case _:
            return APPLICATION_ERROR


def error_object(code: int, error: TmuxMcpError) -> Json:
    """An error as JSON-RPC carries it; `data` is the same object that every face shows."""
    return {"code": code, "message": portable(error.message), "data": portable(error.as_dict())}


def _failure(call_id: Any, code: int, error: TmuxMcpError) -> Json:
    return {"jsonrpc": "2.0", "id": call_id, "error": error_object(code, error)}


def _is_notification(asked: Any) -> bool:
    return not _wrong(asked) and "id" not in asked


def _not_done(asked: Any) -> Json | None:
    """What is said of a call of a batch that is not done; None for a notification."""
    if _is_notification(asked):
        return None
    error = ResourceLimit(
        f"Neither this nor what follows it was done: the answers before it have more than {MAX_BATCH_BYTES} bytes.",
        hint="Ask for them in another batch.",
    )
    return _failure(_id_of(asked), number(error), error)


def _wrong(asked: Any) -> str:
    """What makes a value no request; empty when it is one."""
    if not isinstance(asked, dict):
        return "A request is an object."
    if asked.get("jsonrpc") != "2.0":
        return 'A request has "jsonrpc": "2.0".'
    if not isinstance(asked.get("method"), str):
        return "A request names a method."
    if "id" in asked and _id_of(asked) != asked["id"]:
        return "The id of a request is a string, a number or null."
    return ""


def _id_of(asked: Any) -> Any:
    """The id that an answer can bear; None: there is none."""
    given = asked.get("id") if isinstance(asked, dict) else None
    is_id = isinstance(given, str | int | float) and not isinstance(given, bool) and portable(given) == given
    return given if is_id else None


# ---- OpenRPC -----------------------------------------------------------------------------------


def openrpc(settings: BrokerSettings) -> Json:
    """All operations as an OpenRPC 1.3 document, with the defaults that these settings make."""
    results: list[Any] = [(row.name, "serialization", row.result.adapter()) for row in OPERATIONS.values()]
    _, schemas = TypeAdapter.json_schemas(results, ref_template="#/components/schemas/{model}")
    return {
        "openrpc": "1.3.2",
        "info": {"title": "tmuxmcp", "version": __version__, "description": "Terminal sessions for agents, on tmux"},
        "methods": [_method(row, settings) for row in OPERATIONS.values()],
        "components": {"schemas": schemas["$defs"], "errors": {each.code: _described(each) for each in all_errors()}},
    }


def _method(row: Operation, settings: BrokerSettings) -> Json:
    schema = row.schema(settings)
    return {
        "name": row.name,
        "summary": row.title,
        "description": row.description,
        "paramStructure": "by-name",
        "params": [
            {"name": name, "required": name in schema.get("required", ()), "schema": each}
            for name, each in schema.get("properties", {}).items()
        ],
        "result": {"name": "result", "schema": {"$ref": f"#/components/schemas/{row.result.__name__}"}},
        "errors": [{"$ref": f"#/components/errors/{each.code}"} for each in all_errors()],
        "x-scope": row.scope,
    }


def _described(error: type[TmuxMcpError]) -> Json:
    """An error as OpenRPC lists it; the `data` of a real one is the whole object."""
    return {"code": number(error("")), "message": (error.__doc__ or "").split("\n")[0], "data": {"code": error.code}}
