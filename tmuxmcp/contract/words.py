"""The words that callers choose from, once for every face. Imports nothing that takes time."""

from __future__ import annotations

from typing import Literal, get_args

WaitFor = Literal["none", "ready", "idle", "pattern", "changed", "exit"]
"""What a call waits for."""

WAITS: tuple[str, ...] = get_args(WaitFor)

SignalName = Literal["INT", "TERM", "HUP", "KILL", "QUIT", "TSTP", "CONT", "USR1", "USR2"]
"""Signals that a caller may send, without SIG."""

SIGNALS: tuple[str, ...] = get_args(SignalName)
