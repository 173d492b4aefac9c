"""What calls say before they end, at the gateway: it is heard from their machine, told to who calls, and answered.

Nothing is asked for before a call has lasted for `QUIET_S`: most have ended by then. The other side is `gatewaycalls`.

While calls go on their machine is asked whether it is there. What says nothing is given up soon, and is asked first the
next time. A call that changes something is sent with the time until which it may begin there, by the machine's clock;
each ask makes that later. Nobody is told that a call's outcome is not known before that time is over, or the machine
has said that the call does not begin any more.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import anyio.abc

from tmuxmcp.contract import requests as q
from tmuxmcp.contract.call import Call, CallAgain, Question, may_begin, no_progress, nobody
from tmuxmcp.contract.errors import LOOK_BEFORE, Cancelled, NodeUnreachable, OutcomeUnknown, TmuxMcpError, Unsupported
from tmuxmcp.contract.request import Request
from tmuxmcp.contract.value import field, replace, value
from tmuxmcp.contract.words import conditions
from tmuxmcp.machine.proc import since_boot_s
from tmuxmcp.nodes import transport

log = logging.getLogger(__name__)

QUIET_S = 0.3
"""So long a call goes on before its machine is asked what it has to say."""

PAUSE_S = 0.2
"""Time between two times that a machine is asked, and between two tries to tell it something."""

MOST_PAUSE_S = 30.0
"""The longest, where it does not answer, or is of a version that cannot."""

PERSON_ANSWERS_S = 330.0
"""So much longer the answer to a call may take while a person is asked: as long as faces ask, and a little."""

ASK_PAUSE_S = 1.0
"""Time between two asks whether a machine is there, while calls go on."""

ANSWER_S = 1.8
"""So much longer than it may wait there a call may take while its machine says nothing."""

SILENT_S = 10.0
"""So long a machine may say nothing while a call may wait there for longer."""

AGAIN_S = 0.8
"""So long a machine that said nothing last time has to say that it is there, before it is sent anything."""

FIRST_S = 3.0
"""So much longer a machine has that is asked for the first time, if the call may wait as long: it may have to wake."""

BEGINS_S = 3.0
"""So long after a machine was told so a call may begin."""

CLOCK_KEPT_S = 60.0
"""So long it is known what a machine's clock says; then it is asked again before a call."""

DRIFT = 0.001
"""Most seconds a second by which the clocks of two machines go apart; the kernel slews by half of that."""

NOT_BEGUN = "Nothing was done: its machine says that the call had not begun, and does not begin it any more. Try again."

SLOW_S = 0.25
"""A way on which it takes longer until there is a connection is slow."""

MOST_WAY_S = 5.0
"""The slowest way that is allowed for."""

Exchange = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""`await exchange(what, asked)`: `news`, `answer`, `enough`, `keep` or `stop` of the machine's `GatewayCalls`.

Raises TmuxMcpError: Unsupported, where the machine is there and does not know of it.
"""


class EndedForQuestion(Exception):
    """The machine ended the call because its question is one to make the call again for."""


@value
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

    def __init__(self, call: Call, own_s: float, bound_s: float) -> None:
        self.call = call
        self.key = secrets.token_hex(16)
        self.began = anyio.current_time()
        self.own_s = own_s
        self.changes = False
        """It is told until when it may begin."""
        self.epoch = ""
        """Of the process that it was sent to."""
        self.begins_until = -math.inf
        """It does not begin later, whatever becomes of it."""
        self.sent: dict[str, Any] | None = None
        """What is sent with the call, so that it can be heard; None: there is nothing to be heard of it."""
        self.bound = anyio.CancelScope()
        """Its answer is waited for inside: that ends after `bound_s`, later where a person is asked, or its machine's
        silence."""
        self.bound_s = bound_s
        self.ends_at = self.began + bound_s
        self.news = CallNews(None, 0, None)
        self.changed = anyio.Event()
        self.number = 0
        """Of the question that is being asked; 0: none."""
        self.asking: anyio.CancelScope | None = None
        self.again: CallAgain | None = None

    def wait_on(self, heard_at: float, way_s: float) -> None:
        """Set the time until which its answer is waited for.

        Args:
            heard_at: when its machine last said anything.
            way_s: how long an answer of its machine is under way.
        """
        heard_at = max(self.began, heard_at)
        silent = heard_at + SILENT_S + 2 * way_s
        most = min(max(self.began + self.own_s, heard_at) + ANSWER_S + 2 * way_s, silent)
        self.bound.deadline = max(min(most, self.ends_at), self.begins_until)

    def begin_until(self, now: float, heard_at: float, way_s: float) -> None:
        """Have it begin later, if need be: until its answer is no longer waited for."""
        last = max(self.began + self.own_s, heard_at) + ANSWER_S + way_s
        self.begins_until = max(self.begins_until, min(last, now + BEGINS_S + 2 * way_s))

    def hear(self, news: CallNews) -> None:
        """Take note of what is new."""
        self.news = news
        self.changed.set()


class RemoteCalls:
    """Hears the calls of one machine, and whether it is there."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._line = secrets.token_hex(16)
        self._calls: dict[str, RemoteCall] = {}
        """Those that say something: news of a new one can come while others are heard."""
        self._lasting: set[str] = set()
        """Those of them whose machine is asked."""
        self._wanted = anyio.Event()
        self._going_on: dict[str, RemoteCall] = {}
        """All that are waited for."""
        self._begun = anyio.Event()
        self.silent = False
        """It said nothing when it was last to say something."""
        self._heard_at = -math.inf
        self._way_s = 0.0
        self._asks: set[anyio.CancelScope] = set()
        self._epoch, self._their_clock, self._clock_at = "", 0.0, -math.inf

    # ---- whether it is there -------------------------------------------------------------------

    def hear(self, now: Any = None) -> None:
        """Take note that the machine has said something.

        Args:
            now: its epoch, and what its clock said; None: it did not say.
        """
        self.silent, self._heard_at = False, anyio.current_time()
        if now:
            self._epoch, self._their_clock, self._clock_at = str(now[0]), float(now[1]), self._heard_at
        for each in self._going_on.values():
            each.wait_on(self._heard_at, self._way_s)

    def takes(self, way_s: float) -> None:
        """Take note how long something is under way to the machine and back."""
        self._way_s = min(max(way_s, 0.8 * self._way_s), MOST_WAY_S)

    def _there(self, at: float) -> float:
        """What its clock says then, at least: it had said the last when we heard that."""
        return self._their_clock + (at - self._clock_at) * (1 - DRIFT) - DRIFT

    async def reach(self, own_s: float = 0.0) -> None:
        """Have the machine say that it is there, where that is in doubt, or its clock is not known.

        Args:
            own_s: so long the call that is to be sent may wait at its machine.

        Raises:
            NodeUnreachable: it does not; nothing was sent.
        """
        if not self.silent and anyio.current_time() - self._clock_at < CLOCK_KEPT_S:
            return
        if why := await self._ask(AGAIN_S if self.silent else ANSWER_S + min(own_s, FIRST_S)):
            raise why

    async def _ask(self, within_s: float) -> NodeUnreachable | None:
        """Ask the machine whether it is there, and have the calls that go on begin later, if it was the last time.

        Returns:
            Why it is not.
        """
        begun, way_s = anyio.current_time(), self._way_s
        until: dict[str, float] = {}
        why = NodeUnreachable("it says nothing", silent=True)
        for key, each in self._going_on.items():
            if each.changes and not self.silent:
                each.begin_until(begun, self._heard_at, way_s)
                each.wait_on(self._heard_at, way_s)
                until[key] = self._there(each.begins_until)
        with anyio.CancelScope(deadline=begun + within_s + 2 * way_s) as patience:
            self._asks.add(patience)
            try:
                told = await self._exchange("keep", {"line": self._line, "epoch": self._epoch, "until": until})
                self.takes(anyio.current_time() - begun)
                self.hear(told["now"])
                return None
            except Unsupported:
                self.hear()
                self._clock_at, self._epoch = self._heard_at, ""
                return None
            except (TmuxMcpError, LookupError, TypeError, ValueError) as error:
                why = NodeUnreachable(error.message if isinstance(error, TmuxMcpError) else str(error))
            finally:
                self._asks.discard(patience)
        log.debug("the machine of %s is not there: %s", self._line, why.message)
        self.silent = True
        return why

    def connected(self, took_s: float) -> None:
        """Take note that there is a connection: what takes long for that takes as long again for an answer."""
        if took_s > SLOW_S:
            self.takes(took_s)
            for each in self._asks:
                each.deadline = max(each.deadline, anyio.current_time() + ANSWER_S + 2 * took_s)

    async def watch(self) -> None:
        """Ask the machine whether it is there while there are calls, until cancelled."""
        while True:
            while not self._going_on:
                self._begun = anyio.Event()
                await self._begun.wait()
                await anyio.sleep(QUIET_S)
            if self._going_on:
                await anyio.sleep(PAUSE_S if await self._ask(BEGINS_S) else ASK_PAUSE_S)

    async def given_up(self, heard: RemoteCall, broke: OutcomeUnknown) -> TmuxMcpError:
        """What is to be told of a call whose way broke, once it is sure that it does not begin any more."""
        if heard.bound.cancelled_caught and anyio.current_time() < heard.ends_at:
            self.silent = True
            if not heard.changes:
                broke.details["silent"] = True
        heard.changes = False  # it is waited for no longer
        while anyio.current_time() < heard.begins_until:
            with anyio.CancelScope(deadline=heard.begins_until):
                try:
                    told = await self._exchange("stop", {"line": self._line, "key": heard.key})
                    self.hear(told["now"])
                    if told["now"][0] == heard.epoch:
                        return NodeUnreachable(broke.message, hint=NOT_BEGUN) if told["begun"] is False else broke
                except (TmuxMcpError, LookupError, TypeError, ValueError) as error:
                    log.debug("%s cannot be told to stop: %s", self._line, error)
                await anyio.sleep(PAUSE_S)
        return broke

    # ---- what calls say ------------------------------------------------------------------------

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
                self.hear()
            except (TmuxMcpError, LookupError, TypeError, ValueError, AttributeError) as error:
                log.debug("no news of the calls of %s: %s", self._line, error)
                pause = min(pause * 2, MOST_PAUSE_S)
                news = {}
            for key, each in news.items():
                if heard := self._calls.get(key):
                    heard.hear(each)
            await anyio.sleep(pause)

    @asynccontextmanager
    async def of(
        self, call: Call, own_s: float = 0.0, bound_s: float = math.inf, *, changes: bool = False
    ) -> AsyncIterator[RemoteCall]:
        """Tell and ask who calls while this is open; the answer is waited for in the scope `bound`.

        Args:
            own_s: so long it may wait at its machine.
            bound_s: so long the answer may take if nobody is asked.
            changes: it is not to begin when nobody waits for it any more.

        Raises:
            CallAgain: what asking who calls came to, in place of an `EndedForQuestion`.
        """
        heard = RemoteCall(call, own_s, bound_s)
        asks, tells = call.ask is not nobody, call.progress is not no_progress
        if changes and self._epoch:
            heard.changes, heard.epoch = True, self._epoch
            heard.begin_until(heard.began, -math.inf, self._way_s)
        if asks or tells or call.enough or heard.changes:
            heard.sent = {"line": self._line, "key": heard.key, "asks": asks, "tells": tells}
        if heard.changes:
            assert heard.sent
            heard.sent["begin"] = [self._epoch, self._there(heard.begins_until)]
        heard.wait_on(heard.began, self._way_s)
        self._going_on[heard.key] = heard
        self._begun.set()
        try:
            if asks or tells or call.enough:
                async with self._listening(heard, hears=asks or tells):
                    yield heard
            else:
                yield heard
        finally:
            del self._going_on[heard.key]

    @asynccontextmanager
    async def _listening(self, heard: RemoteCall, *, hears: bool) -> AsyncIterator[None]:
        key = heard.key
        async with transport.background_tasks() as tasks:
            if hears:
                self._calls[key] = heard  # before its machine has it
                tasks.start_soon(self._hear, key, heard)
            if heard.call.enough:
                tasks.start_soon(self._end, key, heard.call.enough)
            try:
                yield
            except EndedForQuestion:
                raise heard.again or EndedForQuestion from None

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
            heard.ends_at = anyio.current_time() + heard.bound_s + (PERSON_ANSWERS_S if news.question else 0.0)
            heard.wait_on(self._heard_at, self._way_s)
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


# ---- What calls of gateways have to say before they end --------------------------------------------------------------
#
# At their machine: how they go on, and what a person is asked.
#
# A gateway asks for the news of all its calls at once, and again as soon as it has them. News say how things stand and
# are told until something newer is: a way that breaks loses none, and an answer that comes twice is one answer.
#
# A call begins to change something only as long as its gateway waits for it, which says so by our own clock, ahead and
# again and again: what was given up is not done later, however late it arrives, or this process goes on.

NEWS_HELD_S = 10.0
"""So long a gateway is kept waiting for news."""

COMES_S = 5.0
"""So long a gateway has to come for news before it counts as one that can ask nobody."""


MOST_STOPPED = 10_000
"""Calls that were given up before they arrived, of which is known that they are not to begin."""


class AskedAgain(CallAgain):
    """The gateway's client is to make the call again, with a person's answer."""

    audit_outcome = "asked"


@value(frozen=False)
class _OpenQuestion:
    """A question that waits for its answer."""

    number: int
    question: Question
    said: bool | TmuxMcpError | CallAgain | None = None
    answered: anyio.Event = field(default_factory=anyio.Event)


@value(frozen=False)
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
        """Until then its gateway waits for it; by `since_boot_s`."""
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
        if not since_boot_s() <= self.begin_by:
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
        return [self._epoch, since_boot_s()]

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
            asked: what the gateway wants to hear, as its `RemoteCalls` sends it.
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
        return TmuxMcpError.received(asked["error"])
    if asked["said"] == "again":
        return AskedAgain()
    return asked["said"] if isinstance(asked["said"], bool) else None


# ---- Which calls may be made again when the way broke under them -----------------------------------------------------
#
# And how long they wait at their machine. Pure.


def may_repeat(request: Request[Any]) -> bool:
    """Whether making the call twice does and tells no more and no less than making it once.

    What changes something is never made twice, also where that would do no harm: somebody else may have changed it
    in between.
    """
    row = request.operation
    if not row.read_only:
        return False
    if isinstance(request, q.Read):
        return _moves_nothing(request)
    return row.repeatable


def _moves_nothing(request: q.Read) -> bool:
    """Whether a read moves no cursor, and has nothing counted as told."""
    past = request.at_ms is not None or request.at_offset is not None
    return past or (
        request.since is not None and not {"command", "changed", "pattern"} & {*conditions(request.wait_for)}
    )


def own_time_s(request: Request[Any], max_wait_ms: int) -> float:
    """How long a call may wait at its machine, as it asks for.

    Args:
        max_wait_ms: as long the machine waits at most.
    """
    waits = [getattr(request, name, 0) or 0 for name in ("timeout_ms", "ready_timeout_ms", "grace_ms")]
    waits += [(getattr(request, "timeout_s", 0) or 0) * 1000]
    return min(max(waits), max_wait_ms) * (len(getattr(request, "steps", ()) or ()) or 1) / 1000
