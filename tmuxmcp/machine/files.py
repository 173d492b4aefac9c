"""Read, write and list files, all of them or those beneath a root. Blocking: for a worker thread.

Only regular files are read and written, and none of the kernel's own (proc, sys): opening others may hang, act on a
device or show what belongs to the broker. A file is written beside its place and renamed into it.
"""

from __future__ import annotations

import errno
import heapq
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice

from tmuxmcp.contract.errors import (
    FileMissing,
    InvalidArgument,
    IoError,
    PathOutsideRoot,
    PermissionDenied,
    ResourceLimit,
    TmuxMcpError,
)
from tmuxmcp.contract.value import value
from tmuxmcp.contract.words import FileKind
from tmuxmcp.machine.ownfiles import MAX_LINKS, PATH_ONLY, closing, link_target, open_beneath, read_part

KERNEL_FILES = {
    *("proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "configfs", "bpf", "pstore"),
    *("efivarfs", "fusectl", "binfmt_misc", "devpts", "mqueue", "selinuxfs", "smackfs", "nsfs"),
}
"""File systems whose files are the kernel's answers."""

SCAN_BYTES = 1 << 30
"""How far into a file lines are counted."""

COPY_BYTES = 1 << 20
MAX_NAMES = 1_000_000
"""Names of a directory that are looked at."""

KIND_OF_MODE: dict[int, FileKind] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "char_device",
    stat.S_IFBLK: "block_device",
}


@value
class FilePart:
    """A part of a file."""

    data: bytes
    size: int
    """Of the whole file."""
    offset: int
    truncated: bool
    """There was more than `max_bytes` of what was asked for."""


@value
class FileEntry:
    """A name in a directory; nothing of it is followed."""

    name: str
    kind: FileKind
    mode: int
    size: int
    mtime: float


FileId = tuple[int, int]
"""Device and number of an empty file that keeps a place for another."""


@value
class Files:
    """The files that may be touched."""

    root: str
    """Directory beneath which all must lie; empty: no bound but the user's rights."""
    base: str
    """Where relative paths begin if there is no root."""

    def read(self, path: str, offset: int, max_bytes: int) -> FilePart:
        """Bytes from `offset` on.

        Raises:
            FileMissing, PathOutsideRoot, PermissionDenied, InvalidArgument, IoError
        """
        with _errors_as_ours(path), self._regular(path) as fd:
            size = os.fstat(fd).st_size
            data = read_part(fd, max_bytes, offset)
            return FilePart(data, size, offset, offset + len(data) < size)

    def read_lines(self, path: str, first: int, last: int | None, max_bytes: int) -> FilePart:
        """Lines `first` to `last`, from 1, both included; up to the end of the file without `last`.

        Raises:
            FileMissing, PathOutsideRoot, PermissionDenied, InvalidArgument, IoError
            ResourceLimit: they are too far into the file.
        """
        with _errors_as_ours(path), self._regular(path) as fd:
            size = os.fstat(fd).st_size
            start = _line_start(fd, 0, first - 1)
            data = read_part(fd, max_bytes, start)
            more = start + len(data) < size
            if last is None:
                return FilePart(data, size, start, more)
            count = max(0, last - first + 1)
            return FilePart(data[: _end_of_lines(data, count)], size, start, more and data.count(b"\n") < count)

    def write(self, path: str, data: bytes, mode: int | None, create_dirs: bool) -> int:
        """Put `data` in the place of a file, or of the file that a link leads to; return how many bytes.

        Readers see the old file or the new one, never a part.

        Args:
            mode: permissions; left out: those of the old file, else as the umask has it.

        Raises:
            FileMissing, PathOutsideRoot, PermissionDenied, InvalidArgument, IoError
        """
        wanted = path
        with _errors_as_ours(path):
            for _ in range(MAX_LINKS):
                above, name = os.path.split(wanted)
                if name in ("", ".", "..") or "\0" in name:
                    raise InvalidArgument(f"{path!r} is no name of a file.", hint="Give the file's own name.")
                with self._directory(above or ".", create_dirs) as parent:
                    target = None
                    with suppress(FileNotFoundError):
                        target = link_target(parent, name)
                    if target is None:
                        _replace(parent, name, data, mode)
                        return len(data)
                wanted = os.path.join(above, target)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def check_new(self, path: str) -> None:
        """Say whether a file could be made there.

        Raises:
            FileMissing, PathOutsideRoot, PermissionDenied, InvalidArgument, IoError: it could not.
        """
        above, name = _parted(path)
        with _errors_as_ours(path), self._directory(above, False) as parent:
            _refuse_existing(parent, name, path)
            if not os.access(".", os.W_OK | os.X_OK, dir_fd=parent):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def reserve(self, path: str) -> FileId:
        """Make an empty file where another will be: nobody else takes the place, and that it can be had is known.

        Raises:
            FileMissing, PathOutsideRoot, PermissionDenied, InvalidArgument, IoError
        """
        above, name = _parted(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with _errors_as_ours(path), self._directory(above, False) as parent:
            try:
                fd = os.open(name, flags, 0o600, dir_fd=parent)
            except FileExistsError:
                raise _exists(path) from None
            with closing(fd):
                info = os.fstat(fd)
                return info.st_dev, info.st_ino

    def release(self, path: str, reserved: FileId) -> bool:
        """Remove the empty file that keeps a place; whether it was there.

        Raises:
            FileMissing, PathOutsideRoot, PermissionDenied, InvalidArgument, IoError
        """
        above, name = _parted(path)
        with _errors_as_ours(path), self._directory(above, False) as parent:
            kept = _keeps(parent, name, reserved)
            if kept:
                os.unlink(name, dir_fd=parent)
            return kept

    def create(self, path: str, pieces: Iterable[bytes], *, reserved: FileId | None = None) -> int:
        """Make a file of these pieces that nobody else may read; return how many bytes. A link is not followed.

        Args:
            reserved: the empty file that keeps the place, which is replaced. There must be that and no other: then the
                path still leads where it did.

        Raises:
            FileMissing, PathOutsideRoot, PermissionDenied, InvalidArgument, IoError
        """
        above, name = _parted(path)
        with _errors_as_ours(path), self._directory(above, False) as parent:
            if reserved is None:
                _refuse_existing(parent, name, path)
            elif not _keeps(parent, name, reserved):
                text = f"What was put at {path[:4096]!r} to keep the place is there no more, or is empty no more."
                raise InvalidArgument(text, hint="Give another path.", path=path[:4096])
            try:
                return _create(parent, name, pieces, reserved is not None)
            except FileExistsError:
                raise _exists(path) from None

    def list_directory(self, path: str, limit: int) -> tuple[list[FileEntry], bool]:
        """The first `limit` names of a directory, in order, and whether there are more.

        Raises:
            FileMissing, PathOutsideRoot, PermissionDenied, InvalidArgument, IoError
        """
        with _errors_as_ours(path), self._directory(path, False, os.O_RDONLY) as fd:
            with os.scandir(fd) as found:
                names = heapq.nsmallest(limit + 1, (entry.name for entry in islice(found, MAX_NAMES)))
            return [entry for name in names[:limit] for entry in _entry(fd, name)], len(names) > limit

    # ---- finding -------------------------------------------------------------------------------

    @contextmanager
    def _regular(self, path: str) -> Iterator[int]:
        """A regular file, opened for reading."""
        flags = PATH_ONLY or (os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        with closing(self._open(path, flags)) as fd:
            _refuse_special(fd, path)
            if not PATH_ONLY:
                yield fd
                return
            with closing(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)) as opened:
                yield opened

    @contextmanager
    def _directory(self, path: str, create: bool, flags: int = PATH_ONLY) -> Iterator[int]:
        """A directory; with `create`, made with all above it that is missing."""
        try:
            fd = self._open(path, flags | os.O_DIRECTORY)
        except FileNotFoundError:
            above, name = os.path.split(path.rstrip("/"))
            if not create or name in ("", ".", ".."):
                raise
            with self._directory(above or ".", True) as parent, suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent)
            fd = self._open(path, flags | os.O_DIRECTORY)
        except NotADirectoryError:
            raise InvalidArgument(f"{path!r} is not a directory, or something above it is none.") from None
        with closing(fd):
            yield fd

    def _open(self, path: str, flags: int) -> int:
        if not path or "\0" in path:
            raise InvalidArgument("path must be a path.", hint="It is not empty and holds no NUL.")
        if path == "~" or path.startswith("~/"):
            path = os.path.expanduser(path)
        if not self.root:
            return os.open(os.path.join(self.base, path), flags)
        try:
            root = os.open(self.root, PATH_ONLY | os.O_DIRECTORY)
        except OSError as error:
            raise IoError(f"files_root {self.root!r} cannot be opened: {error.strerror}.") from None
        with closing(root):
            try:
                return open_beneath(root, self._relative(path), flags)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                # A link with an absolute path may lead to a place beneath the root all the same; the kernel checks.
                real = os.path.realpath(os.path.join(self.root, path))
                return open_beneath(root, self._relative(real), flags)

    def _relative(self, path: str) -> str:
        """A path from the root on; only spelled, not looked up."""
        if not path.startswith("/"):
            return path
        for root in (self.root.rstrip("/"), os.path.realpath(self.root).rstrip("/")):
            if path == root or path.startswith(root + "/"):
                return path[len(root) :].lstrip("/") or "."
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


# ---- reading -----------------------------------------------------------------------------------------


def _line_start(fd: int, offset: int, lines: int) -> int:
    """Where the line begins that follows so many lines; the end of the file if there are not as many."""
    while lines > 0:
        if offset > SCAN_BYTES:
            raise ResourceLimit(f"The line is more than {SCAN_BYTES:,} bytes into the file.", hint="Use offset.")
        piece = os.pread(fd, COPY_BYTES, offset)
        if not piece:
            return offset
        count = piece.count(b"\n")
        if count >= lines:
            return offset + _end_of_lines(piece, lines)
        lines -= count
        offset += len(piece)
    return offset


def _end_of_lines(data: bytes, count: int) -> int:
    """Where the first `count` lines end."""
    at = 0
    for _ in range(count):
        at = data.find(b"\n", at) + 1
        if not at:
            return len(data)
    return at


def _refuse_special(fd: int, path: str) -> None:
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        kind = KIND_OF_MODE.get(stat.S_IFMT(info.st_mode), "special file")
        hint = "Use list_directory." if kind == "directory" else "Only regular files are read and written."
        raise InvalidArgument(f"{path!r} is a {kind.replace('_', ' ')}.", hint=hint, type=kind)
    if _file_system(info.st_dev) in KERNEL_FILES:
        raise InvalidArgument(f"{path!r} is one of the kernel's own files.", hint="Read it with run_process and cat.")


def _file_system(device: int) -> str:
    """The type of a mounted file system; empty where the system does not tell (proc_pid_mountinfo(5))."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError), open("/proc/self/mountinfo", errors="surrogateescape") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            if before.split(" ", 3)[2] == wanted:
                return after.split(" ", 1)[0]
    return ""


def _entry(directory: int, name: str) -> Iterator[FileEntry]:
    """A name with its facts; nothing if it has just gone."""
    with suppress(FileNotFoundError):
        info = os.stat(name, dir_fd=directory, follow_symlinks=False)
        kind = KIND_OF_MODE.get(stat.S_IFMT(info.st_mode), "other")
        yield FileEntry(name, kind, stat.S_IMODE(info.st_mode), info.st_size, info.st_mtime)


# ---- writing -----------------------------------------------------------------------------------------


def _replace(parent: int, name: str, data: bytes, mode: int | None) -> None:
    old = _old(parent, name)
    given = mode if mode is not None else stat.S_IMODE(old.st_mode) if old else None
    beside = f".tmuxmcp-{secrets.token_hex(8)}"
    fd, named = _open_beside(parent, beside, 0o666 if given is None else 0o600)
    try:
        with closing(fd):
            _write_all(fd, data)
            if old and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                with suppress(OSError):  # in a sandbox the owner may have no number
                    os.fchown(fd, old.st_uid, old.st_gid)
            if given is not None:
                os.fchmod(fd, given)
            os.fsync(fd)
            if not named:
                os.link(f"/proc/self/fd/{fd}", beside, dst_dir_fd=parent, follow_symlinks=True)
        os.rename(beside, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=parent)
        raise
    with suppress(OSError), closing(os.open(".", os.O_RDONLY, dir_fd=parent)) as directory:
        os.fsync(directory)


def _parted(path: str) -> tuple[str, str]:
    """Directory and name of a file.

    Raises:
        InvalidArgument: it has no name.
    """
    above, name = os.path.split(path)
    if name in ("", ".", "..") or "\0" in name:
        raise InvalidArgument(f"{path[:4096]!r} is no name of a file.", hint="Give the file's own name.")
    return above or ".", name


def _refuse_existing(parent: int, name: str, path: str) -> None:
    """Say so before the work is done; what appears meanwhile is refused at its end."""
    with suppress(FileNotFoundError):
        os.stat(name, dir_fd=parent, follow_symlinks=False)
        raise _exists(path)


def _keeps(parent: int, name: str, reserved: FileId) -> bool:
    """Whether there is the empty file that keeps a place."""
    try:
        info = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(info.st_mode) and info.st_size == 0 and (info.st_dev, info.st_ino) == tuple(reserved)


def _exists(path: str) -> InvalidArgument:
    text = f"{path[:4096]!r} is there already, and nothing is overwritten."
    return InvalidArgument(text, hint="Give another path.", path=path[:4096])


def _create(parent: int, name: str, pieces: Iterable[bytes], reserved: bool) -> int:
    """Write beside the place, then take it."""
    beside, size = f".tmuxmcp-{secrets.token_hex(8)}", 0
    fd, named = _open_beside(parent, beside, 0o600)
    try:
        with closing(fd):
            for piece in pieces:
                _write_all(fd, piece)
                size += len(piece)
            os.fsync(fd)
            if not named:
                os.link(f"/proc/self/fd/{fd}", beside, dst_dir_fd=parent, follow_symlinks=True)
        if reserved:
            os.rename(beside, name, src_dir_fd=parent, dst_dir_fd=parent)
        else:
            os.link(beside, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=parent)
    return size


def _old(parent: int, name: str) -> os.stat_result | None:
    """The file that is there already; it must be one that could be written to.

    Raises:
        InvalidArgument, PermissionDenied
    """
    try:
        fd = os.open(name, (PATH_ONLY or os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW, dir_fd=parent)
    except FileNotFoundError:
        return None
    with closing(fd):
        _refuse_special(fd, name)
        if PATH_ONLY and not os.access(f"/proc/self/fd/{fd}", os.W_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return os.fstat(fd)


def _open_beside(parent: int, name: str, mode: int) -> tuple[int, bool]:
    """A new file in a directory, without a name where the file system can do that: then no crash leaves it behind.

    Returns:
        its descriptor, and whether it has the name.
    """
    if hasattr(os, "O_TMPFILE"):
        with suppress(OSError):
            return os.open(".", os.O_TMPFILE | os.O_WRONLY, mode, dir_fd=parent), False
    return os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, mode, dir_fd=parent), True


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


# ---- errors ------------------------------------------------------------------------------------------


@contextmanager
def _errors_as_ours(path: str) -> Iterator[None]:
    """The system's errors as ours."""
    try:
        yield
    except OSError as error:
        raise _as_ours(error, path[:4096]) from None
    except UnicodeEncodeError:
        raise InvalidArgument(f"{path[:4096]!r} cannot be a path.", hint="Give valid text.") from None


def _as_ours(error: OSError, path: str) -> TmuxMcpError:
    reason = error.strerror or str(error)
    match error.errno:
        case errno.EXDEV:
            text = f"{path!r} is outside of files_root, or a link on its way leads there."
            return PathOutsideRoot(text, hint="Only files beneath files_root can be used.", path=path)
        case errno.ENOENT | errno.ENOTDIR:
            return FileMissing(
                f"There is no {path!r}: {reason}.", hint="list_directory shows what is there.", path=path
            )
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return PermissionDenied(f"{path!r}: {reason}.", hint="Look at the modes with list_directory.", path=path)
        case errno.ELOOP | errno.ENAMETOOLONG | errno.EINVAL | errno.EISDIR:
            return InvalidArgument(f"{path!r}: {reason}.", hint="Give another path.", path=path)
        case _:
            return IoError(f"{path!r}: {reason}.", path=path)
