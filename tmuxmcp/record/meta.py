"""`meta.json`: what a session is, for when its pane is gone."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tmuxmcp.host.atomically import write_atomically
from tmuxmcp.record.directory import SessionDirectory


@dataclass
class Meta:
    """What a session is; from the pane's options, or from `meta.json` when the pane is gone."""

    session_id: str
    program: str
    args: list[str]
    created_at: str
    owner: str
    nonce: str
    marks: bool
    """Its program was given our start-up file."""
    cwd: str
    cols: int
    rows: int
    scrollback_lines: int
    destroyed: bool = False
    bounds: dict[str, Any] = field(default_factory=dict)
    """As `SessionBounds`."""

    def save(self, directory: SessionDirectory) -> None:
        """Write `meta.json`."""
        write_atomically(directory.meta, json.dumps(vars(self), indent=1))

    @classmethod
    def load(cls, directory: SessionDirectory) -> Meta | None:
        """Read `meta.json`; None when there is none that can be read."""
        try:
            return cls(**json.loads(directory.meta.read_text()))
        except (OSError, ValueError, TypeError):
            return None
