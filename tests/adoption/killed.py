"""A broker of its own process that adopts a shell and is killed in the middle of it: `python -m ... STATE MOMENT`.

MOMENT is the number of steps that are done before: 1 written down, 2 line typed, 3 answer written down, 4 marks typed,
5 others may type again, 6 adopted. Or a time in seconds, with a point.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell import adopting
from tmuxmcp.tmux import panes


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def install(moment: int) -> None:
    """Have this process killed after so many steps."""
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if done == moment:
            die()

    put_level, type_input, free = Session.put_level, panes.type_input, adopting._free

    def put(self: Session, *given: Any) -> None:
        put_level(self, *given)
        step()

    def counted(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*given: Any, **named: Any) -> Any:
            result = await function(*given, **named)
            step()
            return result

        return call

    Session.put_level = put  # type: ignore[method-assign]
    panes.type_input = counted(type_input)  # type: ignore[assignment]
    adopting._free = counted(free)  # type: ignore[assignment]


async def main(state_dir: Path, moment: str) -> None:
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash")) as broker:
        if "." in moment:
            timer = threading.Timer(float(moment), die)
            timer.daemon = True
            timer.start()
        else:
            install(int(moment))
        await broker.run("echo first", "a", adopt="yes")


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2])
