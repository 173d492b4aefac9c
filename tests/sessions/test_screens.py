from __future__ import annotations

from tmuxmcp.sessions.screens import Screens, change
from tmuxmcp.terminal.emulator.capture import ShownScreen


def shown(*lines: str, cursor: tuple[int, int, bool] = (0, 0, True), rows: int = 4) -> ShownScreen:
    return ShownScreen(20, rows, list(lines), cursor)


def test_equal_screens_have_equal_ids_and_others_do_not():
    assert shown("a", "b").id == shown("a", "b").id
    others = [shown("a", "c"), shown("\x1b[1ma", "b"), shown("a", "b", cursor=(0, 1, True)), shown("a", "b", rows=5)]
    assert len({each.id for each in [shown("a", "b"), *others]}) == 5


def test_a_screen_of_any_bytes_has_an_id():
    assert len(shown("\udcff").id) == 12


def test_screens_are_bounded_and_the_newest_stays():
    screens = Screens(most_bytes=5000)
    seen = [shown(str(number) * 1000) for number in range(9)]
    for each in seen:
        screens.showed("a", "me", each)
    assert screens.find(seen[0].id) is None
    assert screens.find(seen[-1].id) is seen[-1]
    large = shown("x" * 100_000)
    screens.showed("a", "me", large)
    assert [screens.find(each.id) for each in (seen[-1], large)] == [None, large]


def test_a_screen_seen_again_is_kept_longer_and_counted_once():
    screens = Screens(most_bytes=5000)
    first = shown("first")
    for number in range(20):
        screens.showed("a", "me", shown(str(number) * 500))
        screens.showed("b", "you", shown("first"))
    assert screens.find(first.id) == first
    assert screens.last("b", "you") == first.id


def test_last_looks_are_by_session_and_caller():
    screens = Screens()
    screens.showed("a", "me", shown("x"))
    assert (screens.last("a", "you"), screens.last("b", "me")) == ("", "")
    screens.forget("a", "me")
    assert screens.last("a", "me") == ""


def test_half_of_the_rows_may_change():
    before = shown("a", "b", "c", "d")
    assert change(before, shown("a", "b", "x", "y"), "").rows == [2, 3]
    assert change(before, shown("a", "x", "y", "z"), "").rows is None
    assert change(before, shown("a", "b"), "").rows == [2, 3]
