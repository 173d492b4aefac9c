"""Which calls may be made again when the way broke under them, and how long they wait at their machine. Pure."""

from __future__ import annotations

from typing import Any

from tmuxmcp.contract import requests as q
from tmuxmcp.contract.request import Request
from tmuxmcp.contract.words import conditions


def may_repeat(request: Request[Any]) -> bool:
    """Whether making the call twice does and tells no more and no less than making it once.

    What changes something is never made twice, also where that would do no harm: somebody else may have changed it
    in between.
    """
    row = request.operation
    if not row.read_only:
        return False
    if isinstance(request, q.Read):
        return _moves_nothing(request)
    return row.repeatable


def _moves_nothing(request: q.Read) -> bool:
    """Whether a read moves no cursor, and has nothing counted as told."""
    past = request.at_ms is not None or request.at_offset is not None
    return past or (
        request.since is not None and not {"command", "changed", "pattern"} & {*conditions(request.wait_for)}
    )


def own_time_s(request: Request[Any], max_wait_ms: int) -> float:
    """How long a call may wait at its machine, as it asks for.

    Args:
        max_wait_ms: as long the machine waits at most.
    """
    waits = [getattr(request, name, 0) or 0 for name in ("timeout_ms", "ready_timeout_ms", "grace_ms")]
    waits += [(getattr(request, "timeout_s", 0) or 0) * 1000]
    return min(max(waits), max_wait_ms) * (len(getattr(request, "steps", ()) or ()) or 1) / 1000
