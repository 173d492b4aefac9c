"""How a verb calls the broker: opened for it, as the one caller that all command lines are."""

from __future__ import annotations

import argparse
import gc
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio

from tmuxmcp.contract import requests as q
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import InvalidArgument, SessionNotFound
from tmuxmcp.contract.value import replace
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import session_id
from tmuxmcp.faces.cli.service import effective

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.contract import results as r
    from tmuxmcp.contract.operations import Operations
    from tmuxmcp.nodes.fleet import AnyBroker
    from tmuxmcp.sessions.session import Session

CLI_CALLER = "cli"
"""All command lines of a user are one caller: they share a default session and a read cursor."""

FLEET_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}@[a-z0-9][a-z0-9-]{0,31}")

FOREVER_MS = 10 * 365 * 24 * 3600 * 1000
"""The clamp on waits is there for MCP clients, who give up after a minute; a person has Ctrl-C."""

UNCUT_BYTES = 16 * 1024 * 1024
"""The contract's largest `max_bytes`: what a person or a pipe reads is not cut as a model's is."""


def with_any(options: argparse.Namespace, work: Callable[[AnyBroker, argparse.Namespace], Awaitable[int]]) -> int:
    """Do work that is operations alone: on the machines of the fleet that the settings name, else as `with_broker`."""
    settings = effective(options)[0]
    if settings.fleet == "off":
        if machine := _names_machine(options):
            hint = "Give --fleet, or set TMUXMCP_FLEET: a file of brokers, ray://HOST:PORT or auto."
            raise InvalidArgument(f"{machine} is on another machine, and no fleet is named.", hint=hint)
        return with_broker(options, work)

    async def opened() -> int:
        from tmuxmcp.app import open_fleet, setup_logging

        setup_logging("warning", settings.log_format)
        async with open_fleet("", settings, CLI_CALLER) as fleet:
            return await work(fleet, options)

    return anyio.run(opened)


def _names_machine(options: argparse.Namespace) -> str:
    """The first word that is the id of a session of many machines; empty: there is none."""
    named = [getattr(options, name, None) for name in ("session", "id")]
    if options.verb in ("run", "send", "search") and options.session is None and len(options.words) > 1:
        named.append(options.words[0])
    return next((each for each in named if isinstance(each, str) and is_fleet_id(each)), "")


def is_fleet_id(word: str) -> bool:
    """Whether a word can be the id of a session of many machines."""
    return FLEET_ID.fullmatch(word) is not None


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
        async with open_broker(settings, CLI_CALLER) as broker:
            return await work(broker, options)

    import tmuxmcp.broker.broker  # noqa: F401  # which `open_broker` does: not while garbage is collected

    gc.freeze()
    gc.enable()
    return anyio.run(opened)


def kept_session(options: argparse.Namespace) -> Session:
    """The session that is meant, from its files; an earlier one of its name too, without a tmux server."""
    from tmuxmcp.sessions import registry

    return registry.find(effective(options)[0].state_dir, session_id(options), CLI_CALLER)


@contextmanager
def telling(broker: AnyBroker) -> Iterator[Operations]:
    """Operations that tell a person at the terminal how they go; what they told is erased at the end."""
    progress = output.ProgressLine()
    try:
        yield broker.by(Call(CLI_CALLER, progress=progress, person=True, asks_person=False))
    finally:
        progress.erase()


async def exists(broker: AnyBroker, name: str) -> bool:
    """Whether a session has this id that was not destroyed."""
    try:
        ended = (await broker.get_session(name)).ended
    except SessionNotFound:
        return False
    return ended is None or ended.reason != "destroyed"


# ---- Waits of a person on another machine: longer than that machine waits in one call --------------------------------

WAIT_END_FIELDS = ("outcome", "evidence", "matched", "mode", "command")
"""What the end of a wait tells."""


def goes_on(seen: r.ReadResult) -> bool:
    """Whether a wait was ended by the machine, and not by the time that it was given."""
    return seen.outcome == "timeout" and seen.effective_timeout_ms is not None


async def wait_then_read(
    operations: Operations, session_id: str, waits: Mapping[str, Any], given: Mapping[str, Any]
) -> r.ReadResult:
    """Wait, and then read what is asked for.

    Args:
        waits: how to wait, as `read` takes it.
        given: what to read.
    """
    began = time.monotonic()
    since = {"since": given["since"]} if "since" in given else {}
    ended = await _wait(operations, session_id, waits, since, began, q.Read().timeout_ms)
    seen = await operations.read(session_id=session_id, max_bytes=waits["max_bytes"], **given)
    return _as_ended(seen, ended, began)


async def on(
    operations: Operations, session_id: str, waits: Mapping[str, Any], began: float, so_far: r.ReadResult
) -> r.ReadResult:
    """Go on waiting after a `send` whose wait the machine has ended; what was printed in all.

    Args:
        began: when it was sent, by the clock of `time.monotonic`.
    """
    ended = await _wait(operations, session_id, waits, {"since": so_far.next_offset}, began, q.Send().timeout_ms)
    if so_far.view != "new":  # a program that draws the screen
        seen = await operations.read("screen", session_id, max_bytes=waits["max_bytes"])
        return _as_ended(seen, ended, began)
    seen = await operations.read(session_id=session_id, max_bytes=waits["max_bytes"])
    whole = replace(seen, content=so_far.content + seen.content, note=seen.note or so_far.note)
    return _as_ended(whole, ended, began)


async def _wait(
    operations: Operations,
    session_id: str,
    waits: Mapping[str, Any],
    since: Mapping[str, int],
    began: float,
    usual_ms: int,
) -> r.ReadResult:
    """Wait as long as it takes, a call after the other. A look at the screen moves no cursor: none misses a pattern."""
    until = began + waits.get("timeout_ms", usual_ms) / 1000
    one: dict[str, Any] = {name: value for name, value in waits.items() if name not in ("timeout_ms", "max_bytes")}
    one |= since
    while True:
        left_ms = max(int((until - time.monotonic()) * 1000), 0)
        seen = await operations.read("screen", session_id, timeout_ms=left_ms, max_bytes=1, **one)
        if not goes_on(seen) or time.monotonic() >= until:
            return seen


def _as_ended(seen: r.ReadResult, ended: r.ReadResult, began: float) -> r.ReadResult:
    """What was read, with how the wait before has ended."""
    changes = {name: getattr(ended, name) for name in WAIT_END_FIELDS if getattr(ended, name) is not None}
    waited_ms = round((time.monotonic() - began) * 1000)
    return replace(seen, **changes, waited_ms=waited_ms, effective_timeout_ms=None)
