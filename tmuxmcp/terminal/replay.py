"""A screen that follows a log: bytes and changes of size in, a Snapshot at any offset passed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tmuxmcp.terminal.screen import Screen
from tmuxmcp.terminal.snapshot import Snapshot
from tmuxmcp.terminal.stream import Stream


@dataclass(frozen=True)
class Resize:
    """The terminal's size changed at this offset."""

    offset: int
    cols: int
    rows: int
    told: Snapshot | None = None
    """The screen right after it, where tmux was asked: it wraps the main screen anew, which `Screen` does not."""


@dataclass(frozen=True)
class Gap:
    """Output was lost at this offset: what is shown from there on may lack something."""

    offset: int


def blank(cols: int, rows: int, offset: int = 0) -> Snapshot:
    """Give an empty screen."""
    return Screen(cols, rows).snapshot(offset)


class Replay:
    """A screen that stands at one offset of a log and moves on."""

    def __init__(self, start: Snapshot, resizes: Iterable[Resize] = (), gaps: Iterable[int] = ()) -> None:
        """Begin at a snapshot; what is at or before its offset has happened.

        Args:
            gaps: offsets at which output was lost.
        """
        self._screen = Screen(1, 1)
        self._stream = Stream(self._screen)
        self._stream.restore(start)
        self._approximate = start.approximate
        events: list[Resize | Gap] = [*resizes, *(Gap(each) for each in gaps)]
        self._events = sorted((each for each in events if each.offset > start.offset), key=lambda each: each.offset)
        self.offset = start.offset

    def feed(self, data: bytes) -> None:
        """Take the bytes that follow, changing the size where it was changed."""
        while self._events and self._events[0].offset <= self.offset + len(data):
            event = self._events.pop(0)
            cut = event.offset - self.offset
            self._feed(data[:cut])
            self._happen(event)
            data = data[cut:]
        self._feed(data)

    def _feed(self, data: bytes) -> None:
        self._stream.feed(data)
        self.offset += len(data)

    def _happen(self, event: Resize | Gap) -> None:
        if isinstance(event, Gap):
            self._approximate = True
        elif event.told:
            self._stream.restore(event.told)
            self._approximate = event.told.approximate
        else:
            same = (event.cols, event.rows) == (self._screen.columns, self._screen.lines)
            self._approximate = self._approximate or not (same or self._screen.alternate)
            self._screen.resize(event.rows, event.cols)

    def snapshot(self) -> Snapshot:
        """Give the screen where it stands."""
        return replace(self._stream.snapshot(self.offset), approximate=self._approximate)
