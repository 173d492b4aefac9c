"""Signals have names, also those that Python has none for."""

from __future__ import annotations

import signal

import pytest

from tmuxmcp.contract.words import SIGNAL_NAMES
from tmuxmcp.machine.signals import signal_name


@pytest.mark.parametrize("name", SIGNAL_NAMES)
def test_signal_is_called_what_callers_call_it(name: str):
    assert signal_name(signal.Signals[f"SIG{name}"]) == name


def test_real_time_signal_is_called_as_kill_does():
    assert signal_name(signal.SIGRTMIN) == "RTMIN"
    assert signal_name(signal.SIGRTMIN + 3) == "RTMIN+3"


def test_signals_that_the_c_library_keeps_for_itself_have_their_number():
    assert [signal_name(number) for number in range(32, signal.SIGRTMIN)] == ["32", "33"]
