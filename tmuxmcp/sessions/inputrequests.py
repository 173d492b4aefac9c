"""A session's requests for input: put, waited for, settled. Each change is an event, and wakes every broker.

A broker that waits is told when somebody opens and closes the session's log, which all of them watch.
"""

from __future__ import annotations

import time
from contextlib import suppress

import anyio

from tmuxmcp.contract.call import iso
from tmuxmcp.contract.errors import IoError
from tmuxmcp.record.events import AnsweredEvent, AskedEvent
from tmuxmcp.record.inputrequests import Became, InputRequest, InputRequests, RequestAnswer
from tmuxmcp.record.log import wake
from tmuxmcp.sessions.look import MIN_LOOK_INTERVAL_S
from tmuxmcp.sessions.session import Session

REQUEST_LOOK_S = 1.0
"""How often a waiting request is looked at when nobody tells anything: its session may have been lost."""


def of(session: Session) -> InputRequests:
    """The requests of a session."""
    return InputRequests(session.directory)


def put(session: Session, request: InputRequest) -> None:
    """Ask a person.

    Raises:
        ResourceLimit: too many wait.
        IoError
    """
    of(session).put(request)
    session.events.append(AskedEvent(iso(time.time()), session.log.size(), request.id, int(request.secret)))
    wake(session.log.path)


def settle(session: Session, request_id: str, outcome: Became, by: str = "", via: str = "") -> bool:
    """Say what became of a request; False: somebody was first.

    Args:
        by: the person's name; empty: no person.
        via: `answer`, `attach`, `client` or `page`.

    Raises:
        IoError
    """
    now = time.time()
    if not of(session).settle(request_id, RequestAnswer(outcome, by, via, now)):
        return False
    session.events.append(AnsweredEvent(iso(now), session.log.size(), request_id, outcome, by, via))
    wake(session.log.path)
    return True


def waiting(session: Session) -> list[InputRequest]:
    """The requests that wait for a person, the first first. What is over by now is settled."""
    found = []
    for request in of(session).open():
        if (why := _why_over(session, request)) is None:
            found.append(request)
        else:
            with suppress(IoError):
                settle(session, request.id, why)
    return found


async def wait_for_answer(session: Session, request: InputRequest, limit_s: float) -> RequestAnswer | None:
    """Wait until a request is settled; None: it still waits when the time is up.

    Raises:
        IoError
    """
    deadline = anyio.current_time() + limit_s
    with session.watcher.waiting(session.log.path) as growth:
        while True:
            change = growth.next_change()
            if not session.leader_alive() and not session.exited:
                await session.refresh()
            if answer := answer_now(session, request):
                return answer
            left_s = deadline - anyio.current_time()
            if left_s <= 0:
                return None
            until_s = max(request.until - time.time(), 0)
            with anyio.move_on_after(min(REQUEST_LOOK_S, left_s, until_s + 0.001)):
                await anyio.sleep(min(MIN_LOOK_INTERVAL_S, left_s))
                await change.wait()


def answer_now(session: Session, request: InputRequest) -> RequestAnswer | None:
    """What became of a request; None: it waits. What is over by now is settled.

    Raises:
        IoError
    """
    requests = of(session)
    answer = requests.answer(request.id)
    if answer is None and (why := _why_over(session, request)):
        settle(session, request.id, why)
        answer = requests.answer(request.id) or RequestAnswer(why)
    return answer


def _why_over(session: Session, request: InputRequest) -> Became | None:
    """Why a request that nobody has settled does not wait any more."""
    if session.exited:
        return "exited"
    return "timeout" if time.time() >= request.until else None
