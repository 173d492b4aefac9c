"""`tmuxmcp answer`: what agents wait for a person to do, shown and done. No agent gets in here."""

from __future__ import annotations

import argparse
import signal
import sys
from typing import TYPE_CHECKING, Any

import anyio

from tmuxmcp.broker.userinput import harmless
from tmuxmcp.contract.call import seconds_of
from tmuxmcp.contract.errors import InvalidArgument, PermissionDenied
from tmuxmcp.faces.cli import attached, output
from tmuxmcp.faces.cli.calling import with_broker
from tmuxmcp.faces.cli.people import check_person, show, show_question
from tmuxmcp.faces.cli.popup import popup, read_line
from tmuxmcp.machine.ourselves import in_a_session

if TYPE_CHECKING:
    from tmuxmcp.broker.answering import WaitingRequest
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.gate.confirmations import Confirmation

STILL_WAITS = "it waits on"


def answer(options: argparse.Namespace) -> int:
    """`tmuxmcp answer [ID]`."""
    if options.id is None and (options.text is not None or options.decline):
        raise InvalidArgument("Which request is meant?", hint="Give its ID; `tmuxmcp answer` shows what waits.")
    if options.client is not None:
        return popup(options)
    if options.id is not None:
        check_person()
    return with_broker(options, _answer)


async def _answer(broker: Broker, options: argparse.Namespace) -> int:
    if options.id is not None:
        question = next((each for each in broker.people.questions() if each.id == options.id), None)
        if question:
            return await _agree(broker, question, options)
        return await _answer_one(broker, await broker.people.find(options.id), options)
    waiting = await broker.people.waiting()
    questions, held = broker.people.questions(), await broker.people.held_sessions()
    if options.json:
        requests = [
            *map(_as_dict, waiting),
            *map(_question, questions),
            *(_held_session(*each) for each in held.items()),
        ]
        output.write_json({"count": len(requests), "requests": requests})
        return 0
    asked = _is_person()
    for each in waiting:
        show(each)
        if asked and await _wants("Answer it now?"):
            await _answer_one(broker, each, options, was_shown=True)
    for question in questions:
        show_question(question)
        if asked:
            await _decide(broker, question, options)
    for name, since in held.items():
        output.write(f"you hold session {name} since {since or 'an unknown time'}\n")
        if asked and await _wants("Give it back?"):
            await broker.release(name)
    if not (waiting or questions or held):
        output.note("nothing waits for you")
    return 0


def _is_person() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and not in_a_session()


async def _agree(broker: Broker, question: Confirmation, options: argparse.Namespace) -> int:
    """Settle what an agent may only do when a person agrees."""
    if options.text is not None:
        raise InvalidArgument("An agent asks whether it may do something; nothing is to be typed.", hint="--decline")
    if not options.json:
        show_question(question)
    if options.decline:
        return await _agreed(broker, question, False, options)
    if not _is_person():
        raise PermissionDenied("Only a person agrees, and this is no terminal.", hint="Run it in a terminal of yours.")
    return await _decide(broker, question, options)


async def _decide(broker: Broker, question: Confirmation, options: argparse.Namespace) -> int:
    more = "/s: allow for this session, what the same rule asks about" if question.scope else ""
    said = await _read_word(f"Allow it once? [y/n{more}; Enter: later] ")
    for_session = bool(question.scope) and said in ("s", "session")
    if not for_session and said not in ("y", "yes", "n", "no"):
        output.note(STILL_WAITS)
        return 0
    return await _agreed(broker, question, for_session or said in ("y", "yes"), options, for_session=for_session)


async def _agreed(
    broker: Broker, question: Confirmation, agreed: bool, options: argparse.Namespace, *, for_session: bool = False
) -> int:
    first = await broker.people.agree(question, agreed, for_session=for_session)
    outcome = "agreed" if agreed else "declined"
    if options.json:
        output.write_json({"request_id": question.id, "outcome": outcome if first else None})
    else:
        output.note(outcome if first else "it had been settled meanwhile")
    return 0


def _question(question: Confirmation) -> dict[str, Any]:
    return {
        "request_id": question.id,
        "session_id": None,
        "kind": "policy",
        "message": harmless(question.message),
        "asked_at": question.asked_at,
        "left_s": None,
    }


def _held_session(name: str, since: str | None) -> dict[str, Any]:
    message = "You hold the session; tmuxmcp release gives it back."
    return {
        "request_id": None,
        "session_id": name,
        "kind": "lease",
        "message": message,
        "asked_at": seconds_of(since) if since else None,
        "left_s": None,
    }


def _as_dict(what: WaitingRequest) -> dict[str, Any]:
    return {
        "request_id": what.request.id,
        "session_id": what.session.id,
        "kind": "secret" if what.request.secret else "input",
        "message": what.message,
        "asked_at": what.request.asked_at,
        "left_s": round(what.left_s, 3),
    }


async def _wants(what: str) -> bool:
    return await _read_word(f"{what} [y/N] ") in ("y", "yes")


async def _read_word(prompt: str) -> str:
    return (await read_line(prompt, hidden=False) or "").strip().lower()


async def _answer_one(
    broker: Broker, what: WaitingRequest, options: argparse.Namespace, *, was_shown: bool = False
) -> int:
    if not options.json and not was_shown:
        show(what)
    if options.decline:
        return await _settle(broker, what, "declined", options)
    if options.text is not None:
        if what.request.secret:
            raise InvalidArgument(
                "Nothing was typed: a secret is asked for, and others see what stands on a command line.",
                hint=f"Run `tmuxmcp answer {what.request.id}`.",
            )
        return _print_outcome(what, "done", await broker.people.type_line(what, options.text), options)
    if what.request.secret:
        return _print_outcome(what, "done", await broker.people.type_line(what, await _read_secret()), options)
    return await _by_hand(broker, what, options)


async def _settle(
    broker: Broker, what: WaitingRequest, outcome: Any, options: argparse.Namespace, via: str = "answer"
) -> int:
    return _print_outcome(what, outcome, await broker.people.settle(what, outcome, via), options)


def _print_outcome(what: WaitingRequest, outcome: str, first: bool, options: argparse.Namespace) -> int:
    if options.json:
        output.write_json({"request_id": what.request.id, "outcome": outcome if first else None})
    else:
        output.note(outcome if first else "it had been settled meanwhile")
    return 0


async def _read_secret() -> str:
    """One line; of a terminal without showing it."""
    if sys.stdin.isatty():
        line = await read_line("Secret (not shown): ", hidden=True)
        output.write("\n")
        return line or ""
    return sys.stdin.readline().rstrip("\n")


async def _by_hand(broker: Broker, what: WaitingRequest, options: argparse.Namespace) -> int:
    """Attach the person until they press the key, leave, or the request is over."""
    if not sys.stdin.isatty() or options.json:
        raise InvalidArgument(
            "This is no terminal to type in.", hint="Run it in one, or give --text TEXT, or --decline."
        )
    argv = await attached.command(broker, what.session.id)
    key = broker.people.key
    if await read_line(f"{key}: done. C-b d: leave it open. Enter goes to the session.\n", hidden=False) is None:
        output.note(STILL_WAITS)
        return 0
    elsewhere = ""

    async def over() -> None:
        nonlocal elsewhere
        elsewhere = await broker.people.settled_elsewhere(what)

    # From before the session is held: a terminal that goes at any moment gives it back.
    with anyio.open_signal_receiver(signal.SIGHUP, signal.SIGTERM, signal.SIGINT) as signals:
        async with broker.people.hold_while_typing(what) as begun:
            pid = await attached.until_over(argv, signals, begun, over)
            done = not elsewhere and await broker.people.said_done(what, pid)
    if elsewhere:
        output.note(f"the request is over: {elsewhere}")
        return 0
    if done:
        return await _settle(broker, what, "done", options, "attach")
    output.note(STILL_WAITS)
    return 0
