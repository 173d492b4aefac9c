"""When a wait looks, and when a screen has changed: tables of sizes of the log with times."""

from __future__ import annotations

import pytest

from tmuxmcp.readiness.judge import (
    DRAWING_S,
    DRAWN_S,
    SCREEN_EVERY_S,
    STANDS_S,
    UNPRINTED_S,
    Changed,
    NewText,
    ScreenLooks,
)

# start, then the size of the log: whether it is searched
TEXT = {
    "nothing new": (5, [(5, False)]),
    "what was before": (5, [(3, False)]),
    "once": (5, [(7, True), (7, False), (7, False)]),
    "each growth": (5, [(7, True), (9, True), (9, False)]),
    "from the log's beginning": (0, [(0, False), (1, True)]),
}


@pytest.mark.parametrize(("start", "sizes"), TEXT.values(), ids=TEXT)
def test_text_is_searched_once(start: int, sizes: list[tuple[int, bool]]) -> None:
    new = NewText(start)
    assert [new.feed(size, 9.0) for size, _ in sizes] == [expected for _, expected in sizes]


def test_text_in_which_an_echo_may_be_drawn_is_searched_once_more_when_it_stands():
    new = NewText(5, echoes=True)
    moments = [(5, 9.0), (7, 9.1), (8, 9.2), (8, 9.3), (8, 9.201 + STANDS_S), (8, 99.0), (9, 99.1), (9, 99.2)]
    told = [(new.feed(size, now), new.stands) for size, now in moments]
    assert told == [
        (False, False),
        (True, False),
        (True, False),
        (False, False),
        (True, True),
        (False, True),
        (True, False),
        (False, False),
    ]
    assert (new.feed(9, 99.3, exited=True), new.stands) == (True, True)


# size of the log, time: whether somebody looks
SCREENS = {
    "at once": [(5, 0.0, True)],
    "again, when something was printed": [(5, 9.0, True), (6, 9.01, False), (6, 9.0001 + SCREEN_EVERY_S, True)],
    "seldom, when nothing was": [(5, 9.0, True), (5, 9.1, False), (5, 9.0001 + UNPRINTED_S, True)],
}


@pytest.mark.parametrize("moments", SCREENS.values(), ids=SCREENS)
def test_a_screen_is_looked_at_seldom(moments: list[tuple[int, float, bool]]) -> None:
    looks = ScreenLooks()
    for size, now, due in moments:
        assert looks.due(size, now) == due, now
        if due:
            looks.looked(size, now)


# size of the log, time, when that grew, whether the screen looks otherwise (None: nobody looks): whether it has changed
CHANGES = {
    "it never changes": [(5, 0.0, 0.0, False, False), (5, 9.0, 0.0, False, False)],
    "it stands still": [(6, 1.0, 1.0, True, False), (6, 1.001 + DRAWN_S, 1.0, None, True)],
    "it had stood still": [(6, 1.0, 0.5, True, True)],
    "it draws on": [(6, 1.0, 1.0, True, False), (7, 1.03, 1.03, None, False), (7, 1.06, 1.03, True, True)],
    "it draws on, and nobody looked since": [(6, 1.0, 1.0, True, False), (7, 1.06, 1.03, None, False)],
    "it draws for ever": [
        (6, 1.0, 1.0, True, False),
        (7, 1.1, 1.1, True, False),
        (8, 1.2, 1.2, True, False),
        (9, 1.001 + DRAWING_S, 1.001 + DRAWING_S, True, True),
    ],
    "it is as before again": [
        (6, 1.0, 1.0, True, False),
        (7, 1.1, 1.1, False, False),
        (8, 1.2, 1.2, True, False),
        (9, 1.001 + DRAWING_S, 1.001 + DRAWING_S, True, False),
    ],
}


@pytest.mark.parametrize("moments", CHANGES.values(), ids=CHANGES)
def test_a_change_counts_when_it_is_drawn(moments: list[tuple[int, float, float, bool | None, bool]]) -> None:
    changed = Changed()
    for size, now, grown_at, differs, expected in moments:
        if differs is not None:
            changed.looked(differs, size, now)
        assert changed.feed(size, grown_at, now, exited=False) == expected, now


def test_what_ends_has_drawn_all_it_will() -> None:
    changed = Changed()
    changed.looked(False, 5, 0.0)
    assert not changed.feed(5, 0.0, 0.0, exited=True)
    changed.looked(True, 6, 1.0)
    assert changed.feed(7, 1.0, 1.0, exited=True)
