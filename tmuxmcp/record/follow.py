"""What comes in a session's files from an offset on: its bytes, and where its events say so gaps and resizes. No tmux.

A follower is an offset. Nothing is queued for it: it reads on when it likes, or is told which bytes are no longer kept.
"""

from __future__ import annotations

import json
import os
from collections import deque
from contextlib import suppress

from tmuxmcp.contract.follow import Gap, Output, Resize
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.log import PIECE, RawLog

FileEvent = Output | Gap | Resize


class FileFollower:
    """Reads one session's files onwards. Each byte is given once."""

    def __init__(self, directory: SessionDirectory, offset: int = 0) -> None:
        """Begin at this offset of the log."""
        self._log = RawLog(directory)
        self._events = directory.events
        self._events_read = 0
        self._unfinished = b""
        self._noted: deque[Gap | Resize] = deque()
        """Events whose offset is not reached."""
        self._inode = self._inode_now()
        self.start_at(offset)

    def start_at(self, offset: int) -> None:
        """Go on from this offset; events before it do not matter."""
        self.offset = self._begun = offset

    def skip_events(self) -> None:
        """Leave out what the events say until now."""
        with suppress(OSError):
            self._events_read = self._events.stat().st_size

    @property
    def behind(self) -> bool:
        """There is more in the log."""
        return self._log.size() > self.offset

    @property
    def replaced(self) -> bool:
        """Another session has the directory: what is in there now is not of the one that is followed."""
        return self._inode_now() != self._inode

    def _inode_now(self) -> int:
        try:
            return os.stat(self._log.path).st_ino
        except OSError:
            return 0

    def read(self, most: int = PIECE) -> list[FileEvent]:
        """Give what comes next, at most so many bytes of it; nothing when everything was given."""
        size = self._log.size()  # first: a gap is written down before what is printed after it
        found: list[FileEvent] = [*self._reached()]
        end = min([size, self.offset + most, *(each.offset for each in self._noted)])
        if end > self.offset and (bytes_or_gap := self._bytes(end)):
            found.append(bytes_or_gap)
        return found

    def pass_over(self) -> list[FileEvent]:
        """Go to the log's end without reading it; give the gaps and resizes on the way."""
        self.offset = max(self.offset, self._log.size())
        return [*self._reached()]

    def _bytes(self, end: int) -> Output | Gap | None:
        offset = self.offset
        data = self._log.read(offset, end - offset)
        if self.replaced:
            return None
        if data:
            self.offset += len(data)
            return Output(offset, data)
        self.offset = max(offset, self._log.head())
        return Gap(offset, self.offset) if self.offset > offset else None

    def _reached(self) -> list[Gap | Resize]:
        """Gaps and resizes up to the offset; one that was written down late is given late."""
        self._read_events()
        found = [each for each in self._noted if each.offset <= self.offset]
        self._noted = deque(each for each in self._noted if each.offset > self.offset)
        return found

    def _read_events(self) -> None:
        with suppress(OSError):
            if self._events.stat().st_size > self._events_read:
                with self._events.open("rb") as file:
                    file.seek(self._events_read)
                    data = file.read()
                self._events_read += len(data)
                *lines, self._unfinished = (self._unfinished + data).split(b"\n")
                events = [event for line in lines if (event := _event(line)) and event.offset >= self._begun]
                self._noted.extend(sorted(events, key=lambda event: event.offset))


def _event(line: bytes) -> Gap | Resize | None:
    if b'"gap"' in line or b'"resize"' in line:
        with suppress(ValueError, KeyError, TypeError):
            values = json.loads(line)
            offset = int(values["offset"])
            if values["event"] == "gap":
                return Gap(offset, offset)
            if values["event"] == "resize":
                return Resize(offset, int(values["cols"]), int(values["rows"]))
    return None
