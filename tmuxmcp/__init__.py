"""tmuxmcp: a terminal broker for AI agents over tmux.

`open_broker` gives a running broker, whose methods are the operations, `open_fleet` the same over many machines;
`Settings` are their settings. Each method makes one of `requests` and answers with one of `results`; `Call` says in
whose name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "Broker",
    "Call",
    "Operations",
    "Settings",
    "TmuxMcpError",
    "__version__",
    "open_broker",
    "open_fleet",
    "requests",
    "results",
]

if TYPE_CHECKING:
    from tmuxmcp.app import open_broker, open_fleet
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.config import Settings
    from tmuxmcp.contract import requests, results
    from tmuxmcp.contract.call import Call
    from tmuxmcp.contract.errors import TmuxMcpError
    from tmuxmcp.contract.operations import Operations

_DEFINED_IN = {
    "open_broker": "tmuxmcp.app",
    "open_fleet": "tmuxmcp.app",
    "Broker": "tmuxmcp.broker.broker",
    "Settings": "tmuxmcp.config",
    "Call": "tmuxmcp.contract.call",
    "Operations": "tmuxmcp.contract.operations",
    "TmuxMcpError": "tmuxmcp.contract.errors",
}
_MODULES = {"requests": "tmuxmcp.contract.requests", "results": "tmuxmcp.contract.results"}


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used: `tmuxmcp --version` must not pay for them."""
    from importlib import import_module

    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _DEFINED_IN:
        return getattr(import_module(_DEFINED_IN[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
