"""Asciicasts: what is written is read back equal, whatever the bytes and wherever they are cut."""

from __future__ import annotations

import codecs
import json
from contextlib import suppress
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.cases import for_each
from tmuxmcp.contract.value import replace
from tmuxmcp.terminal.emulator.replay import blank
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.stream import Stream
from tmuxmcp.terminal.film.film import Film, FilmEvent, FilmExit, FilmInput, FilmMarker, FilmOutput, FilmResize
from tmuxmcp.terminal.film.formats import Version, read, written
from tmuxmcp.terminal.film.player import paced


def film(*moments: FilmEvent, begin_ms: int = 0, **facts: object) -> Film:
    end_ms = max((each.ms for each in moments), default=begin_ms)
    return Film(blank(80, 24), begin_ms, end_ms, moments, **facts)  # type: ignore[arg-type]  # title and the like


def lines(of: Film, version: Version = 3) -> list[object]:
    return [json.loads(line) for line in written(of, version)]


ALL = (
    FilmOutput(10, b"one\r\n"),
    FilmInput(20, b"ls\r"),
    FilmResize(1020, 100, 30),
    FilmMarker(1020, "make test: exit 2", 2),
    FilmOutput(2500, b"\x1b[1mtwo"),
    FilmExit(2501, 3),
)


def test_version_3_tells_intervals() -> None:
    assert lines(film(*ALL, title="build", created_at=1700000000.5, term="tmux-256color")) == [
        {
            "version": 3,
            "term": {"cols": 80, "rows": 24, "type": "tmux-256color"},
            "timestamp": 1700000000,
            "title": "build",
        },
        [0.01, "o", "one\r\n"],
        [0.01, "i", "ls\r"],
        [1.0, "r", "100x30"],
        [0.0, "m", "make test: exit 2"],
        [1.48, "o", "\x1b[1mtwo"],
        [0.001, "x", "3"],
    ]


def test_version_2_tells_times_and_no_exit() -> None:
    header, *events = lines(film(*ALL, term="xterm"), 2)
    assert header == {"version": 2, "width": 80, "height": 24, "env": {"TERM": "xterm"}}
    assert events[-2:] == [[1.02, "m", "make test: exit 2"], [2.5, "o", "\x1b[1mtwo"]]


def test_times_count_from_the_films_beginning() -> None:
    assert lines(film(FilmOutput(5_000, b"x"), begin_ms=4_000, created_at=100.0)) == [
        {"version": 3, "term": {"cols": 80, "rows": 24}, "timestamp": 104},
        [1.0, "o", "x"],
    ]


@pytest.mark.parametrize("version", [2, 3])
def test_tmux_that_recorded_it_is_told_and_read_back(version: Version) -> None:
    of = replace(film(*ALL[:2]), start=blank(80, 24, tmux=(3, 6, "b")))
    header = lines(of, version)[0]
    assert isinstance(header, dict)
    assert "3.6b" in (header["env"]["TERM_PROGRAM_VERSION"] if version == 2 else header["term"]["version"])
    assert read(written(of, version)).start == of.start


@pytest.mark.parametrize("version", [2, 3])
def test_a_cast_is_read_back_equal(version: Version) -> None:
    of = film(*ALL[: 5 if version == 2 else 6], title="build", created_at=1700000000.0, term="tmux-256color")
    back = read(written(of, version))
    assert list(back.moments) == list(of.moments)
    assert (back.title, back.created_at, back.term) == (of.title, of.created_at, of.term)
    assert (back.start, back.begin_ms, back.end_ms) == (of.start, 0, of.end_ms)


PIECES = st.lists(st.one_of(st.binary(max_size=8), st.text(max_size=4).map(lambda text: text.encode("utf-8"))))


@given(PIECES, st.lists(st.integers(0, 60), max_size=12), st.sampled_from([2, 3]))
def test_any_bytes_cut_anywhere_give_the_text_of_all(pieces: list[bytes], cuts: list[int], version: Version) -> None:
    data = b"".join(pieces)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    moments = [FilmOutput(7 * number, data[a:b]) for number, (a, b) in enumerate(pairwise(edges))]
    told = "".join(event[2] for event in lines(film(*moments), version)[1:])  # type: ignore[index]  # an event
    assert told == codecs.getincrementaldecoder("utf-8")("replace").decode(data)  # its end may begin a character
    assert b"".join(each.data for each in read(written(film(*moments), version)).moments) == told.encode()  # type: ignore[union-attr]  # printed


@given(st.lists(st.tuples(st.integers(0, 100_000), st.binary(min_size=1, max_size=5)), max_size=30))
def test_times_add_up_whatever_the_intervals(steps: list[tuple[int, bytes]]) -> None:
    times = list(accumulate(step for step, _ in steps))
    moments = [FilmMarker(ms, "m") for ms in times]
    assert [each.ms for each in read(written(film(*moments))).moments] == times


def test_a_character_over_a_change_of_size_is_whole() -> None:
    of = film(FilmOutput(0, b"\xe6\x97"), FilmResize(1, 90, 20), FilmOutput(2, b"\xa5"))
    assert lines(of)[1:] == [[0.001, "r", "90x20"], [0.001, "o", "日"]]


def test_a_film_from_the_middle_begins_with_its_screen() -> None:
    before = Stream(Screen(80, 24))
    before.feed(b"\x1b[31mred\r\n\x1b[?1049hover\xe6\x97")
    of = Film(before.snapshot(99), 5_000, 6_000, [FilmOutput(6_000, b"\xa5!")])
    again = Stream(Screen(80, 24))
    for each in read(written(of)).moments:
        assert isinstance(each, FilmOutput)
        again.feed(each.data)
    before.feed(b"\xa5!")
    assert again.snapshot().grid == before.snapshot().grid
    assert again.snapshot().state.under == before.snapshot().state.under


def test_a_told_screen_is_drawn_behind_a_change_of_size() -> None:
    told = Stream(Screen(10, 3))
    told.feed(b"wrapped anew")
    of = film(FilmOutput(0, b"rubbish\x1b[5"), FilmResize(1, 10, 3, told.snapshot()), FilmOutput(2, b"!"))
    again = Stream(Screen(80, 24))
    for each in read(written(of)).moments:
        if isinstance(each, FilmResize):
            again._screen.resize(each.rows, each.cols)
        elif isinstance(each, FilmOutput):
            again.feed(each.data)
    assert again.snapshot().text_rows() == ["wrapped an", "ew!", ""]


@for_each(
    ("cast", "problem"),
    [
        (b"", "not JSON"),
        (b"hello\n", "not JSON"),
        (b'{"version": 1}\n', "version 2 or 3"),
        (b"[]\n", "version 2 or 3"),
        (b'{"version": 3}\n', "no size"),
        (b'{"version": 2, "width": 80, "height": 99999}\n', "no size"),
        (b'{"version": 2, "width": 80, "height": 24}\n[1, "o"]\n', "line 2"),
        (b'{"version": 2, "width": 80, "height": 24}\n[-1, "o", "x"]\n', "line 2"),
        (b'{"version": 2, "width": 80, "height": 24}\n[1, "r", "0x5"]\n', "line 2"),
        (b'{"version": 2, "width": 80, "height": 24}\n' + b"[" * 100_000 + b"]\n", "line 2"),
    ],
)
def test_what_is_no_cast_is_refused(cast: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read(cast.splitlines(keepends=True))


def test_comments_unknown_codes_and_a_torn_end_are_passed_over() -> None:
    cast = b'{"version":3,"term":{"cols":80,"rows":24}}\n# hello\n[1,"o","a"]\n\n[1,"z","?"]\n[1,"o","b"]\n[1,"o","c'
    assert list(read(cast.splitlines(keepends=True)).moments) == [FilmOutput(1000, b"a"), FilmOutput(3000, b"b")]


@given(st.binary(max_size=200))
def test_reading_any_bytes_never_fails_otherwise(data: bytes) -> None:
    begin = b'{"version":3,"term":{"cols":80,"rows":24}}\n'
    for cast in (data, begin + data):
        with suppress(ValueError):
            read(cast.splitlines(keepends=True))


def test_pauses_are_shortened_and_the_rest_goes_faster() -> None:
    of = film(FilmOutput(500, b"a"), FilmOutput(60_500, b"b"), FilmMarker(60_600, "m"), begin_ms=400, created_at=100)
    made = paced(of, [each.ms for each in of.moments], speed=2, idle_limit_ms=1000)
    assert [each.ms for each in made.moments] == [50, 550, 600]
    assert (made.begin_ms, made.end_ms, made.created_at) == (0, 600, 100.4)
