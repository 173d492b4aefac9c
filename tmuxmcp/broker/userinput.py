"""`request_user_input`: ask a person to type into a session, and wait until they have, or do not want to.

The agent's words go to people as text: into a form of the client, and to who answers at a terminal. No format of tmux
and no argument of a program ever has them.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import anyio

from tmuxmcp.broker.reading import clamp
from tmuxmcp.broker.verbs import Work, verb
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import PROGRESS_EVERY_S, Call, CallAgain, Question
from tmuxmcp.contract.errors import InvalidArgument, TmuxMcpError, WrongMode
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import value
from tmuxmcp.gate import confirmations
from tmuxmcp.machine.usercommands import notify
from tmuxmcp.record.inputrequests import InputRequest, RequestAnswer
from tmuxmcp.sessions import inputrequests
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell.secretreader import reader_of
from tmuxmcp.terminal.widths import sanitize
from tmuxmcp.tmux.leaseoptions import user_name

REQUEST_DIGEST = "request "
"""How the digest of a question begins that is a request for input; its id follows."""


@value
class AwaitedRequest:
    """A request for which a call waits."""

    session: Session
    request: InputRequest
    known: bool
    """The caller knows its id: another call can take it up."""


@verb(q.RequestUserInput)
async def request_user_input(work: Work[q.RequestUserInput]) -> r.RequestUserInputResult:
    """Ask a person, or go on waiting for what was asked."""
    request, call, broker = work.request, work.call, work.broker
    waited = taken_up(broker.registry, request, call)
    if waited is None:
        waited = await request_input(await work.session(), request, call)
        await reach(waited, broker.settings)
    answer, effective = await wait(waited, broker.settings, call, broker.page_url)
    return await result(waited, answer, effective, broker.attach_command(waited.session))


def taken_up(registry: Registry, asked: q.RequestUserInput, call: Call) -> AwaitedRequest | None:
    """The request that a call goes on waiting for; None: it is a new one.

    Raises:
        InvalidArgument: its id is that of another request.
    """
    answered = call.answers.removeprefix(REQUEST_DIGEST) if call.answers.startswith(REQUEST_DIGEST) else ""
    request_id = answered or asked.request_id
    if not request_id:
        return None
    named = asked.session_id
    for session in list(registry.sessions.values()):
        found = inputrequests.of(session).find(request_id)
        if found is None or found.caller != call.caller or (named and session.id != named):
            continue
        if not answered and asked.message and (asked.message, asked.secret) != (found.message, found.secret):
            raise InvalidArgument(
                f"Request {request_id} asks something else.",
                hint="To go on waiting, give its request_id alone; to ask anew, leave request_id out.",
            )
        return AwaitedRequest(session, found, known=not answered)
    if not asked.message:
        raise InvalidArgument(
            f"There is no request {request_id!r} of yours.",
            hint="Give the request_id of a result and the id of its session, or a message to ask anew.",
        )
    return None


async def request_input(session: Session, asked: q.RequestUserInput, call: Call) -> AwaitedRequest:
    """Ask anew; a secret for the program that asks for one at this moment.

    Raises:
        InvalidArgument, SessionExited, ResourceLimit, IoError
    """
    message = sanitize(asked.message)[0].strip()
    if not message:
        raise InvalidArgument("There is no message for the person.", hint="Say what they are to type, and why.")
    session.live()
    reader = ""
    if asked.secret:
        with suppress(WrongMode):  # the program has still to ask: which one that will be is not known
            reader = reader_of(session, await session.look()).digest
    request_id = asked.request_id or f"ask_{secrets.token_hex(6)}"
    request = InputRequest(request_id, asked.message, asked.secret, call.caller, time.time(), asked.timeout_s, reader)
    inputrequests.put(session, request)
    return AwaitedRequest(session, request, known=bool(asked.request_id))


async def reach(waited: AwaitedRequest, settings: BrokerSettings) -> None:
    """Tell the people who may be there that something waits for them: its id and kind, none of its words."""
    session, request = waited.session, waited.request
    kind = "secret" if request.secret else "input"
    notify(settings.notify_command, {"ID": request.id, "KIND": kind, "SESSION_ID": session.id})
    await confirmations.reach(session, settings, request.id)


async def wait(
    waited: AwaitedRequest, settings: BrokerSettings, call: Call, page_url: str = ""
) -> tuple[RequestAnswer | None, int | None]:
    """Wait for what becomes of a request, as long as one call may, and ask by the client meanwhile.

    A call that is cancelled gives up what nobody could take up again.

    Args:
        page_url: where this server shows the page; empty: nowhere.

    Returns:
        The answer, None: it still waits; and the time in milliseconds if that was cut short.

    Raises:
        CallAgain: the client asks, and makes the call again with the answer.
        IoError
    """
    session, request = waited.session, waited.request
    left_ms = math.ceil((request.until - time.time()) * 1000) + 1  # rounded down, its end would not have come
    limit, effective = clamp(settings, max(left_ms, 1))
    try:
        return await _first_answer(session, request, limit / 1000, call, page_url), effective
    except CallAgain:
        raise
    except BaseException:
        if not waited.known:
            with suppress(TmuxMcpError):
                inputrequests.settle(session, request.id, "withdrawn")
        raise
    finally:
        with anyio.move_on_after(confirmations.OFFER_S, shield=True):
            await confirmations.offer_next(session, settings)


async def _first_answer(
    session: Session, request: InputRequest, limit_s: float, call: Call, page_url: str
) -> RequestAnswer | None:
    """The first answer: by the client's form, or in any other way."""
    if answer := inputrequests.answer_now(session, request):
        return answer
    told: list[RequestAnswer | CallAgain | TmuxMcpError | None] = []
    async with anyio.create_task_group() as task_group:

        async def first(what: Callable[[], Awaitable[RequestAnswer | None]], *, may_pass: bool) -> None:
            try:
                answer = await what()
            except (CallAgain, TmuxMcpError) as error:  # not through the task group, which would make a group of it
                told.append(error)
            else:
                if answer is None and may_pass:
                    return
                told.append(answer)
            task_group.cancel_scope.cancel()

        async def in_client() -> RequestAnswer | None:
            agreed = await call.ask(question(session, request, page_url))
            if agreed is not None:
                inputrequests.settle(session, request.id, "done" if agreed else "declined", user_name(), "client")
            return inputrequests.answer_now(session, request)

        async def anywhere() -> RequestAnswer | None:
            return await inputrequests.wait_for_answer(session, request, limit_s)

        if page_url or not request.secret:
            task_group.start_soon(partial(first, in_client, may_pass=True))
        task_group.start_soon(_tell, request, call)
        task_group.start_soon(partial(first, anywhere, may_pass=False))
    result = told[0] if told else None
    if isinstance(result, BaseException):
        raise result
    return result


async def _tell(request: InputRequest, call: Call) -> None:
    """Say that it waits, and how the person answers."""
    begun = time.monotonic()
    while True:
        await call.progress(time.monotonic() - begun, f"waiting for a person: tmuxmcp answer {request.id}")
        await anyio.sleep(PROGRESS_EVERY_S)


def question(session: Session, request: InputRequest, page_url: str) -> Question:
    """A request as a client shows it: a form, but for a secret, which no form may ask for, an address of the page."""
    text = harmless(request.message).replace("\n", "\n    ")
    if request.secret:
        assert page_url
        message = (
            f"An agent asks you for a secret in session {session.id}:\n\n    {text}\n\n"
            "Type it in the page of tmuxmcp: nobody else sees it there. If the page is not open to you yet, run "
            f"`tmuxmcp page` in a terminal. Or answer there: tmuxmcp answer {request.id}"
        )
        url = f"{page_url}/#session={session.id}&request={request.id}"
        return Question(message, f"{REQUEST_DIGEST}{request.id}", may_wait=True, url=url)
    message = (
        f"An agent asks you to type something into session {session.id}:\n\n    {text}\n\n"
        f"Do that in a terminal, with: tmuxmcp answer {request.id}\nAccept once it is done; decline if it will not be."
    )
    return Question(message, f"{REQUEST_DIGEST}{request.id}", may_wait=True)


def harmless(message: str) -> str:
    """An agent's words as text that does nothing to a terminal: every character that cannot be seen is told."""
    visible = "".join(each if each in "\n\t" or each.isprintable() else f"<U+{ord(each):04X}>" for each in message)
    return sanitize(visible.replace("\t", " "))[0]


OUTCOME_NOTES = {
    "done": "",
    "waiting": "Nobody has answered yet. Tell the person to run `tmuxmcp answer {id}` in a terminal of theirs, and "
    "call again with request_id={id}.",
    "timeout": "Nobody has answered in time; the request is over.",
    "declined": "The person does not want to. Do not ask again for the same; find out what they want.",
    "withdrawn": "The request was given up.",
    "exited": "The session has ended, and the request with it. {ended}",
}


async def result(
    waited: AwaitedRequest, answer: RequestAnswer | None, effective_ms: int | None, attach_command: str
) -> r.RequestUserInputResult:
    """What the agent is told."""
    session, request = waited.session, waited.request
    await session.refresh()
    look = await session.look()
    until = answer.at if answer and answer.at else time.time()
    note = (
        OUTCOME_NOTES[answer.outcome if answer else "waiting"].format(id=request.id, ended=session.how_it_ended).strip()
    )
    return r.RequestUserInputResult(
        session_id=session.id,
        request_id=request.id,
        outcome=answer.outcome if answer else "waiting",
        duration_s=round(max(until - request.asked_at, 0.0), 3),
        mode=look.mode,
        attach_command=attach_command,
        effective_timeout_ms=effective_ms,
        note=note or None,
    )
