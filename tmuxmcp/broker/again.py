"""Calls with a `request_id`: asking again is safe. Who asks again gets what became of the first call, and nothing more.

A *noted call* is what is written down of one (`record/notedcalls.py`), before it acts and when it has a result
(`sessions/noting.py`). A *replay* is the answer of one that has a result. A *take-up* finds out what became of one that
has none, and that nobody carries out any more.

Looked up before anything else, also before a default session is found: the client may have lost that with the answer.
Of several that ask at once, in whatever brokers, the one that has the call's file locked carries it out. The others
wait for it, each no longer than its own time.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, nullcontext, suppress
from pathlib import Path
from typing import Any

import anyio

from tmuxmcp.broker import lifecycle, sending
from tmuxmcp.broker.reading import Reading, clamp, has_read
from tmuxmcp.broker.run import ran_result, return_when
from tmuxmcp.broker.verbs import Services, Work
from tmuxmcp.broker.views import output_of
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call, Progress, joined_notes
from tmuxmcp.contract.errors import (
    InvalidArgument,
    NotRetained,
    OutcomeUnknown,
    SessionNotFound,
    TimedOut,
    TmuxMcpError,
)
from tmuxmcp.contract.request import Request
from tmuxmcp.contract.value import fields, replace
from tmuxmcp.readiness.wait import TypedNow
from tmuxmcp.record.commands import EndedCommand, GivenCommand
from tmuxmcp.record.events import NotedEvent
from tmuxmcp.record.notedcalls import CallFile, NotedCall
from tmuxmcp.sessions import commandresults
from tmuxmcp.sessions.levels import is_replaced
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.noting import NOTHING_RAN, IdempotentCall, digest_of, write_result
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell import outcomes
from tmuxmcp.shell.outcomes import Job, RunOutcome
from tmuxmcp.shell.run import ReturnWhen, take_up
from tmuxmcp.terminal.marks import ShellState
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.panes import Stamp

ASK_ENDED_S, ASK_SELDOM_S = 0.002, 0.05
"""How often who waits asks whether the first call has ended, at the beginning and later."""

RESULT_LEFT_OUT = "What it showed was too long to be kept with its request_id: read gives it."

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
            await noting.failed(error)
        raise
    assert work.answer
    with anyio.CancelScope(shield=True):
        await noting.ended(work.answer)


async def _outcome(work: Work[Any], file: CallFile) -> r.Result | None:
    """What became of a call with this id; None: there was none that did anything, and the file is held."""
    await anyio.to_thread.run_sync(work.broker.noted_calls.tidy)
    with nullcontext() if work.call.person else work.broker.admission.admit(work.call):
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
        result = await _under_way(work, noted) if noted and isinstance(work.request, q.Run) else None
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
        with work.answering():
            result = await TAKE_UPS[type(work.request)](work, noted)
    except NOTHING_RAN:
        if isinstance(work.asked, q.Run):
            file.forget()
        raise
    if result is None:
        file.clear()
        return None
    with anyio.CancelScope(shield=True):
        await write_result(file, result)
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
    kind, values = work.request.operation.result, noted.result
    told = {name: value for name, value in values.items() if name in fields(kind)}
    if values.get("left_out"):
        told["note"] = joined_notes(told.get("note"), RESULT_LEFT_OUT)
    result: r.Result = kind.adapter().validate_python({**told, "replayed": True})
    if isinstance(result, r.RunResult):
        with work.answering():
            return await _read_again(work, noted, result)
    return result


async def _read_again(work: Work[q.Run], noted: NotedCall, found: r.RunResult) -> r.RunResult:
    """Have who asks again have read what a command printed, as who asked first."""
    session, request, call = await _session_of(work.broker.registry, noted), work.request, work.call
    if session is None:
        return found
    if noted.result and noted.result.get("left_out"):
        await call.room(min(request.max_bytes, found.end_offset - found.start_offset))
        found = replace(found, **await _output(session, found, request), note=noted.result["note"])
    if session.cursor_of(call.caller, found.end_offset) < found.end_offset:
        has_read(session, call, found.end_offset)
    if found.completed and found.command_number is not None:
        commandresults.tell(session, call, found.command_number)
    return found


async def _output(session: Session, found: r.RunResult, request: q.Run) -> dict[str, Any]:
    """What it printed, made of the log anew."""
    waits = not found.completed and found.evidence is not None
    output = await output_of(session, found.start_offset, found.end_offset, request.max_bytes, waits=waits)
    return {"output": output.text, "truncated": output.omitted_bytes > 0, "omitted_bytes": output.omitted_bytes}


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


# ---- What became of a call that was begun, and whose broker is gone or which was cancelled ---------------------------
#
# First: did it act at all? tmux says so by the pane's `@tmuxmcp_request`, and for a command the marks in the log as
# well. If tmux says that it did not, tmux is told in the same moment that it never will, and the call acts now. If
# nobody can tell, that is said, and nothing is typed.

LOOKED_AGAIN_NOTE = "It was typed by an earlier call with this request_id; what came of that is looked at anew."

STEPS_OVER = (
    "The server that typed these steps ended before it had typed all. What they showed is not in this answer: read "
    "gives it."
)

LOOK_WHAT_BECAME = (
    "Look at the session with read or list_commands. If it is to be done again, make the call with another request_id."
)


async def _run(work: Work[q.Run], noted: NotedCall) -> r.RunResult | None:
    limit, effective = clamp(work.broker.settings, work.request.timeout_ms)
    session = await _session_acted_in(work, noted)
    until = await return_when(work, limit)
    ran = await _finished(session, noted, work.request.command, until, work.call.progress)
    return await _ran(work, session, ran, effective) if ran else None


async def _under_way(work: Work[q.Run], noted: NotedCall) -> r.RunResult | None:
    """What is known of a command that another call waits for; None: it may not be typed yet."""
    with work.answering():
        session = await _session_acted_in(work, noted)
        look, job = await session.look(), _job(session, noted, work.request.command)
        track = session.track_of(job.level.nonce)
        if look.level.nonce != job.level.nonce or track.job != job.name or track.state is not ShellState.RUNNING:
            return None
        ran = replace(outcomes.unfinished(session, look, job, "timeout"), level=job.level)
        return await _ran(work, session, ran, clamp(work.broker.settings, work.request.timeout_ms)[1])


async def _ran(work: Work[q.Run], session: Session, ran: RunOutcome, effective: int | None) -> r.RunResult:
    return replace(await ran_result(work, session, ran, effective), replayed=True)


async def _create_session(work: Work[q.CreateSession], noted: NotedCall) -> r.CreateSessionResult | None:
    creation = work.broker.creation
    async with creation.lock():
        session = await lifecycle.session_of_call(work.broker.registry, noted)
    if session is None:
        return None
    if not session.exited:
        await creation.started(session)
    return replace(await lifecycle.created_result(work, session), replayed=True)


async def _send(work: Work[q.Send], noted: NotedCall) -> r.SendResult | None:
    session = await _session_acted_in(work, noted)
    is_open = int(noted.acts.get("step", 0)) >= len(noted.steps)  # what came of the last step is not written down
    was_typed = await _was_typed(session, noted) if is_open else False
    if was_typed is None:
        stamp, events = noted.acts["stamp"], session.events.read()
        if not any(isinstance(each, NotedEvent) and each.stamp == stamp for each in events):
            raise _unknown(noted, "tmux does not tell any more")
        was_typed = True
    if work.request.steps:
        return _steps(session, work.request, noted, was_typed=was_typed)
    return await _sent(work, session, noted) if was_typed else None


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


def _steps(session: Session, request: q.Send, noted: NotedCall, *, was_typed: bool) -> r.SendResult | None:
    """Which of several steps were typed; None: none was. Those behind them are not typed any more."""
    done = [r.SendStep.adapter().validate_python(each) for each in noted.steps]
    if was_typed:
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


async def _session_of(registry: Registry, noted: NotedCall) -> Session | None:
    """The session in which a call acted; None: nothing is kept of it."""
    with suppress(SessionNotFound):
        session = await registry.known(str(noted.acts["session_id"]), int(noted.acts["generation"]))
        return session if session.meta.nonce == noted.acts["nonce"] else None
    return None


async def _session_acted_in(work: Work[Any], noted: NotedCall) -> Session:
    """The same, as it is now.

    Raises:
        OutcomeUnknown: nothing is kept of it.
    """
    session = await _session_of(work.broker.registry, noted)
    if session is None:
        raise _unknown(noted, "nothing is kept of its session any more")
    await session.refresh()
    return session


async def _was_typed(session: Session, noted: NotedCall) -> bool | None:
    """Whether it was typed, as tmux says; False: then it never will be. None: tmux does not tell.

    Raises:
        OutcomeUnknown: a part of it was.
    """
    stamp = Stamp(str(noted.acts["before"]), str(noted.acts["stamp"]))
    if session.pane is None:
        return None
    if await panes.never_types(session.tmux, session.pane, stamp):
        return False
    said = await panes.stamped(session.tmux, session.pane)
    if said == stamp.of_first_step.after:
        raise _unknown(noted, "its text was typed, and the keys behind it probably not")
    return True if said == stamp.after else False if said == stamp.void else None


async def _finished(
    session: Session, noted: NotedCall, text: str, until: ReturnWhen, progress: Progress
) -> RunOutcome | None:
    """What became of a command that an earlier call typed, or was about to type; None: it was not typed.

    Raises:
        OutcomeUnknown
        SessionBusy, IncompleteCommand: it was typed, and was not run.
    """
    told = await _was_typed(session, noted)
    job = _job(session, noted, text)
    look = await session.look()
    ran = _ended(session, look, job)
    began = session.track_of(job.level.nonce).job == job.name
    if ran is None and told is False and not began:
        return None
    if ran is None and not (told or began):
        raise _unknown(noted, "neither tmux nor the shell's marks tell")
    if ran is None and look.exited and not began:
        raise _unknown(noted, "its session has ended, and the log does not tell")
    if ran is None:
        ran = await take_up(session, job, until, progress)
        only_waits = ran.outcome == "ready" and ran.evidence == "kernel" and ran.number is None
        if only_waits:
            raise _unknown(noted, "it was typed, and the log does not tell what became of it")
    return replace(ran, duration_ms=await _duration_ms(session, job, ran))


def _unknown(noted: NotedCall, why: str) -> OutcomeUnknown:
    """Nobody can tell whether it was done."""
    acts = noted.acts
    where = f" in session {acts['session_id']}" if acts.get("session_id") else ""
    return OutcomeUnknown(
        f"It cannot be told whether this call was carried out{where}: {why}. Nothing was typed now.",
        hint=LOOK_WHAT_BECAME,
        **{name: acts[name] for name in ("session_id", "generation", "offset") if name in acts},
    )


def _job(session: Session, noted: NotedCall, text: str) -> Job:
    acts = noted.acts
    age_s = max(time.time() - float(acts["at"]), 0.0)
    level = session.level_of(str(acts["level"]))
    if level.nonce != acts["level"]:
        level = replace(level, nonce=str(acts["level"]))  # it is forgotten: none of what stands there is it
    job = Job(text, time.monotonic() - age_s, int(acts["offset"]), str(acts["job"]), level)
    job.number = job.next_number = int(acts["number"])
    job.prompt_end = int(acts["prompt_end"])
    job.proof = "given" if acts["proof"] else ""
    job.given = GivenCommand(Path(str(acts["file"]))) if acts["file"] else None
    return job


def _ended(session: Session, look: Look, job: Job) -> RunOutcome | None:
    """How it ended, if that is known for certain."""
    ran = outcomes.done(session, look, job)
    if ran:
        return replace(ran, level=job.level)
    command = session.commands.of_job(look, job.name)
    return _of_command(session, look, job, command) if command and not outcomes.replaced(session, look, job) else None


def _of_command(session: Session, look: Look, job: Job, command: EndedCommand) -> RunOutcome:
    code = command.exit_code
    with_shell = not command.proven and code is None
    outcome = "ready" if not with_shell else "exited" if look.exited else "left"
    track = session.track_of(job.level.nonce)
    last = track.state is ShellState.RUNNING and track.job == job.name
    own = outcome == "exited" and job.level.pid == session.pid
    why = ""
    if last:
        level = session.level_of(job.level.nonce)
        why = (
            outcomes.why_not_its_code(session, look, level, job.text)
            if own
            else outcomes.why_in_doubt(level, track, job.text)
        )
    if outcome == "ready" and code is None and not why:
        why = f"{outcomes.SAYS_ZERO} {outcomes.LOOK_BEFORE_AGAIN}"
    if own and not why:
        code = look.exit_status[0]
    return RunOutcome(
        outcome=outcome,  # type: ignore[arg-type]  # one of three
        exit_code=code,
        completed=not why and not (outcome == "left" and is_replaced(job.level)),
        evidence="marks",
        start=command.start,
        end=max(command.start, command.end),
        cwd=command.cwd,
        duration_ms=outcomes.since(job),
        note=why or None,
        number=command.number,
        level=job.level,
    )


async def _duration_ms(session: Session, job: Job, ran: RunOutcome) -> int:
    """How long it took by its shell's clock, where that tells; else how long ago it was typed."""
    if not ran.completed:
        return ran.duration_ms
    with suppress(TmuxMcpError):
        look = await session.look()
        found = session.commands.of_job(look, job.name)
        if found and found.began is not None and found.ended is not None:
            return max(round((found.ended - found.began) * 1000), 0)
    return ran.duration_ms


TAKE_UPS: dict[type[Request[Any]], Callable[[Work[Any], NotedCall], Awaitable[r.Result | None]]] = {
    q.Run: _run,
    q.CreateSession: _create_session,
    q.Send: _send,
}
"""By kind of request: what became of a call that nobody carries out any more; None: it has not acted, and never will.

Raises `OutcomeUnknown` where nobody can tell; nothing is typed then.
"""
