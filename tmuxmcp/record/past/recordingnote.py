"""`recording.json`: the recording of a session that is being made, or the last one that was.

Nothing is copied while a recording runs: the note says where it began and what is wanted, and the file is made of the
log when it is stopped or the session has ended, by whatever broker is there then. So a killed broker loses nothing.
Whoever changes the note holds `recording.lock`.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Literal

from tmuxmcp.contract.call import iso
from tmuxmcp.contract.errors import IoError
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.contract.words import RecordedAs, RecordingStage
from tmuxmcp.machine.ownfiles import make_directory, write_atomically
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.formats import is_newer, numbered, read_values

RECORDING_FORMAT = 1
"""The newest format of `recording.json` that is known here."""

Keep = Literal["always", "on_failure"]
"""Whether its file is kept whatever happens, or only if something failed."""

FILM_ENDINGS: dict[RecordedAs, str] = {"cast": ".cast", "cast2": ".cast", "jsonl": ".jsonl"}
"""Of the files for which no place was named."""

FileId = tuple[int, int]
"""Device and number of the empty file that keeps the place."""


@dataclass(frozen=True)
class RecordingNote:
    """One recording."""

    id: str
    film: RecordedAs
    path: str
    """Where its file is to be; empty: beside the log, under `name`."""
    name: str
    """Of its file beside the log."""
    place: FileId | None
    """What keeps the place at `path`."""
    begin: int
    """Offset of the log at which it begins."""
    begin_ms: int
    """The same as a time: since the session was made."""
    began_at: str
    """ISO 8601, UTC."""
    input: bool = False
    """What is typed is part of it, where the terminal shows that."""
    idle_limit_ms: int | None = None
    keep: Keep = "always"
    by: str = ""
    """The caller who wanted it; empty: a setting."""
    state: RecordingStage = "running"
    end: int | None = None
    """Offset at which it ended; None: it has not, or with the session."""
    end_ms: int | None = None
    with_session: bool = False
    """It ended because the session did."""
    saved: str = ""
    """Where its file is; empty: in `recordings/` under `name`."""
    bytes: int = 0
    duration_ms: int = 0
    events: int = 0
    times_known: bool = True
    approximate: bool = False
    truncated: bool = False
    """Its file was full before the end."""
    tries: int = 0
    """How often its file could not be made."""
    note: str = ""

    @property
    def is_open(self) -> bool:
        """Its file is still to be made."""
        return self.state in ("running", "stopped")

    def file(self, directory: SessionDirectory) -> Path:
        """Where its file is, or will be."""
        return Path(self.saved or self.path or directory.recordings / self.name)

    def save(self, directory: SessionDirectory) -> None:
        """Write it down, on the disk.

        Raises:
            IoError: it cannot be, or a newer version has written there.
        """
        there = read_values(directory.recording)
        if is_newer(there, RECORDING_FORMAT):
            raise IoError(f"{directory.recording} was written by a newer tmuxmcp.", hint="Use that version.")
        try:
            if not directory.is_there:
                raise FileNotFoundError(2, os.strerror(2))
            write_atomically(
                directory.recording, json.dumps({**numbered(RECORDING_FORMAT), **vars(self)}, indent=1), to_disk=True
            )
        except OSError as error:
            raise IoError(f"{directory.recording} cannot be written: {error.strerror}.") from error

    @classmethod
    def load(cls, directory: SessionDirectory) -> RecordingNote | None:
        """What is written down; None: nothing that can be read."""
        there = read_values(directory.recording)
        try:
            note = cls(**{each.name: there[each.name] for each in fields(cls) if each.name in there})
        except TypeError:
            return None
        return replace(note, place=_file_id(note.place))


def _file_id(given: Any) -> FileId | None:
    match given:
        case [int() as device, int() as number] | (int() as device, int() as number):
            return device, number
    return None


def begin_recording(
    directory: SessionDirectory,
    film: RecordedAs,
    *,
    begin: int,
    begin_ms: int,
    path: str = "",
    place: FileId | None = None,
    **more: Any,
) -> RecordingNote:
    """Write down that a recording begins, and keep a place for its file where none was named.

    Args:
        more: other fields of the note.

    Raises:
        IoError: it cannot be written down; nothing is left.
    """
    name = "" if path else reserve_beside(directory, FILM_ENDINGS[film])
    note = RecordingNote(secrets.token_hex(4), film, path, name, place, begin, begin_ms, iso(time.time()), **more)
    try:
        note.save(directory)
    except IoError:
        if name:
            (directory.recordings / name).unlink(missing_ok=True)
        raise
    return note


def reserve_beside(directory: SessionDirectory, ending: str) -> str:
    """Make an empty file for a recording beside the log; its name.

    Raises:
        IoError: it cannot be made.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        make_directory(directory.recordings)
        for name in new_names(ending):
            try:
                os.close(os.open(directory.recordings / name, flags, 0o600))
                return name
            except FileExistsError:
                continue
    except OSError as error:
        raise IoError(f"No file can be made in {directory.recordings}: {error.strerror}.") from error
    raise AssertionError("there is always one more name")


def new_names(ending: str) -> Iterator[str]:
    """Names for a file that is made now, the first choice first."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return (f"{stamp}{f'-{number}' if number else ''}{ending}" for number in count())
