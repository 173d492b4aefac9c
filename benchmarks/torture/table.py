"""The table of programs: what is started, what is sent, and how its true end is seen."""

from __future__ import annotations

import re
import shutil
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).with_name("programs.toml")
READY_TIMEOUT_MS, BUSY_TIMEOUT_MS = 10_000, 1_500


@dataclass(frozen=True)
class Step:
    """One thing that is sent, and the sign of the program's true readiness after it."""

    line: str | None = None
    """Text that Enter follows."""
    text: str | None = None
    """Text without Enter."""
    key: str | None = None
    """A key, by tmux's name."""
    shows: str = ""
    """Regex over what was printed since: the answer. The program's prompt must follow it, unless `prompt` is given."""
    prompt: str | None = None
    """Regex of what follows the answer, in place of the program's prompt."""
    works_ms: int = 0
    """How long the program works by its own clock; an answer seen sooner is a fault of the table."""
    probe: bool = False
    """It is ready only when the program has also written to the file `$PROBE`."""
    busy: bool = False
    """It is never ready: it works for longer than the wait."""
    mode: tuple[str, ...] = ()
    """What the server may call it when it says ready; empty: anything."""
    timeout_ms: int = READY_TIMEOUT_MS

    @property
    def name(self) -> str:
        """What was sent, for people."""
        return next((sent for sent in (self.line, self.text, self.key) if sent is not None), "(start)")


@dataclass(frozen=True)
class Program:
    """A program or a situation, its class, and the steps through it. Its start is the first step."""

    name: str
    group: str
    argv: tuple[str, ...]
    steps: tuple[Step, ...]
    prompt: str = ""
    needs: tuple[str, ...] = ()
    """Commands without which it is left out, besides its own."""
    files: dict[str, str] = field(default_factory=dict)
    """Text of files in its working directory, which argv calls `{dir}`."""

    def missing(self) -> list[str]:
        """Commands that it needs and that are not installed."""
        path = None if not self.argv[0].startswith("{") else self.argv[0]
        return [name for name in (self.argv[0], *self.needs) if name != path and not shutil.which(name)]

    def done(self, step: Step) -> re.Pattern[str]:
        """Matches what was printed since `step` was sent as soon as the program has said all."""
        prompt = self.prompt if step.prompt is None else step.prompt
        return re.compile(f"(?s)(?:{step.shows}).*?(?:{prompt})")


def _step(row: dict[str, Any] | list[str], defaults: dict[str, Any]) -> Step:
    """A step is a table, or in short `[line, shows]`."""
    if isinstance(row, list):
        row = dict(zip(("line", "shows"), row, strict=True))
    row = defaults | row
    if row.get("busy"):
        row.setdefault("timeout_ms", BUSY_TIMEOUT_MS)
    mode = row.pop("mode", [])
    return Step(**row, mode=(mode,) if isinstance(mode, str) else tuple(mode))


def programs(table: Path = PROGRAMS) -> list[Program]:
    """Read the table.

    `[[group]]` holds what its programs share; a program's `start` is the step that its start is; `same` names another
    program of the table whose steps it goes through as well.
    """
    found: dict[str, Program] = {}
    for group in tomllib.loads(table.read_text())["group"]:
        for row in group["program"]:
            modes = {"mode": row["mode"]} if "mode" in row else {}
            like = found.get(row.get("same", ""))
            prompt = row.get("prompt", like.prompt if like else "")
            steps = [_step(row.get("start", {}), modes), *(_step(step, modes) for step in row.get("steps", []))]
            found[row["name"]] = Program(
                name=row["name"],
                group=group["name"],
                argv=tuple(row["argv"]),
                steps=(*steps, *(like.steps[1:] if like else ())),
                prompt=prompt,
                needs=tuple(row.get("needs", ())),
                files=(like.files if like else {}) | row.get("files", {}),
            )
    return list(found.values())
