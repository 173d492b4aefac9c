"""A screen that follows a log: bytes and changes of size in, a Snapshot at any offset passed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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


def blank(cols: int, rows: int, offset: int = 0) -> Snapshot:
    """Give an empty screen."""
    return Screen(cols, rows).snapshot(offset)


class Replay:
    """A screen that stands at one offset of a log and moves on."""

    def __init__(self, start: Snapshot, resizes: Iterable[Resize] = ()) -> None:
        """Begin at a snapshot; `resizes` at or before its offset have happened."""
        self._screen = Screen(1, 1)
        self._stream = Stream(self._screen)
        self._stream.restore(start)
        self._resizes = sorted((each for each in resizes if each.offset > start.offset), key=lambda each: each.offset)
        self.offset = start.offset

    def feed(self, data: bytes) -> None:
        """Take the bytes that follow, changing the size where it was changed."""
        while self._resizes and self._resizes[0].offset <= self.offset + len(data):
            resize = self._resizes.pop(0)
            cut = resize.offset - self.offset
            self._feed(data[:cut])
            self._resize(resize)
            data = data[cut:]
        self._feed(data)

    def _feed(self, data: bytes) -> None:
        self._stream.feed(data)
        self.offset += len(data)

    def _resize(self, resize: Resize) -> None:
        if resize.told:
            self._stream.restore(resize.told)
        else:
            self._screen.resize(resize.rows, resize.cols)

    def snapshot(self) -> Snapshot:
        """Give the screen where it stands."""
        return self._stream.snapshot(self.offset)
