"""Frames: the screens of a film that differ, not too many a second, at their times."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.films import film_of, printed
from tmuxmcp.terminal.emulator.replay import blank
from tmuxmcp.terminal.film.film import Film, FilmInput, FilmMarker, FilmOutput, FilmResize
from tmuxmcp.terminal.film.frames import Frame, Projector, Rate, frames


def made(film: Film, per_second: float = 10) -> list[Frame]:
    return list(frames(film, Rate.per_second(per_second)))


def tops(found: list[Frame]) -> list[tuple[int, int, str]]:
    return [(frame.ms, frame.until_ms, frame.snapshot.text_rows()[0]) for frame in found]


def test_what_is_printed_together_is_one_frame() -> None:
    film = printed((500, b"a"), (550, b"b"), (599, b"c"), (601, b"d"), (5000, b"e"), end_ms=6000)
    assert tops(made(film)) == [(0, 500, ""), (500, 601, "abc"), (601, 5000, "abcd"), (5000, 6000, "abcde")]


def test_what_changes_nothing_is_no_frame() -> None:
    film = printed((1000, b"a"), (2000, b"\ra"), (3000, b"\x1b[1m"), (4000, b"b"), end_ms=5000)
    assert tops(made(film)) == [(0, 1000, ""), (1000, 4000, "a"), (4000, 5000, "ab")]


def test_times_count_from_the_beginning_of_the_film() -> None:
    film = printed((10_000, b"a"), (10_500, b"b"), end_ms=12_000, begin_ms=9000)
    assert tops(made(film)) == [(0, 1000, ""), (1000, 1500, "a"), (1500, 3000, "ab")]


def test_what_is_typed_or_marked_shows_nothing() -> None:
    film = film_of(
        [FilmOutput(0, b"a"), FilmInput(5000, b"x"), FilmMarker(6000, "ls"), FilmOutput(9000, b"b")], end_ms=9000
    )
    assert [frame.ms for frame in made(film)] == [0, 9000]


def test_screens_change_their_size() -> None:
    told = blank(30, 3)
    film = film_of([FilmOutput(0, b"a"), FilmResize(1000, 10, 5), FilmResize(2000, 30, 3, told)], end_ms=3000)
    assert [(frame.snapshot.cols, frame.snapshot.rows) for frame in made(film)] == [(20, 4), (10, 5), (30, 3)]
    assert [frame.snapshot.text_rows()[0] for frame in made(film)] == ["a", "a", ""]


def test_a_film_of_nothing_is_one_frame() -> None:
    assert tops(made(film_of([], end_ms=0))) == [(0, 100, "")]


PIECES = st.lists(st.tuples(st.integers(0, 400), st.sampled_from([b"a", b"\r", b"b\r\n", b"\x1b[2J"])), max_size=20)


@given(PIECES, st.sampled_from([2, 10, 50]))
def test_frames_follow_one_another_and_show_what_was_there(gaps: list[tuple[int, bytes]], per_second: int) -> None:
    times = [sum(gap for gap, _ in gaps[: number + 1]) for number in range(len(gaps))]
    moments = [FilmOutput(ms, data) for ms, (_, data) in zip(times, gaps, strict=True)]
    found = made(film_of(moments, end_ms=10_000), per_second)
    assert found[0].ms == 0
    for one, other in pairwise(found):
        assert one.until_ms == other.ms >= one.ms + 1000 // per_second
        assert (one.snapshot.grid, one.snapshot.cursor) != (other.snapshot.grid, other.snapshot.cursor)
    for frame in found:
        assert frame.snapshot.grid in screens_between(moments, frame.ms, frame.ms + 1000 // per_second)


def screens_between(moments: list[FilmOutput], first_ms: int, last_ms: int) -> list[object]:
    projector, found = Projector(blank(20, 4)), []
    found.append(projector.snapshot().grid)
    for moment in moments:
        if moment.ms > last_ms:
            break
        if moment.ms < first_ms:
            found.clear()
        projector.show(moment)
        found.append(projector.snapshot().grid)
    return found
