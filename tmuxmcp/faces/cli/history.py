"""`tmuxmcp history`: the commands that a session's shell ran, as a table."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

import anyio

from tmuxmcp.contract.requests import ListCommands
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import session_id
from tmuxmcp.faces.cli.calling import CLI_CALLER, with_broker
from tmuxmcp.faces.cli.service import effective
from tmuxmcp.sessions import registry as kept

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.contract import results as r
    from tmuxmcp.sessions.session import Session

HEADING = ("NUMBER", "EXIT", "STARTED", "TOOK", "BY", "COMMAND")


def history(options: argparse.Namespace) -> int:
    """`tmuxmcp history`."""
    given = {name: value for name in ("limit", "before") if (value := getattr(options, name))}
    return with_commands(options, given | {"failed_only": options.failed}, partial(_tell, options))


def with_commands(
    options: argparse.Namespace, given: dict[str, Any], tell: Callable[[Session, r.ListCommandsResult], None]
) -> int:
    """Ask for the commands of a session: a broker, while it may run, else its files, without a tmux server."""
    settings, _ = effective(options)
    session = kept.find(settings.state_dir, session_id(options), CLI_CALLER)
    name = session.directory.name

    async def ask(broker: Broker, _: argparse.Namespace) -> int:
        tell(session, await broker.list_commands(name, **given))
        return 0

    if "." not in name and kept.seems_running(session):
        return with_broker(options, ask)
    tell(session, anyio.run(_of_files, session, given))
    return 0


async def _of_files(session: Session, given: dict[str, Any]) -> r.ListCommandsResult:
    from tmuxmcp.sessions.commandresults import listed

    request = ListCommands.operation.parse({"session_id": session.id, **given})
    assert isinstance(request, ListCommands)
    result = listed(request, session, await session.look())
    return result.model_copy(update={"session_id": session.directory.name})


def _tell(options: argparse.Namespace, _: Session, result: r.ListCommandsResult) -> None:
    if options.json:
        output.write_result(result)
        return
    output.write_table([HEADING, *map(_row, result.commands)])
    output.note(result.note)


def _row(command: r.ListedCommand) -> tuple[str, ...]:
    return (
        str(command.number),
        "-" if command.exit_code is None else str(command.exit_code),
        command.started_at or "-",
        took(command.duration_ms),
        command.by,
        "-" if command.text is None else command.text,
    )


def took(duration_ms: int | None) -> str:
    """A duration for a person."""
    if duration_ms is None:
        return "-"
    return f"{duration_ms} ms" if duration_ms < 1000 else f"{duration_ms / 1000:.1f} s"
