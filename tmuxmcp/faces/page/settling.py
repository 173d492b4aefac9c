"""A person settles in the page what waits for them. Whoever comes second is told what became of it.

Of a line that is typed, nothing is answered, logged or kept here: errors say what is wrong, never with what.
"""

from __future__ import annotations

from typing import Literal, get_args

from starlette.responses import Response
from starlette.routing import Route

from tmuxmcp.broker.answering import WaitingRequest
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.faces.page.answers import Endpoint, PageArguments, answer, routes_of, text_of
from tmuxmcp.faces.page.overview import Overview

Settled = Literal["done", "declined"]
Agreed = Literal["once", "session", "declined"]

ANSWERED_VIA = "page"


class AnswerEndpoints:
    """Settles requests and questions for the pages of one server."""

    def __init__(self, broker: Broker, overview: Overview) -> None:
        self._people, self._overview = broker.people, overview

    def routes(self) -> list[Route]:
        """A route for each way to settle something."""
        named: dict[str, Endpoint] = {
            "answer": self._type,
            "settle": self._settle,
            "became": self._became,
            "agree": self._agree,
        }
        return routes_of(named)

    async def _type(self, asked: PageArguments) -> Response:
        """Type a line and Enter, as long as the request waits."""
        what, line = await self._what(asked), text_of(asked, "line")
        if self._people.became(what):
            return self._response(what, False)
        try:
            first = await self._people.type_line(what, line, ANSWERED_VIA)
        finally:
            self._overview.look_anew(what.session.id)
        return self._response(what, first, typed=True)

    async def _settle(self, asked: PageArguments) -> Response:
        what, outcome = await self._what(asked), text_of(asked, "outcome")
        if outcome not in get_args(Settled):
            raise InvalidArgument(f"outcome is one of {', '.join(get_args(Settled))}.")
        first = await self._people.settle(what, outcome, ANSWERED_VIA)  # type: ignore[arg-type]  # looked at above
        self._overview.look_anew(what.session.id)
        return self._response(what, first)

    async def _became(self, asked: PageArguments) -> Response:
        return self._response(await self._what(asked), False)

    async def _what(self, asked: PageArguments) -> WaitingRequest:
        return await self._people.request_of(text_of(asked, "session"), text_of(asked, "request"))

    def _response(self, what: WaitingRequest, first: bool, *, typed: bool = False) -> Response:
        """Whether this page settled it, and else what became of it; null: it waits."""
        became = None if first else self._people.became(what)
        told = {"outcome": became.outcome, "by": became.by, "via": became.via} if became else None
        return answer({"first": first, "typed": typed, "became": told})

    async def _agree(self, asked: PageArguments) -> Response:
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
        return answer({"first": first})
