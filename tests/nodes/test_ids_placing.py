"""Where new sessions go."""

from __future__ import annotations

import random
from collections import Counter

from tmuxmcp.nodes import ids
from tmuxmcp.nodes.transport import Machine


def machines(**free: int | None) -> list[Machine]:
    return [Machine(name, free=room) for name, room in free.items()]


def first(given: list[Machine], sample=random.sample) -> str:
    return next(ids.in_turn(given, sample)).name


def test_labels_and_draining_say_who_is_asked_at_all():
    every = [Machine("a", {"x": "1", "y": "2"}), Machine("b", {"x": "1"}), Machine("c", {"x": "1"}, drained=True)]
    assert [each.name for each in ids.fitting(every, {})] == ["a", "b"]
    assert [each.name for each in ids.fitting(every, {"x": "1"})] == ["a", "b"]
    assert [each.name for each in ids.fitting(every, {"x": "1", "y": "2"})] == ["a"]
    assert ids.fitting(every, {"z": ""}) == []


def test_of_two_the_one_with_more_room_is_asked_first_and_everybody_once():
    assert first(machines(a=1, b=5)) == "b"
    assert first(machines(a=None, b=1)) == "b"
    order = [each.name for each in ids.in_turn(machines(a=0, b=3, c=9, d=0), random.sample)]
    assert set(order[:2]) == {"b", "c"}
    assert sorted(order) == ["a", "b", "c", "d"]  # a count may be old: the broker has the last word


def test_chance_keeps_many_gateways_from_taking_the_same():
    taken = Counter(first(machines(a=9, b=8, c=7, d=6)) for _ in range(400))
    assert taken["a"] < 300
    assert taken["c"] > 20


def test_a_key_has_an_order_of_its_own_that_others_do_not_change():
    names = [f"n{number}" for number in range(10)]
    order = ids.ranked(names, "key")
    assert sorted(order) == names
    assert ids.ranked(names[::-1], "key") == order
    assert ids.ranked(names[:5], "key") == [each for each in order if each in names[:5]]
    assert Counter(ids.ranked(names, str(key))[0] for key in range(500)).most_common(1)[0][1] < 120
