"""The one connection of an open page: lines of JSON with the list of sessions, what waits for the person,
and the screen that it shows.

Nothing is queued for a page. Each line is made when the page has taken the one before, of how things stand then: a
slow page gets fewer of them, and always the latest.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import anyio
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tmuxmcp.broker.broker import Broker
from tmuxmcp.broker.listing import SessionOverview, SessionOverviews, ShapeSeen
from tmuxmcp.contract.errors import InvalidArgument, TmuxMcpError
from tmuxmcp.contract.value import value
from tmuxmcp.faces.page.answers import PAGE_HEADERS, PageArguments, integer_of, text_of
from tmuxmcp.faces.page.overview import Missing, PageListing, PageWait, Row, encoded_rows

PAGE_BEAT_S = 10
"""A page hears something so often: silence means that the connection is gone."""

LEAST_PAGE, MOST_PAGE = 10**9, 10**10 - 1
"""Numbers of pages: above all process ids, and with as many digits as a lease takes."""

TAIL_FIELD = "tail"


@value
class PageSubscription:
    """What a page wants to be told."""

    session_id: str
    """Whose screen is shown; empty: none."""
    page: int
    """The number of the page; 0: it has none."""
    lists: bool = True
    """It wants the list, too."""
    beat_s: int = PAGE_BEAT_S

    @classmethod
    def of(cls, asked: PageArguments) -> PageSubscription:
        """The wish in a request.

        Raises:
            InvalidArgument
        """
        beat_s = integer_of(asked, "beat_s") or PAGE_BEAT_S
        if not 1 <= beat_s <= PAGE_BEAT_S:
            raise InvalidArgument(f"beat_s is a number from 1 to {PAGE_BEAT_S}.")
        return cls(text_of(asked, "session"), number_of(asked), asked.get("lists") is not False, beat_s)


class PageStream(Response):
    """What a page is told, until it leaves."""

    media_type = "application/x-ndjson"

    def __init__(
        self, listing: PageListing, wish: PageSubscription, show: Callable[[PageStream], Coroutine[Any, Any, None]]
    ) -> None:
        """Begin to tell a page.

        Args:
            show: tells it of the session that it shows.
        """
        super().__init__(headers=PAGE_HEADERS)
        del self.headers["content-length"]
        self._listing, self.wish, self._show = listing, wish, show
        self._lock = anyio.Lock()
        self._said_at = 0.0
        self._scope = anyio.CancelScope()

    def end(self) -> None:
        """Tell the page nothing more."""
        self._scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell it all."""
        with self._scope:
            await self._tell(receive, send)
        await send({"type": "http.response.body", "body": b""})

    async def _tell(self, receive: Receive, send: Send) -> None:
        self._send = send
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with self._listing.looked_at() if self.wish.lists else nullcontext(), anyio.create_task_group() as tasks:
            tasks.start_soon(self._show, self)
            tasks.start_soon(self._beat)
            if self.wish.lists:
                tasks.start_soon(self._list)
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

    async def say(self, kind: str, make: Callable[[], Awaitable[str]]) -> None:
        """Send a line, unless it is empty. It is made when the page has taken those before: it tells of that moment."""
        async with self._lock:
            if text := await make():
                await self._say(kind, text)

    async def _say(self, kind: str, text: str) -> None:
        self._said_at = anyio.current_time()
        body = f'{{"kind":"{kind}",{text}}}\n'.encode("utf-8", "replace")
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def _beat(self) -> None:
        while True:
            await anyio.sleep(self.wish.beat_s)
            if anyio.current_time() - self._said_at >= self.wish.beat_s / 2:
                async with self._lock:
                    await self._say("beat", '"v":1')

    async def _list(self) -> None:
        sent: dict[str, Row] | None = None
        told: list[PageWait] | None = None
        missing: list[Missing] = []
        version = 0
        while True:
            await self._listing.change(version)
            async with self._lock:
                version, rows = self._listing.version, dict(self._listing.rows)
                before = sent or {}
                changed = [_row(row) for name, row in rows.items() if before.get(name) is not row]
                gone = [name for name in before if name not in rows]
                waits = self._listing.waits
                lacking = self._listing.missing
                if changed or gone or waits is not told or lacking != missing:
                    more = "" if waits is told else f',"waits":{as_json(waits)},"now_ms":{round(time.time() * 1000)}'
                    more += "" if lacking == missing else f',"missing":{as_json(lacking)}'
                    more += "" if sent is not None else ',"whole":true'  # what a page knows beside these is gone
                    await self._say("list", f'"rows":[{",".join(changed)}],"gone":{as_json(gone)}{more}')
                sent, told, missing = rows, waits, lacking


class Desk:
    """Answers pages that were let in: the part of a server that knows sessions."""

    def __init__(self, listing: PageListing, *jobs: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Args:
        listing: what pages are told of all sessions.
        jobs: what else is done while pages are shown, until cancelled.
        """
        self.listing, self._jobs = listing, (listing.run, *jobs)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Keep pages up to date while this is open."""
        async with anyio.create_task_group() as task_group:
            for job in self._jobs:
                task_group.start_soon(job)
            yield
            task_group.cancel_scope.cancel()

    def routes(self) -> list[Route]:
        """A route for each thing that a page asks for, or does."""
        raise NotImplementedError

    def stream(self, wish: PageSubscription) -> PageStream:
        """What tells a page of what it wants to know."""
        return PageStream(self.listing, wish, self.show)

    async def show(self, stream: PageStream) -> None:
        """Tell a page of the session that it shows, until cancelled."""
        raise NotImplementedError


def _row(row: Row) -> str:
    """A row of the list; the last rows of its screen are JSON already."""
    rest = {name: value for name, value in row.items() if name != TAIL_FIELD}
    return f'{as_json(rest)[:-1]},"tail":[{",".join(row[TAIL_FIELD])}]}}'


def as_json(value: Any) -> str:
    """A value as a line has it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def number_of(asked: PageArguments) -> int:
    """The number of the page that asks; 0: it has none.

    Raises:
        InvalidArgument
    """
    page = integer_of(asked, "page") or 0
    if page and not LEAST_PAGE <= page <= MOST_PAGE:
        raise InvalidArgument(f"page is a number from {LEAST_PAGE} to {MOST_PAGE}.")
    return page


# ---- The screen of a session as an open page is shown it -------------------------------------------------------------
#
# Frames, at most so often, of which each has what has changed.

log = logging.getLogger(__name__)

PAGE_FRAME_S = 0.05
"""Least time between two frames of a screen."""


async def show(broker: Broker, session_id: str, stream: PageStream) -> None:
    """Show a page what a session shows, until that ends."""
    seeing = broker.seeing()
    frames, shape = Frames(session_id), ShapeSeen()

    async def frame() -> str:
        return frames.frame(await _sight(seeing, session_id, shape))

    async def last(facts: str) -> None:
        async def told() -> str:
            return f'"session":{as_json(session_id)},{facts}'

        await stream.say("screen", told)

    try:
        follow = broker.follow(session_id, output=False)
        while True:
            begun = anyio.current_time()
            await stream.say("screen", frame)
            if not await follow.batch():
                break
            await anyio.sleep(max(begun + PAGE_FRAME_S - anyio.current_time(), 0))
    except TmuxMcpError as error:
        return await last(f'"error":{as_json(error.as_dict())}')
    await last('"over":true')


async def _sight(seeing: SessionOverviews, session_id: str, shape: ShapeSeen) -> SessionOverview | None:
    try:
        return await seeing.sight(session_id, shape)
    except (TmuxMcpError, OSError) as error:
        log.debug("session %s cannot be looked at: %s", session_id, error)
        return None


class Frames:
    """The screens that one page was sent of a session."""

    def __init__(self, session_id: str) -> None:
        self._session = as_json(session_id)
        self._size = (0, 0)
        self._rows: list[str] = []
        self._facts = ""

    def frame(self, sight: SessionOverview | None) -> str:
        """What has changed since the last frame, as JSON without its braces; empty: nothing."""
        if sight is None:
            return ""
        shown = sight.shown
        rows = encoded_rows(shown.lines, shown.cols, shown.rows, shown.version)
        size = (shown.cols, shown.rows)
        row, col, visible = shown.cursor
        facts = as_json([row, min(col, shown.cols - 1), visible and sight.alive, sight.title, sight.cursor_shape])
        whole = size != self._size
        changed = [f'"{number}":{text}' for number, text in enumerate(rows) if whole or self._rows[number] != text]
        if not changed and facts == self._facts:
            return ""
        self._size, self._rows, self._facts = size, rows, facts
        lines = ",".join(changed)
        return f'"session":{self._session},"size":[{size[0]},{size[1]}],"facts":{facts},"lines":{{{lines}}}'
