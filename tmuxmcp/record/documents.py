"""What the small files of a session have in common: a `Document` is one JSON object, a `Journal` is lines of JSON.

Each store says what its values mean; how they get into a file and out of it is said here alone.

What a kill leaves, at whatever moment. A document is written beside its place and renamed into it: readers find the old
one or the new one, and at most a file `.NAME.RANDOM.new` is left over. A line of a journal is appended by one write(2):
it is there or it is not, and lines of two writers never mix.

What a full disk does. The old document stays, and the writer is told by an OSError. A line of a journal may be cut
short. The next writer ends it with a newline, readers take whole lines only, and a line that is no JSON is passed over.

What a power cut leaves. A document that has to survive it is on the disk before it takes its place (`to_disk`).

What two brokers of different versions do. The number of a format is the key `format`. Values without one are of format
1, and are written without one: brokers from before the numbers refuse a `meta.json` with a key that they do not know.
Values of a newer format are read as far as they are understood: keys that are not known are passed over, and those that
are known mean what they always did. A document of a newer format is never replaced, which would lose the rest.

What happens when another session takes the name, and so the directory's path. Nothing is written there any more.

Whose files these are. Programs of the same user may put links, pipes or large files in their place:
`machine/ownfiles.py` opens none of those, and a file that cannot be read counts as empty.

Whether a file has changed is seen by its `FileVersion`. Whoever looks takes that before the content, so that a change
in between is found at the next look. A journal that is full is put aside or written anew, and another broker may do so
at any moment: a reader knows its file by how it begins, and a writer looks after each write whether its file is still
the one at its path.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from tmuxmcp.contract.value import fields
from tmuxmcp.machine.ownfiles import (
    OWN_FILE_BYTES,
    check_directory,
    make_directory,
    open_file,
    read_part,
    read_text,
    write_atomically,
)
from tmuxmcp.record.directory import SessionDirectory, SessionFile

T = TypeVar("T")

FORMAT_KEY = "format"

FileVersion = tuple[int, int, int]
"""Which file there is, when it was last written to, and its size. The first alone says nothing: it is given again."""

ABSENT: FileVersion = (0, 0, 0)


def file_version(path: str | Path) -> FileVersion:
    """The version of the file that is there; `ABSENT` if there is none."""
    try:
        state = os.stat(path)
    except OSError:
        return ABSENT
    return (state.st_ino, state.st_mtime_ns, state.st_size)


def is_newer(values: Mapping[str, Any], known: int) -> bool:
    """Whether values are of a format above the one that is known here."""
    number = values.get(FORMAT_KEY, 1)
    return not isinstance(number, int) or number > known


def numbered(known: int) -> dict[str, int]:
    """What a writer of this format puts beside its values."""
    return {FORMAT_KEY: known} if known > 1 else {}


def made_of(cls: type[T], values: Mapping[str, Any]) -> T | None:
    """A value of this class, of those fields that are there; None if one is missing that has no default."""
    known: Any = cls
    try:
        return cls(**{each: values[each] for each in fields(known) if each in values})
    except TypeError:
        return None


class NewerFormat(OSError):
    """A document was written by a newer version, and is not replaced."""


class Document:
    """A kind of file that holds one JSON object; or each file of a kind of directory does."""

    def __init__(self, file: SessionFile, format: int = 1, *, indent: int | None = None, to_disk: bool = False) -> None:
        """
        Args:
            format: the newest one that is known here.
            to_disk: it is on the disk before it takes its place.
        """
        self.format = format
        self._file, self._indent, self._to_disk = file, indent, to_disk

    def path(self, directory: SessionDirectory, name: str = "") -> Path:
        """Where it is; `name`: of a file in it, where it is a directory."""
        place: Path = getattr(directory, self._file.attribute)
        return place / name if name else place

    def read(self, directory: SessionDirectory, name: str = "") -> dict[str, Any]:
        """Its values; empty when there are none that can be read."""
        try:
            values = json.loads(read_text(self.path(directory, name)))
        except (OSError, ValueError, RecursionError):
            return {}
        return values if isinstance(values, dict) else {}

    def write(
        self,
        directory: SessionDirectory,
        values: Mapping[str, Any],
        name: str = "",
        *,
        format: int | None = None,
        keep: Mapping[str, Any] | None = None,
        new: bool = False,
    ) -> None:
        """Replace it, or make it.

        Args:
            format: of these values, where an older version can read them.
            keep: what has just been read there, and stays but for these values.
            new: it must not be there.

        Raises:
            NewerFormat: it is of a newer format.
            FileExistsError: it is there, and should not be.
            OSError: it cannot be written, or the directory is another session's by now.
        """
        path = self.path(directory, name)
        if not directory.is_there:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        there = keep if keep is not None else {} if new else self.read(directory, name)
        if is_newer(there, self.format):
            raise NewerFormat(errno.EPERM, "it was written by a newer tmuxmcp", str(path))
        text = json.dumps({**(keep or {}), **numbered(format or self.format), **values}, indent=self._indent)
        write_atomically(path, text, to_disk=self._to_disk, new=new)


class Cached(Generic[T]):
    """What is made of a file that is mostly not there, made anew once the file has changed."""

    def __init__(self, path: Path, make: Callable[[], T], none: T) -> None:
        """
        Args:
            make: reads the file; an OSError is as if there were none, until the next look.
            none: what is made of no file.
        """
        self._path, self._make, self._none = str(path), make, none
        self._version: FileVersion | None = ABSENT
        self.value = none
        """As last read."""

    def read(self) -> bool:
        """Read the file if it has changed; whether it had. Mostly that is one look at it."""
        # Asking first: an exception would cost ten times as much.
        version = file_version(self._path) if os.access(self._path, os.F_OK) else ABSENT
        if version == self._version:
            return False
        self._version, self.value = ABSENT, self._none
        if version != ABSENT:
            with suppress(OSError):
                self.value, self._version = self._make(), version
        return True

    def read_anew(self) -> None:
        """Read the file, changed or not: whoever holds its lock and writes it next takes no chance."""
        self._version = None
        self.read()


class ByCaller(Generic[T]):
    """A value for each caller of a session, whatever broker it asked: a file each in one directory, read once.

    A file is not replaced but written over: that outlasts a kill as well, and takes 0.2 ms less than a rename.
    """

    def __init__(self, directory: SessionDirectory, path: Path, decode: Callable[[str], T], none: T) -> None:
        """
        Args:
            path: of the directory of these files.
            decode: raises ValueError or IndexError for what is no value.
            none: the value of a caller of whom nothing is known.
        """
        self._directory, self._path = directory, path
        self._decode, self._none = decode, none
        self._known: dict[str, T] = {}

    def of(self, caller: str) -> T:
        """The value of this caller."""
        value = self._known.get(caller)
        if value is None:
            value = self._none
            with suppress(OSError, ValueError, IndexError):
                check_directory(self._path)
                value = self._decode(read_text(f"{self._path}/{caller}"))
            self._known[caller] = value
        return value

    def put(self, caller: str, value: T, text: bytes) -> None:
        """Remember the value of this caller, and write it down as this text; a failure is no reason to fail."""
        self._known[caller] = value
        if not self._directory.is_there:
            return
        with suppress(OSError):
            fd = self._opened(f"{self._path}/{caller}")
            try:
                os.pwrite(fd, text, 0)
            finally:
                os.close(fd)

    def _opened(self, path: str) -> int:
        flags = os.O_CREAT | os.O_WRONLY
        try:
            check_directory(self._path)
            return open_file(path, flags)
        except FileNotFoundError:
            make_directory(self._path)
            return open_file(path, flags)


HEAD_BYTES = 100
"""Bytes at the beginning of a journal by which it is told from another one."""


def lines_of(path: Path, start: int = 0) -> bytes:
    """The whole lines of a file from an offset; none if it cannot be read."""
    return _head_and_lines(path, start)[1]


def _head_and_lines(path: Path, start: int) -> tuple[bytes, bytes]:
    """How a file begins, and its whole lines from an offset."""
    try:
        with os.fdopen(open_file(path), "rb", buffering=0) as file:
            head = os.pread(file.fileno(), HEAD_BYTES, 0)
            data = read_part(file.fileno(), OWN_FILE_BYTES, start)
    except OSError:
        return b"", b""
    return head, data[: data.rfind(b"\n") + 1]


def values_in(lines: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of lines; what is none is left out."""
    for line in lines.splitlines():
        with suppress(ValueError, RecursionError):
            values = json.loads(line)
            if isinstance(values, dict):
                yield values


def as_line(values: Mapping[str, Any]) -> bytes:
    """A JSON object as a line, with the newline."""
    return json.dumps(values).encode() + b"\n"


class Journal:
    """A file of JSON lines to which several processes append, and how far it was read; a store says what they mean."""

    def __init__(self, directory: SessionDirectory, path: Path, before: Path | None = None) -> None:
        """`before`: what the file is called once it is full and another one is begun; None: it is never put aside."""
        self.path, self.before = path, before
        self._directory = directory
        self._version: FileVersion = ABSENT
        """Of the file when it was read last."""
        self._head = b""
        """How that began."""
        self._read_to = 0

    def _take(self, lines: bytes) -> None:
        """Take in whole lines."""
        raise NotImplementedError

    def _start_over(self) -> None:
        """Forget what was taken in: the lines that come next are all that there are."""
        raise NotImplementedError

    def read_on(self) -> None:
        """Take in what anybody has appended since; mostly that is one look at the file."""
        version = file_version(self.path)
        if version == self._version or not self._directory.is_there:
            return
        head, new = _head_and_lines(self.path, self._read_to)
        before = b""
        if not self._head or not head.startswith(self._head):
            head_before, before = _head_and_lines(self.before, self._read_to) if self.before else (b"", b"")
            if not self._head or not head_before.startswith(self._head):
                self._start_over()
                before = lines_of(self.before) if self.before else b""
            self._read_to = 0
            head, new = _head_and_lines(self.path, 0)
        self._head, self._version = head, version
        self._read_to += len(new)
        if before or new:
            self._take(before + new)

    @contextmanager
    def open(self) -> Iterator[OpenJournal]:
        """Open the file to append to it behind its last whole line; it is made if it is not there.

        Raises:
            OSError: it cannot be, or the directory is another session's by now.
        """
        if not self._directory.is_there:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path))
        fd = open_file(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            yield OpenJournal(self, fd)
        finally:
            os.close(fd)


class OpenJournal:
    """A journal's file, open for appending."""

    def __init__(self, journal: Journal, fd: int) -> None:
        state = os.fstat(fd)
        self.fd, self._journal, self._inode = fd, journal, state.st_ino
        self._version: FileVersion = (state.st_ino, state.st_mtime_ns, state.st_size)
        self.size = state.st_size
        """Bytes of the file when it was looked at last."""
        self.in_use = True
        """It was still the one at its path then."""
        self._all_read = self._version == journal._version and self.size == journal._read_to
        if not self._all_read and self.size and os.pread(fd, 1, self.size - 1) != b"\n":
            os.write(fd, b"\n")

    def look(self) -> bool:
        """Look at the file; whether it is still the one at its path."""
        self._version = file_version(self._journal.path)
        self.in_use, self.size = self._version[0] == self._inode, self._version[2]
        return self.in_use

    def append(self, lines: bytes) -> bool:
        """Append whole lines, and look at the file.

        Returns:
            whether they count as read, as nobody else has written since all was read: the caller takes them in.
        """
        os.write(self.fd, lines)
        journal = self._journal
        alone = self.look() and self._all_read and self.size == journal._read_to + len(lines)
        if alone:
            journal._read_to, journal._version = self.size, self._version
        return alone
