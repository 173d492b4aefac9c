"""Ids of sessions of many machines: `NAME@NODE`. Pure.

`@` is in no name of a session, and needs no quotes in a shell or in the path of a URI.
"""

from __future__ import annotations

import re

from tmuxmcp.contract.errors import InvalidArgument

AT = "@"

NODE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
"""A machine's own name for itself."""


def is_node(name: str) -> bool:
    """Whether a machine can have this name."""
    return NODE_NAME.fullmatch(name) is not None


def check_node(name: str) -> str:
    """The name of a machine, as it is.

    Raises:
        InvalidArgument: no machine can have it.
    """
    if not is_node(name):
        hint = "A machine's name is small letters, digits and `-`, at most 32, and begins with no `-`."
        raise InvalidArgument(f"{name[:100]!r} is no name of a machine.", hint=hint)
    return name


def fleet_id(name: str, node: str) -> str:
    """The id, everywhere in the fleet, of the session that its machine calls `name`."""
    return f"{name}{AT}{node}"


def split(session_id: str) -> tuple[str, str]:
    """What the machine calls the session, and the machine's name: empty where the id names none.

    The machine is what follows the last `@`.

    Raises:
        InvalidArgument: no machine can have that name.
    """
    name, at, node = session_id.rpartition(AT)
    return (name, check_node(node)) if at else (session_id, "")
