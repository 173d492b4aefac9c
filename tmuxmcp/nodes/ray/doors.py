"""Making the doors of a cluster, and taking them away; for the command line, whose process may end with Ray."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from typing import Any

import ray
from ray.exceptions import RayError

from tmuxmcp import __version__
from tmuxmcp.contract.call import Call
from tmuxmcp.nodes.ray import DOOR_PREFIX, NAMESPACE, NODE_LABEL, kv
from tmuxmcp.nodes.ray.door import Door, Opens
from tmuxmcp.nodes.transport import call_sent

PENDING_CALLS = 10_000
"""Calls that a door does at once: a wait costs a coroutine. What is over waits for the first to end."""

DOOR_GONE_S = 10.0
"""So long a door that was ended may still have its name."""


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Be a client of a cluster."""
    join(address)
    try:
        yield
    finally:
        ray.shutdown()


def join(address: str) -> str:
    """Become a client of a cluster; the machine has to have a raylet of it.

    Returns:
        What Ray calls this life of the cluster: one whose head was started anew is another.

    Ray puts the working directory and the script's in front of where doors import from: from `/`, and with no script,
    nobody gives them modules of a cloned repository.
    """
    argv = sys.argv
    sys.argv = ["", *argv[1:]]
    try:
        with chdir("/"):
            joined = ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
    finally:
        sys.argv = argv
    return os.path.basename(str(joined.address_info["session_dir"]))


def address() -> str:
    """Of the cluster's head; one that is started in its place has the same."""
    return str(ray.get_runtime_context().gcs_address)


def machines() -> dict[str, dict[str, Any]]:
    """What Ray knows of the machines, by name: `labels`, `alive`, `hung` (a door was made for it)."""
    found: dict[str, dict[str, Any]] = {}
    for node in ray.nodes():
        labels = node.get("Labels") or {}
        if name := labels.get(NODE_LABEL):
            other = found.setdefault(name, {"labels": labels, "alive": False, "hung": False})
            if node["Alive"]:
                other.update(labels=labels, alive=True)
    for actor in ray.util.list_named_actors(all_namespaces=True):
        if actor["namespace"] == NAMESPACE and actor["name"].startswith(DOOR_PREFIX):
            name = actor["name"].removeprefix(DOOR_PREFIX)
            found.setdefault(name, {"labels": {NODE_LABEL: name}, "alive": False})["hung"] = True
    return found


def make(node: str, opens: Opens) -> Any:
    """The door of a machine: the one that is there, or a new one.

    It is pinned to the machine's label, and waits for it: a raylet that comes back gets its door back. Nothing that it
    was asked is done twice, and it never ends by itself. All its calls are on one event loop: a concurrency group
    would have one of its own, and the broker would hang there.
    """
    actor: Any = ray.remote(Door)
    options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": 0, "max_concurrency": PENDING_CALLS}
    names = {"name": DOOR_PREFIX + node, "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True}
    return actor.options(**options, **names, label_selector={NODE_LABEL: node}).remote(node, opens)


def take_away(node: str) -> None:
    """End a door and have it not come back. The sessions do not notice."""
    door = _door(node)
    if door is None:
        return
    ray.kill(door, no_restart=True)
    until = time.monotonic() + DOOR_GONE_S
    while _door(node) is not None and time.monotonic() < until:
        time.sleep(0.05)


def _door(node: str) -> Any:
    try:
        return ray.get_actor(DOOR_PREFIX + node, namespace=NAMESPACE)
    except ValueError:
        return None


def renew(node: str, opens: Opens, secret: str, timeout_s: float) -> tuple[bool, str]:
    """Have a machine have a door of this version that answers; whether it does, and what there is to say."""
    door, replaced = _door(node), ""
    try:
        told = _hello(door or make(node, opens), secret, timeout_s)
        if door is not None and "error" not in told and told["version"] != __version__:
            replaced = f", in place of one of {told['version']}"
            take_away(node)
            told = _hello(make(node, opens), secret, timeout_s)
    except RayError as error:
        return False, next(iter(str(error).splitlines()), type(error).__name__)
    if "error" in told:
        return False, f"{told['error']['code']}: {told['error']['message']}"
    if told["version"] != __version__:
        return False, f"tmuxmcp {told['version']} is installed there, and {__version__} here"
    if told["niceness"] > 0:
        return False, f"it runs at niceness {told['niceness']}: start Ray there with RAY_worker_niceness=0"
    tomb = kv.get(f"tomb:{node}")
    if tomb and not tomb.get("off") and tomb["machine_id"] in ("", told["machine_id"]):
        return False, f"it was given up at {tomb['at']}: `tmuxmcp fleet undrain {node}` takes that back"
    return True, f"up, {told['live']} sessions{replaced}"


def _hello(door: Any, secret: str, timeout_s: float) -> dict[str, Any]:
    sent = {"version": __version__, "secret": secret, "call": call_sent(Call("cli", person=True))}
    told: dict[str, Any] = json.loads(ray.get(door.hello.remote(json.dumps(sent).encode()), timeout=timeout_s))
    return told
