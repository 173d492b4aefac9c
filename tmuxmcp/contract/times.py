"""Times as results tell them."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def iso(seconds: float) -> str:
    """Seconds since 1970 as ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_of(text: str) -> float | None:
    """Seconds since 1970 of a time that `iso` wrote; None for any other text."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def ms_since(begun: float) -> int:
    """Whole milliseconds since a moment of `time.monotonic`."""
    return int((time.monotonic() - begun) * 1000)
