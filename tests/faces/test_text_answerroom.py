"""Room for long answers: who waits for it, and when it is free again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from tests.conftest import eventually
from tmuxmcp.contract.call import SMALL_ANSWER_BYTES
from tmuxmcp.faces.text import ROOM_BYTES, AnswerRoom, current_task

HALF = ROOM_BYTES // 2


class Answers:
    """Answers that are made when there is room for them, and written when the test says so."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._room, self._tasks = AnswerRoom(), tasks
        self.made: list[str] = []
        self._written: dict[str, anyio.Event] = {}
        self._scopes: dict[str, anyio.CancelScope] = {}

    def ask(self, name: str, size: int) -> None:
        self._written[name], self._scopes[name] = anyio.Event(), anyio.CancelScope()
        self._tasks.start_soon(self._answer, name, size)

    async def _answer(self, name: str, size: int) -> None:
        with self._scopes[name]:
            await self._room.until_done(current_task())(size)
            self.made.append(name)
            await self._written[name].wait()

    def write(self, name: str) -> None:
        self._written[name].set()

    def cancel(self, name: str) -> None:
        self._scopes[name].cancel()

    async def are_made(self, *names: str) -> None:
        await eventually(lambda: len(self.made) >= len(names))
        await anyio.wait_all_tasks_blocked()
        assert tuple(self.made) == names


@asynccontextmanager
async def asked(**sizes: int) -> AsyncIterator[Answers]:
    async with anyio.create_task_group() as tasks:
        answers = Answers(tasks)
        for name, size in sizes.items():
            answers.ask(name, size)
        yield answers
        tasks.cancel_scope.cancel()


async def test_long_answers_wait_in_turn_and_small_ones_do_not():
    async with asked(a=HALF, b=HALF, c=HALF, d=SMALL_ANSWER_BYTES + 1, small=SMALL_ANSWER_BYTES) as answers:
        await answers.are_made("small", "a", "b")
        answers.write("a")
        await answers.are_made("small", "a", "b", "c")
        answers.write("b")
        await answers.are_made("small", "a", "b", "c", "d")


async def test_an_answer_that_is_larger_than_the_room_is_made_alone():
    async with asked(a=SMALL_ANSWER_BYTES + 1, b=8 * ROOM_BYTES, c=SMALL_ANSWER_BYTES + 1) as answers:
        await answers.are_made("a")
        answers.write("a")
        await answers.are_made("a", "b")
        answers.write("b")
        await answers.are_made("a", "b", "c")


async def test_a_cancelled_call_gives_up_its_room_and_its_turn():
    async with asked(a=ROOM_BYTES, b=ROOM_BYTES, c=ROOM_BYTES, d=ROOM_BYTES) as answers:
        await answers.are_made("a")
        answers.cancel("b")
        answers.cancel("c")
        answers.cancel("a")
        await answers.are_made("a", "d")


async def test_a_task_takes_room_once():
    """One answer of several steps would wait for itself."""
    room = AnswerRoom().until_done(current_task())
    with anyio.fail_after(5):
        for _ in range(3):
            await room(ROOM_BYTES)
