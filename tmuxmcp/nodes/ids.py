"""Ids on their way: a caller's name the machine, a machine's own do not. Requests and answers, put into the other form.

Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar

from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import Question
from tmuxmcp.contract.errors import InvalidArgument, TmuxMcpError
from tmuxmcp.contract.request import R, Request
from tmuxmcp.contract.results import Result
from tmuxmcp.contract.value import fields, replace
from tmuxmcp.nodes.transport import Machine

Q = TypeVar("Q", bound=Request[Any])
T = TypeVar("T", bound=Result)

SESSION_FIELDS = frozenset({"session_id", "default_session_id", "r2_id", "gdb_id"})
"""Fields of results, and arguments, whose values are kept by one machine."""

ASKED_AT = "_at_"
"""Stands for `@` in the ids of requests for input, whose form is narrower; no machine's name has it."""

PAGE_PART = re.compile(r"session=([\w-]+)&request=([\w-]+)", re.ASCII)
"""What the page's address says of a request that is to be answered there."""

PATH_ARGUMENTS = ("path", "cwd", "core")
"""Arguments that can say on which machine they are meant, as scp has it: `NODE:PATH`."""


def with_arguments(request: Q, **values: Any) -> Q:
    """The request with other arguments, which are not checked again."""
    made = copy(request)
    vars(made).update(values)
    return made


def local(request: Request[R]) -> tuple[Request[R], str]:
    """The request as its machine knows it, and the machine's name; empty where it names none.

    Raises:
        InvalidArgument: it names two machines, or what no machine can be called.
    """
    values: dict[str, Any] = {}
    nodes: set[str] = set()
    for name in request.operation.arguments:
        value = getattr(request, name)
        if not isinstance(value, str) or not value:
            continue
        if name in SESSION_FIELDS:
            values[name], node = split(value)
        elif name == "request_id" and isinstance(request, q.RequestUserInput):
            values[name], node = split(value, ASKED_AT)
        elif name in PATH_ARGUMENTS and request.operation.session == "none":
            node, values[name] = path_of(value)
        else:
            continue
        nodes |= {node} - {""}
    if len(nodes) > 1:
        raise InvalidArgument(
            f"One call is for one machine, not for {' and '.join(sorted(nodes))}.", hint="Make a call for each."
        )
    return with_arguments(request, **values), next(iter(nodes), "")


def path_of(word: str) -> tuple[str, str]:
    """The machine that a path names, empty for none, and the path there: `n7:/etc/hosts`."""
    node, colon, path = word.partition(":")
    return (node, path or ".") if colon and is_node(node) else ("", word)


def with_node_ids(result: T, node: str, page_url: str = "") -> T:
    """The result of a machine as a caller has it: ids name the machine.

    Args:
        page_url: where the gateway shows the page; empty: nowhere. That of the machine is on a loopback port there.
    """
    changes: dict[str, Any] = {}
    for name in fields(result):
        value = getattr(result, name)
        match value:
            case str() if name in SESSION_FIELDS and value:
                changes[name] = fleet_id(value, node)
            case Result():
                changes[name] = with_node_ids(value, node)
            case [Result(), *_]:
                changes[name] = [with_node_ids(each, node) for each in value]
    match result:
        case r.SessionFacts():
            watch_url = f"{page_url}/#session={fleet_id(result.session_id, node)}" if page_url else None
            changes |= {"node": node, "watch_url": watch_url}
        case r.SessionSummary():
            changes["node"] = node
        case r.RequestUserInputResult():
            changes["request_id"] = f"{result.request_id}{ASKED_AT}{node}"
    if "attach_command" in fields(result) and "session_id" in changes:
        changes["attach_command"] = f"tmuxmcp attach {changes['session_id']}"
    return replace(result, **changes) if changes else result


def told_question(question: Question, node: str, page_url: str) -> Question | None:
    """What a machine asks a person, as a person of the fleet is asked it; None: they cannot be asked here.

    Args:
        page_url: where the gateway shows the page of that machine; empty: nowhere.
    """
    named = replace(
        question, message=f"{question.message}\n\nThis is on {node}.", digest=fleet_id(question.digest, node)
    )
    if not question.url:
        return named
    part = PAGE_PART.fullmatch(question.url.partition("#")[2])
    if not page_url or not part:
        return None
    return replace(named, url=f"{page_url}/#session={fleet_id(part[1], node)}&request={part[2]}{ASKED_AT}{node}")


def local_answers(answers: str, node: str) -> str:
    """The digest to which a call brings the answer, as the machine knows it; another machine's is none of its own."""
    return answers.removesuffix(f"{AT}{node}")


def told_error(error: TmuxMcpError, node: str) -> TmuxMcpError:
    """The error of a machine as a caller has it: it says which machine, and its ids name the machine."""
    details: Mapping[str, Any] = error.details
    known = {name: details[name] for name in SESSION_FIELDS if isinstance(details.get(name), str) and details[name]}
    ids = {name: value if AT in value else fleet_id(value, node) for name, value in known.items()}
    error.details = {**details, **ids, "node": node}
    return error


# ---- Ids of sessions of many machines: `NAME@NODE`. Pure -------------------------------------------------------------
#
# `@` is in no name of a session, and needs no quotes in a shell or in the path of a URI.

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


def split(session_id: str, sign: str = AT) -> tuple[str, str]:
    """What the machine calls the session, and the machine's name: empty where the id names none.

    The machine is what follows the last `@`, or another sign.

    Raises:
        InvalidArgument: no machine can have that name.
    """
    name, at, node = session_id.rpartition(sign)
    return (name, check_node(node)) if at else (session_id, "")


# ---- On which machine a new session is made. Pure --------------------------------------------------------------------
#
# Of two machines, taken at random of those that fit, the one with more room: that is good without a count that all
# gateways share. The word of the machine's own broker is the last; if it has no room, the next two are looked at.

Sample = Callable[[Sequence[Machine], int], Sequence[Machine]]
"""`sample(machines, count)`: so many of them at random, as `random.sample`."""


def fitting(machines: Sequence[Machine], labels: Mapping[str, str]) -> list[Machine]:
    """The machines that have these labels and take new sessions."""
    return [each for each in machines if not each.drained and labels.items() <= each.labels.items()]


def in_turn(machines: Sequence[Machine], sample: Sample) -> Iterator[Machine]:
    """The machines in the order in which they are to be asked; those that are known to be full come last."""
    left = [each for each in machines if each.free != 0]
    full = [each for each in machines if each.free == 0]
    while left or full:
        of = left or full
        chosen = max(sample(of, min(2, len(of))), key=_room)
        of.remove(chosen)
        yield chosen


def _room(machine: Machine) -> float:
    """Sessions that it has room for; what is not known is less than what is."""
    return 0.5 if machine.free is None else machine.free


def ranked(names: Sequence[str], key: str) -> list[str]:
    """Names of machines in an order of this key's own: another machine more or less changes no other's place."""

    return sorted(names, key=lambda name: digest(f"{key}\n{name}"))


def digest(text: str) -> str:
    """Eight letters that are a text's own."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
