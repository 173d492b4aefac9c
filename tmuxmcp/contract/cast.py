"""The newest part of what a session did, as a value that travels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tmuxmcp.contract.latedataclass import dataclass

ASCIICAST_METHOD = "rpc.asciicast"
"""The method of JSON-RPC that gives one: no operation, but what the resource `.../recording` of MCP is made of."""


@dataclass(frozen=True)
class Cast:
    """The newest part of what a session did."""

    text: bytes
    """An asciicast of version 3."""
    begin: int
    """Offset of the log at which it begins."""
    end: int
    first: int
    """Offset from which on the log is kept: less than `begin` where the cast was cut."""

    def sent(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"text": self.text.decode(), "begin": self.begin, "end": self.end, "first": self.first}

    @classmethod
    def received(cls, sent: Mapping[str, Any]) -> Cast:
        """The cast that was sent."""
        return cls(str(sent["text"]).encode(), int(sent["begin"]), int(sent["end"]), int(sent["first"]))
