"""What the shell's marks said up to an offset: it saves a later broker the scan of the log up to there."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass

from tmuxmcp.host.atomically import write_atomically
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.terminal.marks import ShellTrack


@dataclass(frozen=True)
class Checkpoint:
    """What `marks.json` holds."""

    nonce: str
    """Of the shell whose marks these are."""
    offset: int
    track: ShellTrack

    def save(self, directory: SessionDirectory) -> None:
        """Write it; a failure costs a later broker time alone."""
        state = {"nonce": self.nonce, "offset": self.offset, "track": self.track.as_dict()}
        with suppress(OSError):
            write_atomically(directory.checkpoint, json.dumps(state))

    @classmethod
    def load(cls, directory: SessionDirectory) -> Checkpoint | None:
        """Read it; None when there is none that can be read."""
        try:
            state = json.loads(directory.checkpoint.read_text())
            return cls(state["nonce"], int(state["offset"]), ShellTrack.from_dict(state["track"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
