"""`tmuxmcp pin` and `prune`: which files of sessions stay, and which go. Neither starts a tmux server."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Any

import anyio

from tmuxmcp.contract.call import iso
from tmuxmcp.contract.errors import InvalidArgument, IoError
from tmuxmcp.contract.value import asdict
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import session_id
from tmuxmcp.faces.cli.calling import CLI_CALLER, with_broker
from tmuxmcp.faces.cli.service import effective
from tmuxmcp.machine.ownfiles import make_empty
from tmuxmcp.sessions import registry
from tmuxmcp.sessions.retention import Removal, RetentionWish

if TYPE_CHECKING:
    from collections.abc import Collection

    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.broker.lifecycle import Pruned, Restored

HEADING = ("ID", "BYTES", "LAST", "WHY")

TIDIES_NOTHING = {"retention_days": 0, "state_max_bytes": 0, "idle_timeout_s": 0, "max_duration_s": 0}
"""Settings of a broker that does nothing of its own accord."""


def pin(options: argparse.Namespace) -> int:
    """`tmuxmcp pin`."""
    settings, _ = effective(options)
    directory = registry.directory_of(settings.state_dir, session_id(options), CLI_CALLER)
    try:
        if options.remove:
            directory.pin.unlink(missing_ok=True)
        else:
            make_empty(directory.pin)
    except OSError as error:
        raise IoError(f"{directory.pin} cannot be changed: {error.strerror}.") from error
    if options.json:
        output.write_json({"session_id": directory.name, "pinned": not options.remove})
    return 0


def prune(options: argparse.Namespace) -> int:
    """`tmuxmcp prune`; exit status 1 when something that should go is still there."""
    if options.ids and options.older_than is not None:
        raise InvalidArgument("IDs and --older-than exclude each other.", hint="Give one of them.")
    settings, _ = effective(options)
    options.wish = RetentionWish(settings.retention_days, settings.state_max_bytes)
    if options.ids or options.older_than is not None:
        options.wish = RetentionWish(older_than_s=options.older_than, names=tuple(options.ids))
    if not settings.state_dir.is_dir():
        return _tell(options, {"removed": [], "left": []})
    if registry.server_seems_running(settings.state_dir):
        return with_broker(options, _prune, **TIDIES_NOTHING)
    return anyio.run(_prune_without_server, options)


async def _prune(broker: Broker, options: argparse.Namespace) -> int:
    pruned = await broker.prune(options.wish, by=CLI_CALLER, look_only=options.dry_run)
    return _tell(options, _rows(pruned))


async def _prune_without_server(options: argparse.Namespace) -> int:
    from tmuxmcp.app import broker_settings
    from tmuxmcp.broker.lifecycle import prune

    async def live() -> Collection[str]:
        return ()

    settings, _ = effective(options)
    pruned = await prune(broker_settings(settings), options.wish, live, by=CLI_CALLER, look_only=options.dry_run)
    return _tell(options, _rows(pruned))


def _rows(pruned: Pruned) -> dict[str, list[dict[str, Any]]]:
    return {"removed": list(map(_row, pruned.removed)), "left": list(map(_row, pruned.left))}


def _row(removal: Removal) -> dict[str, Any]:
    last = iso(removal.last_s)
    return {"session_id": removal.name, "bytes": removal.bytes, "last_activity_at": last, "why": removal.why}


def _tell(options: argparse.Namespace, rows: dict[str, list[dict[str, Any]]]) -> int:
    removed, left = rows["removed"], rows["left"]
    if options.json:
        output.write_json({"dry_run": options.dry_run, "bytes": sum(each["bytes"] for each in removed), **rows})
    elif removed:
        output.write_table([HEADING, *(tuple(map(str, each.values())) for each in removed)])
    else:
        output.note("there is nothing to remove")
    if left:
        output.note(f"these could not be removed: {', '.join(each['session_id'] for each in left)}")
    return 1 if left else 0


# ---- `tmuxmcp restore`: sessions that are lost, made again -----------------------------------------------------------


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
        output.write_json({"restored": [_restored_row(each) for each in done if each.made], "left": left})
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


def _restored_row(each: Restored) -> dict[str, Any]:
    assert each.made
    assert each.found
    found = {
        "generation": each.found.generation,
        "env_missing": each.found.env_missing,
        "env_other": each.found.env_other,
        "env_known": each.found.env_names is not None,
    }
    return asdict(each.made) | found


def _why(each: Restored) -> dict[str, Any]:
    assert each.error
    return {"session_id": each.session_id, "error": each.error.as_dict()}
