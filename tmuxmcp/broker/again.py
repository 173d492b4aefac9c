"""Calls with a `request_id`: asking again is safe. Who asks again gets what became of the first call, and nothing more.

Looked up before anything else, also before a default session is found: the client may have lost that with the answer.
Of several that ask at once, in whatever brokers, the one that has the call's file locked carries it out. The others
wait for it, each no longer than its own time.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from typing import Any, TypeVar

import anyio

from tmuxmcp.broker import lifecycle, sending
from tmuxmcp.broker.reading import Reading, clamp, has_read
from tmuxmcp.broker.run import ran_result, return_when
from tmuxmcp.broker.verbs import Services, Work
from tmuxmcp.broker.views import output_of
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import InvalidArgument, NotRetained, SessionNotFound, TimedOut, TmuxMcpError
from tmuxmcp.contract.request import Request
from tmuxmcp.readiness.wait import TypedNow
from tmuxmcp.record.notedcalls import CallFile, NotedCall
from tmuxmcp.sessions import commandresults
from tmuxmcp.sessions.noting import NOTHING_RAN, IdempotentCall, digest_of
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell import run
from tmuxmcp.shell.typed import RunOutcome

ASK_ENDED_S, ASK_SELDOM_S = 0.002, 0.05
"""How often who waits asks whether the first call has ended, at the beginning and later."""

WAIT_ARGUMENTS = ("timeout_ms", "ready_timeout_ms")
"""Arguments that say how long a call may take."""


async def seen_before(work: Work[Any], request_id: str) -> None:
    """Answer a call whose `request_id` an earlier one had; of any other with an id, note what becomes of it.

    Raises:
        InvalidArgument: another call had this id.
        OutcomeUnknown: nobody can tell whether it was done; it is not done again.
        TimedOut: another call with this id is under way, and has no result yet.
        NotRetained: it was done, and its result is no longer kept.
        TmuxMcpError: as the operation.
    """
    asked, broker = work.asked, work.broker
    file = work.open.enter_context(closing(broker.noted_calls.file(work.call.client, request_id)))
    if work.call.person:
        work.answer = await _outcome(work, file)
    else:
        with broker.gate.audited(asked, work.call) as line:
            work.answer = await _outcome(work, file)
            if work.answer:
                line.result(work.answer)
    if not work.answer:
        work.noting = IdempotentCall(file, asked, request_id)
        await work.open.enter_async_context(_written_down(work, work.noting))


def session_of(broker: Services, request_id: str, call: Call) -> str:
    """In which session a call with this id acts; empty: it has not come to that."""
    with closing(broker.noted_calls.file(call.client, request_id)) as file:
        noted = file.read()
    return str(noted.acts.get("session_id", "")) if noted else ""


@asynccontextmanager
async def _written_down(work: Work[Any], noting: IdempotentCall) -> AsyncIterator[None]:
    """Have what came of a call written down; where it did nothing, nothing stays of it."""
    try:
        yield
    except TmuxMcpError as error:
        with anyio.CancelScope(shield=True):
            await noting.refused(error)
        raise
    assert work.answer
    with anyio.CancelScope(shield=True):
        await noting.write_result(work.answer)


async def _outcome(work: Work[Any], file: CallFile) -> r.Result | None:
    """What became of a call with this id; None: there was none that did anything, and the file is held."""
    await anyio.to_thread.run_sync(work.broker.noted_calls.tidy)
    with work.counted():
        deadline = time.monotonic() + _patience_s(work)
        step_s = ASK_ENDED_S
        while True:
            held = file.take()
            noted = file.read()
            if noted:
                _check_same(work.asked, noted)
            if noted and (noted.result is not None or noted.done_at):
                return await _replayed(work, noted)
            if held:
                return await _outcome_of_ended(work, file, noted) if noted else None
            if (left_s := deadline - time.monotonic()) <= 0:
                break
            await anyio.sleep(min(step_s, left_s))
            step_s = min(step_s * 1.5, ASK_SELDOM_S)
        result = await _taken_up(work, noted, alone=False) if noted else None
    if result is None:
        raise TimedOut(
            "Another call with this request_id is under way, and has no result yet.",
            hint="Make the same call with the same request_id again: nothing is done twice.",
        )
    return result


def _patience_s(work: Work[Any]) -> float:
    asked = work.asked
    given = next(int(getattr(asked, name)) for name in WAIT_ARGUMENTS if name in asked.operation.arguments)
    return min(given, work.broker.settings.max_wait_ms) / 1000


async def _outcome_of_ended(work: Work[Any], file: CallFile, noted: NotedCall) -> r.Result | None:
    """What became of a call that nobody carries out any more; None: it did nothing, and never will."""
    file.keep()
    try:
        result = await _taken_up(work, noted, alone=True)
    except NOTHING_RAN:
        if isinstance(work.asked, q.Run):
            file.forget()
        raise
    if result is None:
        file.clear()
        return None
    with anyio.CancelScope(shield=True):
        await IdempotentCall.of(file, work.asked).write_result(result)
    return result


async def _replayed(work: Work[Any], noted: NotedCall) -> r.Result:
    if noted.result is None:
        session, number = noted.acts.get("session_id"), noted.acts.get("number")
        where = f" It was done in session {session}" if session else ""
        where += f": read command={number} may still have it." if where and number else "." if where else ""
        raise NotRetained(
            f"This call was done before {noted.done_at}, and its result is no longer kept.{where}",
            hint="It is not done again with this request_id.",
            session_id=session,
        )
    result = await _taken_up(work, noted, alone=False)
    assert result, "there is one"
    return result


async def _taken_up(work: Work[Any], noted: NotedCall, *, alone: bool) -> r.Result | None:
    """What became of an earlier call with the same id, for who asks now; None: it has not acted, and never will.

    Args:
        alone: nobody else carries it out; else None means that it has no result yet.

    Raises:
        OutcomeUnknown: nobody can tell; nothing is typed.
        TmuxMcpError: as the operation.
    """
    with work.answering():
        return await TAKE_UPS[type(work.request)](work, noted, alone)


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


def _result(kind: type[R], noted: NotedCall) -> R:
    """The result as it was written down."""
    assert noted.result is not None
    values = {name: value for name, value in noted.result.items() if name in kind.model_fields}
    if noted.result.get("left_out"):
        values["note"] = " ".join(filter(None, (values.get("note"), RESULT_LEFT_OUT)))
    return kind.model_validate({**values, "replayed": True})


async def _run(work: Work[q.Run], noted: NotedCall, alone: bool) -> r.RunResult | None:
    request, call = work.request, work.call
    limit, effective = clamp(work.broker.settings, request.timeout_ms)
    if noted.result is not None:
        return await _printed_before(work, noted)
    session = await run.session_of(work.broker.registry, noted)
    if alone:
        until = await return_when(work, limit)
        ran = await run.finish(session, noted, request.command, until, call.progress)
    else:
        ran = run.under_way(session, await session.look(), noted, request.command)
    if ran is None:
        return None
    return (await ran_result(work, session, ran, effective)).model_copy(update={"replayed": True})


async def _printed_before(work: Work[q.Run], noted: NotedCall) -> r.RunResult:
    """What a command that has ended printed; who asks has read it by that, as who asked first."""
    assert noted.result is not None
    request, call = work.request, work.call
    found = _result(r.RunResult, noted)
    with suppress(SessionNotFound):
        session = await work.broker.registry.known(found.session_id, int(noted.acts["generation"]))
        if session.meta.nonce != noted.acts["nonce"]:
            return found
        if noted.result.get("left_out"):
            await call.room(min(request.max_bytes, found.end_offset - found.start_offset))
            found = found.model_copy(update={**await _output(session, found, request), "note": noted.result["note"]})
        if session.cursor_of(call.caller) < found.end_offset:
            has_read(session, call, found.end_offset)
        if found.completed and found.command_number is not None:
            commandresults.tell(session, call, found.command_number)
    return found


async def _output(session: Session, found: r.RunResult, request: q.Run) -> dict[str, object]:
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


async def _create_session(work: Work[q.CreateSession], noted: NotedCall, alone: bool) -> r.CreateSessionResult | None:
    if noted.result is not None:
        return _result(r.CreateSessionResult, noted)
    if not alone:
        return None
    creation = work.broker.creation
    async with creation.lock():
        session = await lifecycle.session_of_call(work.broker.registry, noted)
    if session is None:
        return None
    if not session.exited:
        await creation.started(session)
    return (await lifecycle.created_result(work, session)).model_copy(update={"replayed": True})


async def _send(work: Work[q.Send], noted: NotedCall, alone: bool) -> r.SendResult | None:
    if noted.result is not None:
        return _result(r.SendResult, noted)
    if not alone:
        return None
    session = await run.session_of(work.broker.registry, noted)
    typed = await run.was_typed(session, noted) if run.is_open(noted) else False
    if typed is None:
        typed = run.is_written_down(session, noted)
    if typed is None:
        raise run.unknown(noted, "tmux does not tell any more")
    if work.request.steps:
        return _steps(session, work.request, noted, typed=typed)
    return await _sent(work, session, noted) if typed else None


async def _sent(work: Work[q.Send], session: Session, noted: NotedCall) -> r.SendResult:
    """That it was typed; what came of it is waited for and read anew."""
    request, call, reading = work.request, work.call, work.broker.part(Reading)
    size = int(noted.acts["bytes"])
    if request.read == "none":
        return r.SendResult(session_id=session.id, sent_bytes=size, replayed=True, note=LOOKED_AGAIN_NOTE, result=None)
    wait = await reading.wait(request, call)
    wait.sent_at, lines = int(noted.acts["offset"]), 1
    if not request.secret:
        what = sending.typing(work.broker.settings, request)
        wait.typed, wait.entered, lines = what.with_enters.rstrip("\n"), what.entered, what.lines
    wait.typed_now, wait.before_seen = TypedNow(wait.sent_at, lines), False
    await reading.before(session, request, wait, call, now=True)
    read = await reading.waited(session, request, wait, call)
    return r.SendResult(session_id=session.id, sent_bytes=size, replayed=True, note=LOOKED_AGAIN_NOTE, result=read)


def _steps(session: Session, request: q.Send, noted: NotedCall, *, typed: bool) -> r.SendResult | None:
    """Which of several steps were typed; None: none was. Those behind them are not typed any more."""
    done = [r.SendStep.model_validate(each) for each in noted.steps]
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


TAKE_UPS: dict[type[Request[Any]], Callable[[Work[Any], NotedCall, bool], Awaitable[r.Result | None]]] = {
    q.Run: _run,
    q.CreateSession: _create_session,
    q.Send: _send,
}
"""What tells what became of an earlier call, as `_taken_up` has it, by the kind of request."""
