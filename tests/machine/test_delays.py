"""Whoever dates what it sees knows when it was held up."""

from __future__ import annotations

import time

import pytest

from tmuxmcp.machine import delays as module
from tmuxmcp.machine.delays import HELD_UP_S, Delays


def test_computing_for_long_is_a_delay() -> None:
    delays = Delays()
    until = time.thread_time() + 1.5 * HELD_UP_S
    while time.thread_time() < until:
        pass
    assert delays.lately()
    delays.close()


def test_a_delay_is_remembered_for_a_while_and_sleeping_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    now, busy = 100.0, 5.0
    monkeypatch.setattr(Delays, "_account", lambda _: busy)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    delays = Delays()
    now += 3600
    assert not delays.lately()
    delays.woke(now - HELD_UP_S / 2)
    assert not delays.lately()
    delays.woke(now - 2 * HELD_UP_S)
    assert delays.lately()
    now += 2 * module.REMEMBERED_S
    assert not delays.lately()
    busy += 2 * HELD_UP_S
    assert delays.lately()
    delays.close()
