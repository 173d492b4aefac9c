"""What the marks of a session's shells said up to an offset: it saves a later broker the scan up to there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine.ownfiles import write_atomically
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.formats import is_newer, numbered, read_values
from tmuxmcp.terminal.marks import Numbers, ShellTrack

MARKS_FORMAT = 2
"""The newest format of `marks.json` that is known here."""


@dataclass(frozen=True)
class Checkpoint:
    """What `marks.json` holds."""

    nonce: str
    """Of the session's own shell."""
    offset: int
    track: ShellTrack
    """What its marks say."""
    inner: Mapping[str, ShellTrack] = field(default_factory=dict)
    """By nonce, what those of the shells say that were adopted in it."""
    numbers: Numbers | None = None
    """Of all these; None: of the session's own shell alone, which counts them itself."""
    proven: tuple[int, str] = (-1, "")
    """Of the last command whose end was proven: size of the log when it was typed, and its name."""

    def save(self, directory: SessionDirectory) -> None:
        """Write it, but not over one of a newer format; a failure costs a later broker time alone."""
        if not directory.is_there or is_newer(read_values(directory.checkpoint), MARKS_FORMAT):
            return
        # A broker that knows nothing of adopted shells can use it only where there were none.
        several = bool(self.inner or (self.numbers and self.numbers.shifts))
        state = {**numbered(2 if several else 1), "nonce": self.nonce, "offset": self.offset}
        state["track"] = self.track.as_dict()
        if self.proven[1]:
            state["proven"] = self.proven
        if several:
            state["inner"] = {nonce: track.as_dict() for nonce, track in self.inner.items()}
            numbers = self.numbers or Numbers(self.track.number)
            state |= {"highest": numbers.highest, "shifts": dict(numbers.shifts)}
        with suppress(OSError):
            write_atomically(directory.checkpoint, json.dumps(state))

    @classmethod
    def load(cls, directory: SessionDirectory) -> Checkpoint | None:
        """Read it; None when there is none that can be read.

        One of a newer format is not: a part of what the marks said may be wrong by itself, and the log says it all.
        """
        state = read_values(directory.checkpoint)
        if is_newer(state, MARKS_FORMAT):
            return None
        try:
            track = ShellTrack.from_dict(state["track"])
            inner = {nonce: ShellTrack.from_dict(each) for nonce, each in state.get("inner", {}).items()}
            numbers = Numbers(int(state.get("highest", track.number)), dict(state.get("shifts", {})))
            typed_at, job = state.get("proven", (-1, ""))
            return cls(state["nonce"], int(state["offset"]), track, inner, numbers, (int(typed_at), str(job)))
        except (AttributeError, ValueError, KeyError, TypeError):
            return None
