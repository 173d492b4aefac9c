"""Films of a session, made of its files alone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tmuxmcp.contract.call import iso
from tmuxmcp.contract.errors import InvalidArgument, NotRetained
from tmuxmcp.record.commands import CommandFile, EndedCommand
from tmuxmcp.record.directory import SessionDirectory, make_directory
from tmuxmcp.record.events import Events, ExitedEvent, GapEvent, InputEvent, ResizedEvent, ShownEvent
from tmuxmcp.record.meta import Meta
from tmuxmcp.record.past import recordings
from tmuxmcp.record.past.checkpoints import Checkpoints, RecordKind, packed_screen
from tmuxmcp.record.past.recordings import RecordedSession, Stretch, WantedStretch, times_of
from tmuxmcp.record.past.timing import TimingStep
from tmuxmcp.terminal.emulator.replay import Replay, blank
from tmuxmcp.terminal.film import film

BORN = 1_700_000_000.0


class Index:
    """A timing index in memory."""

    def __init__(self, *steps: TimingStep) -> None:
        self._steps = steps

    def ms_at(self, offset: int) -> int | None:
        return next((each.ms for each in self._steps if each.offset >= offset), None)

    def offset_at(self, ms: int) -> int | None:
        return max((each.offset for each in self._steps if each.ms <= ms), default=0)

    def steps(self, start: int, end: int) -> Iterator[TimingStep]:
        for each in self._steps:
            if each.offset > start:
                yield each
            if each.offset >= end:
                return


@pytest.fixture
def directory(tmp_path: Path) -> SessionDirectory:
    (tmp_path / "sessions").mkdir()
    made = make_directory(tmp_path, "build")
    Meta("build", "/bin/sh", [], iso(BORN), "", "", True, "/", 20, 4, 0).save(made)
    return made


def printed(directory: SessionDirectory, data: bytes, at_ms: int = 60_000) -> None:
    directory.log.write_bytes(data)
    os.utime(directory.log, (BORN + at_ms / 1000,) * 2)


def at(ms: int) -> str:
    return iso(BORN + ms / 1000)


def ended(number: int, text: str, start: int, end: int, exit_code: int | None, ms: tuple[int, int]) -> EndedCommand:
    began, over = (BORN + each / 1000 for each in ms)
    return EndedCommand(number, text, "agent", exit_code, began, over, "/", start, end)


def happens(recorded: RecordedSession, wanted: WantedStretch = WantedStretch()) -> list[film.FilmEvent]:  # noqa: B008  # frozen
    return list(recorded.film(recorded.stretch(wanted)).moments)


def test_each_step_of_the_index_is_a_moment(directory: SessionDirectory) -> None:
    printed(directory, b"one two three")
    recorded = RecordedSession(directory, Index(TimingStep(4, 100), TimingStep(8, 250), TimingStep(13, 900)))
    assert happens(recorded) == [
        film.FilmOutput(100, b"one "),
        film.FilmOutput(250, b"two "),
        film.FilmOutput(900, b"three"),
    ]
    made = recorded.film(recorded.stretch(WantedStretch()))
    assert (made.begin_ms, made.end_ms, made.times_known) == (0, 900, True)
    assert (made.title, made.created_at, made.start.cols, made.start.rows) == ("build", BORN, 20, 4)


def test_what_else_happened_stands_at_its_offset_and_time(directory: SessionDirectory) -> None:
    printed(directory, b"$ make\r\nfailed\r\n$ ")
    events = Events(directory)
    events.append(InputEvent(at(90), 2, 5, 1))
    events.append(ResizedEvent(at(300), 8, 30, 5))
    events.append(GapEvent(at(350), 10))
    events.append(ExitedEvent(at(5_000), 18, None, "KILL"))
    CommandFile(directory).end([ended(1, "make\nx", 8, 16, 2, (100, 400))])
    recorded = RecordedSession(directory, Index(TimingStep(8, 200), TimingStep(16, 410), TimingStep(18, 420)))
    assert happens(recorded) == [
        film.FilmOutput(200, b"$ make\r\n"),
        film.FilmResize(300, 30, 5),
        film.FilmOutput(350, b"fa"),
        film.FilmMarker(350, "output was lost here"),
        film.FilmOutput(410, b"iled\r\n"),
        film.FilmMarker(410, "make: exit 2", 2),
        film.FilmOutput(420, b"$ "),
        film.FilmExit(5_000, 137),
    ]


def test_what_was_typed_is_part_of_it_if_that_is_wanted(directory: SessionDirectory) -> None:
    printed(directory, b"$ ls\r\na\r\n")
    events = Events(directory)
    events.append(InputEvent(at(90), 2, 2, 1))
    events.append(ShownEvent(at(90), 2, "ls\r"))
    steps = Index(TimingStep(2, 50), TimingStep(10, 200))
    both = [film.FilmOutput(50, b"$ "), film.FilmOutput(200, b"ls\r\na\r\n")]
    assert happens(RecordedSession(directory, steps)) == both
    typed = film.FilmInput(90, b"ls\r")
    recorded = RecordedSession(directory, steps, typed=True)
    assert happens(recorded) == [both[0], typed, both[1]]
    assert list(recorded.film(Stretch(2, 10, 60)).moments) == [typed, both[1]]
    assert typed not in list(recorded.film(Stretch(3, 10, 60)).moments)


def test_without_an_index_times_are_those_of_events_commands_and_the_last_byte(directory: SessionDirectory) -> None:
    printed(directory, b"$ make\r\nok\r\n$ ", at_ms=700)
    Events(directory).append(InputEvent(at(90), 2, 5, 1))
    CommandFile(directory).end([ended(1, "make", 8, 12, 0, (100, 400))])
    recorded = RecordedSession(directory)
    made = recorded.film(recorded.stretch(WantedStretch()))
    assert list(made.moments) == [
        film.FilmOutput(90, b"$ "),
        film.FilmOutput(100, b"make\r\n"),
        film.FilmOutput(400, b"ok\r\n"),
        film.FilmMarker(400, "make: exit 0", 0),
        film.FilmOutput(700, b"$ "),
    ]
    assert (made.end_ms, made.times_known) == (700, False)


def test_what_has_the_time_itself_may_have_come_later(directory: SessionDirectory) -> None:
    printed(directory, b"$ make\r\nok\r\n$ ", at_ms=700)
    Events(directory).append(InputEvent(at(90), 2, 5, 1))
    recorded = RecordedSession(directory)
    assert [recorded.offsets_at(ms) for ms in (89, 90, 91)] == [(0, 2), (0, 14), (2, 14)]


def test_a_step_of_unknown_time_is_said_so(directory: SessionDirectory) -> None:
    printed(directory, b"abcd")
    recorded = RecordedSession(directory, Index(TimingStep(2, 10, known=False), TimingStep(4, 20)))
    assert not recorded.film(recorded.stretch(WantedStretch())).times_known
    assert recorded.film(Stretch(2, 4, 10)).times_known


def test_what_happened_meanwhile_stands_in_for_times_that_the_index_does_not_know(directory: SessionDirectory) -> None:
    printed(directory, b"$ make\r\nok\r\n$ ")
    Events(directory).append(InputEvent(at(90), 2, 5, 1))
    CommandFile(directory).end([ended(1, "make", 8, 12, 0, (100, 800))])
    recorded = RecordedSession(directory, Index(TimingStep(10, 700, known=False), TimingStep(14, 900)))
    assert happens(recorded) == [
        film.FilmOutput(90, b"$ "),
        film.FilmOutput(100, b"make\r\n"),
        film.FilmOutput(700, b"ok"),
        film.FilmOutput(800, b"\r\n"),
        film.FilmMarker(800, "make: exit 0", 0),
        film.FilmOutput(900, b"$ "),
    ]


def test_a_step_that_goes_beyond_the_stretch_gives_the_time_of_its_part(directory: SessionDirectory) -> None:
    printed(directory, b"0123456789")
    recorded = RecordedSession(directory, Index(TimingStep(4, 10), TimingStep(10, 20)))
    assert list(recorded.film(Stretch(2, 7, 5)).moments) == [film.FilmOutput(10, b"23"), film.FilmOutput(20, b"456")]


def test_the_output_of_one_command(directory: SessionDirectory) -> None:
    printed(directory, b"$ a\r\n\x1b[31mred\r\n$ b\r\nblue\r\n$ ")
    CommandFile(directory).end([ended(1, "a", 5, 15, 0, (100, 400)), ended(2, "b", 20, 26, 1, (500, 600))])
    recorded = RecordedSession(directory, Index(TimingStep(15, 390), TimingStep(20, 510), TimingStep(26, 590)))
    for number in (2, -1):
        made = recorded.film(recorded.stretch(WantedStretch(command=number)))
        assert list(made.moments) == [film.FilmOutput(590, b"blue\r\n"), film.FilmMarker(600, "b: exit 1", 1)]
        assert (made.begin_ms, made.end_ms) == (510, 600)
        assert made.start.text_rows() == ["$ a", "red", "$ b", ""]
        assert made.start.state.pen.fg == 1
    with pytest.raises(InvalidArgument, match="no command 3"):
        recorded.stretch(WantedStretch(command=3))
    with pytest.raises(InvalidArgument, match="without from_ms"):
        recorded.stretch(WantedStretch(command=1, from_ms=0))


def test_a_stretch_between_two_times(directory: SessionDirectory) -> None:
    printed(directory, b"one two three")
    recorded = RecordedSession(directory, Index(TimingStep(4, 100), TimingStep(8, 250), TimingStep(13, 900)))
    assert recorded.stretch(WantedStretch(150, 500)) == Stretch(4, 8, 150, 500)
    made = recorded.film(recorded.stretch(WantedStretch(150, 500)))
    assert list(made.moments) == [film.FilmOutput(250, b"two ")]
    assert (made.begin_ms, made.end_ms) == (150, 500)
    with pytest.raises(InvalidArgument, match="before from_ms"):
        recorded.stretch(WantedStretch(500, 150))
    with pytest.raises(InvalidArgument, match="has not come yet"):
        recorded.stretch(WantedStretch(from_ms=10**13))


def test_times_before_now(directory: SessionDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    printed(directory, b"one two three")
    monkeypatch.setattr(time, "time", lambda: BORN + 1.0)
    recorded = RecordedSession(directory, Index(TimingStep(4, 100), TimingStep(8, 250), TimingStep(13, 900)))
    assert recorded.stretch(WantedStretch(-800, -500)) == Stretch(4, 8, 200, 500)
    assert recorded.stretch(WantedStretch(-5_000, 99_999)) == Stretch(0, 13, 0, 1000)


def test_what_was_given_back_is_not_made_up(directory: SessionDirectory) -> None:
    printed(directory, b"0123456789", 500)
    directory.base.write_text("100")
    recorded = RecordedSession(directory, Index(TimingStep(50, 100), TimingStep(105, 250), TimingStep(110, 300)))
    with pytest.raises(NotRetained) as refused:
        recorded.stretch(WantedStretch(from_ms=100))
    assert refused.value.details == {"first_offset": 100, "first_ms": 250}
    made = recorded.film(recorded.stretch(WantedStretch()))
    assert list(made.moments) == [film.FilmOutput(250, b"01234"), film.FilmOutput(300, b"56789")]
    assert made.start.approximate


def test_a_film_from_the_middle_begins_with_the_nearest_screen_that_is_kept(directory: SessionDirectory) -> None:
    printed(directory, b"one\r\ntwo\r\n", 500)
    replay = Replay(blank(20, 4))
    replay.feed(b"ONE\r\n")  # another one than the log makes, so that it shows
    kept = packed_screen(replay.snapshot())
    assert Checkpoints(directory).add(RecordKind.SCREEN, 5, kept, cost_ms=0, happened=0)
    start = RecordedSession(directory).screen_at(8)
    assert (start.text_rows()[:2], start.offset, start.approximate) == (["ONE", "two"], 8, False)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8), st.integers(0, 40), st.integers(0, 40))
def test_all_bytes_are_in_the_film_once_and_time_never_goes_back(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], one: int, other: int
) -> None:
    root = tmp_path_factory.mktemp("state")
    (root / "sessions").mkdir()
    directory = make_directory(root, "build")
    data = bytes(range(40))
    printed(directory, data)
    offset, index = 0, []
    for number, (more, ms) in enumerate(steps, 1):
        offset += more
        index.append(TimingStep(min(offset, 40), number * 10 + ms))
    for number, end in enumerate((7, 19, 40)):
        Events(directory).append(ResizedEvent(iso(BORN + number), end, 20 + number, 5))
    recorded = RecordedSession(directory, Index(*index))
    stretch = Stretch(min(one, other), max(one, other), 5)
    moments = list(recorded.film(stretch).moments)
    assert (
        b"".join(each.data for each in moments if isinstance(each, film.FilmOutput))
        == data[stretch.begin : stretch.end]
    )
    assert all(a.ms <= b.ms for a, b in pairwise(moments))
    at_offset, seen = stretch.begin, []
    for each in moments:
        if isinstance(each, film.FilmOutput):
            at_offset += len(each.data)
        else:
            seen.append(at_offset)
    assert seen == [each for each in (7, 19, 40) if stretch.begin < each <= stretch.end]
    assert list(times_of(recorded, stretch)) == [each.ms for each in moments]


def test_a_long_log_is_read_a_piece_at_a_time(directory: SessionDirectory) -> None:
    with directory.log.open("wb") as file:
        file.truncate(40 << 20)
    recorded = RecordedSession(directory, Index(TimingStep(40 << 20, 900)))
    sizes = [
        len(each.data) for each in recorded.film(Stretch(0, 40 << 20, 0)).moments if isinstance(each, film.FilmOutput)
    ]
    assert max(sizes) <= recordings.LOG_READ_BYTES
    assert sum(sizes) == 40 << 20
