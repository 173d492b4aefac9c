"""What a program may use and what it runs in: the limits and sandbox levels that callers name and are told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

SandboxLevel = Literal["none", "limits", "landlock", "bubblewrap"]
"""The sandbox that a session runs in."""

WRAPPER_LEVELS: frozenset[SandboxLevel] = frozenset({"bubblewrap"})
"""Levels in which a wrapper runs the program: process ids and a terminal of its own, deaths told as exit codes."""

SHORTCOMINGS: dict[SandboxLevel, str] = {
    "limits": "The best sandbox here keeps no files apart: the session can read and write what you can.",
    "landlock": "The best sandbox here is Landlock: the session has no namespaces of its own.",
}
"""What a caller is told who relies on a sandbox of this level."""

SandboxWish = Literal["none", "auto", "required"]
"""What a caller or the settings ask for."""

Count = Annotated[int | None, Field(ge=1, le=2**31 - 1)]


class Limits(BaseModel):
    """Bounds of a program and all that it starts; what is null is not limited."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    memory_mb: Count = None
    """MiB; of the address space of each process, or of all together where there is a cgroup."""
    cpu_seconds: Count = None
    """Seconds of processor time of each process."""
    cpu_percent: Annotated[int | None, Field(ge=1, le=100_000)] = None
    """Percent of one core, all together; only a cgroup can keep it."""
    processes: Count = None
    """Most processes; without a cgroup all of the user's count, and root has no such limit."""
    open_files: Annotated[int | None, Field(ge=3, le=2**31 - 1)] = None
    """Most descriptors of each process."""
    file_mb: Count = None
    """MiB of the largest file that may be written."""
    duration_s: Annotated[float | None, Field(gt=0, le=1e9, allow_inf_nan=False)] = None
    """Seconds until the whole tree is ended."""

    def within(self, bounds: Limits) -> Limits:
        """The tighter of the two for each."""
        names = type(self).model_fields
        pairs = {name: (getattr(self, name), getattr(bounds, name)) for name in names}
        known = {name: [value for value in pair if value is not None] for name, pair in pairs.items()}
        return Limits(**{name: min(values) for name, values in known.items() if values})
