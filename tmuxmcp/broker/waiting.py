"""`wait`: one wait over several sessions, until the first of them has what was asked for.

Each session is waited for by itself, woken by its log. What only the kernel knows is asked the less often, the more
waits there are, and of one session for all that wait for it. A change counts since the caller last looked: what it has
read, or seen on the screen, is no news; the end of a session is, until it is told. With no time to wait, the answer
says how things stand.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import anyio

from tmuxmcp.broker.reading import Reading, clamp, is_news, note_match
from tmuxmcp.broker.verbs import Work, verb
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import PROGRESS_EVERY_S, Call, joined_notes, ms_since
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.value import value
from tmuxmcp.contract.words import conditions
from tmuxmcp.gate.confirmations import Confirmations
from tmuxmcp.machine.searching import CompiledPattern
from tmuxmcp.readiness import finding
from tmuxmcp.readiness.wait import Answer, AwaitedCommand, WaitCondition, wait_for
from tmuxmcp.record.commands import EndedCommand
from tmuxmcp.sessions import commandresults, inputrequests
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.session import Session

KERNEL_LOOK_S = 0.02
"""Time between two looks at the kernel for each session that is waited for: 50 of them are looked at once a second."""

LONGEST_LOOK_S = 1.0

STANDS_MS = 1000
"""How long a program that waits for input may take to be certainly ready, when it is told how things stand."""

NEVER_MS = 1_000_000_000
"""Silence that no wait lasts for: it is no news."""


@value
class _WaitOutcome:
    """What a session came up with."""

    session: Session
    outcome: r.Outcome
    evidence: r.Evidence | None = None
    number: int | None = None
    """Of the command whose end it has."""
    answer: Answer | None = None
    """How its wait ended; None: it was seen to stand so at the end."""


@verb(q.Wait)
async def wait(work: Work[q.Wait]) -> r.WaitResult:
    """Wait until the first session has it.

    Raises:
        SessionNotFound, InvalidPattern, InvalidArgument
    """
    request, call, broker = work.request, work.call, work.broker
    begun, wanted = time.monotonic(), conditions(request.wait_for)
    _check(request, wanted)
    asker = f"{call.caller} {' '.join(request.session_ids)}"
    patterns = [await broker.searching.pattern(pattern, asker) for pattern in request.patterns]
    sessions = await _sessions(work)
    if request.command is not None:
        commandresults.command_of(sessions[0], await sessions[0].look(), request.command)
    limit, effective = clamp(broker.settings, request.timeout_ms)
    looks = limit or "pattern" in wanted  # with no time, what is printed already may match
    found = await _first_outcome(work, sessions, limit, patterns) if looks else None
    in_vain = limit > 0 and ms_since(begun) >= limit
    stands = await _all_standing(sessions, request, call)
    if not limit and not found:
        found = next((each.has for each in stands if each.has), None)
    return await _result(found, stands, begun, "timeout" if in_vain else "immediate", effective, call)


async def _sessions(work: Work[q.Wait]) -> list[Session]:
    names, registry = work.request.session_ids, work.broker.registry
    if names:
        return [await registry.known(name) for name in dict.fromkeys(names)]
    await registry.look_again()
    running = [each for each in registry.sessions.values() if not each.exited]
    every = [*running, *work.broker.ends.untold_ends(work.caller)]
    return [each for each in every if each.meta.owner in ("", work.caller)]


async def _first_outcome(
    work: Work[q.Wait], sessions: list[Session], limit_ms: int, patterns: Sequence[CompiledPattern]
) -> _WaitOutcome | None:
    """What comes first; None: nothing within the time."""
    request, call, screens = work.request, work.call, work.broker.part(Reading).screens
    found: list[_WaitOutcome] = []
    look_s = min(max(KERNEL_LOOK_S * len(sessions), 0.05), LONGEST_LOOK_S)
    async with anyio.create_task_group() as task_group:

        async def one(session: Session) -> None:
            awaited = WaitCondition(
                conditions(request.wait_for),
                limit_ms,
                idle_ms=NEVER_MS,
                patterns=patterns,
                seen=screens.find(screens.last(session.id, call.caller)),
                command=request.command,
                news_from=session.read_or_seen_to(call.caller),
                needs_you=partial(_needs_you, session, call),
                look_s=look_s,
                caller=call.caller,
            )
            answer = await wait_for(session, awaited)
            if answer.outcome not in ("timeout", "immediate", "idle"):
                found.append(_WaitOutcome(session, answer.outcome, answer.evidence, answer.command, answer))
                task_group.cancel_scope.cancel()

        async with anyio.create_task_group() as waits:
            task_group.start_soon(_tell, call, limit_ms)
            if call.enough:
                task_group.start_soon(_until_enough, call.enough, task_group.cancel_scope)
            for session in sessions:
                waits.start_soon(one, session)
        task_group.cancel_scope.cancel()  # nothing is left to wait for
    return found[0] if found else None


def _check(request: q.Wait, wanted: tuple[str, ...]) -> None:
    if "pattern" in wanted and not request.patterns:
        raise InvalidArgument("wait_for=pattern needs patterns.", hint="Give regular expressions as patterns.")
    if request.command is not None and ("command" not in wanted or len(set(request.session_ids)) != 1):
        raise InvalidArgument(
            "command goes with wait_for=command, of one session.",
            hint="Give that session alone as session_ids, and the number as list_commands has it.",
        )


@value
class _FinalStanding:
    """How a session stands at the end."""

    session: Session
    mode: r.Mode
    has: _WaitOutcome | None
    """What it has of what was asked for; None: nothing."""


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
    look = await finding.at_rest(session)
    has = await _has(session, look, request, call)
    ready = "ready" in conditions(request.wait_for) and (look.ready or look.at_prompt)
    if ready and (has is None or has.outcome == "output"):  # a single look proves nothing
        answer = await wait_for(session, WaitCondition("ready", STANDS_MS, idle_ms=NEVER_MS))
        if answer.outcome == "ready":
            mode = answer.settled.mode if answer.settled else look.mode
            return _FinalStanding(session, mode, _WaitOutcome(session, "ready", answer.evidence))
        look = await session.look()
        has = await _has(session, look, request, call)
    return _FinalStanding(session, look.mode, has)


async def _has(session: Session, look: Look, request: q.Wait, call: Call) -> _WaitOutcome | None:
    """What a session has of what was asked for, as one look tells: `ready` takes more."""
    wanted = conditions(request.wait_for)
    if look.exited:
        return _WaitOutcome(session, "exited")
    if "command" in wanted:
        end = await AwaitedCommand(session, call.caller, request.command).judged(look)
        if end and end.number:
            return _WaitOutcome(session, end.outcome, "marks", end.number)
    needs, evidence = _needs(session, look, call) if "needs_you" in wanted else (False, None)
    if needs:
        return _WaitOutcome(session, "needs_you", evidence)
    if "output" in wanted and look.size > session.read_or_seen_to(call.caller):
        return _WaitOutcome(session, "output")
    return None


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


def _needs(session: Session, look: Look, call: Call) -> tuple[bool, r.Evidence | None]:
    """Whether a session needs a person or its caller, and what tells."""
    if look.mode == "password":
        return True, "kernel"
    if is_news(session, call.caller) or _pending_ids(session):
        return True, None
    return _own_end(session, look, call) is not None, None


def _own_end(session: Session, look: Look, call: Call) -> int | None:
    """Number of the caller's newest command that has ended, if it was not told of that."""
    numbers = commandresults.not_reported(session, look, call.caller)
    newest = session.commands.newest_of(look, call.caller, numbers) if numbers else None
    return newest.number if isinstance(newest, EndedCommand) else None


def _needs_you(session: Session, call: Call, look: Look) -> tuple[bool, r.Evidence | None]:
    """The same, as far as the caller was not told; the kernel's word stands as long as a secret is asked for."""
    asked = _pending_ids(session)
    if asked - session.asks_told.get(call.caller, set()):
        _told_of(session, call, asked)
        return True, None
    if is_news(session, call.caller) or _own_end(session, look, call) is not None:
        return True, None
    return look.mode == "password", "kernel"


def _pending_ids(session: Session) -> set[str]:
    """Ids of what waits for a person there: requests for input, and the policy's questions."""
    requests = {each.id for each in inputrequests.waiting(session)}
    return requests | {each.id for each in Confirmations(session.tmux.state_dir).about(session.id)}


def _told_of(session: Session, call: Call, asked: set[str]) -> None:
    """The caller is told of what waits for a person, if it gets the answer."""
    before = session.asks_told.get(call.caller, set())
    session.asks_told[call.caller] = asked
    call.undo.append(lambda: session.asks_told.update({call.caller: before}))


async def _result(
    found: _WaitOutcome | None,
    stands: list[_FinalStanding],
    begun: float,
    otherwise: r.Outcome,
    effective: int | None,
    call: Call,
) -> r.WaitResult:
    rows = []
    for each in stands:
        has = found if found and found.session is each.session else each.has
        outcome = has.outcome if has else None
        rows.append(r.WaitedSession(session_id=each.session.id, mode=each.mode, outcome=outcome))
    match = found.answer.match if found and found.answer else None
    command, also = await _commands(found, call) if found else (None, [])
    if found and found.answer:
        note_match(found.session, found.outcome, match, call)
    said = found.answer.note if found and found.answer else None
    stopped = commandresults.why_not_over(found.session, command) if found else None
    return r.WaitResult(
        session_id=found.session.id if found else None,
        outcome=found.outcome if found else otherwise,
        evidence=found.evidence if found else None,
        matched=match.text if match else None,
        fresh=match.fresh if match else None,
        pattern=match.pattern if match else None,
        command=command,
        also_ended=also,
        waited_ms=ms_since(begun),
        effective_timeout_ms=effective,
        note=joined_notes(said, stopped) if stands else "There is no session to wait for.",
        sessions=rows,
    )


async def _commands(found: _WaitOutcome, call: Call) -> tuple[r.Command | None, list[r.AlsoEnded]]:
    """The command that an answer speaks of, and the others that it tells of."""
    session, look = found.session, await found.session.look()
    number = found.number
    if found.outcome == "needs_you":
        number = _own_end(session, look, call)
    command = commandresults.command_result(session, look, number) if number else None
    if command is None:
        return None, []
    commandresults.tell(session, call, command.number)
    return command, commandresults.also_ended(session, look, call, command)
