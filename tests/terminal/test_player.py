"""A film being watched: wherever one goes in it, the screen is that of the time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.films import film_of, printed, recorded
from tmuxmcp.terminal.film import player as players
from tmuxmcp.terminal.film.film import Film, FilmInput, FilmMarker, FilmOutput, FilmResize
from tmuxmcp.terminal.film.frames import Projector
from tmuxmcp.terminal.film.player import Player
from tmuxmcp.terminal.snapshot import Snapshot


def arrive(player: Player) -> Player:
    while player.seeks:
        player.work()
    return player


def top(player: Player) -> str:
    return arrive(player).snapshot.text_rows()[0]


def screen_at(film: Film, ms: float) -> Snapshot:
    projector = Projector(film.start)
    for moment in film.moments:
        if moment.ms - film.begin_ms <= ms:
            projector.show(moment)
    return projector.snapshot()


def letters() -> Film:
    return printed((1000, b"a"), (2000, b"b"), (9000, b"c"), end_ms=10_000)


def test_it_plays_at_its_speed() -> None:
    player = Player(letters(), speed=2)
    assert player.due_s() == 0.5
    player.pass_(0.5)
    assert (top(player), player.at_ms) == ("a", 1000)
    player.pass_(3.9)
    assert (top(player), player.at_ms) == ("ab", 8800)
    player.pass_(100)
    assert (top(player), player.at_ms) == ("abc", 10_000)
    assert player.ended
    assert player.due_s() is None


def test_silence_is_cut() -> None:
    player = Player(letters(), idle_limit_ms=1500)
    player.pass_(1)
    player.pass_(1)
    assert (top(player), player.due_s()) == ("ab", 1.5)
    player.pass_(1.5)
    assert (top(player), player.at_ms) == ("abc", 9000)
    player.skips_idle = False
    player.seek(4000)
    assert (top(player), player.due_s()) == ("ab", 5)
    player.skips_idle = True
    assert player.due_s() == 0


def test_paused_it_stands_and_can_be_stepped() -> None:
    moments = [
        FilmOutput(0, b""),
        FilmInput(10, b"x"),
        FilmOutput(20, b"\x1b[1m"),
        FilmOutput(30, b"a"),
        FilmOutput(40, b"b"),
    ]
    player = Player(film_of(moments, 50))
    player.paused = True
    player.pass_(10)
    assert (player.at_ms, player.due_s()) == (0, None)
    seen = []
    for _ in range(3):
        player.step()
        seen.append((player.at_ms, top(player)))
    assert seen == [(30, "a"), (40, "ab"), (40, "ab")]


def test_marks_are_found() -> None:
    marks = [
        FilmMarker(1000, "true: exit 0", 0),
        FilmMarker(3000, "false: exit 1", 1),
        FilmMarker(5000, "?"),
        FilmMarker(7000, "x", 2),
    ]
    player = Player(film_of(marks, end_ms=9000))
    player.paused = True
    went = []
    for go in (player.next_mark, player.next_mark, lambda: player.next_mark(failed=True), player.previous_mark):
        go()
        went.append(arrive(player).at_ms)
    assert went == [1000, 3000, 7000, 5000]
    assert player.mark() == 2
    player.seek(8000)
    assert not arrive(player).next_mark()
    assert player.mark() is None
    player.seek(500)
    arrive(player).previous_mark()
    assert arrive(player).at_ms == 0


def test_a_mark_just_passed_is_not_the_one_before() -> None:
    player = Player(film_of([FilmMarker(1000, "a"), FilmMarker(5000, "b")], end_ms=9000))
    player.seek(5400)
    arrive(player).previous_mark()
    assert arrive(player).at_ms == 1000


def test_speeds_have_ends() -> None:
    player = Player(letters(), speed=1.2)
    for _ in range(20):
        player.faster(+1)
    assert player.speed == players.SPEEDS[-1]
    for _ in range(20):
        player.faster(-1)
    assert player.speed == players.SPEEDS[0]


@pytest.mark.parametrize("kept", [300, 10**9], ids=["many screens kept", "none kept"])
@pytest.mark.parametrize("step", [50, 10**9], ids=["in steps", "at once"])
def test_wherever_one_goes_the_screen_is_that_of_the_time(
    monkeypatch: pytest.MonkeyPatch, kept: int, step: int
) -> None:
    monkeypatch.setattr(players, "KEEP_BYTES", kept)
    monkeypatch.setattr(players, "PLAYED_AT_ONCE_BYTES", step)
    film = recorded("vim")
    player = Player(film)
    for share in (0.9, 0.2, 0.5, 0.45, 0, 1, 0.6, 0.61, 0.1):
        player.seek(share * player.duration_ms)
        assert arrive(player).snapshot == screen_at(film, player.at_ms)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(players, "KEEP_BYTES", 100)
    monkeypatch.setattr(players, "MOST_KEPT_CELLS", 80 * 24 * 2 * 6)
    film = recorded("vim")
    player = Player(film)
    player.seek(player.duration_ms)
    arrive(player)
    assert 2 < len(player._tape._kept) <= 12
    for ms in (3000, 1200):
        player.seek(ms)
        assert arrive(player).snapshot == screen_at(film, ms)


def test_another_wish_on_the_way_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(players, "STEP_MOMENTS", 1)
    film = recorded("vim", step=50)
    player = Player(film)
    player.seek(player.duration_ms)
    for ms in (5000, 1500, 4000):
        player.work()
        assert player.seeks
        player.seek(ms)
        assert player.position_ms == ms
    assert arrive(player).snapshot == screen_at(film, 4000)


MOMENTS = st.lists(
    st.one_of(
        st.builds(FilmOutput, st.integers(0, 1000), st.sampled_from([b"a", b"b\r\n", "é".encode()[:1], b"\x1b[2J"])),
        st.builds(FilmResize, st.integers(0, 1000), st.integers(1, 30), st.integers(1, 5)),
        st.builds(FilmMarker, st.integers(0, 1000), st.just("x"), st.integers(0, 1)),
    ),
    max_size=12,
).map(lambda moments: sorted(moments, key=lambda moment: moment.ms))
WISHES = st.lists(st.one_of(st.floats(-10, 1200), st.sampled_from(["step", "next", "back", "play"])), max_size=8)


def test_what_is_printed_at_the_beginning_is_shown_there() -> None:
    assert top(Player(printed((0, b"a"), end_ms=10))) == "a"


@settings(max_examples=60)
@given(MOMENTS, WISHES)
def test_any_wishes_leave_it_at_the_screen_of_its_time(moments: list, wishes: list) -> None:
    film = film_of(moments, end_ms=1100)
    player = Player(film, idle_limit_ms=100)
    between = False  # several moments of one time are several steps
    for wish in wishes:
        between = wish == "step" or (between and wish == "next")
        match wish:
            case "step":
                player.step()
            case "next":
                between = not player.next_mark() and between
            case "back":
                player.previous_mark()
            case "play":
                player.paused = False
                player.pass_(player.due_s() or 0)
            case ms:
                player.seek(ms)
        arrive(player)
        assert 0 <= player.at_ms <= player.duration_ms
        if not between:
            assert player.snapshot == screen_at(film, player.at_ms)
