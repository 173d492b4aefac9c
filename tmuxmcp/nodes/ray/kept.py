"""What a fleet on Ray is known to have, in a file of the state directory: a cluster forgets all when its head dies.

Machines stay known until somebody gives them up. What operators said is written into a new cluster's store: of two
records of a key the newer one counts, and so nothing is ever removed there, but noted as taken back (`off`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tmuxmcp.machine.ownfiles import make_directory, read_text, write_atomically

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
