"""What a program may use: one frozen value for processes and sessions, and what of it the kernel keeps per process.

Pure: nothing here changes a limit. The short step that becomes the program (never a `preexec_fn`: the broker has
threads) calls `setrlimit` for each row of `rlimits`, clamped to the hard limit that it has itself.
"""

from __future__ import annotations

import resource
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MIB = 1024 * 1024

Count = Annotated[int | None, Field(ge=1, le=2**31 - 1)]

Rlimit = tuple[int, int, int]
"""`(resource, soft, hard)` for `setrlimit`."""


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


def rlimits(limits: Limits) -> list[Rlimit]:
    """What `setrlimit` can keep; `cpu_percent` and `duration_s` are somebody else's business."""
    rows: list[Rlimit] = []
    if limits.memory_mb is not None:
        rows.append(_row(resource.RLIMIT_AS, limits.memory_mb * MIB))
    if limits.cpu_seconds is not None:
        # SIGXCPU first; who survives that is killed a second later (setrlimit(2)).
        rows.append((resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1))
    if limits.processes is not None:
        rows.append(_row(resource.RLIMIT_NPROC, limits.processes))
    if limits.open_files is not None:
        rows.append(_row(resource.RLIMIT_NOFILE, limits.open_files))
    if limits.file_mb is not None:
        rows.append(_row(resource.RLIMIT_FSIZE, limits.file_mb * MIB))
    return rows


def _row(which: int, most: int) -> Rlimit:
    return which, most, most
