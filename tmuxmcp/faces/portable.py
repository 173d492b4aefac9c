"""Values as JSON can carry them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def portable(value: Any) -> Any:
    """A value that JSON can carry: names of files may hold bytes that are not UTF-8, details any object."""
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, (dict, Mapping)):
        return {_text(str(key)): portable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [portable(item) for item in value]
    return portable(str(value))


def _text(text: str) -> str:
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
