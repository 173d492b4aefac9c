"""What comes in a session's files from an offset on: its bytes, and where its events say so gaps and resizes. No tmux.

A follower is an offset. Nothing is queued for it: it reads on when it likes, or is told which bytes are no longer kept.
"""

from __future__ import annotations

import os
from collections import deque

from tmuxmcp.contract.follow import Gap, Output, Resize
from tmuxmcp.record import events
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import Events, ResizedEvent
from tmuxmcp.record.log import LOG_READ_BYTES, RawLog

FileEvent = Output | Gap | Resize


class FileFollower:
    """Reads one session's files onwards. Each byte is given once."""

    def __init__(self, directory: SessionDirectory, noted: Events, offset: int = 0) -> None:
        """Begin at this offset of the log."""
        self._log = RawLog(directory)
        self._events, self._taken = noted, 0
        self._noted: deque[Gap | Resize] = deque()
        """Events whose offset is not reached."""
        self._inode = self._inode_now()
        self.start_at(offset)

    def start_at(self, offset: int) -> None:
        """Go on from this offset; events before it do not matter."""
        self.offset = self._begun = offset

    def skip_events(self) -> None:
        """Leave out what the events say until now."""
        self._taken += len(self._events.gaps_and_resizes(self._taken))

    @property
    def has_more(self) -> bool:
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

    def read(self, most: int = LOG_READ_BYTES) -> list[FileEvent]:
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
        new = self._events.gaps_and_resizes(self._taken)
        self._taken += len(new)
        told = [_as_change(each) for each in new if each.offset >= self._begun]
        self._noted.extend(sorted(told, key=lambda each: each.offset))
        found = [each for each in self._noted if each.offset <= self.offset]
        self._noted = deque(each for each in self._noted if each.offset > self.offset)
        return found


def _as_change(event: events.GapEvent | ResizedEvent) -> Gap | Resize:
    if isinstance(event, ResizedEvent):
        return Resize(event.offset, event.cols, event.rows)
    return Gap(event.offset, event.offset)
