"""The time before each line of `tmuxmcp log --timestamps`: when the line was complete, or what is known of that."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from tmuxmcp.contract.call import iso
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.record.past.recordings import RecordedSession

STAMP_COLUMNS = len("2026-01-31T12:00:00.000Z")

SOON_S = 0.3
"""What is seen so soon after it was printed is dated by the moment at which it was seen."""


@dataclass(frozen=True)
class PrintedAt:
    """When something was printed."""

    at_s: float | None
    """Since 1970; None: not known."""
    exact: bool
    """To a few hundredths of a second; else it was printed then or before."""

    @property
    def text(self) -> str:
        """For a person: `~` is "then or before"."""
        if self.at_s is None:
            return f"{'?':<{STAMP_COLUMNS}}  "
        return f"{iso(self.at_s)}{' ' if self.exact else '~'} "


TIME_UNKNOWN = PrintedAt(None, False)


def stretches(recorded: RecordedSession, made: float | None, begin: int, end: int) -> Iterator[tuple[int, PrintedAt]]:
    """Pieces of a log: up to which offset, and when that had been printed.

    Args:
        made: when the session was made, in seconds since 1970; None: not known.
    """
    for step in recorded.steps(begin, end):
        known = made is not None and (step.known or step.ms > 0)
        stamp = PrintedAt((made or 0) + step.ms / 1000, step.known) if known else TIME_UNKNOWN
        yield step.offset, stamp


class StampedLines:
    """Lines of text as they become complete, each with the stamp of its end."""

    def __init__(self) -> None:
        self._begun = ""
        self.guessed = False
        """A stamp was not exact."""

    def feed(self, text: str, stamp: PrintedAt) -> Iterator[tuple[PrintedAt, str]]:
        """Take text; give the lines that are complete, each with its newline."""
        *whole, rest = (self._begun + text).split("\n")
        for line in whole:
            self.guessed |= not stamp.exact
            yield stamp, line + "\n"
        self._begun = rest

    def end(self, stamp: PrintedAt) -> Iterator[tuple[PrintedAt, str]]:
        """Give the last line, if it has no end."""
        if self._begun:
            self.guessed |= not stamp.exact
            yield stamp, self._begun
        self._begun = ""


class SeenUntil:
    """When it was last certain that all that was printed had been seen."""

    def __init__(self, now_s: Callable[[], float | None]) -> None:
        """`now_s`: the time, in seconds since 1970; None: not known."""
        self._now_s = now_s
        self._caught_up = -SOON_S

    def caught_up(self) -> None:
        """All is seen now."""
        self._caught_up = time.monotonic()

    def stamp(self) -> PrintedAt:
        """That of what is seen now."""
        now_s = self._now_s()
        return PrintedAt(now_s, now_s is not None and time.monotonic() - self._caught_up <= SOON_S)
