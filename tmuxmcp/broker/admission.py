"""How many calls of one client go on at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tmuxmcp.contract.call import Call
from tmuxmcp.errors import ResourceLimit


class Admission:
    """Counts the calls of each client that go on at this moment."""

    def __init__(self, max_calls: int) -> None:
        self.max_calls = max_calls
        self._going_on: Counter[str] = Counter()

    @contextmanager
    def admit(self, call: Call) -> Iterator[None]:
        """While this is open, the call counts.

        Raises:
            ResourceLimit: its client has too many.
        """
        if self._going_on[call.caller] >= self.max_calls:
            raise ResourceLimit(
                f"{self.max_calls} calls of this client go on at once, as many as max_calls allows.",
                hint="Wait until one of them has returned.",
                limit="max_calls",
            )
        self._going_on[call.caller] += 1
        try:
            yield
        finally:
            self._going_on[call.caller] -= 1
            self._going_on += Counter()  # forgets who has none
