"""Calls with a `request_id`: asking again is safe. Who asks again gets what became of the first call, and nothing more.

Looked up before anything else, also before a default session is found: the client may have lost that with the answer.
Of several that ask at once, in whatever brokers, the one that has the call's file locked carries it out. The others
wait for it, each no longer than its own time.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from typing import Any, TypeVar

import anyio

from tmuxmcp.broker import sending
from tmuxmcp.broker.admission import Admission
from tmuxmcp.broker.reading import Reading, has_read
from tmuxmcp.broker.views import output_of
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import InvalidArgument, NotRetained, SessionNotFound, TimedOut, TmuxMcpError
from tmuxmcp.contract.request import Request
from tmuxmcp.contract.results import Result
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import fields, replace
from tmuxmcp.gate.gate import Gate
from tmuxmcp.readiness.wait import TypedNow
from tmuxmcp.record.notedcalls import CallFile, NotedCall, NotedCalls
from tmuxmcp.sessions import commandresults
from tmuxmcp.sessions.noting import NOTHING_RAN, IdempotentCall, digest_of
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell.typed import RunOutcome

First = Callable[[Request[Any], Call, IdempotentCall], Awaitable[Result]]
TakeUp = Callable[[Request[Any], Call, NotedCall, bool], Awaitable[Result | None]]

ASK_ENDED_S, ASK_SELDOM_S = 0.002, 0.05
"""How often who waits asks whether the first call has ended, at the beginning and later."""

WAIT_ARGUMENTS = ("timeout_ms", "ready_timeout_ms")
"""Arguments that say how long a call may take."""


class IdempotentCalls:
    """The calls with an id of one broker."""

    def __init__(
        self, settings: BrokerSettings, gate: Gate, admission: Admission, first: First, take_up: TakeUp
    ) -> None:
        """Have a call done.

        Args:
            first: does it, for the first time.
            take_up: tells what became of one that was begun; None: it has not acted, and never will. The last argument
                says that nobody else carries it out.
        """
        self._settings, self._gate, self._admission = settings, gate, admission
        self._first, self._take_up = first, take_up
        self._noted = NotedCalls(settings.state_dir, settings.request_id_days)

    async def do(self, request: Request[Any], request_id: str, call: Call) -> Result:
        """Do it, unless it was done: then say what became of it.

        Raises:
            InvalidArgument: another call had this id.
            OutcomeUnknown: nobody can tell whether it was done; it is not done again.
            TimedOut: another call with this id is under way, and has no result yet.
            NotRetained: it was done, and its result is no longer kept.
            TmuxMcpError: as the operation.
        """
        with closing(self._noted.file(call.client, request_id)) as file:

            async def before() -> Result | None:
                return await self._before(file, request, call)

            found = await (before() if call.person else self._gate.asked_again(request, call, before))
            return found or await self._do_first(file, request, request_id, call)

    def session_of(self, request_id: str, call: Call) -> str:
        """In which session a call with this id acts; empty: it has not come to that."""
        with closing(self._noted.file(call.client, request_id)) as file:
            noted = file.read()
        return str(noted.acts.get("session_id", "")) if noted else ""

    async def _do_first(self, file: CallFile, request: Request[Any], request_id: str, call: Call) -> Result:
        one = IdempotentCall(file, request, request_id)
        try:
            result = await self._first(request, call, one)
        except TmuxMcpError as error:
            with anyio.CancelScope(shield=True):
                await one.refused(error)
            raise
        with anyio.CancelScope(shield=True):
            await one.write_result(result)
        return result

    async def _before(self, file: CallFile, request: Request[Any], call: Call) -> Result | None:
        """What became of a call with this id; None: there was none that did anything, and the file is held."""
        await anyio.to_thread.run_sync(self._noted.tidy)
        if call.person:
            return await self._turn(file, request, call)
        with self._admission.admit(call):
            return await self._turn(file, request, call)

    async def _turn(self, file: CallFile, request: Request[Any], call: Call) -> Result | None:
        deadline = time.monotonic() + self._patience_s(request)
        step_s = ASK_ENDED_S
        while True:
            held = file.take()
            noted = file.read()
            if noted:
                _check_same(request, noted)
            if noted and (noted.result is not None or noted.done_at):
                return await self._replayed(request, call, noted)
            if held:
                return await self._outcome_of_ended(file, request, call, noted) if noted else None
            if (left_s := deadline - time.monotonic()) <= 0:
                break
            await anyio.sleep(min(step_s, left_s))
            step_s = min(step_s * 1.5, ASK_SELDOM_S)
        result = await self._take_up(request, call, noted, False) if noted else None
        if result is None:
            raise TimedOut(
                "Another call with this request_id is under way, and has no result yet.",
                hint="Make the same call with the same request_id again: nothing is done twice.",
            )
        return result

    def _patience_s(self, request: Request[Any]) -> float:
        given = next(int(getattr(request, name)) for name in WAIT_ARGUMENTS if name in request.operation.arguments)
        return min(given, self._settings.max_wait_ms) / 1000

    async def _outcome_of_ended(
        self, file: CallFile, request: Request[Any], call: Call, noted: NotedCall
    ) -> Result | None:
        """What became of a call that nobody carries out any more; None: it did nothing, and never will."""
        file.keep()
        try:
            result = await self._take_up(request, call, noted, True)
        except NOTHING_RAN:
            if isinstance(request, q.Run):
                file.forget()
            raise
        if result is None:
            file.clear()
            return None
        with anyio.CancelScope(shield=True):
            await IdempotentCall.of(file, request).write_result(result)
        return result

    async def _replayed(self, request: Request[Any], call: Call, noted: NotedCall) -> Result:
        if noted.result is None:
            session, number = noted.acts.get("session_id"), noted.acts.get("number")
            where = f" It was done in session {session}" if session else ""
            where += f": read command={number} may still have it." if where and number else "." if where else ""
            raise NotRetained(
                f"This call was done before {noted.done_at}, and its result is no longer kept.{where}",
                hint="It is not done again with this request_id.",
                session_id=session,
            )
        result = await self._take_up(request, call, noted, False)
        assert result, "there is one"
        return result


def _check_same(request: Request[Any], noted: NotedCall) -> None:
    """Refuse a call that has the id of another one.

    Raises:
        InvalidArgument
    """
    named, where = request.session, noted.acts.get("session_id")
    other_session = bool(named) and bool(where) and named != where
    if noted.digest != digest_of(request) or other_session:
        what = "session" if other_session else "operation or with other arguments"
        raise InvalidArgument(
            f"request_id: another call had this one, {'in' if other_session else 'of'} another {what}.",
            hint="An id is for one call: give each call one of its own, and ask again with exactly the same arguments.",
        )


# ---- The answer to a call that was made before with the same `request_id` --------------------------------------------
#
# What was written down of it, marked so.

R = TypeVar("R", bound=r.Result)

LOOKED_AGAIN_NOTE = "It was typed by an earlier call with this request_id; what came of that is looked at anew."

RESULT_LEFT_OUT = "What it showed was too long to be kept with its request_id: read gives it."

STEPS_OVER = (
    "The server that typed these steps ended before it had typed all. What they showed is not in this answer: read "
    "gives it."
)


def result(kind: type[R], noted: NotedCall) -> R:
    """The result as it was written down."""
    assert noted.result is not None
    values = {name: value for name, value in noted.result.items() if name in fields(kind)}
    if noted.result.get("left_out"):
        values["note"] = " ".join(filter(None, (values.get("note"), RESULT_LEFT_OUT)))
    return kind.adapter().validate_python({**values, "replayed": True})


async def run(registry: Registry, noted: NotedCall, request: q.Run, call: Call) -> r.RunResult:
    """What a command that has ended printed; who asks has read it by that, as who asked first."""
    assert noted.result is not None
    found = result(r.RunResult, noted)
    with suppress(SessionNotFound):
        session = await registry.known(found.session_id, int(noted.acts["generation"]))
        if session.meta.nonce != noted.acts["nonce"]:
            return found
        if noted.result.get("left_out"):
            await call.room(min(request.max_bytes, found.end_offset - found.start_offset))
            found = replace(found, **await _output(session, found, request), note=noted.result["note"])
        if session.cursor_of(call.caller) < found.end_offset:
            has_read(session, call, found.end_offset)
        if found.completed and found.command_number is not None:
            commandresults.tell(session, call, found.command_number)
    return found


async def _output(session: Session, found: r.RunResult, request: q.Run) -> dict[str, Any]:
    """What it printed, made of the log anew."""
    ran = RunOutcome(
        found.outcome,
        found.exit_code,
        found.completed,
        found.evidence,
        found.start_offset,
        found.end_offset,
        found.cwd,
        found.duration_ms,
    )
    output = await output_of(session, ran, request.max_bytes)
    return {"output": output.text, "truncated": output.truncated, "omitted_bytes": output.omitted_bytes}


async def sent(reading: Reading, session: Session, request: q.Send, call: Call, noted: NotedCall) -> r.SendResult:
    """That it was typed; what came of it is waited for and read anew."""
    size = int(noted.acts["bytes"])
    if request.read == "none":
        return r.SendResult(session_id=session.id, sent_bytes=size, replayed=True, note=LOOKED_AGAIN_NOTE, result=None)
    wait = await reading.wait(request, call)
    wait.sent_at, lines = int(noted.acts["offset"]), 1
    if not request.secret:
        what = sending.typing(reading.settings, request)
        wait.typed, wait.entered, lines = what.with_enters.rstrip("\n"), what.entered, what.lines
    wait.typed_now, wait.before_seen = TypedNow(wait.sent_at, lines), False
    await reading.before(session, request, wait, call, now=True)
    read = await reading.waited(session, request, wait, call)
    return r.SendResult(session_id=session.id, sent_bytes=size, replayed=True, note=LOOKED_AGAIN_NOTE, result=read)


def steps(session: Session, request: q.Send, noted: NotedCall, *, typed: bool) -> r.SendResult | None:
    """Which of several steps were typed; None: none was. Those behind them are not typed any more."""
    done = [r.SendStep.adapter().validate_python(each) for each in noted.steps]
    if typed:
        done.append(r.SendStep(sent_bytes=int(noted.acts["bytes"])))
    if not done:
        return None
    most = len(request.steps)
    behind = f" Not typed: steps {len(done) + 1} to {most}." if len(done) < most else ""
    return r.SendResult(
        session_id=session.id,
        sent_bytes=sum(each.sent_bytes for each in done),
        steps_done=len(done),
        steps=done,
        replayed=True,
        note=f"{STEPS_OVER}{behind}",
        result=None,
    )
