"""What happened to a session and at which offset of its log: input, changes of size, lost output, its end."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tmuxmcp.record.directory import SessionDirectory

LIMIT_BYTES = 1 << 20
"""Bytes of `events.jsonl`; of what comes after that only gaps are written down."""


@dataclass(frozen=True)
class Resized:
    """The terminal has had this size since an offset."""

    offset: int
    cols: int
    rows: int


class Events:
    """One session's `events.jsonl`: any broker, the sink and the launcher append to it."""

    def __init__(self, directory: SessionDirectory) -> None:
        self._path = directory.events

    def append(self, kind: str, time: str, offset: int, **values: Any) -> None:
        """Write down what happened."""
        event = {"time": time, "offset": offset, "event": kind, **values}
        with suppress(OSError):
            fd = os.open(self._path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                if kind == "gap" or os.fstat(fd).st_size < LIMIT_BYTES:
                    os.write(fd, (json.dumps(event) + "\n").encode())
            finally:
                os.close(fd)

    def gaps(self, start: int, end: int) -> list[int]:
        """Offsets between `start` and `end` at which output was lost."""
        found = []
        for event in self._of("gap"):
            with suppress(ValueError, KeyError, TypeError):
                if start <= event["offset"] <= end:
                    found.append(int(event["offset"]))
        return found

    def resizes(self) -> list[Resized]:
        """The changes of size; a line that cannot be read is left out."""
        found = []
        for event in self._of("resize"):
            with suppress(ValueError, KeyError, TypeError):
                found.append(Resized(int(event["offset"]), int(event["cols"]), int(event["rows"])))
        return found

    def _of(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind; only lines that may be of it are parsed."""
        try:
            text = self._path.read_bytes()
        except OSError:
            return []
        found, word = [], f'"{kind}"'.encode()
        for line in text.splitlines() if word in text else []:
            if word in line:
                with suppress(ValueError, KeyError, TypeError):
                    event = json.loads(line)
                    if event["event"] == kind:
                        found.append(event)
        return found
