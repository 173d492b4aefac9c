"""The child that watches the machines of a cluster: `python -m tmuxmcp.nodes.ray.watcher ADDRESS`.

Ray tells of its nodes in calls that block while the head is away, and that can abort the process: so it is a process
by itself. It prints a frame each time something has changed, one after each byte that it is sent, and one now and then.
"""

from __future__ import annotations

import os
import select
import sys
import time
from typing import Any

from tmuxmcp.machine.serving import end_with_broker
from tmuxmcp.nodes.ray import doors, kv
from tmuxmcp.nodes.ray.child import take_stdout, write_frame

RAYLET_LOOKS_S = 1.0
"""Time between two looks."""

HEARTBEAT_S = 5.0
"""So often it says something, whatever happens."""


def cluster_state() -> dict[str, Any]:
    """All machines and records, as the cluster knows them now, and the address by which it is known."""
    return {"address": doors.address(), "machines": doors.machines(), "records": kv.records()}


def main() -> None:
    """Watch until nobody reads any more."""
    end_with_broker()  # a call of Ray's may keep us from seeing that nobody writes any more
    out = take_stdout()
    life = doors.join(sys.argv[1])
    last, told_at = None, 0.0
    asked = True
    while True:
        found = cluster_state() | {"life": life}
        if asked or found != last or time.monotonic() - told_at > HEARTBEAT_S:
            last, told_at = found, time.monotonic()
            write_frame(out, found)
        asked = bool(select.select([0], [], [], RAYLET_LOOKS_S)[0])
        if asked and not os.read(0, 4096):
            os._exit(0)  # without Ray's farewell, which can take seconds


if __name__ == "__main__":
    main()
