"""A screen that follows a log: bytes and changes of size in, a Snapshot at any offset passed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tmuxmcp.contract.value import replace, value
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.stream import Stream
from tmuxmcp.terminal.emulator.uncertain import Doubtful
from tmuxmcp.terminal.snapshot import ALL_DOUBTS, SHOWN_DOUBTS, Doubt, Snapshot
from tmuxmcp.terminal.widths import TmuxVersion


@value
class SizeChange:
    """The terminal's size changed at this offset."""

    offset: int
    cols: int
    rows: int
    told: Snapshot | None = None
    """The screen right after it, where tmux was asked: it wraps the main screen anew, which `Screen` does not."""


@value
class ReplayGap:
    """Output was lost at this offset: what is shown from there on may lack something."""

    offset: int


def blank(cols: int, rows: int, offset: int = 0, tmux: TmuxVersion | None = None) -> Snapshot:
    """Give an empty screen.

    Args:
        tmux: what counts its columns, if that is known.
    """
    screen = Screen(cols, rows)
    screen.count_as(tmux)
    return screen.snapshot(offset)


STRING_ENDS = re.compile(rb"[^\x1b]\x1b\\")
"""Ends whatever string it may be in; after another escape it may be a part of one."""


def beginning(
    cols: int, rows: int, offset: int, tmux: TmuxVersion | None = None, *, size_known: bool = True
) -> Snapshot:
    """Give an empty screen in place of one that is not known."""
    doubts = tuple(sorted(ALL_DOUBTS - {Doubt.SIZE} if size_known else ALL_DOUBTS))
    screen = blank(cols, rows, offset, tmux)
    return replace(screen, state=replace(screen.state, doubts=doubts), approximate=True)


class Replay:
    """A screen that stands at one offset of a log and moves on.

    As long as something of it may be wrong, it is a `Doubtful` one, which is slower.
    """

    def __init__(self, start: Snapshot, resizes: Iterable[SizeChange] = (), gaps: Iterable[int] = ()) -> None:
        """Begin at a snapshot; what is at or before its offset has happened.

        Args:
            gaps: offsets at which output was lost.
        """
        self._tmux = start.state.tmux
        self._go_on(start, doubts_of(start))
        events: list[SizeChange | ReplayGap] = [*resizes, *(ReplayGap(each) for each in gaps)]
        self._events = sorted((each for each in events if each.offset > start.offset), key=lambda each: each.offset)
        self.offset = start.offset
        self._before = b""
        """The last two bytes."""

    def _go_on(self, screen: Snapshot, doubts: Iterable[Doubt]) -> None:
        """Stand at a screen of which something may be wrong, or nothing."""
        doubtful = set(doubts)
        self._screen = Doubtful(1, 1) if doubtful else Screen(1, 1)
        self._screen.count_as(self._tmux)
        self._stream = Stream(self._screen)
        self._stream.restore(screen)
        if isinstance(self._screen, Doubtful):
            self._screen.doubts = doubtful

    @property
    def doubts(self) -> frozenset[Doubt]:
        """What of the screen may be wrong."""
        return frozenset(self._screen.doubts) if isinstance(self._screen, Doubtful) else frozenset()

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
        self.offset += len(data)
        if Doubt.PARSER in self.doubts:
            data = self._parsed_for_certain(data)
        self._stream.feed(data)
        if isinstance(self._screen, Doubtful) and not self._screen.doubts:
            self._go_on(self._stream.snapshot(), ())

    def _parsed_for_certain(self, data: bytes) -> bytes:
        """Feed the part of the bytes that may belong to a string; give the rest."""
        assert isinstance(self._screen, Doubtful)
        found = STRING_ENDS.search(self._before + data)
        end = found.end() - len(self._before) if found else len(data)
        self._before = (self._before + data)[-2:]
        self._stream.feed(data[:end])
        self._screen.doubts |= ALL_DOUBTS - {Doubt.SIZE}  # whatever they seemed to say
        if found:
            self._screen.doubts.discard(Doubt.PARSER)
        return data[end:]

    def _happen(self, event: SizeChange | ReplayGap) -> None:
        if isinstance(event, ReplayGap):
            self._before = b""
            self._doubt(ALL_DOUBTS - {Doubt.SIZE})
            self._screen.end_links()  # the end of one may be lost
            return
        same = (event.cols, event.rows) == (self._screen.columns, self._screen.lines)
        if event.told:
            told = event.told
            self._go_on(told, {*doubts_of(told), *({Doubt.UNDER} if told.alternate and not same else ())})
            return
        unsure = self.doubts & {Doubt.SIZE, Doubt.ALTERNATE}
        if unsure or not (same or self._screen.alternate):  # tmux wraps the main screen anew
            self._doubt({Doubt.GRID, Doubt.CURSOR, *({Doubt.UNDER} if unsure else ())})
        elif not same:
            self._doubt({Doubt.UNDER})
        self._screen.resize(event.rows, event.cols)
        if isinstance(self._screen, Doubtful):
            self._screen.doubts.discard(Doubt.SIZE)

    def _doubt(self, doubts: Iterable[Doubt]) -> None:
        if isinstance(self._screen, Doubtful):
            self._screen.doubts |= set(doubts)
        else:
            self._go_on(self._stream.snapshot(), doubts)

    def snapshot(self) -> Snapshot:
        """Give the screen where it stands."""
        screen, doubts = self._stream.snapshot(self.offset), self.doubts
        state = replace(screen.state, doubts=tuple(sorted(doubts)))
        return replace(screen, state=state, approximate=bool(doubts & SHOWN_DOUBTS))


def counted_by(screen: Snapshot, tmux: TmuxVersion | None) -> Snapshot:
    """A screen whose columns are counted by this tmux; where that is not known, they are in doubt."""
    doubts = set(screen.state.doubts) - {Doubt.WIDTHS} if tmux else {*doubts_of(screen), Doubt.WIDTHS}
    return replace(screen, state=replace(screen.state, tmux=tmux, doubts=tuple(sorted(doubts))))


def doubts_of(screen: Snapshot) -> frozenset[Doubt]:
    """What of a screen may be wrong."""
    if screen.state.doubts:
        return frozenset(map(Doubt, screen.state.doubts))
    return ALL_DOUBTS if screen.approximate else frozenset()
