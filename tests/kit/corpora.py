"""Recordings of real programs: `scripts/corpora` makes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tmuxmcp.terminal.emulator.seed import TAIL_BYTES, seed
from tmuxmcp.terminal.snapshot import Snapshot

CORPORA = Path(__file__).parent.parent / "corpora"

NAMES = sorted(file.stem for file in CORPORA.glob("*.raw"))


class Recording:
    """The bytes, and what tmux showed of them."""

    def __init__(self, name: str) -> None:
        self.raw = (CORPORA / f"{name}.raw").read_bytes()
        data = json.loads((CORPORA / f"{name}.json").read_text())
        self.cols, self.rows = data["cols"], data["rows"]
        self.events: list[dict[str, Any]] = data["events"]

    def told(self, event: dict[str, Any]) -> Snapshot:
        tail = self.raw[max(event["offset"] - TAIL_BYTES, 0) : event["offset"]]
        return seed(event["facts"], event["screen"], event["under"], tail, event["offset"])
