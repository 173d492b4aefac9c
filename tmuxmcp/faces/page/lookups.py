"""What the page asks beside its stream: commands and what they printed, past screens, searches, recordings.

Each is an operation of the broker, in the name of the person, with the few arguments that the page has.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, get_args

import anyio
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from tmuxmcp.broker.broker import Broker
from tmuxmcp.broker.sight import SessionSights
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.value import asdict
from tmuxmcp.contract.words import FilmFormat
from tmuxmcp.faces.page.answers import (
    PAGE_HEADERS,
    AnswerEndpoints,
    Endpoint,
    PageArguments,
    answer,
    integer_of,
    routes_of,
    session_of,
    text_of,
)
from tmuxmcp.faces.page.hands import InputEndpoints
from tmuxmcp.faces.page.overview import Overview, PageListing, encoded_screen
from tmuxmcp.faces.page.stream import PageStream, PageSubscription, show

if TYPE_CHECKING:
    from tmuxmcp.nodes.fleet import AnyBroker

PAGE_CALLER = "page"

MOST_OUTPUT = 256 * 1024
"""Bytes of a command's output that the page shows."""

MOST_MATCHES = 200
FILMS_AT_ONCE = 4
"""Past screens and recordings that are made at once, for all pages."""


class QueryEndpoints:
    """Answers pages of one server."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._mine = broker.by(Call(PAGE_CALLER, person=True))
        self._seeing: SessionSights = broker.seeing()
        self._turn = anyio.Semaphore(FILMS_AT_ONCE)

    def routes(self) -> list[Route]:
        """A route for each question."""
        named: dict[str, Endpoint] = {
            "commands": self._commands,
            "output": self._output,
            "search": self._search,
            "past": self._past,
            "activity": self._activity,
            "generations": self._generations,
            "export": self._export,
        }
        return routes_of(named)

    async def _commands(self, asked: PageArguments) -> Response:
        request = q.ListCommands(
            **session_of(asked),
            limit=integer_of(asked, "limit") or 100,
            before=integer_of(asked, "before"),
        )
        return _response_of(await self._mine.do(request))

    async def _output(self, asked: PageArguments) -> Response:
        number = integer_of(asked, "command")
        if number is None:
            raise InvalidArgument("command is missing.")
        request = q.Read(**session_of(asked), command=number, max_bytes=MOST_OUTPUT)
        return _response_of(await self._mine.do(request))

    async def _search(self, asked: PageArguments) -> Response:
        request = q.Search(**session_of(asked), pattern=text_of(asked, "pattern"), limit=MOST_MATCHES)
        return _response_of(await self._mine.do(request))

    async def _past(self, asked: PageArguments) -> Response:
        async with self._turn:
            snapshot, ms = await self._seeing.past(
                **session_of(asked), at_ms=integer_of(asked, "ms"), line_at=integer_of(asked, "offset")
            )
        return answer(encoded_screen(snapshot) | {"ms": ms, "approximate": snapshot.approximate})

    async def _activity(self, asked: PageArguments) -> Response:
        found = await self._seeing.activity(**session_of(asked))
        return answer({"made_ms": round(found.made_s * 1000), "end_ms": found.end_ms, "moments": found.moments})

    async def _generations(self, asked: PageArguments) -> Response:
        found = self._seeing.generations(text_of(asked, "session"))
        return answer([asdict(each) for each in found])

    async def _export(self, asked: PageArguments) -> Response:
        format = text_of(asked, "format")
        if format not in get_args(FilmFormat):
            raise InvalidArgument(f"There is no format {format!r}.")
        request = q.ExportRecording(
            **session_of(asked),
            format=format,  # type: ignore[arg-type]  # looked at above
            from_ms=integer_of(asked, "from_ms"),
            to_ms=integer_of(asked, "to_ms"),
        )
        async with self._turn:
            made = await self._mine.do(request)
        return _Once(made.path)


class _Once(FileResponse):
    """A file that is removed when it was sent: it was made for this."""

    def __init__(self, path: str) -> None:
        super().__init__(path, headers=PAGE_HEADERS, media_type="application/octet-stream")

    async def __call__(self, *asgi: Any) -> None:
        try:
            await super().__call__(*asgi)
        finally:
            with suppress(OSError):
                os.unlink(self.path)


def _response_of(result: r.Result) -> Response:
    return answer(asdict(result))


# ---- What answers a page that was let in: the part of a server that knows sessions -----------------------------------


class Desk(Protocol):
    """Answers pages."""

    @property
    def listing(self) -> PageListing:
        """What pages are told of all sessions."""

    def run(self) -> AbstractAsyncContextManager[None]:
        """Keep pages up to date while this is open."""

    def routes(self) -> list[Route]:
        """A route for each thing that a page asks for, or does."""

    def stream(self, wish: PageSubscription) -> PageStream:
        """What tells a page of what it wants to know."""


class OwnDesk:
    """Answers for the broker of this machine."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.listing = Overview(broker)
        self._asking, self._handling = QueryEndpoints(broker), InputEndpoints(broker)
        self._answering = AnswerEndpoints(broker, self.listing)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Keep pages up to date, and give back what they hold that have gone, while this is open."""
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(self.listing.run)
            task_group.start_soon(self._handling.run)
            yield
            task_group.cancel_scope.cancel()

    def routes(self) -> list[Route]:
        """Questions, hands, answers."""
        return [*self._asking.routes(), *self._handling.routes(), *self._answering.routes()]

    def stream(self, wish: PageSubscription) -> PageStream:
        """The list and a screen."""
        return PageStream(self.listing, wish, self._show)

    async def _show(self, stream: PageStream) -> None:
        """Show the session, and know that the page is there, until cancelled."""
        session_id, page = stream.wish.session_id, stream.wish.page
        with self._handling.connected(page):
            if session_id:
                with self._broker.shown(session_id, page):
                    await show(self._broker, session_id, stream)
                    await anyio.sleep_forever()
            await anyio.sleep_forever()


def desk_of(broker: AnyBroker) -> Desk:
    """What answers the pages of a server, for what it serves."""
    if isinstance(broker, Broker):
        return OwnDesk(broker)
    from tmuxmcp.faces.page.fleetdesk import FleetDesk  # late: most servers have one machine

    return FleetDesk(broker)
