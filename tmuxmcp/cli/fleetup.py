"""`tmuxmcp fleet up` and `join`: have this machine be one of a Ray cluster, and each machine have its door."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import anyio

from tmuxmcp.cli import output
from tmuxmcp.cli.service import effective
from tmuxmcp.errors import InvalidArgument, IoError, NodeUnreachable

if TYPE_CHECKING:
    from tmuxmcp.config import Settings

DOOR_S = 60.0
"""So long a new door has to answer: a worker starts, and imports us."""


@dataclass(frozen=True)
class DoorOutcome:
    """What became of a machine's door."""

    node: str
    ok: bool
    said: str


def up(options: argparse.Namespace) -> int:
    """Start the first machine, if it is named; have all machines have a door of this version."""
    from tmuxmcp.nodes import secret
    from tmuxmcp.nodes.ray import cluster_of, need_ray

    settings = _settings(options)
    need_ray()
    secret.make(settings.fleet_secret)
    address = "auto" if settings.fleet == "off" else settings.fleet
    if options.node:
        _start(options, settings, "")
        address = "auto"
    return _hang(options, settings, cluster_of(address), "")


def join(options: argparse.Namespace) -> int:
    """Have this machine be one of the cluster that the setting names, and have a door."""
    from tmuxmcp.nodes import secret
    from tmuxmcp.nodes.ray import cluster_of, need_ray

    settings = _settings(options)
    if not settings.fleet.startswith("ray://"):
        raise InvalidArgument("Which cluster?", hint="Give --fleet ray://HOST:PORT, the address of its head.")
    need_ray()
    secret.read(settings.fleet_secret)
    address = cluster_of(settings.fleet)
    _start(options, settings, address)
    return _hang(options, settings, address, options.node)


def _settings(options: argparse.Namespace) -> Settings:
    from tmuxmcp.app import setup_logging

    settings, _ = effective(options)
    setup_logging("warning")
    if settings.fleet not in ("off", "auto") and not settings.fleet.startswith("ray://"):
        raise InvalidArgument(
            f"{settings.fleet} is a file of brokers.", hint=f"`tmuxmcp fleet {options.action}` is for Ray."
        )
    return settings


def _start(options: argparse.Namespace, settings: Settings, address: str) -> None:
    """Start tmux, then Ray beside it.

    Raises:
        InvalidArgument: names or labels are wrong.
        IoError: Ray does not start.
    """
    from tmuxmcp.app import open_broker
    from tmuxmcp.nodes.names import check_node
    from tmuxmcp.nodes.ray.starting import start_argv, start_env

    async def start_tmux() -> None:
        async with open_broker(settings):
            pass

    labels = dict(_pair(each) for each in options.label or ())
    argv = start_argv(check_node(options.node), labels, address, shlex.split(options.ray or ""))
    env = start_env(os.environ, settings.fleet_secret)
    if options.dry_run:
        names = ("RAY_worker_niceness", *(name for name in env if name.startswith("RAY_AUTH_")))
        output.write(shlex.join(["env", *(f"{name}={env[name]}" for name in names), *argv]) + "\n")
        raise SystemExit(0)
    anyio.run(start_tmux)  # by us, so that it is no child of Ray's, and is as nice as we are
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise IoError(f"`ray start` failed: {said[-1] if said else 'it says nothing'}", hint=shlex.join(argv))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or "," in text:
        raise InvalidArgument(f"{text!r} is no label.", hint="A label is NAME=VALUE, without a comma.")
    return name, value


def _hang(options: argparse.Namespace, settings: Settings, address: str, only: str) -> int:
    """Have the machines that are there have doors of this version, and say of each what became of it."""
    from tmuxmcp.app import open_door
    from tmuxmcp.nodes import secret

    known = secret.read(settings.fleet_secret)
    os.environ.update(secret.environment(os.environ, settings.fleet_secret))  # before Ray looks there
    from tmuxmcp.nodes.ray import doors

    found: list[DoorOutcome] = []
    with doors.connected(address):
        for node, facts in sorted(doors.machines().items()):
            if only in ("", node) and facts["alive"]:
                found.append(DoorOutcome(node, *doors.renew(node, open_door, known, DOOR_S)))
    if options.json:
        output.write_json({"doors": [asdict(each) for each in found]})
    else:
        output.write_table([("MACHINE", "DOOR"), *((each.node, each.said) for each in found)])
    if not found:
        raise NodeUnreachable("No machine of the cluster has the label tmuxmcp/node.", hint="tmuxmcp fleet join NODE")
    return 0 if all(each.ok for each in found) else 1
