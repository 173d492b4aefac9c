"""Waits of a person on another machine: longer than that machine waits in one call."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tmuxmcp.contract import requests as q

if TYPE_CHECKING:
    from tmuxmcp.contract import results as r
    from tmuxmcp.contract.operations import Operations

WAIT_END_FIELDS = ("outcome", "evidence", "matched", "mode", "command")
"""What the end of a wait tells."""


def goes_on(seen: r.ReadResult) -> bool:
    """Whether a wait was ended by the machine, and not by the time that it was given."""
    return seen.outcome == "timeout" and seen.effective_timeout_ms is not None


async def wait_then_read(
    operations: Operations, session_id: str, waits: Mapping[str, Any], given: Mapping[str, Any]
) -> r.ReadResult:
    """Wait, and then read what is asked for.

    Args:
        waits: how to wait, as `read` takes it.
        given: what to read.
    """
    began = time.monotonic()
    since = {"since": given["since"]} if "since" in given else {}
    ended = await _wait(operations, session_id, waits, since, began, q.Read().timeout_ms)
    seen = await operations.read(session_id=session_id, max_bytes=waits["max_bytes"], **given)
    return _as_ended(seen, ended, began)


async def on(
    operations: Operations, session_id: str, waits: Mapping[str, Any], began: float, so_far: r.ReadResult
) -> r.ReadResult:
    """Go on waiting after a `send` whose wait the machine has ended; what was printed in all.

    Args:
        began: when it was sent, by the clock of `time.monotonic`.
    """
    ended = await _wait(operations, session_id, waits, {"since": so_far.next_offset}, began, q.Send().timeout_ms)
    if so_far.view != "new":  # a program that draws the screen
        seen = await operations.read("screen", session_id, max_bytes=waits["max_bytes"])
        return _as_ended(seen, ended, began)
    seen = await operations.read(session_id=session_id, max_bytes=waits["max_bytes"])
    whole = seen.model_copy(update={"content": so_far.content + seen.content, "note": seen.note or so_far.note})
    return _as_ended(whole, ended, began)


async def _wait(
    operations: Operations,
    session_id: str,
    waits: Mapping[str, Any],
    since: Mapping[str, int],
    began: float,
    usual_ms: int,
) -> r.ReadResult:
    """Wait as long as it takes, a call after the other. A look at the screen moves no cursor: none misses a pattern."""
    until = began + waits.get("timeout_ms", usual_ms) / 1000
    one: dict[str, Any] = {name: value for name, value in waits.items() if name not in ("timeout_ms", "max_bytes")}
    one |= since
    while True:
        left_ms = max(int((until - time.monotonic()) * 1000), 0)
        seen = await operations.read("screen", session_id, timeout_ms=left_ms, max_bytes=1, **one)
        if not goes_on(seen) or time.monotonic() >= until:
            return seen


def _as_ended(seen: r.ReadResult, ended: r.ReadResult, began: float) -> r.ReadResult:
    """What was read, with how the wait before has ended."""
    changes = {name: getattr(ended, name) for name in WAIT_END_FIELDS if getattr(ended, name) is not None}
    waited_ms = round((time.monotonic() - began) * 1000)
    return seen.model_copy(update={**changes, "waited_ms": waited_ms, "effective_timeout_ms": None})
