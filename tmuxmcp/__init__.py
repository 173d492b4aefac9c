"""tmuxmcp: a terminal broker for AI agents over tmux.

`open_broker` gives a running broker, whose methods are the operations; `Settings` are its settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Settings", "TmuxMcpError", "__version__", "open_broker"]

if TYPE_CHECKING:
    from tmuxmcp.app import open_broker
    from tmuxmcp.config import Settings
    from tmuxmcp.errors import TmuxMcpError

_HOMES = {
    "open_broker": "tmuxmcp.app",
    "Settings": "tmuxmcp.config",
    "TmuxMcpError": "tmuxmcp.errors",
}


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used: `tmuxmcp --version` must not pay for them."""
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
