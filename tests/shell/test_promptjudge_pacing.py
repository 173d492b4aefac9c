"""What time tells of a command that runs: tables of what is seen at which time, without a clock or a terminal."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.cases import for_each
from tmuxmcp.readiness.judge import Need
from tmuxmcp.shell.promptjudge import (
    FLOOD_LOOKS_S,
    FLOODS_BYTES,
    LOOKS_S,
    PUT_OFF_S,
    RESTS_S,
    LookDelay,
    ShellRest,
    SilenceTimer,
)

# ---- looks at the kernel: hardly ever while a command prints, at once when it pauses -----------------


def looks(size_at: Callable[[float], int], seconds: float) -> int:
    """How often it looks in so much time, asked whenever the log grows and after each step."""
    put_off, now, found = LookDelay(0.0), 0.0, 0
    while now < seconds:
        found += not put_off.feed(size_at(now), now)
        now += min(put_off.step_s(), 0.004)
    return found


def test_a_flood_is_looked_at_seldom() -> None:
    assert looks(lambda s: int(s * 10_000_000), 1.0) <= 1 / FLOOD_LOOKS_S + 1


def test_a_flood_by_fits_and_starts_as_well() -> None:
    pause_s = LOOKS_S * 0.9
    assert looks(lambda s: int(s / pause_s) * FLOODS_BYTES, 1.0) <= 2 / FLOOD_LOOKS_S


def test_what_prints_little_is_looked_at_as_ever() -> None:
    assert looks(lambda s: int(s * 1000), 1.0) >= 0.8 / (LOOKS_S + 0.004)


PUT_OFF = {
    # (size of the log, time): whether the look waits
    "it pauses": [(10, 0.0, True), (10, PUT_OFF_S, False)],
    "it prints on": [(at, at * 0.004, at * 0.004 < LOOKS_S) for at in range(6)],
    "a flood goes on": [(at * FLOODS_BYTES, at * 0.05, at != 5) for at in range(9)],
    "a flood pauses": [
        *((at * FLOODS_BYTES, at * 0.005, True) for at in range(5)),
        (4 * FLOODS_BYTES, 0.02 + LOOKS_S, True),
        (4 * FLOODS_BYTES, 0.021 + LOOKS_S, False),
        (4 * FLOODS_BYTES + 10, 0.022 + 2 * LOOKS_S, False),
    ],
}


@pytest.mark.parametrize("moments", PUT_OFF.values(), ids=PUT_OFF)
def test_when_a_look_is_put_off(moments: list[tuple[int, float, bool]]) -> None:
    put_off = LookDelay(0.0)
    assert [put_off.feed(size, now) for size, now, _ in moments] == [waits for *_, waits in moments]


def test_it_is_asked_again_soon_where_a_pause_is_near() -> None:
    put_off = LookDelay(0.0)
    put_off.feed(10, 0.0)
    assert put_off.step_s() == PUT_OFF_S
    put_off.feed(10 + FLOODS_BYTES, 0.001)
    assert put_off.step_s() == LOOKS_S


# ---- silence ----------------------------------------------------------------------------------------

SILENT = {
    # idle_ms, then (size of the log, time): whether it is silent
    "at last": (300, [(5, 9.0, False), (5, 9.299, False), (5, 9.3001, True), (5, 10.0, True)]),
    "it printed in between": (300, [(5, 9.0, False), (6, 9.2, False), (6, 9.4, False), (6, 9.5001, True)]),
    "nobody asks": (0, [(5, 9.0, False), (5, 900.0, False)]),
}


@pytest.mark.parametrize(("idle_ms", "moments"), SILENT.values(), ids=SILENT)
def test_silence(idle_ms: int, moments: list[tuple[int, float, bool]]) -> None:
    silence = SilenceTimer(idle_ms)
    assert [silence.feed(size, now) for size, now, _ in moments] == [silent for *_, silent in moments]


# ---- rest -------------------------------------------------------------------------------------------


def waiting(size: int, wakes: int) -> Any:
    """A look at a shell that waits for keys, and had slept so often."""
    process = SimpleNamespace(wakes=wakes)
    return SimpleNamespace(size=size, at_editor=True, verdict=SimpleNamespace(process=process))


ONE, OTHER, PRINTED = waiting(100, 7), waiting(100, 8), waiting(101, 7)
WORKS: Any = SimpleNamespace(size=100, at_editor=False, verdict=SimpleNamespace(process=None))
ASKS = Need.LOGGED
LATER = RESTS_S + 0.001

RESTS = {
    # what is seen, at which time, what it says, and what it is told where it asks: whether all is in the log
    "it rests": [(ONE, 0.0, False, None), (ONE, LATER, ASKS, True), (ONE, 2 * LATER, True, None)],
    "it stays at rest": [
        (ONE, 0.0, False, None),
        (ONE, LATER, ASKS, True),
        (ONE, 2 * LATER, True, None),
        (ONE, 9.0, True, None),
    ],
    "for too short a time": [(ONE, 0.0, False, None), (ONE, RESTS_S / 2, False, None)],
    "for too short a time after the answer": [
        (ONE, 0.0, False, None),
        (ONE, LATER, ASKS, True),
        (ONE, LATER + RESTS_S / 2, False, None),
    ],
    "something is on its way": [
        (ONE, 0.0, False, None),
        (ONE, LATER, ASKS, False),
        (ONE, LATER + RESTS_S / 2, False, None),
        (ONE, 2 * LATER, ASKS, True),
        (ONE, 3 * LATER, True, None),
    ],
    "it prints after the answer": [
        (ONE, 0.0, False, None),
        (ONE, LATER, ASKS, True),
        (PRINTED, 2 * LATER, False, None),
        (PRINTED, 3 * LATER, ASKS, None),
    ],
    "it has woken since": [
        (ONE, 0.0, False, None),
        (ONE, LATER, ASKS, True),
        (OTHER, 2 * LATER, False, None),
        (OTHER, 3 * LATER, ASKS, None),
    ],
    "it did something in between": [
        (ONE, 0.0, False, None),
        (WORKS, 0.01, False, None),
        (ONE, LATER, False, None),
        (ONE, 2 * LATER, ASKS, None),
    ],
    "it never waits": [(WORKS, 0.0, False, None), (WORKS, 9.0, False, None)],
}


@for_each("moments", RESTS.values())
def test_rest(moments: list[tuple[Any, float, bool | Need, bool | None]]) -> None:
    rest = ShellRest()
    for look, now, says, logged in moments:
        assert rest.feed(look, now) is says, now
        if logged is not None:
            rest.logged(logged, now)
