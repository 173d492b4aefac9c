"""Delays any step of the broker and of the processes around it, at random, and says by its seed which.

Four kinds: a function or a call to the kernel takes its time, a task goes on late after an `await`, news of a
descriptor (inotify, tmux's answers) comes late, and a process stands still (SIGSTOP): the log's writer, tmux, the
session's shell, its launcher. Nothing is lost by that, so nothing that the broker says may be false.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

LONGEST_S = 0.2


@dataclass
class Rates:
    """How often each kind of delay comes; 0: never."""

    call: float = 2e-5
    """Of each call of a function."""
    awaited: float = 0.005
    """Of each time that a task goes on."""
    reader: float = 0.02
    """Of each piece of news."""
    process_s: float = 0.1
    """Mean time between two processes that stand still."""


class Delays:
    """Delays of one seed."""

    def __init__(self, seed: int, rates: Rates | None = None) -> None:
        self.seed = seed
        self.rates = rates or Rates()
        self._random = random.Random(seed)

    def length_s(self) -> float:
        """Mostly short ones: they hit what is a few milliseconds apart."""
        return LONGEST_S * self._random.random() ** 4

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """Delay calls, tasks made from now on, and readers of the running loop."""
        loop = asyncio.get_running_loop()
        add_reader = loop.add_reader
        loop.set_task_factory(self._make_task)
        loop.add_reader = self._late_reader(add_reader)
        sys.setprofile(self._call)
        try:
            yield
        finally:
            sys.setprofile(None)
            loop.add_reader = add_reader
            loop.set_task_factory(None)

    async def stand_still(self, groups: Callable[[], list[list[int]]]) -> None:
        """Stop one of these groups of processes for a moment, again and again, until cancelled."""
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self.rates.process_s))
            pids = self._random.choice(groups())
            _signal(pids, signal.SIGSTOP)
            try:
                await asyncio.sleep(self._random.uniform(0, LONGEST_S))
            finally:
                _signal(pids, signal.SIGCONT)

    def _call(self, frame: FrameType, event: str, arg: object) -> None:
        if event in ("call", "c_call") and self._random.random() < self.rates.call:
            time.sleep(self.length_s())

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **rest: Any
    ) -> asyncio.Task[Any]:
        return asyncio.Task(self._late(work), loop=loop, **rest)

    async def _late(self, work: Coroutine[Any, Any, Any]) -> Any:
        return await _Steps(self, work)

    def _late_reader(self, add_reader: Callable[..., Any]) -> Callable[..., Any]:
        """For those who wait for one piece of news and then ask again (`anyio.wait_readable`)."""
        loop = asyncio.get_running_loop()

        def added(fd: int, callback: Callable[..., Any], *args: Any) -> Any:
            def told() -> None:
                if self._random.random() < self.rates.reader:
                    loop.remove_reader(fd)
                    loop.call_later(self.length_s(), callback, *args)
                else:
                    callback(*args)

            return add_reader(fd, told)

        return added


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


class _Steps:
    """A coroutine that goes on late, now and then."""

    def __init__(self, delays: Delays, work: Coroutine[Any, Any, Any]) -> None:
        self._delays, self._work = delays, work

    def __await__(self) -> Generator[Any, Any, Any]:
        given: Any = None
        error: BaseException | None = None
        while True:
            try:
                waits_for = self._work.throw(error) if error else self._work.send(given)
            except StopIteration as end:
                return end.value
            given = error = None
            try:
                given = yield waits_for
                if self._delays._random.random() < self._delays.rates.awaited:
                    yield from asyncio.sleep(self._delays.length_s()).__await__()
            except BaseException as raised:  # a cancelled task is told so, however late it was
                error = raised
