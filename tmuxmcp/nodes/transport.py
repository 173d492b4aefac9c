"""What a way to other machines has to do: tell which there are, and have one do a call.

A way knows nothing of placing, of repeating and of ids with `@`: a request names a session as its own machine does, and
so does the result.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, cast

import anyio
from anyio.abc import TaskGroup
from pydantic import BaseModel

from tmuxmcp.contract.call import ALL_SCOPES, Call
from tmuxmcp.contract.errors import InvalidArgument, TmuxMcpError
from tmuxmcp.contract.follow import Change
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.request import R, Request
from tmuxmcp.contract.results import Result
from tmuxmcp.contract.value import asdict, field, fields, value
from tmuxmcp.contract.words import Cast


@value
class Machine:
    """A machine as it stood when it was last asked."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    alive: bool = True
    """It answers, as far as is known."""
    version: str = ""
    """Of tmuxmcp there; empty: not known."""
    live: int | None = None
    """Sessions whose programs run; None: not known."""
    free: int | None = None
    """Sessions that it has room for; None: not known."""
    machine_id: str = ""
    """Tells two machines apart that have one name after the other; empty: not known."""
    drained: bool = False
    """No new sessions are placed there."""
    ssh: str = ""
    """Where a person's ssh finds it, `[user@]host`; empty: nobody said."""
    note: str = ""
    """What is wrong with it, for people."""


@value
class Tombstone:
    """That an operator gave a machine up: only then its sessions are said to be lost."""

    node: str
    machine_id: str
    """Of the machine that was meant; empty: nobody knew it, and every machine of that name is meant."""
    at: str
    """ISO 8601, UTC."""


@value
class VisitAnswer:
    """What a machine's page answers."""

    status: int
    """As of HTTP."""
    kind: str
    """The type of its content."""
    length: int | None
    """Its bytes; None: that is not known before."""
    pieces: AsyncIterator[bytes]
    """Raises OutcomeUnknown when the way breaks."""


class Transport(Protocol):
    """A way to the brokers of several machines."""

    patience_s: float
    """So long a look is asked for again when the way broke under it, or a machine does not answer."""

    async def names(self) -> list[str]:
        """The names of all machines of the fleet, sorted, as far as is known without asking any of them."""

    async def machines(self) -> list[Machine]:
        """All machines of the fleet, also those that do not answer (`alive` is False then), by name.

        Bounded: a machine that hangs holds nobody up for longer than a few seconds. Machines that were given up are
        left out, as long as it is not another machine that has the name.
        """

    async def call(self, node: str, request: Request[R], call: Call) -> R:
        """Have a machine do one call, once. A call that is cancelled here is cancelled there.

        Args:
            request: names sessions as the machine does.
            call: in whose name. `caller`, `client` and `scopes` travel; to a machine that knows the fleet's secret also
                `person`, `answers`, `call_id` and what `ask` says. `progress` and `enough` travel to all that are of a
                version which knows of it; elsewhere nobody is told and nobody is asked.

        Raises:
            CallAgain: what asking came to.
            LookupError: no machine of the fleet has this name, or it was given up.
            NodeUnreachable: nothing was sent.
            OutcomeUnknown: the way broke when it may have been sent. The way itself sends nothing again.
            TmuxMcpError: what the machine's broker answers; it says so of nobody else.
        """

    def follow(self, node: str, session_id: str, since: int, call: Call) -> AsyncIterator[Change]:
        """What a session prints from an offset on, in order and without holes, and its end, which is the last.

        It goes on over breaks of the way from where it was: nothing is lost or doubled. `Gap` tells what is no longer
        kept. Whoever gives it up ends it there as well.

        Raises:
            LookupError: no machine of the fleet has this name, or it was given up.
            NodeUnreachable: the machine was away for too long.
            TmuxMcpError: what the machine's broker answers.
        """

    async def asciicast(self, node: str, session_id: str, most_bytes: int, call: Call) -> Cast:
        """The newest part of what a session did, as `Broker.asciicast` makes it. A look, as of `call`.

        Raises:
            LookupError, NodeUnreachable, OutcomeUnknown, TmuxMcpError
        """

    def shows_page(self, node: str) -> bool:
        """Whether a machine's page can be visited, as far as is known without asking it."""

    def visit(
        self, node: str, name: str, asked: Mapping[str, Any], silence_s: float
    ) -> AbstractAsyncContextManager[VisitAnswer]:
        """Ask a machine's page for something, once, in the name of a person whom the gateway's own page has let in.

        Args:
            name: what is asked, as in `/page/NAME`.
            asked: names sessions as the machine does.
            silence_s: longest time without a byte of the answer.

        Raises:
            LookupError: no machine of the fleet has this name, or it was given up.
            NodeUnreachable: nothing was sent.
            OutcomeUnknown: the way broke when it may have been sent.
            PermissionDenied: the machine lets nobody in who comes by this gateway.
        """

    async def drain(self, node: str, drained: bool) -> None:
        """Place no new sessions on a machine, or place them again.

        Raises:
            InvalidArgument: no machine has this name.
        """

    async def forget(self, node: str) -> Tombstone:
        """Give a machine up, on the word of an operator; the tombstone is kept before this returns.

        Raises:
            InvalidArgument: no machine has this name.
        """

    async def tombstones(self) -> list[Tombstone]:
        """The machines that were given up, the newest of each name, by name."""


@asynccontextmanager
async def background_tasks() -> AsyncIterator[TaskGroup]:
    """Tasks that end with what is inside; an error from inside comes out as it is, with no group around it."""
    try:
        async with anyio.create_task_group() as tasks:
            try:
                yield tasks
            finally:
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None


# ---- How a call travels to another machine, and its answer back: plain values, errors among them ---------------------
#
# {"operation": "run", "arguments": {...}, "caller": "...", "scopes": [...], "person": false, ...}
# {"result": {...}}  or  {"error": {"code": ..., "message": ..., "retryable": ..., "hint": ..., "details": {...}}}

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
    return {"result": asdict(answer)}


def answer_received(request: Request[R], sent: Mapping[str, Any]) -> R:
    """The result of a request.

    Raises:
        TmuxMcpError: the error that was sent in its place.
    """
    if "error" in sent:
        raise TmuxMcpError.received(sent["error"])
    known = fields(request.operation.result)
    told = {name: each for name, each in sent["result"].items() if name in known}  # a newer version may tell more
    return cast("R", request.operation.result.adapter().validate_python(told))
