"""What time tells of a command that runs: whether a look can wait, whether it is silent, whether its shell rests. Pure.

Each is fed what was seen at a moment, and the time by any one clock that does not go back.
"""

from __future__ import annotations

from typing import Literal

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.readiness.judge import Need

LOOKS_S, PUT_OFF_S = 0.02, 0.003
"""Longest time between two looks while a command runs; and for how long the log must not grow for one before that."""

FLOODS_BYTES, FLOOD_LOOKS_S = 1 << 16, 0.25
"""A command that prints so much between two looks is looked at so seldom while it prints on: its own mark ends it.

It prints on as long as it does not pause for `LOOKS_S`: on a busy machine the log grows by fits and starts.
"""

RESTS_S = 0.03
"""A shell that waits at its prompt for so long, before and after tmux said that nothing is on its way, rests."""


class LookDelay:
    """Tells whether a look can wait: while the log grows, the next thing in it is likely to be the end.

    A look at the kernel takes longer than a short command.
    """

    def __init__(self, now: float) -> None:
        self._size, self._looked_at, self._waits = -1, now, False
        self._floods = False
        self._grown_at, self._looked_size = now, -1
        """When the log was first seen to have its size; what that was at the last look."""

    def feed(self, size: int, now: float) -> bool:
        """Whether it waits, by the size that the log has now; else it is done now."""
        self._looked_size = size if self._looked_size < 0 else self._looked_size
        self._floods = size - self._looked_size >= FLOODS_BYTES
        if size != self._size:
            self._size, self._grown_at = size, now
        pause_s, longest_s = (LOOKS_S, FLOOD_LOOKS_S) if self._floods else (0.0, LOOKS_S)
        self._waits = now - self._grown_at <= pause_s and now - self._looked_at < longest_s
        if not self._waits:
            self._looked_at, self._looked_size = now, size
        return self._waits

    def step_s(self) -> float:
        """Longest time until it is asked again."""
        return PUT_OFF_S if self._waits and not self._floods else LOOKS_S


class SilenceTimer:
    """Tells when nothing was printed for so long."""

    def __init__(self, idle_ms: int) -> None:
        """`idle_ms`: 0: never."""
        self._idle_ms, self._size, self._since = idle_ms, -1, 0.0

    def feed(self, size: int, now: float) -> bool:
        """Whether that is so, by the size that the log has now."""
        if size != self._size:
            self._size, self._since = size, now
        return bool(self._idle_ms) and (now - self._since) * 1000 >= self._idle_ms


@dataclass(frozen=True)
class KeyWait:
    """A shell that is seen waiting for keys: the same one as long as it does nothing else."""

    size: int
    """Of the log."""
    wakes: int
    """How often it had slept by then."""


class ShellRest:
    """Tells when a shell waits for keys and nothing is on its way: neither to it nor into the log.

    For `RESTS_S` it waits and prints nothing, tmux and the log's writer say that they have passed on all they had,
    and for `RESTS_S` more nothing changes.
    """

    def __init__(self) -> None:
        self._waits: KeyWait | None = None
        self._since = 0.0
        self._logged = False

    def feed(self, waits: KeyWait | None, now: float) -> bool | Literal[Need.LOGGED]:
        """Whether it is so, or what is needed for that (`logged`); `waits`: None: it does something else."""
        if waits is None or waits != self._waits:
            self._waits, self._since, self._logged = waits, now, False
            return False
        if now - self._since < RESTS_S:
            return False
        return True if self._logged else Need.LOGGED

    def logged(self, complete: bool, now: float) -> None:
        """Take in whether the log holds all that was printed by now."""
        self._logged, self._since = complete, now
