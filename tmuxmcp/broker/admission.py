"""How many calls of one client go on at once. Calls that only wait cost next to nothing: they count apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tmuxmcp.contract.call import SMALL_ANSWER_BYTES, Call
from tmuxmcp.contract.errors import ResourceLimit
from tmuxmcp.contract.request import Request
from tmuxmcp.contract.requests import Read, Wait
from tmuxmcp.contract.results import CallsGoingOn, Result

WAITS_PER_CALL = 16
"""So many waits are let go on for each call that may."""

NEAR_LIMIT = 0.75
"""From this part of the limit on, answers say so."""


def only_waits(request: Request[Any]) -> bool:
    """Whether a call does little more than to wait; what was left out of it is filled in.

    A wait whose answer may be long does more: a thousand may end at the same moment.
    """
    match request:
        case Wait():
            return request.timeout_ms > 0
        case Read():
            return request.wait_for != "none" and request.max_bytes <= SMALL_ANSWER_BYTES
    return False


class Admission:
    """Counts the calls of each client that go on at this moment."""

    def __init__(self, max_calls: int) -> None:
        self.max_calls, self.max_waits = max_calls, max_calls * WAITS_PER_CALL
        self._calls: Counter[str] = Counter()
        self._waits: Counter[str] = Counter()

    @contextmanager
    def admit(self, call: Call, *, waits: bool = False) -> Iterator[None]:
        """While this is open, the call counts.

        Args:
            waits: it only waits.

        Raises:
            ResourceLimit: its client has too many.
        """
        going_on, most, kind = (
            (self._waits, self.max_waits, "waits") if waits else (self._calls, self.max_calls, "calls")
        )
        if going_on[call.caller] >= most:
            allows = f"{WAITS_PER_CALL} times max_calls" if waits else "max_calls"
            raise ResourceLimit(
                f"{most} {kind} of this client go on at once, as many as {allows} allows.",
                hint="Wait until one of them has returned. `wait` waits for many sessions in one call.",
                limit="max_calls",
                **self.going_on(call.caller).model_dump(),
            )
        going_on[call.caller] += 1
        try:
            yield
        finally:
            going_on[call.caller] -= 1
            if not going_on[call.caller]:
                del going_on[call.caller]

    def going_on(self, caller: str) -> CallsGoingOn:
        """How many calls of a client go on, and how many may."""
        return CallsGoingOn(
            calls=self._calls[caller],
            waits=self._waits[caller],
            most_calls=self.max_calls,
            most_waits=self.max_waits,
        )

    def with_limit_note(self, result: Result, caller: str) -> Result:
        """A result, with a note if its client comes near the limit."""
        near = [
            f"{going_on[caller]} of {most} {kind}"
            for going_on, most, kind in ((self._calls, self.max_calls, "calls"), (self._waits, self.max_waits, "waits"))
            if most > 1 and going_on[caller] >= most * NEAR_LIMIT
        ]
        if not near or "note" not in type(result).model_fields:
            return result
        warning = f"{' and '.join(near)} of this client go on at once: more are refused (max_calls)."
        return result.model_copy(update={"note": " ".join(filter(None, (getattr(result, "note", None), warning)))})
