"""What callers and brokers of other versions read is as it was: tools and files. The reference holds the rest.

`TMUXMCP_TEST_GOLDEN=write` writes the files in `tests/golden` anew: for what is meant to change, in the same commit.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.kit.agent import Agent
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.faces.mcp import as_tool

GOLDEN = Path(__file__).with_name("golden")


def is_as_it_was(name: str, text: str) -> None:
    file = GOLDEN / name
    if os.environ.get("TMUXMCP_TEST_GOLDEN") == "write":
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()


def test_tools():
    """As MCP lists them, with all their arguments and results."""
    tools = [as_tool(each, "both", BrokerSettings(state_dir=Path("/state"))) for each in OPERATIONS.values()]
    lines = [json.dumps(each.model_dump(exclude_none=True), sort_keys=True) for each in tools]
    is_as_it_was("tools.jsonl", "\n".join(lines) + "\n")


def names(value: Any) -> list[str]:
    """What the parts of a value are called."""
    parts = value if isinstance(value, list) else [value]
    return sorted({name for each in parts for name in each})


def test_files_of_a_session(state_dir: Path):
    with Agent(state_dir) as agent:
        agent.call("create_session", program="bash", name="a")
        agent.run("echo one", session_id="a")
        agent.call("run", session_id="a", command="false", request_id="golden-1")
        agent.call("send", session_id="a", text="true", enter=True)
        agent.call("resize", session_id="a", rows=30)
        agent.run("bash --norc", session_id="a")
        agent.run("echo two", session_id="a")
        agent.call("read", session_id="a")
        agent.call("destroy_session", session_id="a", force=True)
    found: dict[str, Any] = {}
    for file in (state_dir / "sessions" / "a").iterdir():
        if file.suffix == ".json":
            held = json.loads(file.read_text())
            found[file.name] = names(held)
            found |= {f"{file.name}: {name}": names(each) for name, each in held.items() if is_table(each)}
        elif file.suffix == ".jsonl":
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            for kind in {line.get("event", "") for line in lines}:
                same = [line for line in lines if line.get("event", "") == kind]
                found[f"{file.name}: {kind}".removesuffix(": ")] = names(same)
    is_as_it_was("files.json", json.dumps(found, indent=1, sort_keys=True) + "\n")


def is_table(value: object) -> bool:
    """Whether it has parts of its own."""
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)
