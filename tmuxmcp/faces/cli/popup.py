"""What runs in the popup that a person opens by the answer key: what waits first, answered in front of their session.

That is a request for input, or what an agent may only do when a person agrees. The popup closes when this ends.
Whatever is not said to be done, agreed to or declined waits on.
"""

from __future__ import annotations

import argparse
import os
import sys
import termios
from typing import TYPE_CHECKING

import anyio

from tmuxmcp.contract.errors import InvalidArgument, TmuxMcpError
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.calling import with_broker
from tmuxmcp.faces.cli.people import check_person, show, show_question

if TYPE_CHECKING:
    from tmuxmcp.broker.answering import InClient, WaitingRequest
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.gate.confirmations import Confirmation


def popup(options: argparse.Namespace) -> int:
    """`tmuxmcp answer --client PID [ID]`."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidArgument("This is no popup of tmux.", hint="Run `tmuxmcp answer`.")
    try:
        check_person()
        return with_broker(options, _answer)
    except TmuxMcpError as error:
        output.note(str(error))
        anyio.run(_closed_by_enter)
        return error.exit_status


async def _answer(broker: Broker, options: argparse.Namespace) -> int:
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
    from tmuxmcp.broker.answering import WaitingRequest

    async with anyio.create_task_group() as task_group:

        async def over() -> None:
            if isinstance(what, WaitingRequest):
                await here.people.settled_elsewhere(what)
            else:
                await here.people.decided_elsewhere(what)
            task_group.cancel_scope.cancel()

        if isinstance(what, WaitingRequest):
            show(what)
        else:
            show_question(what)
        task_group.start_soon(over)
        try:
            if not isinstance(what, WaitingRequest):
                await _decide(here, what)
            else:
                await (_secret if what.request.secret else _offer_to_type)(here, what)
        except TmuxMcpError as error:  # not through the task group, which would make a group of it
            await _tell(str(error))
        task_group.cancel_scope.cancel()


async def _decide(here: InClient, question: Confirmation) -> None:
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
