"""A person's terminal attached to a session, to type in it, until they leave or there is nothing more to type."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING

import anyio

from tmuxmcp.faces.cli import output
from tmuxmcp.machine.environment import is_usual

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker

DRAWING_NAMES = ("TERM", "COLORTERM", "NCURSES_")
"""How the names of variables begin that say how to draw on the terminal, beside the usual ones."""

KNOWN_TYPES = ("xterm-256color", "xterm", "vt100")
"""Terminal types of which newer terminals understand as much as tmux needs, the best first."""


async def command(broker: Broker, session_id: str) -> list[str]:
    """The argv that attaches a terminal to a session, for typing."""
    words = shlex.split((await broker.get_session(session_id)).attach_command)[1:]
    words.remove("-r")
    return [shutil.which(broker.tmux_binary) or broker.tmux_binary, *words]


def environment() -> dict[str, str]:
    """Variables for a tmux that shows itself on our terminal, whose type may have no entry here (terminfo(5)).

    No others: any program of our user reads them, for as long as the person watches.
    """
    found = {name: value for name, value in os.environ.items() if is_usual(name) or name.startswith(DRAWING_NAMES)}
    term = found.get("TERM", "")
    if term and not _has_entry(term):
        known = next(filter(_has_entry, KNOWN_TYPES), term)
        found["TERM"] = known
        if known != term:
            output.note(f"this machine does not know the terminal type {term}; {known} is taken for it")
    return found


@cache
def _has_entry(term: str) -> bool:
    """Whether this machine has the entry of a terminal type, or nothing here can tell."""
    try:
        import curses

        curses.setupterm(term, 2)  # the first that is found is the only one that curses reads in its life
    except ImportError:
        return True
    except curses.error:
        return False
    return True


async def until_over(
    argv: list[str],
    signals: AsyncIterator[signal.Signals],
    begun: Callable[[int], Awaitable[None]],
    over: Callable[[], Awaitable[None]],
) -> int:
    """Attach until the person leaves, `over` returns, or a signal other than SIGINT arrives; gives the client's pid.

    Args:
        signals: the receiver, opened by the caller before the session is held for the person.
        begun: is told the pid at once.
    """
    process = await anyio.open_process(argv, stdin=None, stdout=None, stderr=None, env=environment())
    try:
        await begun(process.pid)
        async with anyio.create_task_group() as tg:

            async def hung_up() -> None:
                async for number in signals:
                    if number != signal.SIGINT:
                        process.terminate()

            async def ended() -> None:
                await over()
                process.terminate()

            tg.start_soon(hung_up)
            tg.start_soon(ended)
            await process.wait()
            tg.cancel_scope.cancel()
    finally:
        if process.returncode is None:
            process.terminate()
            with anyio.move_on_after(2, shield=True):
                await process.wait()
    return process.pid
