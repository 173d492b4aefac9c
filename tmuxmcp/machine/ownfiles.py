"""Open files of ours, whatever somebody has put in their place.

A program of the same user can put a link, a pipe, a device or a very large file where one of ours is. No link is
followed, no pipe is waited for, nothing but a regular file is opened, and no more is read than there should be.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from tmuxmcp.contract.errors import InvalidArgument, IoError, TmuxMcpError

OWN_FILE_BYTES = 16 << 20
"""What is read of a file that has no bound of its own: it may hold the arguments of a program."""

WRITTEN_BYTES = 1 << 20
"""What is read of a file that a person writes: settings, tokens and the like."""

PIECE_BYTES = 1 << 16

MOST_DOTS = 5000
"""In one line of TOML. What tomllib does for a name of so many parts grows with their square: 100,000 take minutes."""

_LONG_KEY = re.compile(r"""^[ \t]*(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){50}""", re.MULTILINE)

_AS_OURS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_file(path: str | Path, flags: int = os.O_RDONLY, *, dir_fd: int | None = None, links: bool = False) -> int:
    """Open a file, made for its owner alone if it is made.

    Args:
        flags: as os.open has them, without those that say how it is opened.
        links: follow a link, as a person may have put one.

    Raises:
        OSError: it is not there, cannot be opened, or is no regular file.
    """
    try:
        fd = os.open(path, flags | (_AS_OURS & ~os.O_NOFOLLOW if links else _AS_OURS), 0o600, dir_fd=dir_fd)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link, which is not followed", str(path)) from None
        if error.errno in (errno.ENXIO, errno.ENODEV):  # a pipe that nobody reads, a socket
            raise _no_file(path) from None
        raise
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise _no_file(path)


@contextmanager
def closing(fd: int) -> Iterator[int]:
    """Close a descriptor when this is left."""
    try:
        yield fd
    finally:
        os.close(fd)


def _no_file(path: str | Path) -> OSError:
    return OSError(errno.EINVAL, "it is no regular file", str(path))


def read_bytes(path: str | Path, most: int = OWN_FILE_BYTES, *, links: bool = False) -> bytes:
    """What a file holds.

    Raises:
        OSError: as `open_file`, or it has more bytes.
    """
    with closing(open_file(path, links=links)) as fd:
        data = read_part(fd, most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
    return data


def read_part(fd: int, most: int, start: int = 0) -> bytes:
    """At most so many bytes of an open file, from an offset on."""
    pieces: list[bytes] = []
    while most > 0 and (piece := os.pread(fd, min(most, PIECE_BYTES), start)):
        pieces.append(piece)
        start += len(piece)
        most -= len(piece)
    return b"".join(pieces)


def read_lines(path: str | Path, start: int) -> bytes:
    """The whole lines of a file from an offset on; none where it cannot be read."""
    try:
        with closing(open_file(path)) as fd:
            data = read_part(fd, OWN_FILE_BYTES, start)
    except OSError:
        return b""
    return data[: data.rfind(b"\n") + 1]


def read_text(path: str | Path) -> str:
    """The text of a small file.

    Raises:
        OSError: as `read_bytes`.
        ValueError: it is no UTF-8.
    """
    return read_bytes(path).decode()


# ---- what a person writes ----------------------------------------------------------------------------


def read_written(path: Path, what: str, check: Callable[[os.stat_result], None]) -> str:
    """The text of a file that a person writes, who may put a link in its place.

    Args:
        what: what it is, for errors.
        check: refuses a file by its owner and mode.

    Raises:
        FileNotFoundError: there is none.
        InvalidArgument: it is no regular file, too large, or no UTF-8.
        IoError: it cannot be read.
    """
    return _text(_read_written(path, what, check), f"{what} {path}")


def read_toml(path: Path, what: str, check: Callable[[os.stat_result], None]) -> dict[str, Any]:
    """The values of such a file.

    Raises:
        FileNotFoundError, IoError: as `read_written`.
        InvalidArgument: as `read_written`, or it is not TOML.
    """
    return toml_values(_read_written(path, what, check), f"{what} {path}")


def toml_values(data: bytes, where: str) -> dict[str, Any]:
    """The values in a text.

    Raises:
        InvalidArgument: it is not TOML.
    """
    import tomllib  # there is seldom such a file

    text = _text(data, where)
    try:
        if _LONG_KEY.search(text) or any(line.count(".") > MOST_DOTS for line in text.splitlines()):
            raise RecursionError
        return tomllib.loads(text)
    except ValueError as error:  # also what is no error of tomllib's own, as a number of 5,000 digits
        raise InvalidArgument(f"{where} is not TOML: {error}.", hint="Compare it with the reference.") from None
    except RecursionError:
        hint = "Put fewer lists and tables into one another."
        raise InvalidArgument(f"{where} is nested too deeply.", hint=hint) from None


def not_read(error: OSError, what: str, path: Path) -> TmuxMcpError:
    """What is told of a file that cannot be opened."""
    if error.errno == errno.EINVAL:
        return InvalidArgument(f"{what} {path} is no regular file.", hint="It must be a file, or a link to one.")
    return IoError(f"{what} {path} cannot be read: {error.strerror}.")


def _read_written(path: Path, what: str, check: Callable[[os.stat_result], None]) -> bytes:
    handed = path.is_relative_to("/dev/fd")  # a shell's `<(...)`: a pipe that is meant, and waited for
    try:
        with os.fdopen(
            os.open(path, os.O_RDONLY | os.O_CLOEXEC) if handed else open_file(path, links=True), "rb"
        ) as file:
            check(os.fstat(file.fileno()))
            data = file.read(WRITTEN_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise not_read(error, what, path) from error
    if len(data) > WRITTEN_BYTES:
        raise InvalidArgument(f"{what} {path} has more than {WRITTEN_BYTES:,} bytes.", hint="Make it shorter.")
    return data


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{where} is not UTF-8 (byte {error.start}).", hint="Save it as UTF-8.") from None


# ---- what is made ------------------------------------------------------------------------------------


def make_directory(path: Path, *, links: bool = False) -> None:
    """Make a directory and what is missing above it, all for their owner alone: `mkdir(parents=True)` asks the umask.

    Args:
        links: a link to a directory is one, too, as a person may have put it.

    Raises:
        OSError: it cannot be made, or something else has its place.
    """
    if not path.is_dir():
        for missing in reversed([each for each in (path, *path.parents) if not each.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
    if not links:
        check_directory(path)


def check_directory(path: str | Path) -> None:
    """See that what has a directory's path is none that lies elsewhere.

    Raises:
        OSError: it is not there, or is something else.
    """
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is no directory", str(path))


def make_empty(path: Path) -> None:
    """Make a file whose name says all, if it is not there.

    Raises:
        OSError
    """
    os.close(open_file(path, os.O_WRONLY | os.O_CREAT))


# ---- Put a small file in its place: a reader sees the old text or the new, never a part ------------------------------
#
# `files.py` has a way of its own: it writes beneath an open directory, whose path may lead elsewhere by now.


def write_atomically(
    path: Path, text: str, *, mode: int | None = None, to_disk: bool = False, new: bool = False
) -> None:
    """Replace a file, or make it.

    Args:
        mode: permissions; left out: 0600.
        to_disk: the text is on the disk before it takes its place, so that a power cut leaves no empty file.
        new: of several who make the file at once, the first one's stays.

    Raises:
        FileExistsError: it is there, and `new` is asked for.
        OSError: it could not be written; the old file is as it was.
    """
    with replacing(path, new=new) as file:
        file.write(text.encode())
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        if to_disk:
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def replacing(path: Path, *, new: bool = False) -> Iterator[BinaryIO]:
    """The file that takes a place when this ends; a failure leaves what is there.

    Args:
        new: nothing is there.

    Raises:
        FileExistsError: something is.
        OSError
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    # In a directory that others may write to, whoever guesses the name gains nothing: the file must be new.
    fd = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
        if new:
            os.link(beside, path)
            os.unlink(beside)
        else:
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
    if not os.path.lexists(path):
        with suppress(FileExistsError):
            write_atomically(path, text, new=True)


# ---- Which state directory is meant ----------------------------------------------------------------------------------
#
# And what names it: one that is made anew, or on another machine, has another name.

NAME_BYTES = 16


def own_directory(path: Path) -> Path:
    """The directory itself, or one of the user's own beneath it where it is everybody's, as /tmp is.

    So it is in a container that may run as any user.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return path
    everybodys = stat.S_ISDIR(mode) and mode & stat.S_ISVTX and mode & stat.S_IWOTH
    return path / str(os.geteuid()) if everybodys else path


def state_id(state_dir: Path) -> str:
    """The name of a state directory; made when it is first asked for, and the same for all who ask at once.

    Raises:
        OSError: it can be neither read nor made.
    """
    file = state_dir / "id"
    with suppress(FileNotFoundError):
        return read_text(file).strip()
    write_once(file, secrets.token_hex(NAME_BYTES) + "\n")
    return read_text(file).strip()


# ---- Opening paths beneath a directory -------------------------------------------------------------------------------
#
# Whatever links lead elsewhere and whoever moves them meanwhile, nothing outside.
#
# The kernel does it where it can: openat2(2) with RESOLVE_BENEATH. Elsewhere each component is opened by itself, from
# the descriptor of the one before, and links are read and walked here. Asking for the real path first and opening it
# then is not safe: in between, somebody can put a link there.

OPENAT2 = 437
"""The number of the system call, the same on every architecture."""

RESOLVE_NO_MAGICLINKS, RESOLVE_BENEATH = 0x02, 0x08

MOST_EAGAIN = 1000
"""How often the kernel is asked again when something on the way was moved meanwhile (EAGAIN)."""

MAX_LINKS = 40
"""Links followed on the way: as many as Linux follows (path_resolution(7))."""

PATH_ONLY = getattr(os, "O_PATH", 0)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(directory: int, path: str, flags: int) -> int:
    """Open an existing file that lies beneath a directory; links that stay there are followed.

    Args:
        directory: its descriptor.
        path: relative to it.

    Raises:
        OSError: EXDEV when the path leads out of the directory.
    """
    if sys.platform == "linux":
        try:
            return _openat2(directory, path, flags)
        except OSError as error:
            # An old kernel; containers whose rules do not know the call say EPERM.
            if error.errno not in (errno.ENOSYS, errno.EPERM):
                raise
    return walk(directory, path, flags)


def _openat2(directory: int, path: str, flags: int) -> int:
    how = _How(flags | os.O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
    libc = ctypes.CDLL(None, use_errno=True)
    name = os.fsencode(path)
    for _ in range(MOST_EAGAIN):
        size = ctypes.c_size_t(ctypes.sizeof(how))
        fd: int = libc.syscall(ctypes.c_long(OPENAT2), directory, name, ctypes.byref(how), size)
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number), path)


def walk(directory: int, path: str, flags: int) -> int:
    """The same by small steps: no component is ever opened through a link."""
    with ExitStack() as opened:
        above = [directory]
        todo, links = _parts(path), 0
        while todo:
            part = todo.pop()
            if part == "..":
                if len(above) == 1:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
                above.pop()
                continue
            target = link_target(above[-1], part)
            if target is not None:
                links += 1
                if links > MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                if target.startswith("/"):
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
                todo += _parts(target)
            elif todo:
                step = os.open(part, PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above[-1])
                opened.callback(os.close, step)
                above.append(step)
            else:
                return os.open(part, flags | os.O_NOFOLLOW, dir_fd=above[-1])
        return os.open(".", flags, dir_fd=above[-1])


def link_target(directory: int, name: str) -> str | None:
    """Where a link leads; `None` if it is none.

    Raises:
        OSError: there is nothing of this name.
    """
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise


def _parts(path: str) -> list[str]:
    """The components, the last one first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
