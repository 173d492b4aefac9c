"""Other MCP servers beside ours, in the same run: `PEERS=FILE scripts/bench peers`.

FILE is TOML, a table for each server that is installed here. What it calls things is its own business, so the file says
it; a value that a call returned is put into later ones by its path in the structured content or in the text as JSON:

    [[peer]]
    name = "another"
    argv = ["another-server", "--stdio"]
    open = {tool = "create-session", arguments = {name = "bench"}}
    run = {tool = "execute", arguments = {session = "{session_id}", command = "true"}}
    screen = {tool = "capture", arguments = {session = "{session_id}"}}

`open` and `screen` may be left out. Nothing is said here of whether an answer is right: `scripts/bench ways` asks that.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import Row, workshop
from benchmarks.interleave import in_turn
from benchmarks.wire import Wire

OURS = {
    "name": "tmuxmcp",
    "argv": [sys.executable, "-m", "tmuxmcp", "serve"],
    "open": {"tool": "create_session", "arguments": {"name": "bench"}},
    "run": {"tool": "run", "arguments": {"session_id": "{session_id}", "command": "true"}},
    "screen": {"tool": "read", "arguments": {"session_id": "{session_id}", "view": "screen"}},
}


def peers(quick: bool) -> list[Row]:
    """`run true` and a look at the screen, of each server in the file and of ours."""
    file = os.environ.get("PEERS")
    if not file:
        return []
    others = tomllib.loads(Path(file).read_text())["peer"]
    rows = []
    with workshop() as (_, env):
        servers = {peer["name"]: (peer, Wire(peer["argv"], env)) for peer in (OURS, *others)}
        told = {name: _told(wire, peer.get("open"), {}) for name, (peer, wire) in servers.items()}
        for what, said in (("run", "run true"), ("screen", "screen")):
            asked = {name: peer[what] for name, (peer, _) in servers.items() if what in peer}
            calls: list[Callable[[], object]] = [
                lambda name=name, call=call: _told(servers[name][1], call, told[name])  # type: ignore[misc]  # defaults
                for name, call in asked.items()
            ]
            found = in_turn(calls, 20 if quick else 100, pause_s=0.01)
            floor = found[0].median
            for name, took in zip(asked, found, strict=True):
                rows.append(Row(f"{said}, {name}", took.median, "ms", floor, "", True, "", *took.spread))
        for _, wire in servers.values():
            wire.close()
    return rows


def _told(wire: Wire, call: Mapping[str, Any] | None, values: Mapping[str, str]) -> dict[str, str]:
    """What a call answered, as far as it is text by name."""
    if call is None:
        return {}
    arguments = {
        name: value.format_map(values) if isinstance(value, str) else value for name, value in call["arguments"].items()
    }
    result = wire.call(call["tool"], **arguments)
    content = result.get("structuredContent")
    if content is None:
        text = "".join(part.get("text", "") for part in result["content"])
        try:
            content = json.loads(text)
        except ValueError:
            content = {"text": text}
    return (
        {name: value for name, value in content.items() if isinstance(value, str)} if isinstance(content, dict) else {}
    )
