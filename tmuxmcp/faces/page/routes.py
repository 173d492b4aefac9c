"""The page as routes of the HTTP service: its files, the way in, and what it asks for.

Who comes this far has a person's token, but for the files and the way in: the service's entrance sees to that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from weakref import WeakKeyDictionary

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from tmuxmcp.contract.errors import ResourceLimit, TmuxMcpError
from tmuxmcp.contract.value import asdict
from tmuxmcp.faces.page.answers import PAGE_HEADERS, PageArguments, answer, body_of, refused, routes_of, text_of
from tmuxmcp.faces.page.codes import AccessSecrets
from tmuxmcp.faces.page.stream import Desk, PageStream, PageSubscription

ENTER, PROVE, LEAVE = "/page/enter", "/page/prove", "/page/leave"

MOST_PAGES = 16
"""Pages that are open at once."""

MOST_STREAMS = 8 * MOST_PAGES
"""What pages of gateways look at counts as well."""


class Page:
    """The page of one server."""

    def __init__(self, desk: Desk, keys: AccessSecrets, bearer: Callable[[str | None], str]) -> None:
        """`bearer` gives the token in an Authorization header."""
        self._desk, self._keys, self._bearer = desk, keys, bearer
        self._streams: WeakKeyDictionary[PageStream, str] = WeakKeyDictionary()
        """With the token of each."""

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Keep pages up to date while this is open."""
        async with self._desk.run():
            yield

    @property
    def open_paths(self) -> frozenset[str]:
        """What needs no token."""
        return paths() | {ENTER, PROVE}

    def knows(self, token: str) -> bool:
        """Whether a token is a person's."""
        return self._keys.knows(token)

    def routes(self) -> list[Route]:
        """All of the page."""
        return [
            *routes(),
            *routes_of({"enter": self._enter, "prove": self._prove}),
            Route(LEAVE, self._leave, methods=["POST"]),
            Route("/page/stream", self._stream, methods=["POST"]),
            *self._desk.routes(),
        ]

    async def _enter(self, asked: PageArguments) -> PageArguments:
        return asdict(self._keys.enter(text_of(asked, "code")))

    async def _prove(self, asked: PageArguments) -> PageArguments:
        return {"proof": self._keys.prove(text_of(asked, "digest"), text_of(asked, "nonce"))}

    async def _leave(self, request: Request) -> Response:
        token = self._token(request)
        self._keys.leave(token)
        for stream in [each for each, whose in self._streams.items() if whose == token]:
            stream.end()
        return answer({})

    async def _stream(self, request: Request) -> Response:
        stream = await _opened_stream(self._desk, request, len(self._streams))
        if isinstance(stream, PageStream):
            self._streams[stream] = self._token(request)
        return stream

    def _token(self, request: Request) -> str:
        return self._bearer(request.headers.get("authorization"))


def page_of(desk: Desk) -> ASGIApp:
    """What pages ask for as an application, for who has let them in already: without files and keys."""

    async def stream(request: Request) -> Response:
        return await _opened_stream(desk, request)

    return Starlette(routes=[Route("/page/stream", stream, methods=["POST"]), *desk.routes()])


async def _opened_stream(desk: Desk, request: Request, streams: int = 0) -> Response:
    """The stream that a request asks for, unless too many pages, or `streams` of them, are open."""
    try:
        wish = PageSubscription.of(await body_of(request))
    except TmuxMcpError as error:
        return refused(error)
    if desk.listing.lookers < MOST_PAGES and streams < MOST_STREAMS:
        return desk.stream(wish)
    full = ResourceLimit(f"{MOST_PAGES} pages are open already.", hint="Close one of them.")
    return answer({"error": full.as_dict()}, 503)


# ---- The files of the page, as a browser gets them: read once, when a server starts ----------------------------------

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
ASSETS = Path(__file__).parent / "static"
INDEX_FILE = "index.html"


def paths() -> frozenset[str]:
    """The paths of all files: they hold nothing of sessions, so that no token is asked for."""
    return frozenset(_path(file) for file in _files())


def routes() -> list[Route]:
    """A route for each file."""
    return [_route(file) for file in _files()]


def _files() -> list[Path]:
    return [file for file in sorted(ASSETS.iterdir()) if file.suffix in CONTENT_TYPES]


def _path(file: Path) -> str:
    return "/" if file.name == INDEX_FILE else f"/page/{file.name}"


def _route(file: Path) -> Route:
    body, kind = file.read_bytes(), CONTENT_TYPES[file.suffix]

    async def give(request: Request) -> Response:
        return Response(body, headers=PAGE_HEADERS | {"content-type": kind})

    return Route(_path(file), give, methods=["GET"])
