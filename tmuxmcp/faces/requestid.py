"""The `request_id` of a call that came from outside: an argument, or a word in its `_meta` where no schema has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.request import NamesCall, Operation

REQUEST_META = ("tmuxmcp/request_id", "request_id")
"""Where it stands in `_meta`; the first is ours alone."""


def with_request_id(operation: Operation, arguments: Any, meta: Mapping[str, Any] | None) -> Any:
    """The arguments, with the id that stands beside them if the operation takes one.

    Raises:
        InvalidArgument: it is given twice, and differently.
    """
    if not meta or not isinstance(arguments, Mapping):
        return arguments
    for name in operation.marks(NamesCall):
        given = [meta[key] for key in REQUEST_META if meta.get(key) is not None]
        given += [arguments[name]] if arguments.get(name) else []
        if any(each != given[0] for each in given):
            raise InvalidArgument(
                f"{name} is given more than once, and differently.", hint="Give it as argument or in _meta."
            )
        if given:
            return {**arguments, name: given[0]}
    return arguments
