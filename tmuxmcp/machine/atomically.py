"""Put a small file in its place: a reader sees the old text or the new, never a part.

`files.py` has a way of its own: it writes beneath an open directory, whose path may lead elsewhere by now.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_atomically(path: Path, text: str, *, mode: int | None = None, to_disk: bool = False) -> None:
    """Replace a file, or make it.

    Args:
        mode: permissions; left out: 0600.
        to_disk: the text is on the disk before it takes its place, so that a power cut leaves no empty file.

    Raises:
        OSError: it could not be written; the old file is as it was.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    # In a directory that others may write to, whoever guesses the name gains nothing: the file must be new.
    fd = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
            if mode is not None:
                os.fchmod(fd, mode)
            if to_disk:
                file.flush()
                os.fsync(fd)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def write_once(path: Path, text: str) -> None:
    """Put a file where there is none, for us alone: of several who do so at once, all find the first one's.

    Raises:
        OSError
    """
    if os.path.lexists(path):
        return
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    fd = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w") as made:
            made.write(text)
        with suppress(FileExistsError):
            os.link(beside, path)
    finally:
        os.unlink(beside)
