"""A session's clock: milliseconds since it was made, and never back.

While the machine stays up it is that of CLOCK_BOOTTIME: it goes on while the machine sleeps, and nobody sets it. Behind
a reboot, and for a session of which nobody wrote down when that clock began, it is the difference to `created_at`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from tmuxmcp.contract.latedataclass import dataclass

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Booted:
    """A moment by the clock that runs from the machine's start."""

    boot_id: str = ""
    """Which start; empty: the system does not tell."""
    at_s: float = 0.0

    @classmethod
    def now(cls) -> tuple[Booted, float]:
        """This moment, and the same in seconds since 1970: nothing that takes time stands between the two readings."""
        boot_id = _boot_id()
        if not boot_id:
            return cls(), time.time()
        at_s, since_1970_s = time.clock_gettime(time.CLOCK_BOOTTIME), time.time()
        return cls(boot_id, round(at_s, 6)), since_1970_s

    @classmethod
    def of(cls, values: dict[str, Any]) -> Booted:
        """As somebody wrote it down with `vars`; no moment where it is something else."""
        boot_id, at_s = values.get("boot_id"), values.get("at_s")
        return cls(boot_id, at_s) if isinstance(boot_id, str) and isinstance(at_s, float) else cls()


@cache
def _boot_id() -> str:
    with suppress(OSError):
        return BOOT_ID.read_text().strip() if hasattr(time, "CLOCK_BOOTTIME") else ""
    return ""


class SessionClock:
    """The clock of one session."""

    def __init__(self, created_at_s: float | None, booted: Booted) -> None:
        """Both are the moment at which the session was made, where they are known."""
        self._created_at_s = created_at_s
        self._booted_s = booted.at_s if booted.boot_id and booted.boot_id == _boot_id() else None
        self._latest = 0

    def now_ms(self) -> int:
        """The time now; 0 where nobody knows when the session was made."""
        if self._booted_s is not None:
            found = time.clock_gettime(time.CLOCK_BOOTTIME) - self._booted_s
        elif self._created_at_s is not None:
            found = time.time() - self._created_at_s
        else:
            found = 0.0
        self._latest = max(self._latest, int(found * 1000))
        return self._latest
