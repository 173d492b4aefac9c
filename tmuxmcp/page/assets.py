"""The files of the page, as a browser gets them: read once, when a server starts."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tmuxmcp.page.answers import HEADERS

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
DIRECTORY = Path(__file__).parent / "static"
FIRST = "index.html"


def paths() -> frozenset[str]:
    """The paths of all files: they hold nothing of sessions, so that no token is asked for."""
    return frozenset(_path(file) for file in _files())


def routes() -> list[Route]:
    """A route for each file."""
    return [_route(file) for file in _files()]


def _files() -> list[Path]:
    return [file for file in sorted(DIRECTORY.iterdir()) if file.suffix in KINDS]


def _path(file: Path) -> str:
    return "/" if file.name == FIRST else f"/page/{file.name}"


def _route(file: Path) -> Route:
    body, kind = file.read_bytes(), KINDS[file.suffix]

    async def give(request: Request) -> Response:
        return Response(body, headers=HEADERS | {"content-type": kind})

    return Route(_path(file), give, methods=["GET"])
