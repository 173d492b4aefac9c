"""A person's terminal attached to a session, to type in it, until they leave or there is nothing more to type."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker


async def command(broker: Broker, session_id: str) -> list[str]:
    """The argv that attaches a terminal to a session, for typing."""
    words = shlex.split((await broker.get_session(session_id)).attach_command)[1:]
    words.remove("-r")
    return [shutil.which(broker.tmux_binary) or broker.tmux_binary, *words]


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
    environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")}
    process = await anyio.open_process(argv, stdin=None, stdout=None, stderr=None, env=environment)
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
