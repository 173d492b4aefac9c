"""The files of the page, as a browser gets them: read once, when a server starts."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tmuxmcp.faces.page.answers import PAGE_HEADERS

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
