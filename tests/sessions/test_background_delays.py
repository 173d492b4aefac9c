"""Whoever dates what it sees knows when it was held up."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing

import pytest

from tmuxmcp.sessions import background
from tmuxmcp.sessions.background import HELD_UP_S, Delays, minding_stops


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
    now += 2 * background.REMEMBERED_S
    assert not delays.lately()
    busy += 2 * HELD_UP_S
    assert delays.lately()
    delays.close()


def test_every_broker_of_a_process_is_told_that_it_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by the program's own handler, and whichever of them ends first."""
    heard: list[int] = []
    program = signal.signal(signal.SIGCONT, lambda number, frame: heard.append(number))
    try:
        ours = signal.getsignal(signal.SIGCONT)
        with closing(Delays()) as first, closing(Delays()) as second:
            one, other = minding_stops(first), minding_stops(second)
            one.__enter__()
            other.__enter__()
            os.kill(os.getpid(), signal.SIGCONT)
            assert (first.lately(), second.lately(), heard) == (True, True, [signal.SIGCONT])
            one.__exit__(None, None, None)
            later = time.monotonic() + 2 * background.REMEMBERED_S
            monkeypatch.setattr(time, "monotonic", lambda: later)
            assert not second.lately()
            os.kill(os.getpid(), signal.SIGCONT)
            assert second.lately()
            other.__exit__(None, None, None)
        assert signal.getsignal(signal.SIGCONT) is ours
    finally:
        signal.signal(signal.SIGCONT, program)
