"""The way to many machines over a Ray cluster: on each a door, an actor that holds the broker of its machine.

Ray is imported in `kv`, `doors` and `bridge` alone, and in a server only by child processes: Ray prints, takes signals
and can abort the process that it is in.

Sessions live in tmux beside Ray. A door, a raylet or the whole cluster may die: whoever comes back finds them.
"""

from __future__ import annotations

from importlib.util import find_spec

from tmuxmcp.contract.errors import Unsupported

NAMESPACE = "tmuxmcp"
"""Of actors, and of records in Ray's key-value store."""

NODE_LABEL = "tmuxmcp/node"
"""The label of a Ray node that names its machine. Ray's own id of a node is another one after each start."""

DOOR_PREFIX = "door-"
"""In front of the machine's name, in the name of its door."""


CONFIG_VARIABLE = "TMUXMCP_DOOR_CONFIG"
"""Names the settings file of a machine's door, where that is not the default one."""


def need_ray() -> None:
    """Say what to do where Ray is not installed.

    Raises:
        Unsupported: it is not.
    """
    if find_spec("ray") is None:
        raise Unsupported("Ray is not installed.", hint="pip install 'tmuxmcp[fleet]', on every machine of the fleet.")


def cluster_of(fleet: str) -> str:
    """What Ray calls the address in the setting `fleet`: `ray://HOST:PORT` is HOST:PORT, `auto` stays."""
    return fleet.removeprefix("ray://").rstrip("/")
