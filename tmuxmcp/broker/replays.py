"""The answer to a call that was made before with the same `request_id`: what was written down of it, marked so."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

from tmuxmcp.broker import sending
from tmuxmcp.broker.drawn import output_of
from tmuxmcp.broker.reading import Reading, has_read
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import SessionNotFound
from tmuxmcp.readiness.wait import TypedNow
from tmuxmcp.record.notedcalls import NotedCall
from tmuxmcp.sessions import commandresults
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell.typed import RunOutcome

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
    values = {name: value for name, value in noted.result.items() if name in kind.model_fields}
    if noted.result.get("left_out"):
        values["note"] = " ".join(filter(None, (values.get("note"), RESULT_LEFT_OUT)))
    return kind.model_validate({**values, "replayed": True})


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
