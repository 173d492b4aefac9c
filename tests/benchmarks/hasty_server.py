"""An MCP server over stdio that runs a program on a terminal, and says `ready` without looking: the worst of peers."""

from __future__ import annotations

import json
import os
import pty
import sys
import threading
from pathlib import Path
from typing import Any

terminals: dict[str, tuple[int, int]] = {}


def start(name: str, argv: list[str], log: str) -> None:
    """Run a program on a terminal of its own, and write what it prints to a log."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(argv[0], argv)
    terminals[name] = pid, terminal
    file = Path(log).open("ab", buffering=0)  # noqa: SIM115 - open as long as the program prints

    def copy() -> None:
        with file:
            while True:
                try:
                    file.write(os.read(terminal, 4096))
                except OSError:
                    return

    threading.Thread(target=copy, daemon=True).start()


def end(name: str) -> None:
    pid, terminal = terminals.pop(name)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(terminal)


def call(tool: str, given: dict[str, Any]) -> dict[str, Any]:
    match tool:
        case "start":
            start(given["name"], given["argv"], given["log"])
        case "send":
            os.write(terminals[given["name"]][1], given["text"].encode() + b"\n" * given["enter"])
        case "end":
            end(given["name"])
    return {"content": [], "structuredContent": {"outcome": "ready"}}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        params = message["params"]
        result = call(params["name"], params["arguments"]) if message["method"] == "tools/call" else {}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
