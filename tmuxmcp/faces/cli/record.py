"""`tmuxmcp record`: begin a recording of a session, and end it."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.words import RecordedAs
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import session_id
from tmuxmcp.faces.cli.calling import telling, with_broker

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker


def record(options: argparse.Namespace) -> int:
    """`tmuxmcp record`: a person writes where they like."""
    options.path = os.path.abspath(options.path) if options.path else ""
    return with_broker(options, _stop if options.stop else _start, files_root="", sandbox="none")


async def _start(broker: Broker, options: argparse.Namespace) -> int:
    by_ending: RecordedAs = "jsonl" if options.path.endswith(".jsonl") else "cast"
    idle_limit_s = None if options.idle_limit is None else options.idle_limit / 1000
    begun = await broker.start_recording(
        session_id(options), options.path, options.format or by_ending, options.input, idle_limit_s
    )
    if options.json:
        output.write_result(begun)
        return 0
    output.write(f"{begun.path}\n")
    output.note(f"its file is empty until you run: tmuxmcp record {begun.session_id} --stop")
    output.note(begun.note)
    return 0


async def _stop(broker: Broker, options: argparse.Namespace) -> int:
    if options.path or options.format or options.input or options.idle_limit is not None:
        raise InvalidArgument("--stop goes alone.", hint="What is recorded and where was said at its beginning.")
    with telling(broker) as operations:
        made = await operations.stop_recording(session_id(options))
    if options.json:
        output.write_result(made)
        return 0
    output.write(f"{made.path}: {made.bytes:,} bytes, {made.duration_s:.1f} s\n")
    output.note(made.note)
    return 0
