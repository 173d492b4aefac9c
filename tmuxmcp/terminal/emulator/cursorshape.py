"""The shape of the cursor, as programs ask for it with `CSI n SP q` (DECSCUSR). Pure."""

from __future__ import annotations

import re

SHAPE_BY_NUMBER = ("block", "block", "block", "underline", "underline", "bar", "bar")
"""By the number in the sequence; it does not matter here whether the cursor blinks."""

LONGEST_SEQUENCE = len(b"\x1b[0 q")

_SETS_SHAPE = re.compile(rb"\x1b(?:\[([0-6]?) q|c)")


def last_shape(printed: bytes) -> str | None:
    """The shape that was asked for last, also by a full reset; None: none was."""
    found = _SETS_SHAPE.findall(printed)
    return SHAPE_BY_NUMBER[int(found[-1] or 0)] if found else None
