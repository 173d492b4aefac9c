"""The verbs of people: keep agents from typing into a session, and let them again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tmuxmcp.cli import output
from tmuxmcp.cli.arguments import session_id
from tmuxmcp.cli.calling import with_broker
from tmuxmcp.cli.policy import in_a_session
from tmuxmcp.errors import PermissionDenied

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker


def take(options: argparse.Namespace) -> int:
    """`tmuxmcp take`."""
    return with_broker(options, _take)


def release(options: argparse.Namespace) -> int:
    """`tmuxmcp release`."""
    check_outside()
    return with_broker(options, _release)


def check_outside(why: str = "Only a person gives a session back.") -> None:
    """What an agent runs in its session does not do what is a person's.

    Raises:
        PermissionDenied
    """
    if in_a_session():
        raise PermissionDenied(why, hint="Run it in a terminal of your own.")


async def _take(broker: Broker, options: argparse.Namespace) -> int:
    name = (await broker.get_session(session_id(options))).session_id
    lease = await broker.take(name)
    if options.json:
        output.write_json({"session_id": name, "taken_over": {"by": lease.by, "since": lease.since}})
    else:
        output.note(f"agents do not type into it until you run: tmuxmcp release {name}")
    return 0


async def _release(broker: Broker, options: argparse.Namespace) -> int:
    name = (await broker.get_session(session_id(options))).session_id
    lease = await broker.release(name)
    if options.json:
        output.write_json({"session_id": name, "released": lease is not None})
    elif lease is None:
        output.note("nobody had taken it")
    return 0
