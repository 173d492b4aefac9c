"""Asks the person behind an MCP client by elicitation, in both protocol eras.

Before 2026-07-28 the server sends a request of its own and waits. From then on the result of the tool call is the
question; the client makes the call again with the answer and with the state that came with the question.

What is answered elsewhere (a secret, in the page) is asked by its address. That the client opened it settles nothing.
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
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
)

from tmuxmcp.contract.call import Ask, CallAgain, Question
from tmuxmcp.contract.errors import ConfirmationDeclined

PERSON_THINKS_S = 300
"""How long a person may think; then it counts as not agreed."""

OPEN_IN_CLIENTS = 1000
CONFIRM_FIELD = "confirm"
EMPTY_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
"""Nothing is to be filled in: the person accepts or declines."""

FIRST_MODERN = "2026-07-28"


class NeedsInput(CallAgain):
    """The call's answer is a question."""

    audit_outcome = "asked"

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__()
        self.result = result


class OpenQuestions:
    """The questions of one server that are open between two calls of a client."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, str] = OrderedDict()
        """State given to the client -> the digest of what was asked."""
        self._opened: OrderedDict[str, None] = OrderedDict()
        """Digests of what the person went elsewhere for: they are not sent there again."""

    def of(self, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> Ask:
        """What asks the client of this request.

        Raises:
            MCPError: the request brings a state that we did not give, or whose answer has come already.
        """
        if params.request_state is not None and params.request_state not in self._open:
            raise MCPError(INVALID_PARAMS, "This requestState is unknown or was used. Make the call anew without it.")

        async def ask(question: Question) -> bool | None:
            if not _can_be_asked(ctx, question) or question.digest in self._opened:
                return None
            if ctx.protocol_version >= FIRST_MODERN:
                return self._by_result(question, params)
            return await self._by_request(question, ctx)

        return ask

    def answered_digest(self, params: CallToolRequestParams) -> str:
        """Digest of the question to which a request brings the answer; empty: it brings none."""
        return self._open.get(params.request_state or "", "")

    async def _by_request(self, question: Question, ctx: ServerRequestContext[Any, Any]) -> bool | None:
        try:
            with anyio.move_on_after(PERSON_THINKS_S):
                return self._agreed(question, await _elicit(question, ctx))
        except (MCPError, NoBackChannelError):
            return None
        return None if question.may_wait else False

    def _by_result(self, question: Question, params: CallToolRequestParams) -> bool | None:
        asked = self._open.pop(params.request_state or "", None)  # an answer counts once
        answer = (params.input_responses or {}).get(CONFIRM_FIELD)
        if asked is None or not isinstance(answer, ElicitResult):
            raise NeedsInput(self._put_question(question))
        if asked != question.digest:
            raise ConfirmationDeclined(
                "The session or the call changed while the person was asked, so the answer is void.",
                hint="Look at the session; make the call again if it is still right.",
            )
        return self._agreed(question, answer)

    def _agreed(self, question: Question, answer: ElicitResult) -> bool | None:
        """What a person said; None: nothing yet, as they put away what may wait, or went to answer elsewhere."""
        if question.url and answer.action == "accept":
            self._opened[question.digest] = None
            while len(self._opened) > OPEN_IN_CLIENTS:
                self._opened.popitem(last=False)
            return None
        return None if question.may_wait and answer.action == "cancel" else answer.action == "accept"

    def _put_question(self, question: Question) -> InputRequiredResult:
        state = secrets.token_urlsafe(24)
        self._open[state] = question.digest
        while len(self._open) > OPEN_IN_CLIENTS:
            self._open.popitem(last=False)
        params: ElicitRequestURLParams | ElicitRequestFormParams
        if question.url:
            params = ElicitRequestURLParams(message=question.message, url=question.url)
        else:
            params = ElicitRequestFormParams(message=question.message, requested_schema=EMPTY_SCHEMA)
        return InputRequiredResult(input_requests={CONFIRM_FIELD: ElicitRequest(params=params)}, request_state=state)


def _can_be_asked(ctx: ServerRequestContext[Any, Any], question: Question) -> bool:
    """Whether the client opens addresses, or shows forms; one that names no kind shows forms."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        return False
    if question.url:
        return capabilities.elicitation.url is not None
    return capabilities.elicitation.form is not None or capabilities.elicitation.url is None


async def _elicit(question: Question, ctx: ServerRequestContext[Any, Any]) -> ElicitResult:
    """The client's answer."""
    message, session = question.message, ctx.session
    if question.url:
        return await session.elicit_url(message, question.url, question.digest, ctx.request_id)
    return await session.elicit_form(message, EMPTY_SCHEMA, related_request_id=ctx.request_id)
