"""What the shell's marks said up to an offset: it saves a later broker the scan of the log up to there."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass

from tmuxmcp.host.atomically import write_atomically
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.formats import is_newer, numbered, read_values
from tmuxmcp.terminal.marks import ShellTrack

FORMAT = 1
"""The newest format of `marks.json` that is known here."""


@dataclass(frozen=True)
class Checkpoint:
    """What `marks.json` holds."""

    nonce: str
    """Of the shell whose marks these are."""
    offset: int
    track: ShellTrack

    def save(self, directory: SessionDirectory) -> None:
        """Write it, but not over one of a newer format; a failure costs a later broker time alone."""
        if not directory.is_there or is_newer(read_values(directory.checkpoint), FORMAT):
            return
        state = {**numbered(FORMAT), "nonce": self.nonce, "offset": self.offset, "track": self.track.as_dict()}
        with suppress(OSError):
            write_atomically(directory.checkpoint, json.dumps(state))

    @classmethod
    def load(cls, directory: SessionDirectory) -> Checkpoint | None:
        """Read it; None when there is none that can be read.

        One of a newer format is not: a part of what the marks said may be wrong by itself, and the log says it all.
        """
        state = read_values(directory.checkpoint)
        if is_newer(state, FORMAT):
            return None
        try:
            return cls(state["nonce"], int(state["offset"]), ShellTrack.from_dict(state["track"]))
        except (AttributeError, ValueError, KeyError, TypeError):
            return None
