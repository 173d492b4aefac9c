"""What a check says."""

from __future__ import annotations

from tmuxmcp.contract.latedataclass import dataclass


@dataclass(frozen=True)
class DoctorCheck:
    """One thing that was looked at."""

    name: str
    ok: bool
    message: str
    fix: str | None = None
    """What to do about it; None when it holds."""
