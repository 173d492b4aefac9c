"""How a call travels to another machine, and its answer back: plain values, errors among them.

{"operation": "run", "arguments": {...}, "caller": "...", "scopes": [...], "person": false, ...}
{"result": {...}}  or  {"error": {"code": ..., "message": ..., "retryable": ..., "hint": ..., "details": {...}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel

from tmuxmcp.contract.call import ALL_SCOPES, Call
from tmuxmcp.contract.errors import Internal, InvalidArgument, TmuxMcpError, all_errors
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.request import R, Request
from tmuxmcp.contract.results import Result

Json = dict[str, Any]


def request_sent(request: Request[Any]) -> Json:
    """The operation's name and the arguments that were given."""
    given = request.arguments().items()
    return {"operation": request.operation.name, "arguments": {name: _plain(value) for name, value in given}}


def _plain(value: Any) -> Any:
    """A value as JSON has it; the arguments of a request are models, sequences, mappings and words."""
    match value:
        case BaseModel():
            return value.model_dump(mode="json", exclude_defaults=True)
        case Mapping():
            return {name: _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
    return value


def request_received(sent: Mapping[str, Any]) -> Request[Result]:
    """The request that was sent.

    Raises:
        InvalidArgument: this version knows no such operation, or its arguments are wrong.
    """
    row = OPERATIONS.get(sent["operation"])
    if row is None:
        hint = "Have the same version of tmuxmcp on all machines."
        raise InvalidArgument(f"There is no operation {sent['operation']!r} on this machine.", hint=hint)
    return row.parse(sent["arguments"])


def call_sent(call: Call) -> Json:
    """Who calls."""
    return {
        "caller": call.caller,
        "scopes": sorted(call.scopes),
        "person": call.person,
        "asks_person": call.asks_person,
        "client": call.client,
        "answers": call.answers,
        "call_id": call.call_id,
    }


def call_received(sent: Mapping[str, Any]) -> Call:
    """The call that was sent, by somebody who may say so."""
    return Call(
        caller=str(sent["caller"]),
        scopes=ALL_SCOPES & frozenset(sent["scopes"]),
        person=sent["person"] is True,
        asks_person=sent.get("asks_person") is not False,
        client=str(sent["client"]),
        answers=str(sent["answers"]),
        call_id=str(sent["call_id"]),
    )


def answer_sent(answer: Result | TmuxMcpError) -> Json:
    """A result or an error."""
    if isinstance(answer, TmuxMcpError):
        return {"error": answer.as_dict()}
    return {"result": answer.model_dump(mode="json")}


def answer_received(request: Request[R], sent: Mapping[str, Any]) -> R:
    """The result of a request.

    Raises:
        TmuxMcpError: the error that was sent in its place.
    """
    if "error" in sent:
        raise error_of(sent["error"])
    known = request.operation.result.model_fields
    fields = {name: value for name, value in sent["result"].items() if name in known}  # a newer version may tell more
    return cast("R", request.operation.result.model_validate(fields))


ERROR_BY_CODE = {cls.code: cls for cls in all_errors()}


def error_of(told: Mapping[str, Any]) -> TmuxMcpError:
    """The error that another machine's broker told."""
    cls = ERROR_BY_CODE.get(told["code"])
    if cls is None:
        return Internal(f"{told['code']}: {told['message']}", hint=told.get("hint", ""), **told.get("details", {}))
    return cls(told["message"], hint=told.get("hint", ""), **told.get("details", {}))
