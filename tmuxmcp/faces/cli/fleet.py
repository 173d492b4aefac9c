"""`tmuxmcp fleet`: the machines of a fleet, and what an operator says of them."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import anyio

from tmuxmcp.contract.errors import InvalidArgument, NodeUnreachable
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.calling import CLI_CALLER
from tmuxmcp.faces.cli.service import effective

if TYPE_CHECKING:
    from tmuxmcp.nodes.fleet import Fleet
    from tmuxmcp.nodes.transport import Machine, Tombstone

HEADING = ("MACHINE", "STATE", "VERSION", "SESSIONS", "ROOM", "LABELS", "NOTE")


def fleet(options: argparse.Namespace) -> int:
    """`tmuxmcp fleet`."""
    if options.action not in ("status", "up") and not options.node:
        options.parser.error(f"there is no NODE to {options.action}")
    if options.action in ("up", "join"):
        from tmuxmcp.faces.cli import fleetup

        return fleetup.up(options) if options.action == "up" else fleetup.join(options)
    return anyio.run(_fleet, options)


async def _fleet(options: argparse.Namespace) -> int:
    from tmuxmcp.app import open_fleet, setup_logging

    settings, origins = effective(options)
    setup_logging("warning" if origins["log_level"] == "default" else settings.log_level, settings.log_format)
    async with open_fleet("", settings, CLI_CALLER) as opened:
        if options.action == "status":
            return await _status(opened, options)
        if options.action == "forget":
            if not options.force:
                await _check_gone(opened, options.node)
            given_up = await opened.forget(options.node)
            _tell(options, asdict(given_up), f"{options.node} was given up: its sessions are NODE_LOST from now on")
            return 0
        drained = options.action == "drain"
        graves = {each.node: each for each in await opened.tombstones()} if not drained else {}
        await (opened.drain(options.node) if drained else opened.undrain(options.node))
        said = "gets no new sessions; those that are there go on" if drained else "gets new sessions again"
        if grave := graves.get(options.node):
            said = f"was given up at {grave.at}, and is a machine of the fleet again, with the sessions that are there"
        _tell(options, {"node": options.node, "drained": drained}, f"{options.node} {said}")
        return 0


async def _check_gone(opened: Fleet, node: str) -> None:
    """
    Raises:
        InvalidArgument: a machine answers that is to be given up, and nobody has agreed.
    """
    machine = next((each for each in await opened.machines() if each.name == node), None)
    if machine is None or not machine.alive:
        return
    what = (
        f"{node} answers, and has {machine.live} session{'s' * (machine.live != 1)}: nobody could reach them any more."
    )
    if sys.stdin.isatty() and sys.stderr.isatty():
        output.note(what)
        sys.stderr.write("Give it up all the same? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
        raise InvalidArgument(f"{node} was not given up.")
    hint = f"`tmuxmcp fleet drain {node}` has it get no new sessions. To give it up all the same: --force."
    raise InvalidArgument(what, hint=hint, node=node)


def _tell(options: argparse.Namespace, value: dict[str, Any], text: str) -> None:
    if options.json:
        output.write_json(value)
    else:
        output.note(text)


async def _status(opened: Fleet, options: argparse.Namespace) -> int:
    """Exit status 1 if a machine does not answer."""
    machines = await opened.machines()
    graves = [each for each in await opened.tombstones() if each.node not in {every.name for every in machines}]
    away = [each for each in machines if not each.alive]
    if options.json:
        named = [{**asdict(each), "labels": dict(each.labels)} for each in machines]
        output.write_json({"machines": named, "given_up": [asdict(each) for each in graves]})
    else:
        output.write_table([HEADING, *map(_row, machines), *map(_grave, graves)])
        if machines:
            live = sum(each.live or 0 for each in machines)
            room = sum(each.free or 0 for each in machines if not each.drained)
            output.note(
                f"{len(machines) - len(away)} of {len(machines)} machines answer; {live} sessions, room for {room}"
            )
    sys.stdout.flush()
    return NodeUnreachable.exit_status if away else 0


def _row(machine: Machine) -> tuple[str, ...]:
    state = "away" if not machine.alive else "drained" if machine.drained else "up"
    labels = ",".join(f"{name}={value}" for name, value in machine.labels.items())
    numbers = ("-" if each is None else str(each) for each in (machine.live, machine.free))
    return (machine.name, state, machine.version or "-", *numbers, labels or "-", machine.note or "-")


def _grave(tombstone: Tombstone) -> tuple[str, ...]:
    return (tombstone.node, "given up", "-", "-", "-", "-", f"since {tombstone.at}")
