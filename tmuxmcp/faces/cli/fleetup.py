"""`tmuxmcp fleet up` and `join`: have this machine be one of a Ray cluster, and each machine have its door."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from tmuxmcp.app import open_broker, open_door, open_fleet, setup_logging
from tmuxmcp.config import VARIABLE_PREFIX, Settings
from tmuxmcp.contract.errors import InvalidArgument, IoError, NodeUnreachable
from tmuxmcp.contract.value import asdict, value
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.calling import CLI_CALLER
from tmuxmcp.faces.cli.service import effective
from tmuxmcp.nodes import fleetfile
from tmuxmcp.nodes.ids import check_node
from tmuxmcp.nodes.ray import CONFIG_VARIABLE, cluster_of, need_ray, own

if TYPE_CHECKING:
    from tmuxmcp.nodes.fleet import Fleet
    from tmuxmcp.nodes.transport import Machine, Tombstone

DOOR_S = 60.0
"""So long a new door has to answer: a worker starts, and imports us."""


HEAD_S = 15.0
"""So long the head of a cluster has to answer: Ray's command needs seconds to start."""

CONNECT_S = 3.0
"""So long a connection to it may take."""

START_S = 90.0
"""So long `ray start` may take."""

CLUSTER_S = 60.0
"""So long it may take to become a client of a cluster, and to hear of its machines."""


@value
class DoorOutcome:
    """What became of a machine's door."""

    node: str
    ok: bool
    said: str


def up(options: argparse.Namespace) -> int:
    """Start the first machine, if it is named; have all machines have a door of this version."""
    settings = _settings(options)
    need_ray()
    if not options.node and (options.config or effective(options)[1]["state_dir"] == "flag"):
        raise InvalidArgument(
            "Which machine is meant?", hint="--state-dir and --config are for one that is started: up NODE."
        )
    if not options.dry_run:
        fleetfile.make(settings.fleet_secret)
    address = "auto" if settings.fleet == "off" else settings.fleet
    if options.node:
        if not options.dry_run:
            _check_free(settings)
        _start(options, settings, "")
        ours = own.head_address(settings.state_dir) or "auto"  # of several clusters here
        return _stay(options, settings, _hang(options, settings, ours, ""))
    return _hang(options, settings, cluster_of(address), "")


def join(options: argparse.Namespace) -> int:
    """Have this machine be one of the cluster that the setting names, and have a door."""
    settings = _settings(options)
    if not settings.fleet.startswith("ray://"):
        raise InvalidArgument("Which cluster?", hint="Give --fleet ray://HOST:PORT, the address of its head.")
    need_ray()
    fleetfile.read(settings.fleet_secret)
    address = cluster_of(settings.fleet)
    if not options.dry_run:
        if own.head(settings.state_dir):
            raise InvalidArgument("The head of a cluster runs here.", hint="It is in that: `tmuxmcp fleet status`.")
        if not _answers(settings, address):  # Ray would wait for it, and this machine leave the cluster it is in
            hint = "Start it first, on its machine: tmuxmcp fleet up NODE. Each other machine joins again then."
            raise NodeUnreachable(f"The head of the cluster, {address}, does not answer.", hint=hint)
    _start(options, settings, address)
    return _stay(options, settings, _hang(options, settings, address, options.node))


def _stay(options: argparse.Namespace, settings: Settings, status: int) -> int:
    """With --block: stay until this machine has left the cluster, for a service manager, which then starts us again."""
    if not options.block:
        return status
    sys.stdout.flush()
    if raylet := own.raylet(settings.state_dir):
        raylet.wait()
    raise NodeUnreachable("Ray has ended on this machine.", hint="Sessions go on. Run the same command again.")


def _check_free(settings: Settings) -> None:
    """
    Raises:
        InvalidArgument: this machine is in a cluster that lives.
    """
    if own.head(settings.state_dir):
        hint = "`tmuxmcp fleet up` without NODE makes its doors."
        raise InvalidArgument("The head of a cluster runs here already.", hint=hint)
    address = own.head_address(settings.state_dir)
    if address and _answers(settings, address):
        hint = "Run `ray stop` first, if it is to leave that. Sessions go on."
        raise InvalidArgument(f"This machine is in the cluster of {address}.", hint=hint)


def _answers(settings: Settings, address: str) -> bool:
    """Whether the head of a cluster answers."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()  # Ray would try again and again
    except (OSError, ValueError):
        return False
    env = own.start_env(os.environ, settings.fleet_secret)
    try:
        done = subprocess.run(
            own.health_argv(address),
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=HEAD_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _settings(options: argparse.Namespace) -> Settings:
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

    async def start_tmux() -> None:
        async with open_broker(settings):
            pass

    labels = dict(_pair(each) for each in options.label or ())
    argv = own.start_argv(check_node(options.node), labels, address, shlex.split(options.ray or ""))
    own_variables = _variables(options, settings)
    env = own.start_env(os.environ, settings.fleet_secret) | own_variables
    if options.dry_run:
        names = ("RAY_worker_niceness", *(name for name in env if name.startswith("RAY_AUTH_")), *own_variables)
        output.write(shlex.join(["env", *(f"{name}={env[name]}" for name in names), *argv]) + "\n")
        raise SystemExit(0)
    anyio.run(start_tmux)  # by us, so that it is no child of Ray's, and is as nice as we are
    if ended := own.end(settings.state_dir):
        output.note(f"what was left of Ray here was ended ({ended} processes); sessions do not notice")
    last = own.last_cluster(argv)
    if not address and last and not _answers(settings, last.read_text().strip()):
        last.unlink(missing_ok=True)  # else Ray says that it runs, as long as any raylet here was of that cluster
    try:
        done = subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=START_S, check=False
        )
    except subprocess.TimeoutExpired:
        own.end(settings.state_dir)
        raise IoError(f"`ray start` did not come to an end within {START_S:g} s.", hint=shlex.join(argv)) from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise IoError(f"`ray start` failed: {said[-1] if said else 'it says nothing'}", hint=shlex.join(argv))


def _variables(options: argparse.Namespace, settings: Settings) -> dict[str, str]:
    """What the door is to know of the command line: Ray hands it its environment. The state directory in any case."""
    given = {name for name, origin in effective(options)[1].items() if origin == "flag"} - {"fleet", "state_dir"}
    values = settings.model_dump(mode="json")
    found = {own.STATE_VARIABLE: str(settings.state_dir)}
    if options.config:
        found[CONFIG_VARIABLE] = str(Path(options.config).expanduser().absolute())
    for name in sorted(given):
        value = values[name]
        found[VARIABLE_PREFIX + name.upper()] = value if isinstance(value, str) else json.dumps(value)
    return found


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or "," in text:
        raise InvalidArgument(f"{text!r} is no label.", hint="A label is NAME=VALUE, without a comma.")
    return name, value


def _hang(options: argparse.Namespace, settings: Settings, address: str, only: str) -> int:
    """Have the machines that are there have doors of this version, and say of each what became of it."""
    known = fleetfile.read(settings.fleet_secret)
    os.environ.update(fleetfile.environment(os.environ, settings.fleet_secret))  # before Ray looks there
    from tmuxmcp.nodes.ray import doors, kv
    from tmuxmcp.nodes.ray.watcher import cluster_state

    found: list[DoorOutcome] = []
    with _at_most(CLUSTER_S + DOOR_S), doors.connected(address):
        told, lost = own.KeptFleet(settings.state_dir).merged(cluster_state())
        for key, record in lost.items():
            kv.put(key, record)  # what a cluster before this one knew
        for node, facts in sorted(doors.machines().items()):
            if only in ("", node) and facts["alive"]:
                found.append(DoorOutcome(node, *doors.renew(node, open_door, known, DOOR_S)))
        own.KeptFleet(settings.state_dir).merged(cluster_state())
    away = sorted(set(told["machines"]) - {each.node for each in found} - set(told["tombs"])) if not only else []
    if options.json:
        output.write_json({"doors": [asdict(each) for each in found]})
    else:
        output.write_table([("MACHINE", "DOOR"), *((each.node, each.said) for each in found)])
    if away:
        output.note(
            f"not in the cluster: {', '.join(away)}; `tmuxmcp fleet join` there brings each back, its sessions live"
        )
    if not found:
        raise NodeUnreachable("No machine of the cluster has the label tmuxmcp/node.", hint="tmuxmcp fleet join NODE")
    return 0 if all(each.ok for each in found) else 1


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """End this process if what is inside takes longer: Ray waits for a head that is gone, and cannot be interrupted."""

    def give_up() -> None:
        text = f"the Ray cluster does not answer for {seconds:g} s; `tmuxmcp fleet up NODE` starts its head anew"
        print(f"tmuxmcp: {NodeUnreachable.code}: {text}", file=sys.stderr, flush=True)
        os._exit(NodeUnreachable.exit_status)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


# ---- `tmuxmcp fleet`: the machines of a fleet, and what an operator says of them -------------------------------------

HEADING = ("MACHINE", "STATE", "VERSION", "SESSIONS", "ROOM", "LABELS", "NOTE")


def fleet(options: argparse.Namespace) -> int:
    """`tmuxmcp fleet`."""
    if options.action not in ("status", "up") and not options.node:
        options.parser.error(f"there is no NODE to {options.action}")
    if options.action in ("up", "join"):
        return up(options) if options.action == "up" else join(options)
    return anyio.run(_fleet, options)


async def _fleet(options: argparse.Namespace) -> int:
    settings, origins = effective(options)
    setup_logging("warning" if origins["log_level"] == "default" else settings.log_level, settings.log_format)
    async with open_fleet("", settings, CLI_CALLER) as opened:
        if options.action == "status":
            return await _status(opened, options)
        if options.action == "forget":
            if not options.force:
                await _check_gone(opened, options.node)
            given_up = await opened.forget(options.node)
            output.tell(
                options.json, asdict(given_up), f"{options.node} was given up: its sessions are NODE_LOST from now on"
            )
            return 0
        drained = options.action == "drain"
        graves = {each.node: each for each in await opened.tombstones()} if not drained else {}
        await (opened.drain(options.node) if drained else opened.undrain(options.node))
        said = "gets no new sessions; those that are there go on" if drained else "gets new sessions again"
        if grave := graves.get(options.node):
            said = f"was given up at {grave.at}, and is a machine of the fleet again, with the sessions that are there"
        output.tell(options.json, {"node": options.node, "drained": drained}, f"{options.node} {said}")
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
