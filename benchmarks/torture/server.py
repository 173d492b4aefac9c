"""A server under test, spoken to as its adapter table says."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.torture.table import Step
from benchmarks.wire import Wire

ADAPTERS = Path(__file__).with_name("adapters")


@dataclass
class Said:
    """What the server said at the end of a wait."""

    outcome: str
    """`ready`, `unknown` (it said itself that it does not know), `timeout`, `exited`, or `error`."""
    mode: str | None = None
    evidence: str | None = None
    note: str = ""


def dig(value: Any, path: str) -> Any:
    """The part of a result that a path of names with dots leads to; None where there is none."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """The template with each `{name}`: a whole string becomes the value itself, whatever its type."""
    if isinstance(template, dict):
        return {key: fill(item, values) for key, item in template.items()}
    if isinstance(template, list):
        return [fill(item, values) for item in template]
    if not isinstance(template, str):
        return template
    if template.startswith("{") and template.endswith("}") and template[1:-1] in values:
        return values[template[1:-1]]
    for name, value in values.items():
        template = template.replace("{" + name + "}", str(value))
    return template


class Server:
    """One process of the server under test."""

    def __init__(self, adapter: Mapping[str, Any], work: Path, env: Mapping[str, str]) -> None:
        self.adapter = adapter
        self.values: dict[str, Any] = {"work": str(work), "python": sys.executable}
        own = {name: str(fill(value, self.values)) for name, value in adapter.get("env", {}).items()}
        self.wire = Wire(fill(adapter["command"], self.values), {**env, **own})

    def log(self, session: str) -> Path:
        """The file that holds what a session's terminal printed."""
        return Path(fill(self.adapter["log"], self.values | {"session": session}))

    def start(self, session: str, argv: list[str], cwd: Path, timeout_ms: int) -> Said:
        """Start a program in a terminal of its own, and wait until the server says that it is ready."""
        script = cwd / "start"  # For those who type it: the echo of that line shows nothing that is awaited.
        script.write_text(f"exec {shlex.join(argv)}\n")
        self.values |= {"session": session, "argv": argv, "program": argv[0], "args": argv[1:], "script": str(script)}
        self.values |= {"cwd": str(cwd), "log": str(self.log(session))}
        return self._calls("start", timeout_ms)

    def send(self, step: Step) -> Said:
        """Send a step, and wait until the server says that the program is ready."""
        self.values |= {"text": step.text if step.line is None else step.line, "key": step.key}
        self.values |= {"enter": step.line is not None}
        return self._calls("text" if step.key is None else "key", step.timeout_ms)

    def end(self, session: str) -> None:
        """End a session."""
        self.values["session"] = session
        self._calls("end", 5000)

    def close(self) -> None:
        """End the server, one way or the other."""
        try:
            self.wire.close()
        except subprocess.TimeoutExpired:
            self.wire.process.kill()
            self.wire.process.wait()

    def _calls(self, verb: str, timeout_ms: int) -> Said:
        self.values |= {"timeout_ms": timeout_ms, "timeout_s": timeout_ms / 1000}
        said = Said("unknown")
        for call in self.adapter[verb]:
            result = self.wire.request(
                "tools/call", {"name": call["tool"], "arguments": fill(call["arguments"], self.values)}
            )
            if result.get("isError"):
                return Said("error", note=result["content"][0]["text"][:200])
            found = result.get("structuredContent") or {}
            self.values |= {name: dig(found, path) for name, path in call.get("keep", {}).items()}
            if "outcome" in call:
                said = self._said(call, found)
        return said

    @staticmethod
    def _said(call: Mapping[str, Any], found: dict[str, Any]) -> Said:
        value = json.dumps(dig(found, call["outcome"])).strip('"')
        outcome = next((word for word, values in call["means"].items() if value in values), "timeout")
        return Said(outcome, dig(found, call.get("mode", "")), dig(found, call.get("evidence", "")))


def adapter(name: str) -> dict[str, Any]:
    """An adapter table, by its file or by its name in `adapters/`; `SystemExit` where it or its server is missing."""
    file = Path(name) if name.endswith(".json") else ADAPTERS / f"{name}.json"
    if not file.exists():
        sys.exit(f"no adapter {file}; there are: {', '.join(sorted(each.stem for each in ADAPTERS.iterdir()))}")
    table: dict[str, Any] = json.loads(file.read_text())
    command = fill(table["command"][0], {"python": sys.executable})
    if not shutil.which(command):
        sys.exit(f"{command} is not installed")
    return table
