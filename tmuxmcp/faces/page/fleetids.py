"""What pages ask and are told of many machines: ids that name the machine, put into the form that it knows, and back.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tmuxmcp.contract.errors import InvalidArgument, SessionNotFound
from tmuxmcp.faces.page.answers import PageArguments
from tmuxmcp.faces.page.listing import Row
from tmuxmcp.faces.page.stream import TAIL_FIELD, as_json
from tmuxmcp.faces.page.waits import PageWait
from tmuxmcp.nodes.ids import ASKED_AT, SESSION_FIELDS, check_node, fleet_id, split


def local(session: str) -> tuple[str, str]:
    """A session as its machine knows it, and the machine: `ID@NODE`, of an earlier one of that name `ID@NODE.N`.

    Raises:
        InvalidArgument, SessionNotFound: no machine is named, or none can be called so.
    """
    name, dot, generation = session.partition(".")
    there, node = split(name)
    if not (there and node):
        raise SessionNotFound(f"There is no session {session[:100]!r}.", hint="Its id has a machine: NAME@MACHINE.")
    return there + dot + generation, node


def local_wait(wait: str) -> tuple[str, str]:
    """What waits for a person as its machine knows it, and the machine.

    Raises:
        InvalidArgument: no machine is named, or none can be called so.
    """
    name, at, node = wait.rpartition(ASKED_AT)
    if not at:
        raise InvalidArgument(f"Nothing waits as {wait[:100]!r}.")
    return name, check_node(node)


def local_asked(asked: PageArguments) -> tuple[PageArguments, str]:
    """A request as the machine knows it that it is for, and the machine: that of the session, or of the question.

    Raises:
        InvalidArgument, SessionNotFound
    """
    found, node = dict(asked), ""
    for name, part in (("session", local), ("request", local_wait), ("question", local_wait)):
        if isinstance(asked.get(name), str):
            found[name], there = part(asked[name])
            if node not in ("", there):
                raise InvalidArgument(f"{name} is of another machine than the session.")
            node = there
    if not node:
        raise InvalidArgument("session is missing.")
    return found, node


def with_node_ids(value: Any, node: str) -> Any:
    """An answer of a machine with ids that name it."""
    match value:
        case dict():
            return {
                name: fleet_id(each, node)
                if name in SESSION_FIELDS and isinstance(each, str) and each
                else with_node_ids(each, node)
                for name, each in value.items()
            }
        case list():
            return [with_node_ids(each, node) for each in value]
    return value


def named_row(row: Mapping[str, Any], node: str) -> Row:
    """A row of a machine's list, in the form that `Stream` tells."""
    ours = {"session_id": fleet_id(row["session_id"], node), "node": node, TAIL_FIELD: [*map(as_json, row[TAIL_FIELD])]}
    held = row["taken_over"]
    return {**row, **ours, "taken_over": held and {**held, "page": int(held["page"])}}


def named_wait(wait: Mapping[str, Any], node: str, ahead_ms: int) -> PageWait:
    """What waits for a person on a machine.

    Args:
        ahead_ms: how far our clock is ahead of the machine's.
    """
    times = {name: wait[name] and wait[name] + ahead_ms for name in ("asked_ms", "until_ms")}
    session_id = fleet_id(wait["session_id"], node) if wait["session_id"] else ""
    kind = str(wait["kind"])
    return {**wait, **times, "kind": kind, "id": f"{wait['id']}{ASKED_AT}{node}", "session_id": session_id}
