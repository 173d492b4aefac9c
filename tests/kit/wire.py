"""A server on stdio as a client has it that writes and reads bytes."""

from __future__ import annotations

import json
import os
import selectors
import sys
import time
from pathlib import Path
from typing import Any

from tests.conftest import SLOW
from tests.kit import forks
from tmuxmcp.faces.stdio import FINISH_S

DOUBLE = [sys.executable, "-m", "tests.kit.double"]

SERVER = DOUBLE
"""What most tests talk to, as a fork; they hold for `tmuxmcp serve` as well."""

ROOT = Path(__file__).parents[2]

SOON_S = 5 * SLOW + FINISH_S
"""Generous: it ends in 0.4 s on a quiet machine, beside what calls may take; a server that hangs never ends."""

INITIALIZE = {
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


class Wire:
    """A server process, and the client's ends of its pipes."""

    def __init__(self, command=SERVER):
        _, _, module, *words = command
        self.process = forks.PipedFork(words, forks.environment(), ROOT, module)
        self.buffer, self.last_id = b"", 0

    def write(self, data: bytes):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def message(self, method, **params):
        """A request that is still to be written."""
        self.last_id += 1
        return {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}

    def request(self, method, **params):
        message = self.message(method, **params)
        self.write(json.dumps(message).encode() + b"\n")
        return message["id"]

    def run(self, command):
        return self.request("tools/call", name="run", arguments={"command": command})

    def receive(self):
        """The next message; everything on the wire must be one."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.buffer:
                assert selector.select(20 * SLOW), "the server does not answer"
                data = os.read(self.process.stdout.fileno(), 1 << 20)
                assert data, f"the server is gone: {self.process.stderr.read().decode()}"
                self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def answer(self, number):
        message = self.receive()
        assert message["id"] == number, message
        return message["result"]

    def start(self):
        self.answer(self.request(INITIALIZE["method"], **INITIALIZE["params"]))
        self.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        return self

    def ends_soon(self, cleanly=True):
        started = time.monotonic()
        status = self.process.wait(20 * SLOW)
        took_s = time.monotonic() - started
        log = self.process.stderr.read().decode()
        assert status == 0, log
        assert ("ended cleanly" in log) == cleanly, log
        assert took_s < SOON_S
        return log


GARBAGE = [
    b"not json",
    b"\xff\xfe\x00",
    b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"\xff"}}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
    b"[]",
    b'"text"',
    b'{"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":{},"method":"tools/list"}',
    b"\x00" * 5000,
]


class Server(Wire):
    """The real server of a state directory."""

    def __init__(self, state_dir: Path, *arguments: str) -> None:
        words = ["serve", "--state-dir", str(state_dir), "--log-level", "warning", "--program", "bash", *arguments]
        super().__init__([sys.executable, "-m", "tmuxmcp", *words])

    def call(self, tool: str, **arguments: Any) -> int:
        return int(self.request("tools/call", name=tool, arguments=arguments))

    def cancel(self, number: int) -> None:
        notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        self.write(json.dumps(notice).encode() + b"\n")

    def result_of(self, number: int) -> dict[str, Any]:
        """The answer with this number; all before it are dropped."""
        while (message := self.receive()).get("id") != number:
            pass
        return message["result"]
