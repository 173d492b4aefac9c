"""A client has so many calls at once and no more."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from tmuxmcp.broker.admission import Admission
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.errors import ResourceLimit

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


@pytest.mark.anyio
async def test_waits_of_one_client_do_not_pile_up(broker: Broker) -> None:
    broker._admission = Admission(3)
    await broker.create_session("cat", name="a")
    failed: list[str] = []

    async def wait() -> None:
        try:
            await broker.perform(OPERATIONS["read"], {"session_id": "a", "wait_for": "exit", "timeout_ms": 600}, ONE)
        except ResourceLimit as error:
            failed.append(error.code)

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(wait)
    assert failed == ["RESOURCE_LIMIT"] * 2
    assert (await broker.perform(OPERATIONS["health"], {}, ONE)).limits["max_calls"] == 64  # type: ignore[attr-defined]
