"""Films for tests: of recordings of real programs, and of bytes at times."""

from __future__ import annotations

from collections.abc import Sequence

from tests.kit.corpora import Recording
from tmuxmcp.terminal.emulator.replay import blank
from tmuxmcp.terminal.film.film import Film, FilmEvent, FilmOutput


def film_of(moments: Sequence[FilmEvent], end_ms: int, cols: int = 20, rows: int = 4, begin_ms: int = 0) -> Film:
    """A film of these moments, on a screen that was blank."""
    return Film(blank(cols, rows), begin_ms, end_ms, moments, title="a film")


def printed(*pieces: tuple[int, bytes], end_ms: int = 10_000, begin_ms: int = 0) -> Film:
    """A film of bytes at times."""
    return film_of([FilmOutput(ms, data) for ms, data in pieces], end_ms, begin_ms=begin_ms)


def recorded(name: str, step: int = 200, every_ms: int = 50) -> Film:
    """A recording of a real program, so many bytes at a time."""
    recording = Recording(name)
    starts = range(0, len(recording.raw), step)
    moments = [
        FilmOutput(1000 + number * every_ms, recording.raw[start : start + step]) for number, start in enumerate(starts)
    ]
    return film_of(moments, moments[-1].ms + 500, recording.cols, recording.rows)
