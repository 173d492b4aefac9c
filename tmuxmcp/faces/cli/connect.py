"""A person at the terminal of `tmuxmcp run` is connected to a command that asks for something, until it has ended."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.faces.cli import attached, output
from tmuxmcp.faces.cli.calling import FOREVER_MS
from tmuxmcp.machine.ourselves import in_a_session

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.contract import results as r
    from tmuxmcp.contract.operations import Operations

ASKING_MODES = ("line_input", "password", "pager", "editor", "fullscreen")
"""Modes in which a command waits for a person's keys."""


async def wanted(result: r.RunResult) -> bool:
    """Whether the command waits for input and the person at this terminal wants to give it."""
    if result.completed or result.outcome != "ready" or result.mode not in ASKING_MODES:
        return False
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)) or in_a_session():
        return False
    output.note(f"it waits for input in session {result.session_id}")
    sys.stderr.write("Connect to it? [Y/n] ")
    sys.stderr.flush()
    await anyio.wait_readable(sys.stdin)  # a terminal is, once there is a line; until then Ctrl-C is heard
    said = sys.stdin.readline()
    return said.strip().lower() in ("", "y", "yes", "c", "connect") and said != ""


async def connected(broker: Broker, result: r.RunResult) -> r.ReadResult | None:
    """Attach the person, who holds the session meanwhile; what the wait for the end says, None: they left before."""
    name, tty = result.session_id, os.ttyname(0)
    argv = await attached.command(broker, name)
    ended: r.ReadResult | None = None

    async def begun(pid: int) -> None:
        await broker.take(name, "attach", pid, tty)

    async def over() -> None:
        nonlocal ended
        ended = await _end(broker, result)

    # From before the session is held: a terminal that goes at any moment gives it back.
    with anyio.open_signal_receiver(signal.SIGHUP, signal.SIGTERM) as signals:
        try:
            await broker.take(name, "attach", 0, tty)
            await attached.until_over(argv, signals, begun, over)
        finally:
            with suppress(TmuxMcpError):
                await broker.release(name)
    return ended


async def _end(broker: Broker, result: r.RunResult) -> r.ReadResult:
    """Wait until the command has ended, or the session."""
    while True:
        seen = await until_ended(broker, result, FOREVER_MS)
        if seen.outcome not in ("taken", "timeout"):
            return seen


async def until_ended(broker: Operations, result: r.RunResult, timeout_ms: int) -> r.ReadResult:
    """Wait until the command of a `run` has ended, by its number where that is known; `command` is that one or null."""
    number = result.command_number
    since = result.end_offset if number is None else None
    seen = await broker.read(
        "raw",
        result.session_id,
        since=since,
        command=number,
        wait_for="command",
        timeout_ms=timeout_ms,
        max_bytes=1,
    )
    ended = number is not None and seen.command is not None and seen.command.end_offset is not None
    return seen if ended else seen.model_copy(update={"command": None})
