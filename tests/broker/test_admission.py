"""A client has so many calls at once and no more."""

from __future__ import annotations

import json
from typing import Any

import anyio
import psutil
import pytest

from tests.conftest import SLOW, eventually
from tmuxmcp.broker.admission import Admission
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.call import SMALL_ANSWER_BYTES, Call
from tmuxmcp.contract.errors import ResourceLimit
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.requests import Read, Send
from tmuxmcp.contract.value import asdict, replace

ONE = Call(caller="one")


def test_calls_of_one_client_are_counted_and_others_are_not() -> None:
    admission = Admission(2)
    with admission.admit(ONE), admission.admit(ONE):
        with pytest.raises(ResourceLimit, match="max_calls") as caught, admission.admit(ONE):
            pass
        assert caught.value.details["limit"] == "max_calls"
        with admission.admit(replace(ONE, caller="other")):
            pass
    with admission.admit(ONE), admission.admit(ONE):
        pass


def test_a_call_that_fails_counts_no_more() -> None:
    admission = Admission(1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), admission.admit(ONE):
            raise ZeroDivisionError


async def test_waits_of_one_client_do_not_pile_up_and_leave_room_for_calls(broker: Broker) -> None:
    broker.services.admission = Admission(2)
    await broker.create_session("cat", name="a")
    failed: list[ResourceLimit] = []
    slow = int(20_000 * SLOW)
    waits = [
        ("read", {"session_id": "a", "wait_for": "exit", "timeout_ms": slow}),
        ("wait", {"session_ids": ["a"], "wait_for": "exit", "timeout_ms": slow}),
    ]
    large = {"session_id": "a", "wait_for": "exit", "timeout_ms": slow, "max_bytes": SMALL_ANSWER_BYTES + 1}

    async def perform(name: str, arguments: dict[str, object]) -> None:
        try:
            await broker.perform(OPERATIONS[name], arguments, ONE)
        except ResourceLimit as error:
            failed.append(error)

    async def health() -> Any:
        return await broker.perform(OPERATIONS["health"], {}, ONE)

    async with anyio.create_task_group() as tasks:
        for name, arguments in waits * 16:
            tasks.start_soon(perform, name, arguments)
        await eventually(lambda: broker.services.admission.going_on("one").waits == 32)
        await perform(*waits[0])
        (refused,) = failed
        assert refused.details == {"limit": "max_calls", "calls": 0, "waits": 32, "most_calls": 2, "most_waits": 32}
        listed = await broker.perform(OPERATIONS["list_sessions"], {}, ONE)
        assert "32 of 32 waits of this client go on" in (listed.note or "")  # type: ignore[attr-defined]
        told = await health()
        assert asdict(told.going_on) == {"calls": 1, "waits": 32, "most_calls": 2, "most_waits": 32}
        assert told.limits["max_calls"] == 64
        for _ in range(2):  # whoever may answer with much does more than wait
            tasks.start_soon(perform, "read", large)
        await eventually(lambda: broker.services.admission.going_on("one").calls == 2)
        await perform("list_sessions", {})
        assert failed[1].details["calls"] == 2
        await broker.destroy_session("a", force=True)
    assert len(failed) == 2
    assert (await health()).going_on.waits == 0
    assert (await broker.health()).going_on is None


async def test_calls_that_wait_for_tmux_count(broker: Broker) -> None:
    broker.services.admission = Admission(2)
    await broker.create_session("cat", name="a")
    refused: list[str] = []

    async def read() -> None:
        try:
            await broker.do(Read("new", "a"), ONE)
        except ResourceLimit as error:
            refused.append(error.code)

    tmux = psutil.Process(broker.tmux.pid)
    tmux.suspend()
    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(read)
            await eventually(lambda: len(refused) == 18)
            tmux.resume()
    finally:
        tmux.resume()


async def test_call_that_is_cancelled_while_its_session_is_looked_for_has_its_line(broker: Broker) -> None:
    await broker.create_session("cat", name="a")
    tmux = psutil.Process(broker.tmux.pid)
    tmux.suspend()
    try:
        with anyio.move_on_after(0.2):
            await broker.do(Send("x", session_id="a"), ONE)
    finally:
        tmux.resume()
    (line,) = (broker.settings.state_dir / "audit.jsonl").read_text().splitlines()
    assert json.loads(line)["outcome"] == "cancelled"


async def test_sessions_may_come_and_go_while_a_default_session_is_looked_for(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = await broker.run("exit")
    await broker.create_session("cat", name="a")
    session = broker.registry.sessions[mine.session_id]
    refresh = session.refresh

    async def refreshed() -> object:
        broker.registry.sessions.pop("a", None)
        return await refresh()

    monkeypatch.setattr(session, "refresh", refreshed)
    assert (await broker.run("echo x")).output == "x\n"
