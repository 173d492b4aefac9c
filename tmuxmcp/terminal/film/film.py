"""What a terminal did in the course of time, as values that recordings, pictures and replays are made of. Pure.

A `Film` is a stretch of one session's log with its times. Whoever makes one reads files; whoever writes or shows one
takes nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

from tmuxmcp.contract.value import value
from tmuxmcp.terminal.snapshot import Snapshot


@value
class FilmOutput:
    """The terminal printed this."""

    ms: int
    """Since the session was made, as for every moment of a film; never less than that of the moment before."""
    data: bytes
    """A character or a control sequence may go on in the next piece."""


@value
class FilmInput:
    """Something was typed, and the terminal showed what is typed then."""

    ms: int
    data: bytes


@value
class FilmResize:
    """The terminal has another size from here on."""

    ms: int
    cols: int
    rows: int
    told: Snapshot | None = None
    """The screen right after it, where it is known: tmux wraps lines anew."""


@value
class FilmMarker:
    """A command ended here; or something else that a viewer wants to find."""

    ms: int
    label: str
    """For people: `make test: exit 2`."""
    exit_code: int | None = None
    """Of a command that failed or not; None: not known, or no command."""


@value
class FilmExit:
    """The program ended."""

    ms: int
    exit_code: int
    """As a shell has it: 128 and the number of a signal that ended it."""


FilmEvent = FilmOutput | FilmInput | FilmResize | FilmMarker | FilmExit


@value
class Film:
    """A stretch of a session; iterated over once."""

    start: Snapshot
    """The screen before the first moment: blank at the beginning of a session."""
    begin_ms: int
    """When the film begins: the first moment may come later."""
    end_ms: int
    """When it ends: nothing happens after the last moment."""
    moments: Iterable[FilmEvent]
    """Rising in time."""
    title: str = ""
    """Name of the session."""
    created_at: float = 0
    """When the session was made, in seconds since 1970."""
    term: str = ""
    """`TERM` of what ran in it."""
    times_known: bool = True
    """False: nobody noted exactly when some of it was printed; that comes late, at a time by which it was."""
