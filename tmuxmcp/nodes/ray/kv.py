"""What a fleet keeps of its machines, in the key-value store of the cluster. Blocks: never on an event loop.

machine:NODE  which machine has the name     drain:NODE  no new sessions there     tomb:NODE  it was given up

What is taken back is not removed, but has `off`: who knows an older record is to see that it counts no more.
"""

from __future__ import annotations

import json
from typing import Any

from ray.experimental import internal_kv

from tmuxmcp.nodes.ray import NAMESPACE


def get(key: str) -> dict[str, Any] | None:
    """A record; None: there is none."""
    found = internal_kv._internal_kv_get(key, namespace=NAMESPACE)
    return json.loads(found) if found else None


def put(key: str, record: dict[str, Any]) -> None:
    """Write a record, in place of what is there."""
    internal_kv._internal_kv_put(key, json.dumps(record), overwrite=True, namespace=NAMESPACE)


def claim(key: str, record: dict[str, Any]) -> dict[str, Any]:
    """Write a record if there is none; the one that is there then. Of two at once, one wins."""
    internal_kv._internal_kv_put(key, json.dumps(record), overwrite=False, namespace=NAMESPACE)
    return get(key) or record


def delete(key: str) -> None:
    """Remove a record."""
    internal_kv._internal_kv_del(key, namespace=NAMESPACE)


def records() -> dict[str, dict[str, Any]]:
    """All records, by key."""
    keys = [key.decode() for key in internal_kv._internal_kv_list("", namespace=NAMESPACE)]
    found = {key: get(key) for key in keys}
    return {key: record for key, record in found.items() if record is not None}
