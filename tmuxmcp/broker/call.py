"""Who calls, and how to tell them that a long call is still going on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from uuid import uuid4

Progress = Callable[[float, str], Awaitable[None]]
"""`await progress(elapsed_s, last_line)`; called at most once a second."""


async def no_progress(elapsed_s: float, last_line: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Call:
    """One call of an operation."""

    caller: str = "library"
    """Whose read cursors and default session are meant: `[A-Za-z0-9_-]+`, stable across restarts of the broker."""
    progress: Progress = no_progress
    call_id: str = field(default_factory=lambda: uuid4().hex[:12])
    """Correlation id: in the result's `_meta`, in the logs."""
