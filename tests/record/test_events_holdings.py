"""When persons held a session, as what is written down tells."""

from __future__ import annotations

import pytest

from tmuxmcp.contract.call import iso
from tmuxmcp.record.events import GivenBackEvent, Holding, TakenEvent, handed_back, holdings

NOON = 1_800_000_000.0
TAKEN = TakenEvent(iso(NOON), 100, "ann", "cli")
GIVEN = GivenBackEvent(iso(NOON + 60), 200, "ann", iso(NOON), iso(NOON + 60), "release")
HELD = Holding("ann", iso(NOON), 100, iso(NOON + 60), 200, "release")


def test_what_was_taken_and_given_back_is_one_holding():
    assert holdings([TAKEN, GIVEN]) == [HELD]
    assert holdings([TAKEN]) == [Holding("ann", iso(NOON), 100)]
    assert not handed_back(holdings([TAKEN]))


def test_what_two_brokers_wrote_down_counts_once():
    assert holdings([TAKEN, GIVEN, GIVEN]) == [HELD]
    unknown = GivenBackEvent(iso(NOON + 60), 200, "unknown", "", iso(NOON + 60), "key")
    assert len(holdings([unknown, unknown])) == 1


def test_a_pause_is_no_holding():
    assert not holdings([TakenEvent(iso(NOON), 100, "pause", "cli")])


def test_without_its_beginning_it_goes_by_the_clock():
    (held,) = holdings([GIVEN])
    assert (held.start, held.since, held.end) == (None, iso(NOON), 200)
    assert held.covers(50, NOON + 1)
    assert not held.covers(50, NOON - 1)
    assert not held.covers(50, None)


@pytest.mark.parametrize(
    ("start", "began", "inside"),
    [
        (99, NOON + 1, False),
        (100, None, True),
        (200, NOON + 60, True),
        (201, NOON + 1, False),
        (150, NOON + 62, False),  # its end was noticed late
    ],
)
def test_a_command_belongs_to_it_by_offset_and_clock(start: int, began: float | None, inside: bool):
    assert HELD.covers(start, began) is inside
