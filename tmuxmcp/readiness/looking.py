"""When a wait looks at what it waits for: at new text once, at a screen seldom, at a change until it is drawn. Pure.

Each is given the size of the log, and the time by any one clock that does not go back.
"""

from __future__ import annotations

from tmuxmcp.readiness.facts import NO_TIME

SCREEN_EVERY_S = 0.05
"""Least time between two looks at the screen."""

UNPRINTED_S = 0.25
"""The same when nothing was printed: only a new size changes it then."""

DRAWN_S = 0.02
"""A screen that has changed and then stood still for so long has been drawn to its end."""

DRAWING_S = 0.25
"""Longest wait for that end."""


STANDS_S = 1.0
"""What has stood at the end for so long is no half-drawn echo, also on a busy machine or a slow link."""


class NewText:
    """Tells when there is text that was not searched yet, or is to be searched once more as nothing follows it."""

    def __init__(self, start: int, *, echoes: bool = False) -> None:
        """`start`: new text begins at this offset. `echoes`: something was typed, whose echo may be drawn."""
        self._start, self._echoes = start, echoes
        self._searched, self._grown_at = -1, 0.0
        self.stands = False
        """Nothing is being drawn at the end of what is to be searched."""

    def feed(self, size: int, now: float, *, exited: bool = False) -> bool:
        """Whether there is, by the size that the log has now; then it counts as searched.

        Args:
            exited: nothing follows any more.
        """
        if size <= self._start:
            return False
        grown = size != self._searched
        if grown:
            self._searched, self._grown_at, self.stands = size, now, False
        stood = self._echoes and not self.stands and (exited or now - self._grown_at >= STANDS_S)
        self.stands = self.stands or stood
        return grown or stood


class ScreenLooks:
    """Tells when a screen is to be looked at again."""

    def __init__(self) -> None:
        self._at = -NO_TIME
        self.size = -1
        """Of the log at the last look; -1: there was none."""

    def due(self, size: int, now: float) -> bool:
        """Whether it is."""
        return now - self._at >= (SCREEN_EVERY_S if size != self.size else UNPRINTED_S)

    def looked(self, size: int, now: float) -> None:
        """Take in that somebody looks now."""
        self._at, self.size = now, size


class Changed:
    """Tells when a screen is another one than that from which a wait began, and drawn to its end."""

    def __init__(self) -> None:
        self.looks = ScreenLooks()
        self._differs_since: float | None = None

    def looked(self, differs: bool, size: int, now: float) -> None:
        """Take in a look at the screen."""
        self.looks.looked(size, now)
        if not differs:
            self._differs_since = None
        elif self._differs_since is None:
            self._differs_since = now

    def feed(self, size: int, grown_at: float, now: float, *, exited: bool) -> bool:
        """Whether it is so now.

        Args:
            grown_at: when the log was last seen grown.
            exited: nothing draws any more.
        """
        if self._differs_since is None:
            return False
        drawn = self.looks.size == size and now - grown_at >= DRAWN_S
        return drawn or exited or now - self._differs_since >= DRAWING_S
