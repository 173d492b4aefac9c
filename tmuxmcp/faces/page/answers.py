"""What a request of the page brings, and how it is answered: with headers that let a browser do nothing but show it."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, get_args

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tmuxmcp.broker.answering import WaitingRequest
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import InvalidArgument, ResourceLimit, TmuxMcpError
from tmuxmcp.faces.page.overview import Overview

PageArguments = dict[str, Any]
"""The object that a request brings."""

Endpoint = Callable[[PageArguments], Awaitable[Any]]
"""Gives the value that a request is answered with, or the answer itself."""

MAX_BODY_BYTES = 64 * 1024
"""Of a request's body."""

CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""Trusted types: what makes HTML of a text is refused by the browser itself."""

PAGE_HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def answer(value: Any, status: int = 200) -> Response:
    """A value as JSON."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return Response(body, status, PAGE_HEADERS, "application/json")


def refused(error: TmuxMcpError) -> Response:
    """An error, in the form of all refusals."""
    return answer({"error": error.as_dict()}, error.http_status)


def routes_of(named: Mapping[str, Endpoint], most_bytes: int = MAX_BODY_BYTES) -> list[Route]:
    """A route for each question: it answers with what is made of a request's body, or with why nothing is."""
    return [Route(f"/page/{name}", _endpoint(give, most_bytes), methods=["POST"]) for name, give in named.items()]


def _endpoint(give: Endpoint, most_bytes: int) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            found = await give(await body_of(request, most_bytes))
            return found if isinstance(found, Response) else answer(found)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            return refused(InvalidArgument(f"{first['loc']}: {first['msg']}."))
        except TmuxMcpError as error:
            return refused(error)

    return endpoint


async def body_of(request: Request, most_bytes: int = MAX_BODY_BYTES) -> PageArguments:
    """The object that a request brings.

    Raises:
        InvalidArgument, ResourceLimit
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # a page of another site cannot send this without asking
        raise InvalidArgument("The Content-Type has to be application/json.")
    body = await request.body()
    if len(body) > most_bytes:
        raise ResourceLimit(f"A body may have {most_bytes:,} bytes here.")
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidArgument("The body is not JSON.") from None
    if not isinstance(asked, dict):
        raise InvalidArgument("The body is not an object.")
    return asked


def text_of(asked: PageArguments, name: str) -> str:
    """A text that a request has to bring.

    Raises:
        InvalidArgument
    """
    value = asked.get(name)
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} is missing.")
    return value


def session_of(asked: PageArguments) -> dict[str, Any]:
    """The session that a request is about, as arguments of operations; `ID.N` is an earlier one of that name.

    Raises:
        InvalidArgument
    """
    name, _, generation = text_of(asked, "session").partition(".")
    if not generation:
        return {"session_id": name}
    if not re.fullmatch(r"[1-9][0-9]{0,8}", generation):
        raise InvalidArgument("A number has to follow the dot in session.")
    return {"session_id": name, "generation": int(generation)}


def integer_of(asked: PageArguments, name: str) -> int | None:
    """A whole number that a request may bring.

    Raises:
        InvalidArgument
    """
    value = asked.get(name)
    if value is not None and type(value) is not int:
        raise InvalidArgument(f"{name} is a whole number.")
    return value


# ---- A person settles in the page what waits for them. Whoever comes second is told what became of it ----------------
#
# Of a line that is typed, nothing is answered, logged or kept here: errors say what is wrong, never with what.

Settled = Literal["done", "declined"]
Agreed = Literal["once", "session", "declined"]

ANSWERED_VIA = "page"


class AnswerEndpoints:
    """Settles requests and questions for the pages of one server."""

    def __init__(self, broker: Broker, overview: Overview) -> None:
        self._people, self._overview = broker.people, overview

    def routes(self) -> list[Route]:
        """A route for each way to settle something."""
        return routes_of({"answer": self._type, "settle": self._settle, "became": self._became, "agree": self._agree})

    async def _type(self, asked: PageArguments) -> PageArguments:
        """Type a line and Enter, as long as the request waits."""
        what, line = await self._what(asked), text_of(asked, "line")
        if self._people.became(what):
            return self._outcome(what, False)
        try:
            first = await self._people.type_line(what, line, ANSWERED_VIA)
        finally:
            self._overview.look_anew(what.session.id)
        return self._outcome(what, first, typed=True)

    async def _settle(self, asked: PageArguments) -> PageArguments:
        what, outcome = await self._what(asked), text_of(asked, "outcome")
        if outcome not in get_args(Settled):
            raise InvalidArgument(f"outcome is one of {', '.join(get_args(Settled))}.")
        first = await self._people.settle(what, outcome, ANSWERED_VIA)  # type: ignore[arg-type]  # looked at above
        self._overview.look_anew(what.session.id)
        return self._outcome(what, first)

    async def _became(self, asked: PageArguments) -> PageArguments:
        return self._outcome(await self._what(asked), False)

    async def _what(self, asked: PageArguments) -> WaitingRequest:
        return await self._people.request_of(text_of(asked, "session"), text_of(asked, "request"))

    def _outcome(self, what: WaitingRequest, first: bool, *, typed: bool = False) -> PageArguments:
        """Whether this page settled it, and else what became of it; null: it waits."""
        became = None if first else self._people.became(what)
        told = {"outcome": became.outcome, "by": became.by, "via": became.via} if became else None
        return {"first": first, "typed": typed, "became": told}

    async def _agree(self, asked: PageArguments) -> PageArguments:
        """Let an agent do what it asks about, or not."""
        question_id, agreed = text_of(asked, "question"), text_of(asked, "answer")
        if agreed not in get_args(Agreed):
            raise InvalidArgument(f"answer is one of {', '.join(get_args(Agreed))}.")
        question = next((each for each in self._people.questions() if each.id == question_id), None)
        if agreed == "session" and question and not question.scope:
            raise InvalidArgument("This question is about one action alone.")
        first = question is not None and await self._people.agree(
            question, agreed != "declined", for_session=agreed == "session", via=ANSWERED_VIA
        )
        self._overview.look_anew("")
        return {"first": first}
