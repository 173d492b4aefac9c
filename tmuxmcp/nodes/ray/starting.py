"""What is run so that a machine becomes one of a cluster."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tmuxmcp.nodes.ray import NODE_LABEL
from tmuxmcp.nodes.secret import environment

RAY_PORT = 6379
"""Ray's own port of a head."""


def start_argv(node: str, labels: Mapping[str, str], address: str = "", more: Sequence[str] = ()) -> list[str]:
    """`ray start` for a machine.

    Args:
        address: of the head; empty: this machine becomes the head.
        more: arguments that `ray start` gets as they are.
    """
    where = [f"--address={address}"] if address else ["--head", f"--port={RAY_PORT}", "--include-dashboard=false"]
    named = ",".join(f"{name}={value}" for name, value in {**labels, NODE_LABEL: node}.items())
    return [_ray(), "start", *where, f"--labels={named}", "--disable-usage-stats", *more]


def health_argv(address: str) -> list[str]:
    """What succeeds where a head answers."""
    return [_ray(), "health-check", f"--address={address}"]


def last_cluster(argv: Sequence[str]) -> Path | None:
    """The file in which Ray keeps the address of the cluster that was last started here; None: there is none.

    Args:
        argv: of `ray start`.
    """
    words = [word for each in argv for word in each.split("=", 1)]
    named = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--temp-dir"]
    place = named[-1] if named else os.environ.get("RAY_TMPDIR") or os.path.join(tempfile.gettempdir(), "ray")
    file = Path(place) / "ray_current_cluster"
    return file if file.is_file() else None


def _ray() -> str:
    """Ray's command of the environment that we run in."""
    beside = Path(sys.executable).with_name("ray")
    return str(beside) if beside.exists() else "ray"


def start_env(variables: Mapping[str, str], secret_file: os.PathLike[str]) -> dict[str, str]:
    """Variables of `ray start`: who connects has to know the secret, and workers are as nice as others.

    Ray runs its workers at niceness 15, and a tmux server that a door has to start would keep it.
    """
    return {"RAY_worker_niceness": "0", **environment(variables, secret_file)}
