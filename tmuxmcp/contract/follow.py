"""What happens to a session, one value an event: what those who follow it are given.

The screen that comes first is a `Snapshot` of `terminal/snapshot.py`.
"""

from __future__ import annotations

from tmuxmcp.contract.results import Mode
from tmuxmcp.contract.value import value


@value
class Output:
    """Bytes that the session printed; the next `Output` goes on behind them."""

    offset: int
    """Of the first byte."""
    data: bytes


@value
class Printed:
    """The session printed more: stands for `Output` where the bytes are left out."""

    offset: int
    """Behind the last byte."""


@value
class Resize:
    """The terminal has another size."""

    offset: int
    """Where in the log, as far as that is known: it may be told somewhat later than the output around it."""
    cols: int
    rows: int


@value
class Gap:
    """Bytes are missing."""

    offset: int
    until: int
    """Where the bytes go on. `offset` itself: output was lost here, and nobody knows how much; behind it: the bytes
    in between are no longer kept."""


@value
class Command:
    """The session's shell says that a command has ended."""

    number: int
    """Of the shell's prompt."""
    exit_code: int | None
    start: int
    """Where its output begins."""
    end: int
    """Behind the last byte of its output."""
    cwd: str | None


@value
class ModeChange:
    """What the session does now; the first one tells how it stands."""

    mode: Mode
    ready: bool
    """The program waits for input."""


@value
class Exit:
    """The program has ended: this is the last event."""

    code: int | None
    signal: str | None
    """Name of the signal that ended it, without SIG. With neither: tmux does not tell."""


@value
class Lost:
    """The pane is gone, somebody killed it or the tmux server: this is the last event."""


@value
class Destroyed:
    """The session was destroyed, or another one has its name: this is the last event."""


End = Exit | Lost | Destroyed
Change = Output | Printed | Resize | Gap | Command | ModeChange | End
