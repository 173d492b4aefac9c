"""A film -> the screens that it shows, a few a second: what moving pictures are made of. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tmuxmcp.contract.value import value
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.stream import Stream
from tmuxmcp.terminal.film.film import Film, FilmEvent, FilmOutput, FilmResize
from tmuxmcp.terminal.snapshot import Snapshot

GATHERED_BYTES = 1 << 18
"""What is printed within one frame is fed to the screen in pieces of this size."""


class Projector:
    """A screen that takes the moments of a film, one after the other."""

    def __init__(self, start: Snapshot) -> None:
        self._screen = Screen(1, 1)
        self._stream = Stream(self._screen)
        self.restore(start)

    def restore(self, snapshot: Snapshot) -> None:
        """Show this, and go on from it."""
        self._stream.restore(snapshot)
        self._offset = snapshot.offset

    def show(self, moment: FilmEvent) -> None:
        """Do what happened at a moment; but for what was printed and another size, nothing is seen of it."""
        match moment:
            case FilmOutput(_, data):
                self.feed(data)
            case FilmResize(_, _, _, Snapshot() as told):
                self._stream.restore(told)
            case FilmResize(_, cols, rows):
                self._screen.resize(rows, cols)

    def feed(self, data: bytes) -> None:
        """Take what was printed."""
        self._stream.feed(data)
        self._offset += len(data)

    def snapshot(self) -> Snapshot:
        """Give the screen as it is."""
        return self._stream.snapshot(self._offset)


@value(frozen=False)
class Rate:
    """How often there is a new frame; may be lowered while frames are made."""

    interval_ms: float

    @classmethod
    def per_second(cls, frames: float) -> Rate:
        return cls(1000 / frames)


@value
class Frame:
    """What is shown from one time to another, in milliseconds from the beginning of the picture."""

    ms: int
    until_ms: int
    snapshot: Snapshot


def frames(film: Film, rate: Rate) -> Iterator[Frame]:
    """Give the screens of a film that differ, at most as many a second as the rate says.

    What is printed less than an interval after a frame's beginning belongs to that frame: programs draw in many
    small steps, and half a screen is not shown.
    """
    strip = _Strip(film.start)
    for moment in film.moments:
        if not isinstance(moment, FilmOutput | FilmResize):
            continue
        ms = moment.ms - film.begin_ms
        if ms >= strip.ms + rate.interval_ms:
            yield from strip.cut(ms)
        strip.add(moment)
    yield from strip.cut(max(film.end_ms - film.begin_ms, strip.ms))
    yield strip.last(rate)


class _Strip:
    """The frame that is being made, and the one before it, which lasts until it is known that this one differs."""

    def __init__(self, start: Snapshot) -> None:
        self._projector = Projector(start)
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._before: Frame | None = None
        self.ms = 0
        """When the frame begins that is being made."""

    def add(self, moment: FilmOutput | FilmResize) -> None:
        if isinstance(moment, FilmOutput):
            self._gathered.append(moment.data)
            self._gathered_bytes += len(moment.data)
            if self._gathered_bytes < GATHERED_BYTES:
                return
        self._feed()
        if isinstance(moment, FilmResize):
            self._projector.show(moment)

    def _feed(self) -> None:
        self._projector.feed(b"".join(self._gathered))
        self._gathered, self._gathered_bytes = [], 0

    def cut(self, ms: int) -> Iterator[Frame]:
        """End the frame that is being made, and give the one before it if this one differs; begin another."""
        self._feed()
        snapshot = self._projector.snapshot()
        if self._before is None or _differ(self._before.snapshot, snapshot):
            if self._before:
                yield Frame(self._before.ms, self.ms, self._before.snapshot)
            self._before = Frame(self.ms, self.ms, snapshot)
        self.ms = ms

    def last(self, rate: Rate) -> Frame:
        """The last frame, after all was cut."""
        assert self._before
        until_ms = max(self.ms, self._before.ms + round(rate.interval_ms))
        return Frame(self._before.ms, until_ms, self._before.snapshot)


def _differ(one: Snapshot, other: Snapshot) -> bool:
    return one.cursor != other.cursor or one.grid != other.grid
