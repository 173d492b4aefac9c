"""Ray's processes on this machine that were started beside our sessions; what is left of a cluster whose head died."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tmuxmcp.machine.ownfiles import make_directory, read_text, write_atomically
from tmuxmcp.nodes.fleetfile import environment
from tmuxmcp.nodes.ray import NODE_LABEL

STATE_VARIABLE = "TMUXMCP_STATE_DIR"
"""What tells whose they are: it is in their environment, and in that of nothing that sessions start."""

PARTS = ("/ray/_private/", "/ray/dashboard/", "/ray/autoscaler/")
"""Where Ray's servers in Python lie: agents, monitors."""

END_S = 10.0
"""So long a process has to be gone that was killed."""


def head(state_dir: Path) -> psutil.Process | None:
    """The cluster's head, if it is here."""
    return next((each for each in _ours(state_dir) if _program(each) == "gcs_server"), None)


def raylet(state_dir: Path) -> psutil.Process | None:
    """What has this machine in a cluster."""
    return next((each for each in _ours(state_dir) if _program(each) == "raylet"), None)


def head_address(state_dir: Path) -> str:
    """Of the cluster that this machine is in, or was; empty: it is in none."""
    found = raylet(state_dir)
    with suppress(psutil.Error):
        for word in found.cmdline() if found else []:
            if word.startswith("--gcs-address="):
                return word.partition("=")[2]
    return ""


def end(state_dir: Path) -> int:
    """End all of them, and the workers below; how many there were. Sessions live beside them."""
    found = _ours(state_dir)
    for each in list(found):
        with suppress(psutil.Error):
            found |= {below for below in each.children(recursive=True) if _is_ray(below)}
    for each in found:
        with suppress(psutil.Error):
            each.kill()
    psutil.wait_procs(found, END_S)
    return len(found)


def _ours(state_dir: Path) -> set[psutil.Process]:
    found = set()
    for each in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if _is_ray(each) and each.pid != os.getpid() and each.environ().get(STATE_VARIABLE) == str(state_dir):
                found.add(each)
    return found


def _is_ray(process: psutil.Process) -> bool:
    """Whether it is one of Ray's own: its servers, their agents, a worker."""
    with suppress(psutil.Error, OSError):
        words = process.cmdline()
        return bool(words) and (
            words[0].startswith("ray::")
            or _program(process) in ("gcs_server", "raylet")
            or any(part in word for word in words[1:4] for part in PARTS)
        )
    return False


def _program(process: psutil.Process) -> str:
    with suppress(psutil.Error, OSError):
        return os.path.basename((process.cmdline() or [""])[0])
    return ""


# ---- What a fleet on Ray is known to have ----------------------------------------------------------------------------
#
# In a file of the state directory: a cluster forgets all when its head dies.
#
# Machines stay known until somebody gives them up. What operators said is written into a new cluster's store: of two
# records of a key the newer one counts, and so nothing is ever removed there, but noted as taken back (`off`).

KEPT_FILE = "fleet.json"

Records = dict[str, dict[str, Any]]


class KeptFleet:
    """The file; one for all clusters, each by the address of its head."""

    def __init__(self, state_dir: Path | None) -> None:
        """`state_dir`: None: nothing is kept."""
        self._file = state_dir / KEPT_FILE if state_dir else None

    def merged(self, told: Mapping[str, Any]) -> tuple[dict[str, Any], Records]:
        """What a watcher told, with what is kept; and the records that the cluster has lost.

        The file has all of it afterwards.
        """
        kept = self._read()
        before = json.dumps(kept, sort_keys=True)
        ours = kept.setdefault(told["address"], {"machines": {}, "records": {}})
        records: Records = dict(told["records"])
        lost: Records = {}
        for key, record in ours["records"].items():
            there = records.get(key)
            if there is None if key.startswith("machine:") else there is None or there["at"] < record["at"]:
                records[key] = lost[key] = record
        known = _joined(records, told["machines"], ours["machines"])
        machines, tombs = known["machines"], known["tombs"]
        for node, tomb in tombs.items():
            claim = lost.get(f"machine:{node}")
            if claim and tomb["machine_id"] in ("", claim["machine_id"]):
                del lost[f"machine:{node}"], records[f"machine:{node}"]
                machines.get(node, {}).pop("machine", None)
        gone = {node for node in tombs if not machines.get(node, {}).get("alive")}
        ours["machines"] = {name: facts["labels"] for name, facts in machines.items() if name not in gone}
        ours["records"] = records
        if self._file and json.dumps(kept, sort_keys=True) != before:
            make_directory(self._file.parent, links=True)
            write_atomically(self._file, json.dumps(kept, indent=1), mode=0o600)
        return {"machines": machines, "tombs": tombs}, lost

    def all_away(self, address: str) -> dict[str, Any]:
        """What is kept of a cluster that does not answer; of the only one that is known, by whatever address."""
        kept = self._read()
        ours = kept.get(address) or (next(iter(kept.values())) if len(kept) == 1 else {"machines": {}, "records": {}})
        return _joined(ours["records"], {}, ours["machines"])

    def _read(self) -> dict[str, Any]:
        if self._file is None:
            return {}
        try:
            found = json.loads(read_text(self._file))
            return {
                str(address): {part: _records(values[part]) for part in ("machines", "records")}
                for address, values in found.items()
            }
        except (OSError, ValueError, RecursionError, AttributeError, KeyError, TypeError):  # none, or not by us
            return {}


def _records(values: Any) -> Records:
    return {str(key): dict(record) for key, record in values.items()}


def _joined(records: Records, there: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """The machines that are there and those that are only known, with the records of each; and the tombs."""
    machines = {name: dict(facts) for name, facts in there.items()}
    for name, labels in kept.items():
        machines.setdefault(name, {"labels": labels, "alive": False, "hung": False})
    tombs = {}
    for key, record in sorted(records.items()):
        kind, _, node = key.partition(":")
        if kind == "tomb" and not record.get("off"):
            tombs[node] = record
        elif kind in ("drain", "machine") and not record.get("off") and node in machines:
            machines[node][kind] = record
    return {"machines": machines, "tombs": tombs}


# ---- What is run so that a machine becomes one of a cluster ----------------------------------------------------------

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
