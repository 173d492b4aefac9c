"""`ended.json`: why a session was ended, by whom and when, as whoever ended it wrote it down.

Written before the session is ended, so that every broker that finds its pane dead or gone knows why. It says nothing
of a session that lives on: whoever meant to end it was killed before it could.
"""

from __future__ import annotations

import json
from contextlib import suppress

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine.ownfiles import write_atomically
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.formats import is_newer, numbered, read_values

ENDED_FORMAT = 1
"""The newest format of `ended.json` that is known here."""


@dataclass(frozen=True)
class WhyEnded:
    """Why a session is ended."""

    reason: str
    """As `Reason` has it."""
    by: str
    """The caller who wanted it; empty: a broker, by a setting or a limit."""
    at: str
    """ISO 8601, UTC."""
    why: str = ""
    """The setting or the limit, in words."""

    def save(self, directory: SessionDirectory) -> None:
        """Write it down; a failure is no reason not to end it."""
        if not directory.is_there or is_newer(read_values(directory.ended), ENDED_FORMAT):
            return
        with suppress(OSError):
            write_atomically(directory.ended, json.dumps({**numbered(ENDED_FORMAT), **vars(self)}, indent=1))

    @classmethod
    def load(cls, directory: SessionDirectory) -> WhyEnded | None:
        """What is written down, if it can be read."""
        there = read_values(directory.ended)
        words = [there.get(name, "") for name in ("reason", "by", "at", "why")]
        known = there.get("reason") and all(isinstance(word, str) for word in words)
        return cls(*words) if known else None
