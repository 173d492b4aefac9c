"""`tmuxmcp script`: what a session's shell ran, as a shell script."""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import TYPE_CHECKING

from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.history import with_commands
from tmuxmcp.terminal.film.formats import RanCommand
from tmuxmcp.terminal.film.formats import script as as_script

if TYPE_CHECKING:
    from tmuxmcp.contract import results as r
    from tmuxmcp.sessions.session import Session

SCRIPT_COMMANDS = 1000
"""Commands of one script: the newest."""


def script(options: argparse.Namespace) -> int:
    """`tmuxmcp script`."""
    return with_commands(options, {"limit": SCRIPT_COMMANDS}, partial(_tell, options))


def _tell(options: argparse.Namespace, session: Session, result: r.ListCommandsResult) -> None:
    shell = os.path.basename(session.meta.program)
    first = result.commands[0].number if result.commands else 0
    whole = not session.commands.forgotten and result.count < SCRIPT_COMMANDS
    head = [
        f"What {shell or 'a program'} ran in session {result.session_id}, made {session.meta.created_at}.",
        "What failed, still runs, ran in another shell inside, was given stdin or is not wholly known is a comment "
        "with its number.",
    ]
    if result.note:
        head.append(result.note)
    if not whole:
        head.append(f"Commands before number {first} are not in it.")
    start = session.meta.cwd if whole and not session.meta.host and result.commands else ""
    text = as_script(shell, head, start, map(_ran, result.commands))
    if options.json:
        output.write_json({"session_id": result.session_id, "shell": shell, "whole": whole, "script": text})
    else:
        output.write(text)


def _ran(command: r.ListedCommand) -> RanCommand:
    over = command.end_offset is not None
    return RanCommand(command.number, command.text, command.exit_code, over, command.level, command.cwd, command.stdin)
