"""Values as JSON can carry them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def portable(value: Any) -> Any:
    """A value that JSON can carry: names of files may hold bytes that are not UTF-8, details any object."""
    match value:
        case str():
            return _text(value)
        case None | bool() | int() | float():
            return value
        case dict() | Mapping():
            return {_text(str(key)): portable(item) for key, item in value.items()}
        case list() | tuple():
            return [portable(item) for item in value]
        case _:
            return portable(str(value))


def _text(text: str) -> str:
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
