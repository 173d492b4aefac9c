"""What goes to the terminal of a person, or to whoever reads a command's output: bytes as they are, JSON, styles."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from tmuxmcp.contract.errors import IoError


def write(text: str | bytes) -> None:
    """Put text on stdout as UTF-8, whatever the locale says.

    Raises:
        BrokenPipeError: nobody reads it any more.
        IoError: it cannot be written.
    """
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    with _telling_what_is_lost():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)


def flush() -> None:
    """Let out what was put on stdout.

    Raises:
        BrokenPipeError, IoError: as `write`.
    """
    with _telling_what_is_lost():
        sys.stdout.flush()


@contextmanager
def _telling_what_is_lost() -> Iterator[None]:
    """A full disk behind stdout says nothing of what was done: who is told "try again" would do it twice."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        forget()
        raise IoError(
            f"What is to be printed cannot be written: {error.strerror}.",
            hint="What was to be done may be done: look before you repeat it. Only its output is lost.",
        ) from error


def forget() -> None:
    """Nobody reads it any more: let what is still buffered go nowhere, or the interpreter complains at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


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
