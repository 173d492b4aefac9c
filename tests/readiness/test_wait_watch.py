from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio

from tests.conftest import eventually
from tests.kit.processes import is_in_front
from tmuxmcp.broker.broker import Broker
from tmuxmcp.readiness.wait import CHANGES_APART_S


class Listener:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.told: list[float] = []

    async def changed(self) -> None:
        self.told.append(time.monotonic())

    @asynccontextmanager
    async def hears(self) -> AsyncIterator[None]:
        """What is done in here is told, while it is done or soon after."""
        count = len(self.told)
        yield
        await eventually(lambda: len(self.told) > count)

    async def quiet(self) -> None:
        """Wait until it was told nothing for longer than two changes can be apart."""
        while self.told and time.monotonic() - self.told[-1] < CHANGES_APART_S * 3:
            await anyio.sleep(CHANGES_APART_S / 5)


@asynccontextmanager
async def listening(watch: partial[object]) -> AsyncIterator[Listener]:
    listener = Listener()
    async with anyio.create_task_group() as task_group:
        await task_group.start(partial(watch, listener.changed))
        yield listener
        task_group.cancel_scope.cancel()


async def mode(broker: Broker) -> str:
    return (await broker.get_session("a")).mode


async def test_a_listener_learns_that_a_program_starts_asks_and_ends(broker: Broker):
    await broker.create_session("bash", name="a")
    async with listening(partial(broker.watch.session, "a")) as listener:
        async with listener.hears():
            await broker.send(text="sleep 600", enter=True, session_id="a", read="none")
        # Between fork and exec a child handles the signal as its shell does, which drops it.
        await eventually(lambda: is_in_front(broker, "sleep 600"))
        assert await mode(broker) == "running"
        await broker.send(key="C-c", session_id="a", read="none")
        await listener.quiet()
        async with listener.hears():
            await broker.send(text="read -s secret", enter=True, session_id="a", read="none")
        await eventually(lambda: is_mode(broker, "password"))
        await listener.quiet()
        async with listener.hears():
            await broker.destroy_session("a", force=True)


async def is_mode(broker: Broker, wanted: str) -> bool:
    return await mode(broker) == wanted


async def test_output_counts_only_for_those_who_want_it(broker: Broker):
    await broker.create_session("cat", name="a", wait_ready=True)
    async with (
        listening(partial(broker.watch.session, "a")) as state,
        listening(partial(broker.watch.session, "a", output=True)) as output,
    ):
        terminal = os.open(broker.registry.sessions["a"].live().tty, os.O_WRONLY | os.O_NOCTTY)
        async with output.hears():
            os.write(terminal, b"hello\n")  # not by cat, which would run for a moment: that is another mode
        os.close(terminal)
        await output.quiet()
        assert state.told == []


async def test_in_a_flood_it_is_told_twice_a_second_at_most(broker: Broker):
    await broker.create_session("bash", name="a")
    async with listening(partial(broker.watch.session, "a", output=True)) as listener:
        await broker.run("timeout 2 yes", "a")
        await listener.quiet()
    assert len(listener.told) >= 2
    apart = [later - earlier for earlier, later in zip(listener.told, listener.told[1:], strict=False)]
    assert min(apart) >= CHANGES_APART_S


async def test_without_listeners_nothing_is_watched(broker: Broker):
    await broker.create_session("bash", name="a")
    session = broker.registry.sessions["a"]
    async with listening(partial(broker.watch.session, "a")):
        assert broker.watch.listeners == 1
        await eventually(lambda: session.growth.waiters)
    assert broker.watch.listeners == 0
    assert session.growth.waiters == 0


async def test_a_listener_to_all_learns_what_others_made_and_ended(broker: Broker):
    await broker.create_session("cat", name="a", wait_ready=True)
    async with (
        Broker.open(broker.settings) as other,
        listening(partial(broker.watch.all)) as listener,
    ):
        await listener.quiet()
        async with listener.hears():
            await other.create_session("cat", name="b")
        await eventually(lambda: "b" in broker.registry.sessions)  # else it was told of something else
        await listener.quiet()
        await other.destroy_session("b", force=True)
        await eventually(lambda: "b" not in broker.registry.sessions)
        await listener.quiet()
        await broker.send(text="x", enter=True, session_id="a", read="none")
        await listener.quiet()
        count = len(listener.told)
        await broker.send(key="C-d", session_id="a", read="none")
        await eventually(lambda: len(listener.told) > count)


async def test_one_may_listen_to_a_session_that_is_still_to_come(broker: Broker):
    async with listening(partial(broker.watch.session, "later")) as listener, listener.hears():
        await broker.create_session("cat", name="later")
