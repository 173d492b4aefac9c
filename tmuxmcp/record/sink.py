"""Who writes a session's log: its sink, as that one wrote itself down."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from tmuxmcp.machine import proc
from tmuxmcp.machine.ownfiles import read_text
from tmuxmcp.record.directory import SessionDirectory


class Sink(NamedTuple):
    """The sink that last wrote down that it is there."""

    number: int
    """A pane's sinks are numbered; 0: none ever was there."""
    alive: bool


def sink_pid(directory: SessionDirectory) -> int | None:
    """Process id of the sink that last wrote down that it is there."""
    try:
        return int(read_text(directory.sink).split()[0])
    except (OSError, ValueError, IndexError):
        return None


def sink_of(directory: SessionDirectory) -> Sink:
    """Read who the sink is, and whether it still is there."""
    try:
        pid, number = map(int, read_text(directory.sink).split())
    except (OSError, ValueError):
        return Sink(0, False)
    try:
        os.kill(pid, 0)
    except OSError:
        return Sink(number, False)
    # Process ids are used again.
    with suppress(OSError):
        words = proc.argv_bytes(pid)
        ours = os.fsencode(directory.path) in words and any(word.endswith(b"/sink.sh") for word in words)
        return Sink(number, ours)
    return Sink(number, True)
