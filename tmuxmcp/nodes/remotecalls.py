"""What calls say before they end, at the gateway: it is heard from their machine, told to who calls, and answered.

Nothing is asked for before a call has lasted for `QUIET_S`: most have ended by then. The other side is `gatewaycalls`.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.abc

from tmuxmcp.contract.call import Call, CallAgain, Question, no_progress, nobody
from tmuxmcp.errors import TmuxMcpError

log = logging.getLogger(__name__)

QUIET_S = 0.3
"""So long a call goes on before its machine is asked what it has to say."""

PAUSE_S = 0.2
"""Time between two times that a machine is asked, and between two tries to tell it something."""

MOST_PAUSE_S = 30.0
"""The longest, where it does not answer, or is of a version that cannot."""

PERSON_ANSWERS_S = 330.0
"""So much longer the answer to a call may take while a person is asked: as long as faces ask, and a little."""

Exchange = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""`await exchange(what, asked)`: `news`, `answer` or `enough` of the machine's `GatewayCalls`. Raises TmuxMcpError."""


class EndedForQuestion(Exception):
    """The machine ended the call because its question is one to make the call again for."""


@dataclass(frozen=True)
class CallNews:
    """How a call stands at its machine."""

    progress: tuple[float, str] | None
    number: int
    """Of the question that waits; 0: none does."""
    question: Question | None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> CallNews:
        """Raises what comes of a value that is of another kind."""
        elapsed_s, last_line = told["progress"] or (0, "")
        progress = (float(elapsed_s), str(last_line)) if told["progress"] else None
        asked = told["question"]
        if not asked:
            return cls(progress, 0, None)
        message, digest, url = str(asked["message"]), str(asked["digest"]), str(asked["url"])
        question = Question(message, digest, may_wait=asked["may_wait"] is True, url=url)
        return cls(progress, int(asked["number"]), question)


class RemoteCall:
    """A call, as its machine told last."""

    def __init__(self, call: Call, bound_s: float = math.inf) -> None:
        self.call = call
        self.sent: dict[str, Any] | None = None
        """What is sent with the call, so that it can be heard; None: there is nothing to be heard of it."""
        self.bound = anyio.CancelScope()
        """Its answer is waited for inside: that ends after `bound_s`, later where a person is asked."""
        self.bound_s = bound_s
        self.news = CallNews(None, 0, None)
        self.changed = anyio.Event()
        self.number = 0
        """Of the question that is being asked; 0: none."""
        self.asking: anyio.CancelScope | None = None
        self.again: CallAgain | None = None

    def wait_on(self, longer_s: float) -> None:
        """From now on the answer may take so much longer than usual."""
        self.bound.deadline = anyio.current_time() + self.bound_s + longer_s

    def hear(self, news: CallNews) -> None:
        """Take note of what is new."""
        self.news = news
        self.changed.set()


class RemoteCalls:
    """Hears the calls of one machine."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._line = secrets.token_hex(16)
        self._calls: dict[str, RemoteCall] = {}
        """Those that go on: news of a new one can come while others are heard."""
        self._lasting: set[str] = set()
        """Those of them whose machine is asked."""
        self._wanted = anyio.Event()

    async def run(self) -> None:
        """Ask the machine for news while there are calls, until cancelled."""
        epoch, after, pause = "", 0, PAUSE_S
        while True:
            while not self._lasting:
                self._wanted = anyio.Event()
                await self._wanted.wait()
            try:
                told = await self._exchange("news", {"line": self._line, "epoch": epoch, "after": after})
                news = {key: CallNews.of(each) for key, each in told["news"].items()}
                epoch, after, pause = str(told["epoch"]), int(told["number"]), PAUSE_S
            except (TmuxMcpError, LookupError, TypeError, ValueError, AttributeError) as error:
                log.debug("no news of the calls of %s: %s", self._line, error)
                pause = min(pause * 2, MOST_PAUSE_S)
                news = {}
            for key, each in news.items():
                if heard := self._calls.get(key):
                    heard.hear(each)
            await anyio.sleep(pause)

    @asynccontextmanager
    async def of(self, call: Call, bound_s: float = math.inf) -> AsyncIterator[RemoteCall]:
        """Tell and ask who calls while this is open.

        Args:
            bound_s: so long the answer may take if nobody is asked.

        Raises:
            CallAgain: what asking who calls came to, in place of an `EndedForQuestion`.
        """
        heard = RemoteCall(call, bound_s)
        heard.wait_on(0.0)
        asks, tells = call.ask is not nobody, call.progress is not no_progress
        if not asks and not tells and call.enough is None:
            yield heard
            return
        key = secrets.token_hex(16)
        heard.sent = {"line": self._line, "key": key, "asks": asks, "tells": tells}
        failed: Exception | None = None
        async with anyio.create_task_group() as tasks:
            if asks or tells:
                self._calls[key] = heard  # before its machine has it
                tasks.start_soon(self._hear, key, heard)
            if call.enough:
                tasks.start_soon(self._end, key, call.enough)
            try:
                yield heard
            except Exception as error:  # not through the task group, which would wrap it
                failed = error
            tasks.cancel_scope.cancel()
        if isinstance(failed, EndedForQuestion) and heard.again:
            raise heard.again
        if failed:
            raise failed

    async def _hear(self, key: str, heard: RemoteCall) -> None:
        try:
            with anyio.move_on_after(QUIET_S):
                await heard.changed.wait()
            self._lasting.add(key)
            self._wanted.set()
            async with anyio.create_task_group() as tasks:
                while True:
                    await heard.changed.wait()
                    heard.changed = anyio.Event()
                    await self._pass_on(key, heard, tasks)
        finally:
            self._lasting.discard(key)
            del self._calls[key]

    async def _pass_on(self, key: str, heard: RemoteCall, tasks: anyio.abc.TaskGroup) -> None:
        """Tell what is new, and ask what is asked; a question that was answered elsewhere is taken back."""
        news = heard.news
        if heard.number != news.number:
            if heard.asking:
                heard.asking.cancel()
            heard.number, heard.asking = news.number, None
            heard.wait_on(PERSON_ANSWERS_S if news.question else 0.0)
            if news.question:
                heard.asking = anyio.CancelScope()
                tasks.start_soon(self._put_question, key, heard, news.number, news.question, heard.asking)
        if news.progress:
            await heard.call.progress(*news.progress)

    async def _put_question(
        self, key: str, heard: RemoteCall, number: int, question: Question, scope: anyio.CancelScope
    ) -> None:
        with scope:
            told: dict[str, Any]
            try:
                told = {"said": await heard.call.ask(question)}
            except CallAgain as again:
                heard.again, told = again, {"said": "again"}
            except TmuxMcpError as error:
                told = {"error": error.as_dict()}
            await self._tell("answer", {"key": key, "number": number, **told})

    async def _end(self, key: str, enough: Callable[[], Awaitable[None]]) -> None:
        await enough()
        await self._tell("enough", {"key": key})

    async def _tell(self, what: str, told: Mapping[str, Any]) -> None:
        """Tell the machine of a call, until it knows; it does no more for being told twice."""
        while True:
            try:
                if (await self._exchange(what, {"line": self._line, **told}))["known"]:
                    return
            except (TmuxMcpError, LookupError, ValueError) as error:
                log.debug("%s of a call cannot be told: %s", what, error)
            await anyio.sleep(PAUSE_S)
