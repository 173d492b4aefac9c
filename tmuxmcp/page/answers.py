"""What a request of the page brings, and how it is answered: with headers that let a browser do nothing but show it."""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tmuxmcp.errors import InvalidArgument, ResourceLimit, TmuxMcpError

MOST_BYTES = 64 * 1024
"""Of a request's body."""

POLICY = "; ".join(
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

HEADERS = {
    "content-security-policy": POLICY,
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
    return Response(body, status, HEADERS, "application/json")


def refused(error: TmuxMcpError) -> Response:
    """An error, in the form of all refusals."""
    return answer({"error": error.as_dict()}, error.http_status)


async def body_of(request: Request, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
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


def text_of(asked: dict[str, Any], name: str) -> str:
    """A text that a request has to bring.

    Raises:
        InvalidArgument
    """
    value = asked.get(name)
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} is missing.")
    return value


def session_of(asked: dict[str, Any]) -> dict[str, Any]:
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


def integer_of(asked: dict[str, Any], name: str) -> int | None:
    """A whole number that a request may bring.

    Raises:
        InvalidArgument
    """
    value = asked.get(name)
    if value is not None and type(value) is not int:
        raise InvalidArgument(f"{name} is a whole number.")
    return value
