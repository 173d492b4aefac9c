"""A broker of its own that makes a call with an id and is killed in the middle: `python -m ... STATE POINT CALL`.

CALL is JSON: the operation's name and its arguments. POINT is a name of `POINTS`, or a time in seconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.record.notedcalls import CallFile
from tmuxmcp.tmux import panes

POINTS = ("before the note", "after the note", "sent to tmux", "after typing", "before the result", "after the result")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def after(seconds: float) -> None:
    timer = threading.Timer(seconds, die)
    timer.daemon = True
    timer.start()


def install(point: str) -> None:
    """Have this process killed at one of the points."""
    write, guarded, new_session = CallFile.write, panes.guarded, panes.new_session

    def written(self: CallFile, **line: Any) -> None:
        kind = "note" if "acts" in line else "result"
        if point == f"before the {kind}":
            die()
        write(self, **line)
        if point == f"after the {kind}":
            die()

    def doing(function: Callable[..., Any], acts: Callable[..., bool]) -> Callable[..., Any]:
        async def call(*given: Any, **named: Any) -> Any:
            ours = acts(*given, **named)
            if ours and point == "sent to tmux":
                after(0.0003)  # tmux may or may not have it by then
            result = await function(*given, **named)
            if ours and point == "after typing":
                die()
            return result

        return call

    CallFile.write = written  # type: ignore[method-assign]
    panes.guarded = doing(  # type: ignore[assignment]
        guarded,
        lambda *given, **named: any(b"set-option" in each and b"@tmuxmcp_request" in each for each in given[2:]),
    )
    panes.new_session = doing(new_session, lambda *given: True)  # type: ignore[assignment]


async def main(state_dir: Path, point: str, call: str) -> None:
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash"), "first") as broker:
        name, arguments = json.loads(call)
        if point in POINTS:
            await broker.list_sessions()
            install(point)
        else:
            after(float(point))
        await broker.perform(OPERATIONS[name], arguments, Call("first", person=True))


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2], sys.argv[3])
