"""A JSON-RPC client over pipes that costs next to nothing, so that a server's own time is measured."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any


class Wire:
    """One MCP server over stdio, spoken to in the 2025 era."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        begun = time.perf_counter()
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(env))
        self._number = 0
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.request("initialize", hello)
        self.first_answer_ms = (time.perf_counter() - begun) * 1000
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def send(self, method: str, params: dict[str, Any]) -> None:
        """One request, without waiting for its answer."""
        self._number += 1
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """One request; anything else that arrives meanwhile is dropped."""
        assert self.process.stdout
        self.send(method, params)
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError(f"the server went away during {method}")
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(message["error"])
                result: dict[str, Any] = message["result"]
                return result

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """One tool call that must not fail."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise RuntimeError(result["content"][0]["text"])
        return result

    def close(self) -> None:
        """Close stdin, which ends the server."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()
