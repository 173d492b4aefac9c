"""`wait`: one wait over several sessions, until the first of them has what was asked for.

Each session is waited for by itself, woken by its log. What only the kernel knows is asked the less often, the more
waits there are, and of one session for all that wait for it. A change counts since the caller last looked: what it has
read, or seen on the screen, is no news; the end of a session is, until it is told. With no time to wait, the answer
says how things stand.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable

import anyio

from tmuxmcp.broker.ends import ToldEnds
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import PROGRESS_EVERY_S, Call
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.times import ms_since
from tmuxmcp.errors import InvalidArgument
from tmuxmcp.gate.confirmations import Confirmations
from tmuxmcp.latedataclass import dataclass
from tmuxmcp.machine.searching import CompiledPattern, Searching
from tmuxmcp.people import handed
from tmuxmcp.reading.reading import clamp
from tmuxmcp.sessions import commandresults, inputrequests
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session
from tmuxmcp.waiting import nextprompt
from tmuxmcp.waiting.wait import Answer, WaitCondition, wait_for

KERNEL_LOOK_S = 0.02
"""Time between two looks at the kernel for each session that is waited for: 50 of them are looked at once a second."""

LONGEST_LOOK_S = 1.0

STANDS_MS = 1000
"""How long a program that waits for input may take to be certainly ready, when it is told how things stand."""

NEVER_MS = 1_000_000_000
"""Silence that no wait lasts for: it is no news."""


@dataclass(frozen=True)
class _WaitOutcome:
    """What a session came up with."""

    session: Session
    outcome: r.Outcome
    evidence: r.Evidence | None = None
    matched: str | None = None
    pattern: str | None = None


class SessionWaits:
    """Waits over several sessions."""

    def __init__(self, registry: Registry, searching: Searching, settings: BrokerSettings, ends: ToldEnds) -> None:
        self._registry, self._settings, self._ends = registry, settings, ends
        self._searching = searching

    async def wait(self, request: q.Wait, call: Call) -> r.WaitResult:
        """Wait until the first session has it.

        Raises:
            SessionNotFound, InvalidPattern, InvalidArgument
        """
        begun = time.monotonic()
        if request.wait_for == "pattern" and not request.patterns:
            raise InvalidArgument("wait_for=pattern needs patterns.", hint="Give regular expressions as patterns.")
        asker = f"{call.caller} {' '.join(request.session_ids)}"
        patterns = {pattern: await self._searching.pattern(pattern, asker) for pattern in request.patterns}
        sessions = await self._sessions(request, call)
        limit, effective = clamp(self._settings, request.timeout_ms)
        looks = limit or request.wait_for == "pattern"  # with no time, what is printed already may match
        found = await _first_outcome(sessions, request, call, limit, patterns) if looks else None
        in_vain = limit > 0 and ms_since(begun) >= limit
        stands = await _all_standing(sessions, request, call)
        if not limit and not found:
            told = (_WaitOutcome(each.session, each.outcome, each.evidence) for each in stands if each.outcome)
            found = next(told, None)
        return _result(found, stands, begun, "timeout" if in_vain else "immediate", effective)

    async def _sessions(self, request: q.Wait, call: Call) -> list[Session]:
        if request.session_ids:
            return [await self._registry.known(name) for name in dict.fromkeys(request.session_ids)]
        await self._registry.look_again()
        running = [each for each in self._registry.sessions.values() if not each.exited]
        every = [*running, *self._ends.untold_ends(call.caller)]
        return [each for each in every if each.meta.owner in ("", call.caller)]


@dataclass(frozen=True)
class _FinalStanding:
    """How a session stands at the end."""

    session: Session
    mode: r.Mode
    outcome: r.Outcome | None
    """What it has of what was asked for; None: nothing."""
    evidence: r.Evidence | None = None


async def _all_standing(sessions: list[Session], request: q.Wait, call: Call) -> list[_FinalStanding]:
    """How the sessions stand, in their order."""
    stands: dict[Session, _FinalStanding] = {}

    async def one(session: Session) -> None:
        stands[session] = await _standing(session, request, call)

    async with anyio.create_task_group() as task_group:
        for session in sessions:
            task_group.start_soon(one, session)
    return [stands[session] for session in sessions]


async def _standing(session: Session, request: q.Wait, call: Call) -> _FinalStanding:
    await session.refresh()
    look = await nextprompt.at_rest(session)
    if request.wait_for == "ready" and (look.ready or look.at_prompt):  # a single look proves nothing
        answer = await wait_for(session, WaitCondition("ready", STANDS_MS, idle_ms=NEVER_MS))
        if answer.outcome == "ready":
            mode = answer.settled.mode if answer.settled else look.mode
            return _FinalStanding(session, mode, "ready", answer.evidence)
        look = await session.look()
    return _FinalStanding(session, look.mode, *_has(session, look, request, call))


def _has(session: Session, look: Look, request: q.Wait, call: Call) -> tuple[r.Outcome | None, r.Evidence | None]:
    match request.wait_for:
        case "needs_you" if look.mode == "password":
            return "needs_you", "kernel"
        case "needs_you" if handed.is_news(session, call.caller):
            return "needs_you", None
        case "needs_you" if _pending_ids(session):
            return "needs_you", None
        case "output" if look.size > session.seen_to(call.caller):
            return "output", None
        case "command" if commandresults.untold(session, look, call.caller):
            return "command", "marks"
    return ("exited" if look.exited else None), None


async def _first_outcome(
    sessions: list[Session], request: q.Wait, call: Call, limit_ms: int, patterns: dict[str, CompiledPattern]
) -> _WaitOutcome | None:
    """What comes first; None: nothing within the time."""
    found: list[_WaitOutcome] = []
    look_s = min(max(KERNEL_LOOK_S * len(sessions), 0.05), LONGEST_LOOK_S)
    async with anyio.create_task_group() as task_group:

        async def one(session: Session) -> None:
            answer = await _wait_for_one(session, request, call, limit_ms, look_s, patterns)
            if answer:
                found.append(answer)
                task_group.cancel_scope.cancel()

        async with anyio.create_task_group() as waits:
            task_group.start_soon(_tell, call, limit_ms)
            if call.enough:
                task_group.start_soon(_until_enough, call.enough, task_group.cancel_scope)
            for session in sessions:
                waits.start_soon(one, session)
        task_group.cancel_scope.cancel()  # nothing is left to wait for
    return found[0] if found else None


async def _until_enough(enough: Callable[[], Awaitable[None]], waits: anyio.CancelScope) -> None:
    """End the waits when who asked has heard enough from elsewhere."""
    await enough()
    waits.cancel()


async def _tell(call: Call, limit_ms: int) -> None:
    """Say how long it goes on."""
    begun = time.monotonic()
    while ms_since(begun) < limit_ms:
        await anyio.sleep(PROGRESS_EVERY_S)
        await call.progress(time.monotonic() - begun, "")


async def _wait_for_one(
    session: Session, request: q.Wait, call: Call, limit_ms: int, look_s: float, patterns: dict[str, CompiledPattern]
) -> _WaitOutcome | None:
    deadline = time.monotonic() + limit_ms / 1000
    wait = WaitCondition("ready", limit_ms, idle_ms=NEVER_MS, caller=call.caller, look_s=look_s)
    wait.start_offset, held = session.seen_to(call.caller), session.lease
    match request.wait_for:
        case "output":
            return await _until(session, deadline, lambda look: look.size > wait.start_offset, "output")
        case "needs_you":
            return await _needs_you(session, call, wait.start_offset, deadline, look_s)
        case "ready":
            if not await _wait_for_change(session, wait.start_offset, deadline, look_s, lambda look: look.ready):
                return None
            if session.lease not in (None, held):
                return _WaitOutcome(session, "taken")
        case "pattern":
            return await _pattern(session, wait, patterns)
    wait.want = request.wait_for
    wait.timeout_ms = max(math.ceil((deadline - time.monotonic()) * 1000), 0)
    return _wait_outcome(session, await wait_for(session, wait))


async def _needs_you(session: Session, call: Call, offset: int, deadline: float, look_s: float) -> _WaitOutcome | None:
    """Wait for what is new to the caller: something asked of a person, a secret that is asked for, a give-back."""
    held, changed = session.lease, False
    with session.watcher.waiting(session.log.path):
        async for look in session.looks(lambda: max(look_s, session.crowd_step_s), deadline, shared=True):
            asked = _pending_ids(session)
            if asked - session.asks_told.get(call.caller, set()):
                _told_of(session, call, asked)
                return _WaitOutcome(session, "needs_you")
            if handed.is_news(session, call.caller):
                return _WaitOutcome(session, "needs_you")
            asks = look.mode == "password"
            changed = changed or look.size > offset or look.exited or not asks
            if changed and asks:
                return _WaitOutcome(session, "needs_you", "kernel")
            if session.lease not in (None, held):
                return _WaitOutcome(session, "taken")
            if look.exited:
                return _WaitOutcome(session, "exited")
    return None


def _pending_ids(session: Session) -> set[str]:
    """Ids of what waits for a person there: requests for input, and the policy's questions."""
    requests = {each.id for each in inputrequests.waiting(session)}
    return requests | {each.id for each in Confirmations(session.tmux.state_dir).about(session.id)}


def _told_of(session: Session, call: Call, asked: set[str]) -> None:
    """The caller is told of what waits for a person, if it gets the answer."""
    before = session.asks_told.get(call.caller, set())
    session.asks_told[call.caller] = asked
    call.untold.append(lambda: session.asks_told.update({call.caller: before}))


async def _wait_for_change(
    session: Session, offset: int, deadline: float, look_s: float, holds: Callable[[Look], bool]
) -> bool:
    """Wait until something has happened since the caller looked: what holds already counts from then on."""
    held = session.lease
    with session.watcher.waiting(session.log.path):
        async for look in session.looks(lambda: max(look_s, session.crowd_step_s), deadline, shared=True):
            if look.size > offset or look.exited or not holds(look):
                return True
            if session.lease not in (None, held):
                return True
    return False


async def _until(
    session: Session, deadline: float, met: Callable[[Look], bool], outcome: r.Outcome
) -> _WaitOutcome | None:
    held = session.lease
    with session.watcher.waiting(session.log.path):
        async for look in session.looks(LONGEST_LOOK_S, deadline, shared=True):
            if met(look):
                return _WaitOutcome(session, outcome)
            if session.lease not in (None, held):
                return _WaitOutcome(session, "taken")
            if look.exited:
                return _WaitOutcome(session, "exited")
    return None


async def _pattern(session: Session, wait: WaitCondition, patterns: dict[str, CompiledPattern]) -> _WaitOutcome | None:
    """The first of several patterns: each is waited for, woken by the same growth of the log."""
    found: list[_WaitOutcome] = []
    async with anyio.create_task_group() as task_group:

        async def one(text: str, pattern: CompiledPattern) -> None:
            asked = WaitCondition(
                "pattern", wait.timeout_ms, pattern=pattern, start_offset=wait.start_offset, screen=False
            )
            asked.look_s = LONGEST_LOOK_S
            answer = _wait_outcome(session, await wait_for(session, asked), text)
            if answer:
                found.append(answer)
                task_group.cancel_scope.cancel()

        for text, pattern in patterns.items():
            task_group.start_soon(one, text, pattern)
    return found[0] if found else None


def _wait_outcome(session: Session, answer: Answer, pattern: str | None = None) -> _WaitOutcome | None:
    if answer.outcome in ("timeout", "immediate", "idle"):
        return None
    told = pattern if answer.outcome == "matched" else None
    return _WaitOutcome(session, answer.outcome, answer.evidence, answer.matched, told)


def _result(
    found: _WaitOutcome | None, stands: list[_FinalStanding], begun: float, otherwise: r.Outcome, effective: int | None
) -> r.WaitResult:
    rows = []
    for each in stands:
        outcome = found.outcome if found and found.session is each.session else each.outcome
        rows.append(r.WaitedSession(session_id=each.session.id, mode=each.mode, outcome=outcome))
    return r.WaitResult(
        session_id=found.session.id if found else None,
        outcome=found.outcome if found else otherwise,
        evidence=found.evidence if found else None,
        matched=found.matched if found else None,
        pattern=found.pattern if found else None,
        waited_ms=ms_since(begun),
        effective_timeout_ms=effective,
        note=None if stands else "There is no session to wait for.",
        sessions=rows,
    )
