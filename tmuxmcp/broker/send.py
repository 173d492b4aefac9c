"""`send` for callers: text and keys (`sending.py`), a secret of the settings, or several of these in one call.

Whether a secret may be typed is judged (`shell/secretreader.py`) before the call is done, when a person may be asked,
and again just before it is typed: in the same state, for the same program, or not at all. The value is had from its
source only then, and overwritten at once.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import cast

from tmuxmcp.broker import sending
from tmuxmcp.broker.reading import Reading
from tmuxmcp.broker.sending import flush_input, not_typed, typed_now
from tmuxmcp.broker.verbs import Work, check_size, verb
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call, CallAgain, Question, joined_notes, no_progress
from tmuxmcp.contract.errors import ConfirmationDeclined, InvalidArgument, TmuxMcpError
from tmuxmcp.contract.requests import Send
from tmuxmcp.contract.settings import BrokerSettings, Secret
from tmuxmcp.contract.value import replace
from tmuxmcp.contract.words import conditions
from tmuxmcp.machine.usercommands import value_of
from tmuxmcp.machine.witness.kernel import entered_at
from tmuxmcp.readiness import finding
from tmuxmcp.readiness.wait import WaitCondition
from tmuxmcp.record.commands import TypedInput
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.noting import IdempotentCall
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell import adopting
from tmuxmcp.shell.secretreader import SecretMoment, moment, secret_named
from tmuxmcp.shell.startup import refuse_first_input
from tmuxmcp.shell.typing import end_listening
from tmuxmcp.tmux import secrettyping


@verb(q.Send)
async def send(work: Work[q.Send]) -> r.SendResult:
    """Type what is asked for, then wait and read; its steps are done one by one before (`in_turn`)."""
    request = work.request
    what = None if request.secret else sending.typing(work.broker.settings, request)
    secret = secret_named(work.broker.settings, request) if request.secret else None
    wait = await work.broker.part(Reading).wait(request, work.call)
    session = await work.session()
    if secret:
        return await _send_secret(work, session, secret, wait)
    assert what
    if session.made_for == work.call.call_id:
        await refuse_first_input(session)
    return await sending.send(work, session, what, wait)


# ---- A secret --------------------------------------------------------------------------------------------------------

SECRET_WAS_SHOWN = (
    "The program showed what was typed: the value of secret {name} now stands on the screen and in the log of session "
    "{session}. Tell the person to change it. What the session printed since is not in this answer, but read has it."
)


async def _send_secret(work: Work[q.Send], session: Session, secret: Secret, wait: WaitCondition) -> r.SendResult:
    """Type it and Enter, then wait and read.

    Raises:
        InvalidArgument, WrongMode, PermissionDenied, ConfirmationDeclined, SessionTaken, SessionExited: nothing was
            typed.
        TmuxMcpError: the value cannot be had.
    """
    from tmuxmcp.broker.programs.machine import environment  # late: few callers have secrets

    request, call, noting, reading = work.request, work.call, work.noting, work.broker.part(Reading)
    await adopting.settle(session)
    await end_listening(session, await finding.prompt_drawn(session))
    await _may(work, secret, session)
    wait.progress = no_progress  # a last line may show what was typed
    async with value_of(request.secret, secret, environment(work.broker.settings)) as value:
        await reading.before(session, request, wait, call, now=True)
        async with session.input_lock:
            pane = session.live()
            program = await secrettyping.program_in_front(session.tmux, pane)
            now = await _may(work, secret, session)
            _note(session, now.look, wait)
            size = len(value)
            stamp = await noting.types(session, now.look.size, bytes=size + 1) if noting else None
            if not await secrettyping.type_secret(session.tmux, pane, value, program, stamp=stamp):
                await not_typed(session)
        session.write_input(bytes=size, keys=1)
        if noting:
            noting.note_typed(session, now.look.size)
        await flush_input(session.tmux)
        result = None if request.read == "none" else await reading.waited(session, request, wait, call)
        shown = await _was_shown(session, now.look.size, value)
    if shown:
        note = SECRET_WAS_SHOWN.format(name=request.secret, session=session.id)
        return r.SendResult(session_id=session.id, sent_bytes=size + 1, note=note, result=None)
    notice = session.take_notice() if result is None else None
    return r.SendResult(session_id=session.id, sent_bytes=size + 1, note=notice, result=result)


async def _may(work: Work[q.Send], secret: Secret, session: Session) -> SecretMoment:
    """How the session stands, if it may be typed there now.

    Raises:
        WrongMode, PermissionDenied
        ConfirmationDeclined: nobody agreed to that.
    """
    now = await moment(work.request.secret, secret, session)
    if now.asks and not work.call.person and now.reader != work.agreed:
        raise ConfirmationDeclined(
            f"Nothing was typed: what asks in session {session.id} is not what the person agreed to.",
            hint="Look at the session; make the call again if it is still right.",
            session_id=session.id,
        )
    return now


def _note(session: Session, look: Look, wait: WaitCondition) -> None:
    """Note what waits and lists go by, as before every input."""
    wait.sent_at = session.typed_at = look.size
    wait.typed, wait.typed_now, wait.entered = "", typed_now(session, look, 1), True
    wait.types_after(look)
    session.entered = entered_at(look.verdict, look.judged, look.line_of_cursor, session.entered, look.size)
    session.commands.typing(TypedInput(look.size, None, caller=wait.caller, read_by=look.read_by))


async def _was_shown(session: Session, start: int, value: bytearray) -> bool:
    """Whether the value stands in what was printed since."""
    look = await session.look()
    await session.log_complete(look.size)
    size = session.log.size() - start
    return bytes(value) in session.log.read(start, min(size, 1 << 20)) if size > 0 else False


# ---- Several sends in one call: each is a `send` of its own, and the first that does not end as asked is the last ----
#
# All are checked before the first is typed. What was typed stays typed: a step that cannot be done is told in the
# answer, never as an error of the call, or somebody would type the steps before it again.

MOST_STEPS = 32
"""Steps of one call."""

BESIDE_STEPS = {"session_id", "max_bytes", "steps", "request_id"}
"""What stands beside the steps, and in none of them."""

AS_ASKED = {
    "none": "immediate",
    "ready": "ready",
    "command": "command",
    "idle": "idle",
    "pattern": "matched",
    "changed": "matched",
    "exit": "exited",
}
"""How a wait for one condition ends that finds it."""

Do = Callable[[Send, Call], Awaitable[r.SendResult]]


async def checked_steps(work: Work[Send]) -> list[Send]:
    """The steps of a call, each as a `send`, if all can be typed and waited for, and are not too much.

    Raises:
        NoInput, InvalidKey, InvalidPattern, InvalidArgument, ResourceLimit
    """
    settings, reading = work.broker.settings, work.broker.part(Reading)
    texts = []
    steps = _steps_of(cast("Send", work.asked))
    for number, step in enumerate([each.filled(settings) for each in steps], 1):
        try:
            if step.secret:
                secret_named(settings, step)
            else:
                texts.append(sending.typing(settings, step).texts)
            await reading.wait(step, work.call)
        except TmuxMcpError as error:
            raise _of_step(number, error) from None
    check_size(settings, "".join(texts))
    return steps


def _steps_of(request: Send) -> list[Send]:
    """The steps of a request, as they were given."""
    beside = sorted(request.arguments().keys() - BESIDE_STEPS)
    if beside:
        raise InvalidArgument(
            f"{', '.join(beside)}: does not go with steps.",
            hint='Give it in the step it is for: steps=[{"text": "ls", "enter": true}, {"key": "q"}].',
        )
    if len(request.steps) > MOST_STEPS:
        raise InvalidArgument(f"{len(request.steps)} steps are more than {MOST_STEPS}.", hint="Make several calls.")
    return [_step(request, number, given) for number, given in enumerate(request.steps, 1)]


def _step(request: Send, number: int, given: object) -> Send:
    assert isinstance(given, dict)
    if wrong := sorted(given.keys() & BESIDE_STEPS):
        raise InvalidArgument(f"Step {number}: {', '.join(wrong)} goes beside steps, not into one.")
    try:
        step = cast("Send", Send.operation.parse(given))
    except InvalidArgument as error:
        raise _of_step(number, error) from None
    return _with(step, session_id=request.session_id, max_bytes=request.max_bytes)


def _with(step: Send, **changes: object) -> Send:
    """The step with other arguments, which need not be checked again."""
    changed = copy(step)
    vars(changed).update(changes)
    return changed


def _of_step(number: int, error: TmuxMcpError) -> TmuxMcpError:
    error.message = f"Step {number}: {error.message}"
    return error


async def in_turn(
    do: Do, steps: Sequence[Send], settings: BrokerSettings, call: Call, noting: IdempotentCall | None = None
) -> r.SendResult:
    """Do one step after the other.

    Args:
        noting: writes down what came of each, for a call with an id.

    Raises:
        TmuxMcpError: the first was not done.
    """
    until = time.monotonic() + settings.max_wait_ms / 1000
    done: list[r.SendStep] = []
    notes: list[str] = []
    last: r.SendResult | None = None
    session_id, handed_back, error = steps[0].session_id, None, None
    for number, step in enumerate(steps, 1):
        following = steps[number] if number < len(steps) else None
        one = replace(call, undo=[], goes_on=_goes_on(step, following))
        if done:
            left_ms = int((until - time.monotonic()) * 1000)
            if left_ms <= 0:
                notes.append("The time of one call (max_wait_ms) was used up.")
                break
            # By the session's id: another default session would stand in for one that has ended.
            step = _with(step, session_id=session_id, timeout_ms=min(step.timeout_ms, left_ms))
            one = replace(one, ask=_asking(call), answers="")
        try:
            last = await do(step, one)
        except TmuxMcpError as failed:
            if not done:
                raise
            error, last = failed, None
            notes.append(f"Step {number} was not done: {failed}")
            break
        except BaseException:
            call.roll_back()
            raise
        call.undo.extend(one.undo)
        session_id, handed_back = last.session_id, handed_back or last.handed_back
        done.append(_done(last))
        if noting:
            await noting.step_done(done[-1])
        if last.note:
            notes.append(last.note)
        if following and not _ended_so(step, following, last.result):
            notes.append(_why(number, step, following, last.result))
            break
    if len(done) < len(steps):
        notes.append(f"Not typed: {_numbers(len(done) + 1, len(steps))}.")
    if error:
        notes.append("What was printed is not in this answer: read gives it.")
    return r.SendResult(
        session_id=session_id,
        sent_bytes=sum(each.sent_bytes for each in done),
        handed_back=handed_back,
        steps_done=len(done),
        steps=done,
        note=joined_notes(*notes),
        result=last.result if last else None,
    )


def _goes_on(step: Send, following: Send | None) -> Callable[[r.ReadResult], bool] | None:
    """Whether nobody is to see what a step shows, as another one follows; None: they are."""
    if following is None:
        return None
    return lambda result: _ended_so(step, following, result)


def _ended_so(step: Send, following: Send, result: r.ReadResult | None) -> bool:
    """Whether a step ended as it was asked to, and the following one may be typed."""
    if result is None:
        return step.read == "none"
    return (
        result.outcome in _as_asked(step)
        and not result.exited
        and not (_asks_secret(step, result) and not following.secret)
    )


def _asks_secret(step: Send, result: r.ReadResult) -> bool:
    """Whether a secret is asked for where input of any kind was waited for: what follows may be meant for a prompt."""
    return "ready" in conditions(step.wait_for) and result.mode == "password"


def _why(number: int, step: Send, following: Send, result: r.ReadResult | None) -> str:
    """Why a step is the last one, for a model."""
    if result is None:
        return f"Step {number} has no answer."
    if result.exited:
        return f"Step {number} ended the program."
    if result.outcome in _as_asked(step):
        return f"Stopped after step {number}: mode=password, a secret is asked for."
    return f"Stopped after step {number}: its outcome is {result.outcome}, not {' or '.join(_as_asked(step))}."


def _as_asked(step: Send) -> list[str]:
    """How a step's wait ends that finds what was waited for."""
    return [AS_ASKED[each] for each in conditions(step.wait_for)]


def _numbers(first: int, last: int) -> str:
    return f"step {first}" if first == last else f"steps {first} to {last}"


def _done(answer: r.SendResult) -> r.SendStep:
    result = answer.result
    if result is None:
        return r.SendStep(sent_bytes=answer.sent_bytes)
    return r.SendStep(
        sent_bytes=answer.sent_bytes,
        outcome=result.outcome,
        mode=result.mode,
        matched=result.matched,
        waited_ms=result.waited_ms,
        exit_code=result.command.exit_code if result.command and result.outcome == "command" else None,
    )


def _asking(call: Call) -> Callable[[Question], Awaitable[bool | None]]:
    """Ask as the call does; where that means that the call is made again, nobody can be asked any more."""

    async def ask(question: Question) -> bool | None:
        try:
            return await call.ask(question)
        except CallAgain:
            return None

    return ask
