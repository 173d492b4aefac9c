"""Answers that a client cancels while they are on the way: it drops them, and was told nothing."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import anyio
from mcp.types import RequestId

from tmuxmcp.contract.call import Call

MOST_ANSWERED = 64
"""Calls that are remembered: an answer is on the way for milliseconds."""


class RecentAnswers:
    """The calls of one wire that were answered last, by the numbers of their requests."""

    def __init__(self) -> None:
        self._calls: OrderedDict[RequestId, Call] = OrderedDict()
        self._cancelled: OrderedDict[RequestId, None] = OrderedDict()
        """Cancelled before they had an answer."""
        self.greeted = anyio.Event()
        """Set when the client has its first answer: it waits for nothing then."""

    def begins(self, number: RequestId) -> None:
        """Take note of a new call, whatever had its number before."""
        self._calls.pop(number, None)
        self._cancelled.pop(number, None)

    def add(self, number: RequestId, call: Call) -> None:
        """Take note of a call that has its answer."""
        if number in self._cancelled:
            call.not_told()
        else:
            self._calls[number] = call
            _bound(self._calls)

    def cancelled(self, number: RequestId) -> None:
        """The client has cancelled a call, and reads no answer to it."""
        call = self._calls.pop(number, None)
        if call:
            call.not_told()
        else:
            self._cancelled[number] = None
            _bound(self._cancelled)


def _bound(numbers: OrderedDict[RequestId, Any]) -> None:
    if len(numbers) > MOST_ANSWERED:
        numbers.popitem(last=False)
