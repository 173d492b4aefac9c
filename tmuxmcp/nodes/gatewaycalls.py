"""What calls of gateways have to say before they end, at their machine: how they go on, and what a person is asked.

A gateway asks for the news of all its calls at once, and again as soon as it has them. News say how things stand and
are told until something newer is: a way that breaks loses none, and an answer that comes twice is one answer.

A call begins to change something only as long as its gateway waits for it, which says so by our own clock, ahead and
again and again: what was given up is not done later, however late it arrives, or this process goes on.
"""

from __future__ import annotations

import math
import secrets
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from tmuxmcp.contract.call import Call, CallAgain, Question, may_begin, no_progress, nobody
from tmuxmcp.contract.errors import LOOK_BEFORE, Cancelled, NodeUnreachable, TmuxMcpError
from tmuxmcp.nodes import wire

NEWS_HELD_S = 10.0
"""So long a gateway is kept waiting for news."""

COMES_S = 5.0
"""So long a gateway has to come for news before it counts as one that can ask nobody."""


MOST_STOPPED = 10_000
"""Calls that were given up before they arrived, of which is known that they are not to begin."""


def clock() -> float:
    """By which gateways say how long they wait: nobody sets it, and it goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


class AskedAgain(CallAgain):
    """The gateway's client is to make the call again, with a person's answer."""

    audit_outcome = "asked"


@dataclass
class _OpenQuestion:
    """A question that waits for its answer."""

    number: int
    question: Question
    said: bool | TmuxMcpError | CallAgain | None = None
    answered: anyio.Event = field(default_factory=anyio.Event)


@dataclass
class _GatewayConnection:
    """One gateway."""

    epoch: str = field(default_factory=lambda: secrets.token_hex(4))
    """Another one after we were started again, when numbers begin anew."""
    number: int = 0
    """Of the last news."""
    changed: anyio.Event = field(default_factory=anyio.Event)
    calls: dict[str, _GatewayCall] = field(default_factory=dict)
    listeners: int = 0
    came: anyio.Event = field(default_factory=anyio.Event)
    """It has asked for news."""

    def tell(self) -> int:
        """There are news; their number."""
        self.number += 1
        changed, self.changed = self.changed, anyio.Event()
        changed.set()
        return self.number


class _GatewayCall:
    """One call."""

    def __init__(self, line: _GatewayConnection, begin_by: float) -> None:
        self._line = line
        self.begin_by = begin_by
        """Until then its gateway waits for it; by `clock`."""
        self.begun = False
        self.number = 0
        """Of its last news; 0: it has none."""
        self.progress: tuple[float, str] | None = None
        self.open: _OpenQuestion | None = None
        self.enough = anyio.Event()
        self._asking = anyio.Lock()

    def begin(self) -> None:
        """
        Raises:
            NodeUnreachable: its gateway may have told by now that nobody knows what becomes of it.
            Cancelled: the same, of a call that has changed something before.
        """
        if not clock() <= self.begin_by:
            if self.begun:
                raise Cancelled("The gateway has given the call up.", hint=LOOK_BEFORE)
            raise NodeUnreachable("The call came too late.", hint="Nothing was done. Try again.", late=True)
        self.begun = True

    async def tell(self, elapsed_s: float, last_line: str) -> None:
        self.progress, self.number = (elapsed_s, last_line), self._line.tell()

    async def ask(self, question: Question) -> bool | None:
        """Ask the person behind the gateway.

        Raises:
            AskedAgain, TmuxMcpError: what asking them came to there.
        """
        async with self._asking:
            self.number = self._line.tell()
            self.open = mine = _OpenQuestion(self.number, question)
            try:
                with anyio.move_on_after(COMES_S) as comes:
                    await self._line.came.wait()
                if comes.cancelled_caught:
                    return None
                await mine.answered.wait()
            finally:
                self.open, self.number = None, self._line.tell()
        if isinstance(mine.said, BaseException):
            raise mine.said
        return mine.said

    def state(self) -> dict[str, Any]:
        """How it stands."""
        asked = self.open
        question = asked and {
            "number": asked.number,
            "message": asked.question.message,
            "digest": asked.question.digest,
            "may_wait": asked.question.may_wait,
            "url": asked.question.url,
        }
        return {"progress": self.progress, "question": question}


class GatewayCalls:
    """The calls of all gateways."""

    def __init__(self) -> None:
        self._lines: dict[str, _GatewayConnection] = {}
        self._epoch = secrets.token_hex(8)
        """Another one after we were started again: what another process was sent does not begin in this one."""
        self._stopped: OrderedDict[str, None] = OrderedDict()

    def now(self) -> list[Any]:
        """Our epoch, and the time."""
        return [self._epoch, clock()]

    def _begin_by(self, asked: Mapping[str, Any]) -> float:
        """Until when a call may begin."""
        if str(asked["key"]) in self._stopped:
            return -math.inf
        epoch, until = asked["begin"]
        return float(until) if epoch == self._epoch else -math.inf

    @contextmanager
    def of(self, line: str, asked: Mapping[str, Any], call: Call, *, asks: bool) -> Iterator[Call]:
        """The call as it is to be done: what it says while this is open is news of its line.

        Args:
            asked: what the gateway wants to hear, as `remotecalls` sends it.
            asks: a person may be asked there.
        """
        key = str(asked["key"])
        ours = self._line(line)
        begin_by = self._begin_by(asked) if asked.get("begin") else math.inf
        theirs = ours.calls[key] = _GatewayCall(ours, begin_by)
        began = may_begin.set(theirs.begin)
        try:
            yield replace(
                call,
                progress=theirs.tell if asked.get("tells") is True else no_progress,
                ask=theirs.ask if asks and asked.get("asks") is True else nobody,
                enough=theirs.enough.wait,
            )
        finally:
            may_begin.reset(began)
            if ours.calls.get(key) is theirs:
                del ours.calls[key]
            self._tidy(line)

    async def keep(self, line: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Wait for calls longer: `until` by their keys. It also shows that we are there, and tells the time here."""
        if asked.get("epoch") == self._epoch:
            for key, until in asked["until"].items():
                theirs = self._call(line, {"key": key})
                if theirs and key not in self._stopped:
                    theirs.begin_by = max(theirs.begin_by, float(until))
        return {"now": self.now()}

    async def stop(self, line: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Give up a call: it does not begin from now on, also if it has not arrived yet. `begun`: it had."""
        key = str(asked["key"])
        self._stopped[key] = None
        if len(self._stopped) > MOST_STOPPED:
            self._stopped.popitem(last=False)
        theirs = self._call(line, asked)
        if theirs:
            theirs.begin_by = -math.inf
        return {"known": theirs is not None, "begun": theirs.begun if theirs else None, "now": self.now()}

    async def news(self, line: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What has become new of the calls of a line since the news of a number; nothing after `NEWS_HELD_S`."""
        ours = self._line(line)
        after = int(asked["after"]) if asked["epoch"] == ours.epoch else 0
        ours.listeners += 1
        ours.came.set()
        try:
            with anyio.move_on_after(NEWS_HELD_S):
                while not any(each.number > after for each in ours.calls.values()):
                    await ours.changed.wait()
            news = {key: each.state() for key, each in ours.calls.items() if each.number > after}
            return {"epoch": ours.epoch, "number": ours.number, "news": news}
        finally:
            ours.listeners -= 1
            self._tidy(line)

    async def do(self, what: str, line: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """`news`, `answer`, `enough`, `keep` or `stop`.

        Raises:
            KeyError, TypeError, ValueError: it is none of them, or what is asked is of another form.
        """
        known = (self.news, self.answer, self.enough, self.keep, self.stop)
        return await {each.__name__: each for each in known}[what](line, asked)

    async def answer(self, line: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Take what came of a question; the first answer to it counts."""
        theirs = self._call(line, asked)
        if theirs and theirs.open and theirs.open.number == asked["number"] and not theirs.open.answered.is_set():
            theirs.open.said = _parsed_answer(asked)
            theirs.open.answered.set()
        return {"known": theirs is not None}

    async def enough(self, line: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Have a wait end and say how things stand."""
        theirs = self._call(line, asked)
        if theirs:
            theirs.enough.set()
        return {"known": theirs is not None}

    def _line(self, line: str) -> _GatewayConnection:
        return self._lines.get(line) or self._lines.setdefault(line, _GatewayConnection())

    def _call(self, line: str, asked: Mapping[str, Any]) -> _GatewayCall | None:
        ours = self._lines.get(line)
        return ours.calls.get(str(asked["key"])) if ours else None

    def _tidy(self, line: str) -> None:
        ours = self._lines.get(line)
        if ours and not ours.calls and not ours.listeners:
            del self._lines[line]


def _parsed_answer(asked: Mapping[str, Any]) -> bool | TmuxMcpError | CallAgain | None:
    if "error" in asked:
        return wire.error_of(asked["error"])
    if asked["said"] == "again":
        return AskedAgain()
    return asked["said"] if isinstance(asked["said"], bool) else None
