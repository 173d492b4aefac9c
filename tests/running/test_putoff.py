"""When `run` looks at the kernel: hardly ever while its command prints, at once when that pauses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tmuxmcp.running import run
from tmuxmcp.running.run import FLOOD_LOOKS_S, FLOODS_BYTES, LOOKS_S, PUT_OFF_S, PutOff


class Clock:
    """A clock that only goes on when it is told to, in place of the module's."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(run, "time", clock)
    return clock


def looks(clock: Clock, size_at: Callable[[float], int], seconds: float) -> int:
    """How often it looks in so much time, asked whenever the log grows and after each step."""
    put_off, begun, found = PutOff(), clock.now, 0
    while clock.now - begun < seconds:
        found += not put_off.by(size_at(clock.now - begun))
        clock.now += min(put_off.step_s(), 0.004)
    return found


def test_a_flood_is_looked_at_seldom(clock: Clock) -> None:
    assert looks(clock, lambda s: int(s * 10_000_000), 1.0) <= 1 / FLOOD_LOOKS_S + 1


def test_a_flood_by_fits_and_starts_as_well(clock: Clock) -> None:
    pause_s = LOOKS_S * 0.9
    assert looks(clock, lambda s: int(s / pause_s) * FLOODS_BYTES, 1.0) <= 2 / FLOOD_LOOKS_S


def test_what_prints_little_is_looked_at_as_ever(clock: Clock) -> None:
    assert looks(clock, lambda s: int(s * 1000), 1.0) >= 0.8 / (LOOKS_S + 0.004)


def test_what_pauses_is_looked_at_at_once(clock: Clock) -> None:
    put_off = PutOff()
    assert put_off.by(10)
    clock.now += PUT_OFF_S
    assert put_off.step_s() == PUT_OFF_S
    assert not put_off.by(10)


def test_a_flood_that_pauses_is_looked_at_soon(clock: Clock) -> None:
    put_off = PutOff()
    for number in range(5):
        clock.now += 0.005
        put_off.by(number * FLOODS_BYTES)
    assert put_off.by(4 * FLOODS_BYTES)
    clock.now += put_off.step_s() + 0.001
    assert not put_off.by(4 * FLOODS_BYTES)
    clock.now += put_off.step_s() + 0.001
    assert not put_off.by(4 * FLOODS_BYTES + 10)
