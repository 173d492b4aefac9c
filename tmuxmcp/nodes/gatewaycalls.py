"""What calls of gateways have to say before they end, at their machine: how they go on, and what a person is asked.

A gateway asks for the news of all its calls at once, and again as soon as it has them. News say how things stand and
are told until something newer is: a way that breaks loses none, and an answer that comes twice is one answer.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from tmuxmcp.contract.call import Call, CallAgain, Question, no_progress, nobody
from tmuxmcp.errors import TmuxMcpError
from tmuxmcp.nodes import wire

NEWS_HELD_S = 10.0
"""So long a gateway is kept waiting for news."""

COMES_S = 5.0
"""So long a gateway has to come for news before it counts as one that can ask nobody."""


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

    def __init__(self, line: _GatewayConnection) -> None:
        self._line = line
        self.number = 0
        """Of its last news; 0: it has none."""
        self.progress: tuple[float, str] | None = None
        self.open: _OpenQuestion | None = None
        self.enough = anyio.Event()
        self._asking = anyio.Lock()

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

    @contextmanager
    def of(self, line: str, asked: Mapping[str, Any], call: Call, *, asks: bool) -> Iterator[Call]:
        """The call as it is to be done: what it says while this is open is news of its line.

        Args:
            asked: what the gateway wants to hear, as `remotecalls` sends it.
            asks: a person may be asked there.
        """
        key = str(asked["key"])
        ours = self._line(line)
        theirs = ours.calls[key] = _GatewayCall(ours)
        try:
            yield replace(
                call,
                progress=theirs.tell if asked.get("tells") is True else no_progress,
                ask=theirs.ask if asks and asked.get("asks") is True else nobody,
                enough=theirs.enough.wait,
            )
        finally:
            if ours.calls.get(key) is theirs:
                del ours.calls[key]
            self._tidy(line)

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
        """`news`, `answer` or `enough`.

        Raises:
            KeyError, TypeError, ValueError: it is none of them, or what is asked is of another form.
        """
        return await {"news": self.news, "answer": self.answer, "enough": self.enough}[what](line, asked)

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
