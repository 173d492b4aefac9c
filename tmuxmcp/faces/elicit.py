"""Asks the person behind an MCP client by elicitation, in both protocol eras.

Before 2026-07-28 the server sends a request of its own and waits. From then on the result of the tool call is the
question; the client makes the call again with the answer and with the state that came with the question.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Any

import anyio
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.shared.exceptions import NoBackChannelError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)

from tmuxmcp.contract.call import Ask, CallAgain, Question
from tmuxmcp.errors import ConfirmationDeclined

LONGEST_S = 300
"""How long a person may think; then it counts as not agreed."""

MOST_OPEN = 1000
KEY = "confirm"
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
"""Nothing is to be filled in: the person accepts or declines."""

FIRST_MODERN = "2026-07-28"


class NeedsInput(CallAgain):
    """The call's answer is a question."""

    audit_outcome = "asked"

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__()
        self.result = result


class Asking:
    """The questions of one server that are open between two calls of a client."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, str] = OrderedDict()
        """State given to the client -> the digest of what was asked."""

    def of(self, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> Ask:
        """What asks the client of this request.

        Raises:
            MCPError: the request brings a state that we did not give, or whose answer has come already.
        """
        if params.request_state is not None and params.request_state not in self._open:
            raise MCPError(INVALID_PARAMS, "This requestState is unknown or was used. Make the call anew without it.")

        async def ask(question: Question) -> bool | None:
            if not _can_be_asked(ctx):
                return None
            if ctx.protocol_version >= FIRST_MODERN:
                return self._by_result(question, params)
            return await _by_request(question, ctx)

        return ask

    def answered(self, params: CallToolRequestParams) -> str:
        """Digest of the question to which a request brings the answer; empty: it brings none."""
        return self._open.get(params.request_state or "", "")

    def _by_result(self, question: Question, params: CallToolRequestParams) -> bool | None:
        asked = self._open.pop(params.request_state or "", None)  # an answer counts once
        answer = (params.input_responses or {}).get(KEY)
        if asked is None or not isinstance(answer, ElicitResult):
            raise NeedsInput(self._put(question))
        if asked != question.digest:
            raise ConfirmationDeclined(
                "The session or the call changed while the person was asked, so the answer is void.",
                hint="Look at the session; make the call again if it is still right.",
            )
        return _agreed(question, answer)

    def _put(self, question: Question) -> InputRequiredResult:
        state = secrets.token_urlsafe(24)
        self._open[state] = question.digest
        while len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)
        form = ElicitRequestFormParams(message=question.message, requested_schema=SCHEMA)
        return InputRequiredResult(input_requests={KEY: ElicitRequest(params=form)}, request_state=state)


def _can_be_asked(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client shows forms; one that names no kind does."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        return False
    return capabilities.elicitation.form is not None or capabilities.elicitation.url is None


async def _by_request(question: Question, ctx: ServerRequestContext[Any, Any]) -> bool | None:
    try:
        with anyio.move_on_after(LONGEST_S):
            answer = await ctx.session.elicit_form(question.message, SCHEMA, related_request_id=ctx.request_id)
            return _agreed(question, answer)
    except (MCPError, NoBackChannelError):
        return None
    return None if question.may_wait else False


def _agreed(question: Question, answer: ElicitResult) -> bool | None:
    """What a person said; None: they put the question away that may wait."""
    return None if question.may_wait and answer.action == "cancel" else answer.action == "accept"
