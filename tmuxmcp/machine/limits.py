"""Which limits of a program the kernel keeps for each process.

Pure: nothing here changes a limit. The short step that becomes the program (never a `preexec_fn`: the broker has
threads) calls `setrlimit` for each row of `rlimits`, clamped to the hard limit that it has itself.
"""

from __future__ import annotations

import resource

from tmuxmcp.contract.settings import Limits

MIB = 1024 * 1024

Rlimit = tuple[int, int, int]
"""`(resource, soft, hard)` for `setrlimit`."""


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
