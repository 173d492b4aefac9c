"""A film being watched: where it stands, how fast it goes, to and fro. Pure: the time comes from whoever plays it.

Going back means to begin again at a screen that was kept on the way, so moments are iterated over several times. All
that takes long is done in steps, between which keys can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from tmuxmcp.contract.value import replace
from tmuxmcp.terminal.film.film import Film, FilmEvent, FilmMarker, FilmOutput
from tmuxmcp.terminal.film.frames import Projector
from tmuxmcp.terminal.snapshot import Snapshot

KEEP_BYTES = 1 << 18
"""Bytes of output between two screens that are kept, at first: a quarter of a second of work."""

MOST_KEPT_CELLS = 2_000_000
"""Cells of all screens that are kept: 30 MB. When there are more, every second one goes."""

PLAYED_AT_ONCE_BYTES, STEP_MOMENTS = 1 << 16, 4096
"""What is done in one step: some hundredths of a second."""

MOST_MARKS = 100_000

JUST_PASSED_MS = 1000

SPEEDS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)


class KeptScreen(NamedTuple):
    """A screen to begin again at."""

    ms: int
    moments: int
    """How many were taken by then."""
    snapshot: Snapshot


class Tape:
    """A screen that takes the moments of a film in their order, and can go back."""

    def __init__(self, film: Film) -> None:
        self._film = film
        self._projector = Projector(film.start)
        self._kept = [KeptScreen(film.begin_ms, 0, film.start)]
        self._keep_bytes = KEEP_BYTES
        self._begin(self._kept[0])

    def _begin(self, kept: KeptScreen) -> None:
        self._projector.restore(kept.snapshot)
        self._source: Iterator[FilmEvent] = iter(self._film.moments)
        self._skip, self._taken, self._fed = kept.moments, kept.moments, 0
        self.ms = kept.ms
        """The time of the last moment taken."""
        self.next: FilmEvent | None = None
        if not self._skip:
            self.next = next(self._source, None)

    def snapshot(self) -> Snapshot:
        """The screen after the last moment taken."""
        return self._projector.snapshot()

    def back_to(self, ms: int) -> None:
        """Go back to the last screen that is kept of that time or before."""
        before = [each for each in self._kept if each.ms <= ms]
        self._begin(before[-1] if before else self._kept[0])

    def work(self, ms: int) -> bool:
        """Take moments up to a time, for one step; whether all of them are taken."""
        done = moments = 0
        while self._skip and moments < STEP_MOMENTS:
            moments += 1
            self._skip -= 1
            next(self._source, None)
            if not self._skip:
                self.next = next(self._source, None)
        while not self._skip and self.next and self.next.ms <= ms:
            if done >= PLAYED_AT_ONCE_BYTES or moments >= STEP_MOMENTS:
                return False
            done += self.take()
            moments += 1
        return not self._skip

    def take(self) -> int:
        """Take the next moment; how many bytes it printed."""
        assert self.next
        self._projector.show(self.next)
        self.ms, size = self.next.ms, len(self.next.data) if isinstance(self.next, FilmOutput) else 0
        self._taken += 1
        self._fed += size
        if self._fed >= self._keep_bytes and self._taken > self._kept[-1].moments:
            self._keep()
        self.next = next(self._source, None)
        return size

    def _keep(self) -> None:
        self._fed = 0
        snapshot = self.snapshot()
        self._kept.append(KeptScreen(self.ms, self._taken, snapshot))
        cells = snapshot.cols * snapshot.rows * (2 if snapshot.alternate else 1)
        if len(self._kept) > max(MOST_KEPT_CELLS // cells, 2):
            del self._kept[1::2]
            self._keep_bytes *= 2


class Player:
    """A viewing of a film. Times are in milliseconds from its beginning."""

    def __init__(
        self, film: Film, speed: float = 1.0, idle_limit_ms: int = 0, marks: Iterable[FilmEvent] | None = None
    ) -> None:
        """Begin at the beginning, playing.

        Args:
            idle_limit_ms: silence is cut to this, before it is shown faster or slower; 0: it is as long as it was.
            marks: the film's moments, or those that are marks, if they are to be had without reading all of it.
        """
        self.film, self.speed, self.idle_limit_ms = film, speed, idle_limit_ms
        self.duration_ms = max(film.end_ms - film.begin_ms, 0)
        self.marks = [*_marks(film, film.moments if marks is None else marks)]
        self.paused = False
        self.skips_idle = idle_limit_ms > 0
        self.at_ms = 0.0
        """Where it stands."""
        self._target: float | None = None
        self._tape = Tape(film)
        self._go(0)  # what comes at once is shown at once

    @property
    def seeks(self) -> bool:
        """It is on its way to another time: `work` has to be called."""
        return self._target is not None

    @property
    def ended(self) -> bool:
        """Nothing comes any more."""
        return not self.seeks and self._tape.next is None and self.at_ms >= self.duration_ms

    @property
    def snapshot(self) -> Snapshot:
        """The screen where it stands."""
        return self._tape.snapshot()

    # ---- time passes -------------------------------------------------------------------------------

    def due_s(self) -> float | None:
        """Seconds until something changes; None: nothing will by itself."""
        if self.seeks:
            return 0
        if self.paused or self.ended:
            return None
        return max((self._change_ms() - self.at_ms) / self.speed / 1000, 0)

    def _change_ms(self) -> float:
        """When there is something to do: the next moment, the end, or a silence that has been long enough."""
        change = self._next_ms()
        if self.skips_idle:
            change = min(change, max(self._tape.ms - self.film.begin_ms, 0) + self.idle_limit_ms)
        return max(change, self.at_ms)

    def _next_ms(self) -> int:
        return (self._tape.next.ms if self._tape.next else self.film.end_ms) - self.film.begin_ms

    def pass_(self, seconds: float) -> None:
        """So much time has passed: play on."""
        if self.paused or self.seeks or self.ended:
            return
        self.at_ms = min(self.at_ms + seconds * 1000 * self.speed, float(self.duration_ms))
        if self.skips_idle and self.at_ms >= self._change_ms():
            self.at_ms = float(max(self._next_ms(), self.at_ms))
        self._go(self.at_ms)

    def work(self) -> None:
        """Go on towards the time that was asked for, for a few hundredths of a second."""
        if self._target is not None and self._tape.work(self.film.begin_ms + int(self._target)):
            self.at_ms, self._target = self._target, None

    # ---- what a person wants -----------------------------------------------------------------------

    def seek(self, ms: float) -> None:
        """Go to a time, as far as there is one."""
        ms = min(max(ms, 0.0), float(self.duration_ms))
        if ms < self._tape.ms - self.film.begin_ms:
            self._tape.back_to(self.film.begin_ms + int(ms))
        self._go(ms)

    def _go(self, ms: float) -> None:
        self._target = ms
        self.work()

    @property
    def position_ms(self) -> float:
        """Where it stands, or will in a moment."""
        return self.at_ms if self._target is None else self._target

    def step(self) -> None:
        """Go on to the next moment that changes the screen, and pause there."""
        self.paused = True
        if self.seeks:
            return
        before, left = _visible_state(self.snapshot), STEP_MOMENTS
        while left and self._tape.next and _visible_state(self.snapshot) == before:
            self._tape.take()
            left -= 1
            self.at_ms = max(float(self._tape.ms - self.film.begin_ms), self.at_ms)

    def faster(self, by: int) -> None:
        """The next higher or lower speed."""
        faster = [each for each in SPEEDS if (each > self.speed if by > 0 else each < self.speed)]
        if faster:
            self.speed = min(faster) if by > 0 else max(faster)

    def next_mark(self, failed: bool = False) -> bool:
        """Go to the next mark, or to that of the next command that failed; whether there is one."""
        found = [ms for ms, mark in self.marks if ms > self.position_ms and (mark.exit_code or not failed)]
        if found:
            self.seek(found[0])
        return bool(found)

    def previous_mark(self) -> None:
        """Go to the mark before this time, else to the beginning; while it plays, not to one that was just passed."""
        before_ms = self.position_ms - (0 if self.paused else JUST_PASSED_MS * self.speed)
        self.seek(max((ms for ms, _ in self.marks if ms < before_ms), default=0))

    def mark(self) -> int | None:
        """The number of the mark that comes next, from 0: of the command that runs."""
        return next((number for number, (ms, _) in enumerate(self.marks) if ms >= self.position_ms), None)


def _visible_state(snapshot: Snapshot) -> tuple[object, ...]:
    return snapshot.grid, snapshot.cursor


def _marks(film: Film, moments: Iterable[FilmEvent]) -> Iterator[tuple[int, FilmMarker]]:
    marks = (each for each in moments if isinstance(each, FilmMarker))
    yield from ((each.ms - film.begin_ms, each) for each in islice(marks, MOST_MARKS))


# ---- A film at another speed, and without the long pauses in which nothing happens. Pure -----------------------------


class Clock:
    """The time of a film that is shown faster, as its moments come: no two are further apart than the limit."""

    def __init__(self, begin_ms: int, speed: float = 1.0, idle_limit_ms: int | None = None) -> None:
        """Begin at 0.

        Args:
            speed: 2 shows it in half the time.
            idle_limit_ms: the longest pause, before it is shown faster; None: as long as it was.
        """
        self._before, self._passed = begin_ms, 0
        self._speed, self._limit = speed, idle_limit_ms

    def at(self, ms: int) -> int:
        """The time at which this moment is shown; to be asked of moments in their order."""
        pause = max(ms - self._before, 0)
        self._before = max(ms, self._before)
        self._passed += pause if self._limit is None else min(pause, self._limit)
        return round(self._passed / self._speed)


def paced(film: Film, times: Iterable[int], speed: float = 1.0, idle_limit_ms: int | None = None) -> Film:
    """Give a film that begins at 0 and goes so fast.

    Args:
        times: those of its moments, for its end is told before any of them is made.
    """
    ahead = Clock(film.begin_ms, speed, idle_limit_ms)
    for ms in times:
        ahead.at(ms)
    end_ms = ahead.at(film.end_ms)
    clock = Clock(film.begin_ms, speed, idle_limit_ms)
    created_at = film.created_at + film.begin_ms / 1000 if film.created_at else 0
    return replace(film, begin_ms=0, end_ms=end_ms, moments=_moved(film.moments, clock), created_at=created_at)


def _moved(moments: Iterable[FilmEvent], clock: Clock) -> Iterator[FilmEvent]:
    for each in moments:
        yield replace(each, ms=clock.at(each.ms))
