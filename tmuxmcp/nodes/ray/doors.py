"""Making the doors of a cluster, and taking them away; for the command line, whose process may end with Ray."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from typing import Any

import ray

from tmuxmcp.nodes.ray import LABEL, NAMESPACE, PREFIX
from tmuxmcp.nodes.ray.door import Door, Opens

PENDING_CALLS = 10_000
"""Calls that a door does at once: a wait costs a coroutine. What is over waits for the first to end."""


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Be a client of a cluster."""
    join(address)
    try:
        yield
    finally:
        ray.shutdown()


def join(address: str) -> None:
    """Become a client of a cluster; the machine has to have a raylet of it.

    Ray puts the working directory and the script's in front of where doors import from: from `/`, and with no script,
    nobody gives them modules of a cloned repository.
    """
    argv = sys.argv
    sys.argv = ["", *argv[1:]]
    try:
        with chdir("/"):
            ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
    finally:
        sys.argv = argv


def machines() -> dict[str, dict[str, Any]]:
    """What Ray knows of the machines, by name: `labels`, `alive`, `hung` (a door was made for it)."""
    found: dict[str, dict[str, Any]] = {}
    for node in ray.nodes():
        labels = node.get("Labels") or {}
        if name := labels.get(LABEL):
            other = found.setdefault(name, {"labels": labels, "alive": False, "hung": False})
            if node["Alive"]:
                other.update(labels=labels, alive=True)
    for actor in ray.util.list_named_actors(all_namespaces=True):
        if actor["namespace"] == NAMESPACE and actor["name"].startswith(PREFIX):
            name = actor["name"].removeprefix(PREFIX)
            found.setdefault(name, {"labels": {LABEL: name}, "alive": False})["hung"] = True
    return found


def make(node: str, opens: Opens) -> Any:
    """The door of a machine: the one that is there, or a new one.

    It is pinned to the machine's label, and waits for it: a raylet that comes back gets its door back. Nothing that it
    was asked is done twice, and it never ends by itself. All its calls are on one event loop: a concurrency group
    would have one of its own, and the broker would hang there.
    """
    actor: Any = ray.remote(Door)
    options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": 0, "max_concurrency": PENDING_CALLS}
    names = {"name": PREFIX + node, "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True}
    return actor.options(**options, **names, label_selector={LABEL: node}).remote(node, opens)


def take_away(node: str) -> None:
    """End a door and have it not come back. The sessions do not notice."""
    try:
        door = ray.get_actor(PREFIX + node, namespace=NAMESPACE)
    except ValueError:
        return
    ray.kill(door, no_restart=True)
