"""How a gateway's page asks the page of a machine: answers whole, or line by line."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

from tmuxmcp.contract.errors import (
    Internal,
    NodeUnreachable,
    OutcomeUnknown,
    PermissionDenied,
    TmuxMcpError,
    Unauthorized,
)
from tmuxmcp.faces.page.fleetids import with_node_ids
from tmuxmcp.nodes.gateway import Gateway
from tmuxmcp.nodes.transport import VisitAnswer, error_of

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
    told = error_of(error)
    told.details = {**told.details, "node": node}
    return told
