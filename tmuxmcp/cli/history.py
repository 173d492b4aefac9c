"""`tmuxmcp history`: the commands that a session's shell ran, as a table."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tmuxmcp.cli import output
from tmuxmcp.cli.arguments import session_id
from tmuxmcp.cli.calling import with_broker

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.contract import results as r

HEADING = ("NUMBER", "EXIT", "STARTED", "TOOK", "BY", "COMMAND")


def history(options: argparse.Namespace) -> int:
    """`tmuxmcp history`."""
    return with_broker(options, _history)


async def _history(broker: Broker, options: argparse.Namespace) -> int:
    given = {"limit": options.limit, "before": options.before}
    result = await broker.list_commands(
        session_id(options), failed_only=options.failed, **{name: each for name, each in given.items() if each}
    )
    if options.json:
        output.write_result(result)
        return 0
    output.write_table([HEADING, *map(_row, result.commands)])
    output.note(result.note)
    return 0


def _row(command: r.ListedCommand) -> tuple[str, ...]:
    return (
        str(command.number),
        "-" if command.exit_code is None else str(command.exit_code),
        command.started_at or "-",
        _took(command.duration_ms),
        command.by,
        "-" if command.text is None else command.text,
    )


def _took(duration_ms: int | None) -> str:
    if duration_ms is None:
        return "-"
    return f"{duration_ms} ms" if duration_ms < 1000 else f"{duration_ms / 1000:.1f} s"
