"""How a verb calls the broker: opened for it, as the one caller that all command lines are."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio

from tmuxmcp.cli import output
from tmuxmcp.cli.service import effective
from tmuxmcp.contract.call import Call
from tmuxmcp.errors import SessionNotFound

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.contract.operations import Operations

CALLER = "cli"
"""All command lines of a user are one caller: they share a default session and a read cursor."""

FOREVER_MS = 10 * 365 * 24 * 3600 * 1000
"""The clamp on waits is there for MCP clients, who give up after a minute; a person has Ctrl-C."""

MOST_BYTES = 16 * 1024 * 1024
"""The contract's largest `max_bytes`: what a person or a pipe reads is not cut as a model's is."""


def with_broker(
    options: argparse.Namespace, work: Callable[[Broker, argparse.Namespace], Awaitable[int]], **other: object
) -> int:
    """Open a broker, do the work and let go of the sessions.

    Args:
        other: settings of this broker alone.
    """
    from tmuxmcp.app import open_broker, setup_logging

    settings, origins = effective(options)
    setup_logging("warning" if origins["log_level"] == "default" else settings.log_level, settings.log_format)
    # A session outlives the command that made it, whatever `on_exit` says of servers.
    settings = settings.model_copy(update={"max_wait_ms": FOREVER_MS, "on_exit": "keep"} | other)

    async def opened() -> int:
        async with open_broker(settings, CALLER) as broker:
            return await work(broker, options)

    import tmuxmcp.broker.broker  # noqa: F401  # which `open_broker` does: not while garbage is collected

    gc.freeze()
    gc.enable()
    return anyio.run(opened)


@contextmanager
def telling(broker: Broker) -> Iterator[Operations]:
    """Operations that tell a person at the terminal how they go; what they told is erased at the end."""
    progress = output.Progress()
    try:
        yield broker.by(Call(CALLER, progress=progress, person=True))
    finally:
        progress.erase()


async def exists(broker: Broker, name: str) -> bool:
    """Whether a session has this id that was not destroyed."""
    try:
        ended = (await broker.get_session(name)).ended
    except SessionNotFound:
        return False
    return ended is None or ended.reason != "destroyed"
