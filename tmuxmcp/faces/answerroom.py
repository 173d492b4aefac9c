"""Room for long answers: one is made only when those before it have gone out, so that few are in memory at once.

While it is made and written, an answer is there as text, as structured content and as JSON: ten bytes for each of its
text. How fast it goes is the client's choice.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import anyio

from tmuxmcp.contract.call import SMALL_ANSWER_BYTES, Room

ROOM_BYTES = 1024 * 1024
"""Bytes of text that the long answers to one client may have together; one alone may have more."""


def current_task() -> asyncio.Task[Any]:
    """The task that this runs in."""
    task = asyncio.current_task()
    assert task
    return task


class AnswerRoom:
    """The long answers to one client that are being made or written."""

    def __init__(self, most: int = ROOM_BYTES) -> None:
        self._most = most
        self._sizes: dict[asyncio.Task[Any], int] = {}
        self._turns = anyio.Lock()
        """Held by who waits for room; the others wait for it in the order in which they came."""
        self._left = anyio.Event()

    def until_done(self, task: asyncio.Task[Any]) -> Room:
        """Room for the answer of a task, which ends when it is written or not needed any more. Small ones need none."""
        return partial(self._take, task)

    async def _take(self, task: asyncio.Task[Any], size: int) -> None:
        if size <= SMALL_ANSWER_BYTES or task in self._sizes:
            return
        async with self._turns:
            while self._sizes and sum(self._sizes.values()) + size > self._most:
                await self._left.wait()
            self._sizes[task] = size
        task.add_done_callback(self._leave)

    def _leave(self, task: asyncio.Task[Any]) -> None:
        del self._sizes[task]
        self._left.set()
        self._left = anyio.Event()
