"""A gateway hears what calls say: both sides, without a way between them but where it is to break."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from tests.conftest import SLOW
from tmuxmcp.contract.call import Call, CallAgain, Question, begin
from tmuxmcp.contract.errors import Cancelled, ConfirmationDeclined, NodeUnreachable
from tmuxmcp.nodes import callnews as module
from tmuxmcp.nodes.callnews import AskedAgain, EndedForQuestion, GatewayCalls, RemoteCalls


class Machine:
    """What is at the other end; the way to it breaks as often as it is told to."""

    def __init__(self) -> None:
        self.calls = GatewayCalls()
        self.breaks = 0
        self.exchanges: list[str] = []

    async def exchange(self, what: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        told = await self.calls.do(what, asked["line"], asked)
        self.exchanges.append(what)
        if self.breaks:
            self.breaks -= 1
            raise NodeUnreachable("The answer was lost.")
        return told

    @asynccontextmanager
    async def heard(self) -> AsyncIterator[RemoteCalls]:
        hearing = RemoteCalls(self.exchange)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hearing.run)
            with anyio.fail_after(20 * SLOW):
                yield hearing
            tasks.cancel_scope.cancel()

    async def asks(self, hearing: RemoteCalls, call: Call, question: Question) -> bool | None:
        """A call that asks this."""
        async with hearing.of(call) as heard:
            assert heard.sent
            with self.calls.of(heard.sent["line"], heard.sent, Call(), asks=True) as made:
                try:
                    return await made.ask(question)
                except AskedAgain:
                    raise EndedForQuestion from None


def person(answer: bool | BaseException | None, asked: list[Question] | None = None) -> Call:
    async def ask(question: Question) -> bool | None:
        if asked is not None:
            asked.append(question)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return Call(ask=ask)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0.001)


@pytest.mark.parametrize("answer", [True, False, None])
async def test_the_answer_goes_back(answer: bool | None):
    machine, asked = Machine(), []
    async with machine.heard() as hearing:
        question = Question("May it?", "digest", may_wait=True, url="http://page/#x")
        assert await machine.asks(hearing, person(answer, asked), question) is answer
    assert asked == [question]


async def test_a_call_that_has_just_begun_is_heard_while_others_are(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "QUIET_S", 0.05)
    machine, agreed = Machine(), anyio.Event()

    async def later(question: Question) -> bool:
        await agreed.wait()
        return True

    async with machine.heard() as hearing, anyio.create_task_group() as tasks:
        tasks.start_soon(machine.asks, hearing, Call(ask=later), Question("First?", "1"))
        with anyio.fail_after(20 * SLOW):
            while "news" not in machine.exchanges:
                await anyio.sleep(0.001)
        monkeypatch.setattr(module, "QUIET_S", 3600)
        assert await machine.asks(hearing, person(True), Question("Second?", "2"))
        agreed.set()


async def test_what_is_lost_on_the_way_is_told_again():
    machine = Machine()
    async with machine.heard() as hearing:
        asked: list[Question] = []
        machine.breaks = 2
        assert await machine.asks(hearing, person(True, asked), Question("May it?", "digest"))
        assert len(asked) == 1


async def test_that_the_call_is_to_be_made_again_goes_back_and_comes_out():
    machine, again = Machine(), CallAgain()
    async with machine.heard() as hearing:
        with pytest.raises(CallAgain) as raised:
            await machine.asks(hearing, person(again), Question("May it?", "digest"))
        assert raised.value is again


async def test_an_error_of_asking_goes_back():
    machine = Machine()
    async with machine.heard() as hearing:
        with pytest.raises(ConfirmationDeclined, match="void"):
            await machine.asks(hearing, person(ConfirmationDeclined("It is void.")), Question("May it?", "digest"))


async def test_who_never_comes_for_news_can_ask_nobody(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tmuxmcp.nodes.callnews.COMES_S", 0.01)
    calls = GatewayCalls()
    with calls.of("line", {"key": "k", "asks": True, "tells": True}, Call(), asks=True) as made:
        assert await made.ask(Question("May it?", "digest")) is None
    with calls.of("line", {"key": "k", "asks": True, "tells": True}, Call(), asks=False) as made:
        assert await made.ask(Question("May it?", "digest")) is None


async def test_nothing_is_kept_of_calls_that_are_over():
    machine = Machine()
    async with machine.heard() as hearing:
        assert await machine.asks(hearing, person(True), Question("May it?", "digest"))
        assert not hearing._calls
        assert not hearing._lasting
    assert not machine.calls._lines


async def test_a_call_begins_only_while_it_is_waited_for():
    calls = GatewayCalls()
    epoch, now = calls.now()
    sent = {"key": "k", "asks": False, "tells": False}
    with calls.of("l", {**sent, "begin": [epoch, now + 60]}, Call(), asks=False):
        begin()
    begin()  # nobody has passed this on
    for late in ([epoch, now - 0.001], ["of another process", now + 60], [epoch, float("nan")]):
        with calls.of("l", {**sent, "begin": late}, Call(), asks=False), pytest.raises(NodeUnreachable):
            begin()
    with calls.of("l", {**sent, "begin": [epoch, now - 0.001]}, Call(), asks=False):
        await calls.do("keep", "l", {"epoch": epoch, "until": {"k": now + 60}})
        begin()
        assert (await calls.do("stop", "l", {"key": "k"}))["begun"] is True
        with pytest.raises(Cancelled):
            begin()
    # One that was stopped before it came, and what prolongs it afterwards.
    assert (await calls.do("stop", "l", {"key": "later"}))["known"] is False
    with calls.of("l", {**sent, "key": "later", "begin": [epoch, now + 60]}, Call(), asks=False):
        await calls.do("keep", "l", {"epoch": epoch, "until": {"later": now + 99}})
        with pytest.raises(NodeUnreachable):
            begin()
