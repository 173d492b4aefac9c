"""What every call of an operation goes through, stage by stage.

    checked      its caller has the scope that the operation needs
    seen_before  a call with a `request_id` that was made before gets what became of that one (`again.py`)
    begun        its line of the audit; a session that is made takes what a lost one of its name has left; several sends
                 in one call begin here one by one (`send.py`)
    found        which session is meant, as it is now
    permitted    the policy lets it, or a person agrees
    admitted     its client has not too many calls going on
    free         no person holds the session
    done         the verb
    reported     what else the caller is told

Where a verb finds that the pane is not as tmux last told (`PaneChanged`), nothing was done yet, and the call goes back
to `found`. A person's call is neither judged nor counted nor written down (`OF_AGENTS`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import Any, cast

from tmuxmcp.broker import (
    again,
    lifecycle,
    listing,  # noqa: F401 - registers its verbs
    send,
    userinput,  # noqa: F401 - registers its verb
    waiting,  # noqa: F401 - registers its verb
)
from tmuxmcp.broker.admission import only_waits
from tmuxmcp.broker.reading import tell_handed_back
from tmuxmcp.broker.verbs import Services, Work, verb_of
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Call, begin, joined_notes
from tmuxmcp.contract.errors import SessionExited, TmuxMcpError
from tmuxmcp.contract.request import R, Request
from tmuxmcp.contract.value import fields, replace
from tmuxmcp.gate.target import Target
from tmuxmcp.sessions import lease
from tmuxmcp.sessions.retention import Restoration
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux.panes import PaneChanged

Stage = Callable[[Work[Any]], Awaitable[None]]

HELD_OFF = (q.Run, q.Send, q.Signal, q.Resize, q.Mouse, q.EditorAction, q.PagerAction)
"""Requests that nobody but the person may make while a person holds the session."""

BEGINS_LATER = (q.Run, q.Send, q.CreateSession, q.DestroySession, q.Signal, q.Mouse, q.RunProcess)
"""Requests that say themselves when they change something: they may wait before."""


async def do(work: Work[Request[R]], stages: Sequence[Stage] = ()) -> R:
    """Hand a call on from stage to stage until there is an answer.

    Args:
        stages: left out, all of them.

    Raises:
        TmuxMcpError: of a stage; the verb's are in the request's docstring.
    """
    stages, at = stages or STAGES, 0
    async with work.open:
        while work.answer is None:
            try:
                if not (work.call.person and stages[at] in OF_AGENTS):
                    await stages[at](work)
            except PaneChanged:
                work.pane_changed, at = True, stages.index(found)
            else:
                at += 1
        return cast("R", work.answer)


async def session_to_read(broker: Services, session_id: str, call: Call) -> Session:
    """The session that is meant, if the caller may read there.

    Raises:
        SessionNotFound, Unauthorized, PolicyDenied
    """
    sessions = []

    async def taken(work: Work[q.Read]) -> None:
        sessions.append(await work.session())
        work.result = r.Result()

    work = Work[q.Read](broker, q.Read("raw", session_id), call)
    await do(work, (checked, begun, found, permitted, admitted, taken, reported))
    return sessions[0]


async def checked(work: Work[Any]) -> None:
    """Refuse a caller without the scope."""
    work.broker.gate.check(work.asked, work.call)


async def seen_before(work: Work[Any]) -> None:
    """Answer a call that was made before; of any other with an id, note what becomes of it."""
    asked = work.asked
    if isinstance(asked, q.CreateSession | q.Run | q.Send) and asked.request_id:
        await again.seen_before(work, asked.request_id)


async def begun(work: Work[Any]) -> None:
    """Open what is closed with the answer: the line of the audit, and what notes what the caller is told."""
    gate = work.broker.gate
    if isinstance(work.asked, q.Send) and work.asked.steps:
        return await _in_steps(work, work.asked)
    if isinstance(work.asked, q.CreateSession):
        work.restores = work.restores or await lifecycle.left_by_lost(work)
        if isinstance(work.restores, Restoration):
            work.asked = work.restores.request
            work.request = work.asked.filled(work.broker.settings)
    work.open.enter_context(work.answering())
    if work.call.person:
        work.open.enter_context(gate.telling_what_is_missing())
    else:
        work.line = work.open.enter_context(gate.audited(work.asked, work.call))


async def _in_steps(work: Work[Any], asked: q.Send) -> None:
    """Begin each of several sends by itself, one after the other; all are checked before the first is typed."""
    try:
        steps = await send.checked_steps(work)
    except TmuxMcpError as error:
        work.broker.gate.refused(asked.operation, work.call, error)
        raise

    async def one(step: q.Send, call: Call) -> r.SendResult:
        return await do(Work[q.Send](work.broker, step, call, work.noting), STAGES[STAGES.index(begun) :])

    work.answer = await send.in_turn(one, steps, work.broker.settings, work.call, work.noting)


async def found(work: Work[Any]) -> None:
    """Find the session, as tmux last told of it where nobody but the verb looks at it: that finds out what changed."""
    broker, agent = work.broker, not work.call.person
    make = agent and broker.gate.judges_place(work.asked.operation)
    as_known = not work.pane_changed and not (agent and broker.gate.judges_session(work.asked))
    counts = agent and not work.pane_changed
    with broker.admission.admit(work.call, waits=only_waits(work.request)) if counts else nullcontext():
        work.target = await broker.targets.of(work.asked, work.call, make=make, as_known=as_known)


async def permitted(work: Work[Any]) -> None:
    """Have the gate judge an agent's call; where a person is asked meanwhile, the session is found anew."""

    async def find() -> Target:
        await found(work)
        return work.target

    assert work.line
    work.agreed = await work.broker.gate.permit(work.asked, work.call, work.target, find, work.line)


async def admitted(work: Work[Any]) -> None:
    """Count it, until it is answered."""
    if not work.pane_changed:
        work.open.enter_context(work.broker.admission.admit(work.call, waits=only_waits(work.request)))


async def free(work: Work[Any]) -> None:
    """Refuse what a person who holds the session keeps to themselves."""
    work.broker.ends.came(work.caller)
    session = work.target.session
    if session and session.lease:
        await lease.settle(session, work.broker.settings.take_timeout_s)
        if isinstance(work.request, HELD_OFF):
            lease.refuse(session)


async def done(work: Work[Any]) -> None:
    """Do it."""
    request, ends = work.request, work.broker.ends
    if not request.operation.read_only and not isinstance(request, BEGINS_LATER):
        begin()
    try:
        work.result = await verb_of(request, work.broker.settings)(work)
    except SessionExited as error:
        ends.note_ends(work.caller, request, error)
        raise
    ends.note_ends(work.caller, request, work.result)


async def reported(work: Work[Any]) -> None:
    """Add what is to be said beside the verb's own words."""
    result = work.result
    assert result is not None
    session = work.broker.registry.sessions.get(getattr(result, "session_id", None) or "")
    newest = getattr(work.request, "generation", None) is None
    if session and newest and "handed_back" in fields(result):
        # That a person had the session and gave it back, if the caller was not told yet.
        told = await tell_handed_back(session, work.call)
        result = replace(result, handed_back=told) if told else result
    result = _with_secret_note(result, work.call)
    if work.line:
        result = work.broker.admission.with_limit_note(result, work.caller)
        work.line.result(result)
    work.answer = result


STAGES: tuple[Stage, ...] = (
    checked,
    seen_before,
    begun,
    found,
    permitted,
    admitted,
    free,
    done,
    reported,
)

OF_AGENTS = (checked, permitted, admitted)
"""Stages that a person's call passes by: it is neither judged nor counted."""


def _with_secret_note(result: r.Result, call: Call) -> r.Result:
    """Add to an answer at whose end a secret is asked for how a person types it."""
    told = r.CreateSessionResult | r.SendResult | r.WaitResult | r.RunResult | r.ReadResult
    if not isinstance(result, told):
        return result
    if isinstance(result, r.WaitResult):
        mode = next((each.mode for each in result.sessions if each.session_id == result.session_id), None)
    elif isinstance(result, r.SendResult):
        mode = result.result.mode if result.result else None
        if result.result and call.goes_on and call.goes_on(result.result):
            return result
    else:
        mode = result.mode
    if mode != "password":
        return result
    attach = f"`tmuxmcp attach --take {result.session_id}`"
    if call.asks_person:
        how = f"Have the person type the secret: call request_user_input with secret=true, or name them {attach}."
    else:
        how = f"{'Type' if call.person else 'Have the person type'} the secret with {attach}."
    return replace(result, note=joined_notes(result.note, how))
