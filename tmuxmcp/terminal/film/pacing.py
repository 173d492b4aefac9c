"""A film at another speed, and without the long pauses in which nothing happens. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tmuxmcp.terminal.film.film import Film, FilmEvent


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
