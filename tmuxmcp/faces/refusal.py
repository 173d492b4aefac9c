"""HTTP refusals that a library words as plain text, or not at all, as the object of all errors. Pure."""

from __future__ import annotations

import json
from http import HTTPStatus

from tmuxmcp.contract.errors import Internal, InvalidArgument, ResourceLimit

HINT_BY_STATUS = {
    400: "The request has to be whole HTTP/1.1, its Content-Type application/json.",
    404: "Paths are /mcp, /rpc, /metrics, /healthz and /.",
    405: "The header Allow names the methods that are taken.",
    406: "Accept has to name application/json and text/event-stream.",
    415: "The Content-Type has to be application/json.",
    431: "Send fewer or shorter headers.",
    503: "Try again in a moment.",
}
"""What to do about a refusal that comes without an error of ours, by its status."""


def refusal(status: int, said: str = "") -> bytes:
    """The body of a refusal that comes without an error of ours.

    Args:
        said: what it says; empty: what the status means.
    """
    message = said.strip().rstrip(".") or HTTPStatus(status).phrase
    kind = ResourceLimit if status in (413, 431, 503) else InvalidArgument if status < 500 else Internal
    error = kind(f"{message}.", hint=HINT_BY_STATUS.get(status, ""))
    return json.dumps({"error": error.as_dict()}).encode()
