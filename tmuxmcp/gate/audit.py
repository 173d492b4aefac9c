"""The audit: one JSON line for each call, in a file that is bounded, private and shared by several brokers.

Lines are appended in one write each, so that those of several brokers do not mix; the file is put aside under a lock
when it is full. With `strict`, the line is on the disk before anything is done, and is filled in afterwards: a crash
leaves one that says `started`.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from tmuxmcp.machine import locks
from tmuxmcp.machine.ownfiles import open_file

AUDIT_FILE_BYTES = 10 * 1024 * 1024
KEPT_FILES = 5
"""So many files of that size are kept: `audit.jsonl`, `audit.jsonl.1` ..."""

VALUE_CHARS = 4096
"""Characters of one value; what is longer is cut and says so."""

AUDIT_MOST_WORDS = 256
SHORT_LINE_BYTES = 2 * AUDIT_MOST_WORDS
"""A line of no more has no value that is cut: each word of a list takes two bytes, with its comma."""
AUDIT_LINE_BYTES = 16 * 1024
LINE_ROOM_BYTES = 1024
"""Bytes left free in a line that is filled in afterwards."""

_encode = json.JSONEncoder(separators=(",", ":")).encode
"""`json.dumps` would make an encoder for each line."""


class Audit:
    """Writes the lines of one broker; every method raises OSError where the file system does."""

    def __init__(self, directory: Path, file_bytes: int = AUDIT_FILE_BYTES) -> None:
        self.path = directory / "audit.jsonl"
        self.file_bytes = file_bytes

    def write(self, entry: dict[str, Any]) -> None:
        """Append a line."""
        fd = self._open()
        try:
            _write(fd, as_line(entry))
        finally:
            os.close(fd)
        self._rotate()

    def begin(self, entry: dict[str, Any]) -> OpenLine:
        """Append a line that can be filled in; it is on the disk when this returns."""
        line = as_line(entry)
        self._rotate()
        line = line[:-1].ljust(len(line) + LINE_ROOM_BYTES) + b"\n"
        fd = self._open()
        try:
            _write(fd, line)
            os.fdatasync(fd)
            offset = os.lseek(fd, 0, os.SEEK_CUR) - len(line)
            # pwrite(2) appends all the same to what was opened with O_APPEND.
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_APPEND)
        except BaseException:
            os.close(fd)
            raise
        return OpenLine(fd, offset, len(line))

    def _open(self) -> int:
        return open_file(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def _rotate(self) -> None:
        """Put the file aside when it is full; somebody who has it open still writes to the right one."""
        if not self._is_full():
            return
        with locks.if_free(self.path.with_suffix(".lock")) as free:
            if not free or not self._is_full():
                return  # another broker does it at this moment, or has just done it
            for number in range(KEPT_FILES - 1, 0, -1):
                older = self._numbered(number - 1)
                if older.exists():
                    older.replace(self._numbered(number))

    def _is_full(self) -> bool:
        try:
            return self.path.stat().st_size >= self.file_bytes
        except FileNotFoundError:
            return False

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path


class OpenLine:
    """A line that says `started`, to be filled in once."""

    def __init__(self, fd: int, offset: int, size: int) -> None:
        self._fd, self._offset, self._size = fd, offset, size

    def finish(self, entry: dict[str, Any]) -> None:
        """Replace the line."""
        try:
            line = as_line(entry)[:-1]
            if len(line) < self._size:
                os.pwrite(self._fd, line.ljust(self._size - 1), self._offset)
        finally:
            os.close(self._fd)


def _write(fd: int, line: bytes) -> None:
    if os.write(fd, line) != len(line):
        raise OSError(28, "no space is left for the whole line")


def as_line(entry: dict[str, Any]) -> bytes:
    """An entry as a line of JSON, in pure ASCII, never longer than `AUDIT_LINE_BYTES`."""
    line = _encode(entry)
    if len(line) > SHORT_LINE_BYTES:
        line = _encode(_short(entry))
    if len(line) >= AUDIT_LINE_BYTES:
        line = _encode(_short(entry, AUDIT_LINE_BYTES // 128, 4) | {"cut": True})
    return line.encode() + b"\n"


def _short(value: Any, most: int = VALUE_CHARS, words: int = AUDIT_MOST_WORDS) -> Any:
    match value:
        case str() if len(value) > most:
            return f"{value[:most]}... ({len(value)} characters)"
        case list() | tuple():
            short = [_short(each, most, words) for each in value[:words]]
            return short if len(value) <= words else [*short, f"... ({len(value)} words)"]
        case dict():
            return {name: _short(each, most, words) for name, each in value.items()}
        case _:
            return value
