"""What the page asks beside its stream: commands and what they printed, past screens, searches, recordings.

Each is an operation of the broker, in the name of the person, with the few arguments that the page has.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, get_args

import anyio
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from tmuxmcp.broker.broker import Broker
from tmuxmcp.broker.listing import SessionOverviews
from tmuxmcp.contract import requests as q
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.value import asdict
from tmuxmcp.contract.words import FilmFormat
from tmuxmcp.faces.page.answers import (
    PAGE_HEADERS,
    AnswerEndpoints,
    PageArguments,
    integer_of,
    routes_of,
    session_of,
    text_of,
)
from tmuxmcp.faces.page.holding import InputEndpoints
from tmuxmcp.faces.page.overview import Overview, encoded_screen
from tmuxmcp.faces.page.stream import Desk, PageStream, show

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
        self._seeing: SessionOverviews = broker.seeing()
        self._turn = anyio.Semaphore(FILMS_AT_ONCE)

    def routes(self) -> list[Route]:
        """A route for each question."""
        named = {
            "commands": self._commands,
            "output": self._output,
            "search": self._search,
            "past": self._past,
            "activity": self._activity,
            "generations": self._generations,
            "export": self._export,
        }
        return routes_of(named)

    async def _commands(self, asked: PageArguments) -> Any:
        request = q.ListCommands(
            **session_of(asked),
            limit=integer_of(asked, "limit") or 100,
            before=integer_of(asked, "before"),
        )
        return asdict(await self._mine.do(request))

    async def _output(self, asked: PageArguments) -> Any:
        number = integer_of(asked, "command")
        if number is None:
            raise InvalidArgument("command is missing.")
        request = q.Read(**session_of(asked), command=number, max_bytes=MOST_OUTPUT)
        return asdict(await self._mine.do(request))

    async def _search(self, asked: PageArguments) -> Any:
        request = q.Search(**session_of(asked), pattern=text_of(asked, "pattern"), limit=MOST_MATCHES)
        return asdict(await self._mine.do(request))

    async def _past(self, asked: PageArguments) -> Any:
        async with self._turn:
            snapshot, ms = await self._seeing.past(
                **session_of(asked), at_ms=integer_of(asked, "ms"), line_at=integer_of(asked, "offset")
            )
        return encoded_screen(snapshot) | {"ms": ms, "approximate": snapshot.approximate}

    async def _activity(self, asked: PageArguments) -> Any:
        found = await self._seeing.activity(**session_of(asked))
        return {"made_ms": round(found.made_s * 1000), "end_ms": found.end_ms, "moments": found.moments}

    async def _generations(self, asked: PageArguments) -> Any:
        return [asdict(each) for each in self._seeing.generations(text_of(asked, "session"))]

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


# ---- What answers the pages of one machine ---------------------------------------------------------------------------


class OwnDesk(Desk):
    """Answers for the broker of this machine."""

    def __init__(self, broker: Broker) -> None:
        overview = Overview(broker)
        self._broker, self._handling = broker, InputEndpoints(broker)
        self._asking, self._answering = QueryEndpoints(broker), AnswerEndpoints(broker, overview)
        super().__init__(overview, self._handling.run)

    def routes(self) -> list[Route]:
        """Questions, hands, answers."""
        return [*self._asking.routes(), *self._handling.routes(), *self._answering.routes()]

    async def show(self, stream: PageStream) -> None:
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
