"""`tmuxmcp answer`: what agents wait for a person to do, shown and done. No agent gets in here."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import termios
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from tmuxmcp.broker.answering import InClient, WaitingRequest
from tmuxmcp.broker.userinput import harmless
from tmuxmcp.contract.call import seconds_of
from tmuxmcp.contract.errors import InvalidArgument, PermissionDenied, TmuxMcpError
from tmuxmcp.faces.cli import attached, output
from tmuxmcp.faces.cli.calling import with_broker
from tmuxmcp.faces.cli.people import check_person, show, show_question
from tmuxmcp.machine.ownprocess import in_a_session

if TYPE_CHECKING:
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
        held_ones = (_held_session(*each) for each in held.items())
        found = [*map(_request, waiting), *map(_question, questions), *held_ones]
        requests = [dict(zip(WAIT_KEYS, each, strict=True)) for each in found]
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
    return _print_outcome(question.id, "agreed" if agreed else "declined", first, options)


WAIT_KEYS = ("request_id", "session_id", "kind", "message", "asked_at", "left_s")


def _question(question: Confirmation) -> tuple[object, ...]:
    return question.id, None, "policy", harmless(question.message), question.asked_at, None


def _held_session(name: str, since: str | None) -> tuple[object, ...]:
    message = "You hold the session; tmuxmcp release gives it back."
    return None, name, "lease", message, seconds_of(since) if since else None, None


def _request(what: WaitingRequest) -> tuple[object, ...]:
    asked = what.request
    kind = "secret" if asked.secret else "input"
    return asked.id, what.session.id, kind, what.message, asked.asked_at, round(what.left_s, 3)


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
        return _print_outcome(what.request.id, "done", await broker.people.type_line(what, options.text), options)
    if what.request.secret:
        first = await broker.people.type_line(what, await _read_secret())
        return _print_outcome(what.request.id, "done", first, options)
    return await _by_hand(broker, what, options)


async def _settle(
    broker: Broker, what: WaitingRequest, outcome: Any, options: argparse.Namespace, via: str = "answer"
) -> int:
    return _print_outcome(what.request.id, outcome, await broker.people.settle(what, outcome, via), options)


def _print_outcome(request_id: str, outcome: str, first: bool, options: argparse.Namespace) -> int:
    value = {"request_id": request_id, "outcome": outcome if first else None}
    output.tell(options.json, value, outcome if first else "it had been settled meanwhile")
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
    argv = attached.command(broker, (await broker.get_session(what.session.id)).attach_command)
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


# ---- What runs in the popup that a person opens by the answer key ----------------------------------------------------
#
# What waits first, answered in front of their session.
#
# That is a request for input, or what an agent may only do when a person agrees. The popup closes when this ends.
# Whatever is not said to be done, agreed to or declined waits on.


def popup(options: argparse.Namespace) -> int:
    """`tmuxmcp answer --client PID [ID]`."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidArgument("This is no popup of tmux.", hint="Run `tmuxmcp answer`.")
    try:
        check_person()
        return with_broker(options, _popup_answer)
    except TmuxMcpError as error:
        output.note(str(error))
        anyio.run(_closed_by_enter)
        return error.exit_status


async def _popup_answer(broker: Broker, options: argparse.Namespace) -> int:
    here = await broker.in_client(options.client)
    if here.typing:
        became = await here.finish_typing(here.typing)
        if became != "done":
            await _tell(f"the request was over: {became}")
    elif what := await here.pending(options.id or ""):
        await _until_over(here, what)
    else:
        await _tell("nothing waits here any more")
    await here.offer_next()
    return 0


async def _until_over(here: InClient, what: WaitingRequest | Confirmation) -> None:
    """Let the person answer, until it is settled elsewhere."""
    elsewhere: Callable[[], Awaitable[object]]
    if isinstance(what, WaitingRequest):
        show(what)
        elsewhere = partial(here.people.settled_elsewhere, what)
        ask = partial(_secret if what.request.secret else _offer_to_type, here, what)
    else:
        show_question(what)
        elsewhere, ask = partial(here.people.decided_elsewhere, what), partial(_popup_decide, here, what)
    async with anyio.create_task_group() as task_group:

        async def over() -> None:
            await elsewhere()
            task_group.cancel_scope.cancel()

        task_group.start_soon(over)
        try:
            await ask()
        except TmuxMcpError as error:  # not through the task group, which would make a group of it
            await _tell(str(error))
        task_group.cancel_scope.cancel()


async def _popup_decide(here: InClient, question: Confirmation) -> None:
    if question.scope:
        output.write("s: allow for this session whatever the same rule asks about, for this agent.\n")
    said = await read_line("y: allow it once. n: do not. Enter leaves it open. ", hidden=False)
    word = (said or "").strip().lower()
    for_session = bool(question.scope) and word in ("s", "session")
    if for_session or word in ("y", "yes", "n", "no"):
        await here.people.agree(question, word not in ("n", "no"), for_session=for_session)


async def _secret(here: InClient, what: WaitingRequest) -> None:
    line = await read_line("Secret (not shown); Enter alone leaves it open: ", hidden=True)
    if line:
        await here.people.type_line(what, line)
        await here.people.settle(what, "done")


async def _offer_to_type(here: InClient, what: WaitingRequest) -> None:
    key = here.people.key
    output.write(f"Enter: type it into the session yourself, then press {key} once more: done.\n")
    said = await read_line("n: you will not. C-c leaves it open. ", hidden=False)
    if said is not None and said.strip().lower() in ("n", "no"):
        await here.people.settle(what, "declined")
    elif said == "":
        await here.type_here(what)


async def _tell(text: str) -> None:
    output.note(text)
    await _closed_by_enter()


async def _closed_by_enter() -> None:
    await read_line("Enter closes this. ", hidden=True)


async def read_line(prompt: str, *, hidden: bool) -> str | None:
    """A line of the terminal without its end, forgetting what was typed before; None: there is none to come.

    A task that waits for it can be cancelled, unlike a thread that reads.
    """
    before = termios.tcgetattr(0)
    mode = [*before[:3], before[3] & ~termios.ECHO | (0 if hidden else termios.ECHO), *before[4:]]
    termios.tcsetattr(0, termios.TCSAFLUSH, mode)
    try:
        output.write(prompt)
        sys.stdout.flush()
        await anyio.wait_readable(0)
        line = os.fsdecode(os.read(0, 1 << 16))
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
    return line.removesuffix("\n") if line else None
