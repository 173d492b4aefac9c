"""A span of OpenTelemetry for each operation: what was called, with which id, how it ended. Nothing of its content.

Who serves says where spans go (`traces.py`); a program that uses the broker as a library brings its own provider.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tmuxmcp import __version__
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.contract.request import Request

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


def tracer() -> Tracer:
    """What makes the spans; they go nowhere until the process has a provider of OpenTelemetry's SDK."""
    from opentelemetry.trace import get_tracer

    return get_tracer("tmuxmcp", __version__)


@contextmanager
def span(made_by: Tracer, request: Request[Any], call: Call) -> Iterator[None]:
    """While this is open, the operation goes on. It is within the span of the MCP request, which the SDK makes."""
    from opentelemetry.trace import StatusCode

    attributes = {"tmuxmcp.call_id": call.call_id, "tmuxmcp.operation": request.operation.name}
    if request.session:
        attributes["tmuxmcp.session_id"] = request.session
    with made_by.start_as_current_span(
        f"tmuxmcp {request.operation.name}",
        attributes=attributes,
        record_exception=False,  # its message may hold what was typed
        set_status_on_exception=False,
    ) as begun:
        try:
            yield
        except BaseException as error:
            code = error.code if isinstance(error, TmuxMcpError) else type(error).__name__
            begun.set_attribute("error.type", code)
            begun.set_status(StatusCode.ERROR)
            raise
