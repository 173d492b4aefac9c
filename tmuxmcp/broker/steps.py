"""Several sends in one call: each is a `send` of its own, and the first that does not end as asked is the last.

All are checked before the first is typed. What was typed stays typed: a step that cannot be done is told in the answer,
never as an error of the call, or somebody would type the steps before it again.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import cast

from tmuxmcp.broker import sending
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call, CallAgain, Question
from tmuxmcp.contract.errors import InvalidArgument, TmuxMcpError
from tmuxmcp.contract.requests import Send
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import replace
from tmuxmcp.contract.words import conditions
from tmuxmcp.sessions.noting import IdempotentCall

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


def steps_of(request: Send) -> list[Send]:
    """The steps of a request, each as a `send`.

    Raises:
        InvalidArgument: one of them is none, or something stands beside them.
    """
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


async def check(steps: Sequence[Send], settings: BrokerSettings, each: Callable[[Send], Awaitable[None]]) -> None:
    """Refuse all steps if one of them cannot be typed or waited for, or if they are too much.

    Args:
        each: checks one.

    Raises:
        NoInput, InvalidKey, InvalidPattern, InvalidArgument, ResourceLimit
    """
    for number, step in enumerate(steps, 1):
        try:
            await each(step)
        except TmuxMcpError as error:
            raise _of_step(number, error) from None
    texts = "".join(sending.typing(settings, step).texts for step in steps if not step.secret)
    sending.check_size(settings, texts)


def _of_step(number: int, error: TmuxMcpError) -> TmuxMcpError:
    error.message = f"Step {number}: {error.message}"
    return error


async def send(
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
        one = replace(call, untold=[], goes_on=_goes_on(step, following))
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
            call.not_told()
            raise
        call.untold.extend(one.untold)
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
        note=" ".join(notes) or None,
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
