"""What goes to the terminal of a person, or to whoever reads a command's output: bytes as they are, JSON, styles."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO


def write(text: str | bytes) -> None:
    """Put text on stdout as UTF-8, whatever the locale says."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def write_json(value: Any) -> None:
    """Put a value on stdout as JSON: one line, or several where a person reads it."""
    write(json.dumps(value, indent=2 if sys.stdout.isatty() else None) + "\n")


def visible(text: str) -> str:
    """Text on one line that does nothing to a terminal."""
    return text if text.isprintable() else json.dumps(text)


def coloured(stream: TextIO) -> bool:
    """Whether colours are welcome there (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def bold(text: str, stream: TextIO, style: str = "1") -> str:
    """Bold, or another style by its SGR number, where that is welcome."""
    return f"\x1b[{style}m{text}\x1b[0m" if coloured(stream) else text
