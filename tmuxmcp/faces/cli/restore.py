"""`tmuxmcp restore`: sessions that are lost, made again."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Any

from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.calling import with_broker

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.broker.restoring import Restored


def restore(options: argparse.Namespace) -> int:
    """`tmuxmcp restore`; exit status 1 when one of them could not be made."""
    if options.ids and options.all:
        raise InvalidArgument("IDs and --all exclude each other.", hint="Give one of them.")
    return with_broker(options, _restore)


async def _restore(broker: Broker, options: argparse.Namespace) -> int:
    lost = await broker.lost()
    if not options.ids and not options.all:
        return _tell_lost(options, lost)
    done = await broker.restore(list(dict.fromkeys(options.ids)) or lost)
    left = [_why(each) for each in done if each.error]
    if options.json:
        output.write_json({"restored": [_row(each) for each in done if each.made], "left": left})
        return 1 if left else 0
    for each in done:
        if each.made:
            output.write(f"{each.session_id}  {shlex.join([each.made.program, *each.made.args])}\n")
            output.note(f"{each.session_id}: {each.made.note}")
        else:
            output.note(f"{each.session_id} was not restored: {each.error}")
    if not done:
        output.note("no session is lost")
    return 1 if left else 0


def _tell_lost(options: argparse.Namespace, lost: list[str]) -> int:
    if options.json:
        output.write_json({"lost": lost})
        return 0
    output.write("".join(f"{each}\n" for each in lost))
    output.note("name those to restore, or say --all" if lost else "no session is lost")
    return 0


def _row(each: Restored) -> dict[str, Any]:
    assert each.made
    assert each.found
    found = {
        "generation": each.found.generation,
        "env_missing": each.found.env_missing,
        "env_other": each.found.env_other,
        "env_known": each.found.env_names is not None,
    }
    return each.made.model_dump() | found


def _why(each: Restored) -> dict[str, Any]:
    assert each.error
    return {"session_id": each.session_id, "error": each.error.as_dict()}
