"""Where a session in a sandbox may work: its working directory is its project, and it can write to all that is in it.

It may not work where it could prepare its way out: at keys, start-up files, settings, our own files and code,
programs that run outside, other programs' sockets; nor above them. Directories are told apart by device and inode, so
that neither a link nor a bind mount gives one of them a name that is not refused.
"""

from __future__ import annotations

import os
import pwd
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.value import value
from tmuxmcp.machine.ownfiles import closing

Identity = tuple[int, int]
"""Device and inode."""

LOOK_FLAGS = getattr(os, "O_PATH", os.O_NONBLOCK) | os.O_CLOEXEC

CLOSED_SYSTEM = (
    *("/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/dev", "/proc", "/sys", "/run"),
    *("/var", "/Applications", "/Library", "/System"),
)
OPEN_IN_SYSTEM = ("/var/tmp", "/var/www")
"""In those of the system, but for everybody's own files."""

HOME_PARENTS = ("/home", "/Users")
"""Each directory in them is somebody's home."""


@value
class Project:
    """A directory, as it was when it was judged."""

    path: str
    """Its real path."""
    identity: Identity
    closed: str | None
    """Why no session in a sandbox may work there."""
    above: tuple[Identity, ...] = ()
    """Itself and all directories above it."""

    def lies_in(self, roots: Iterable[Project]) -> bool:
        """Whether it is one of some directories, or lies in one of them."""
        return any(root.identity in self.above for root in roots)


@value
class _ClosedPlace:
    path: str
    what: str
    whole: bool = True
    """Closed is all that is in it; otherwise only itself, and what is above it."""


def judge(path: str, ours: Iterable[str]) -> Project:
    """Look at a directory, or a file, and say whether it may be written to from a sandbox.

    What is judged is one descriptor: whoever moves links or directories meanwhile gets a refusal, or nothing.

    Args:
        ours: files and directories of the broker.

    Raises:
        OSError: it, or what is above it, cannot be looked at.
    """
    with closing(os.open(path, LOOK_FLAGS)) as fd:
        real = os.readlink(f"/proc/self/fd/{fd}") if sys.platform == "linux" else os.path.realpath(path)
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            above = _upwards(".", fd)
        else:
            above = [_identity(fd), *_upwards(os.path.dirname(real))]
    return Project(real, above[0], _why_closed(real, above, ours), tuple(above))


def roots_of(named: Sequence[str], otherwise: str, ours: Iterable[str]) -> tuple[Project, ...]:
    """The directories beneath which sessions in a sandbox may work.

    Args:
        named: what the person names.
        otherwise: the one that is meant where nothing is named; none is meant if that is closed.

    Raises:
        InvalidArgument: a named one is not there, or closed.
    """
    found = []
    for path in named or [otherwise]:
        try:
            root = judge(path, ours)
            closed = root.closed
        except OSError as error:
            root, closed = None, f"it cannot be looked at ({error.strerror})"
        if root and not closed:
            found.append(root)
        elif named:
            raise InvalidArgument(
                f"{path} cannot be one of sandbox_roots: {closed}.",
                hint="Name directories of projects; sandbox_write names single others.",
            )
    return tuple(found)


def directories_to_hide(files: Iterable[str]) -> list[str]:
    """The real directories of files that nobody in a sandbox may read, as far as they are there.

    They are hidden whole: who replaces a file puts another one in its place, which nothing covers.

    Raises:
        InvalidArgument: one lies where much else does, that is needed in a sandbox.
    """
    found = []
    for file in files:
        real = os.path.realpath(file)
        if os.path.exists(real) and not os.path.isfile(real):  # /dev/null, for no settings
            continue
        for directory in sorted({os.path.realpath(os.path.dirname(file)), os.path.dirname(real)}):
            if directory in {
                os.path.realpath(each) for each in ("/", *CLOSED_SYSTEM, *HOME_PARENTS, *_homes(directory + "/x"))
            }:
                raise InvalidArgument(
                    f"{file} cannot be kept from a sandbox: it lies in {directory}, with what is needed there.",
                    hint="Move it into a directory of its own.",
                )
            if os.path.isdir(directory):
                found.append(directory)
    return found


def _why_closed(real: str, above: list[Identity], ours: Iterable[str]) -> str | None:
    homes = list(_homes(real))
    for place in (*_places(homes), *(_ClosedPlace(each, "which is tmuxmcp's own") for each in ours)):
        for chain in _chains(place.path):
            if above[0] in chain:
                return f"it is or holds {place.path}, {place.what}"
            if place.whole and chain[0] in above:
                return f"it lies in {place.path}, {place.what}"
    work = {chain[0] for each in (*OPEN_IN_SYSTEM, *_temporary(), *homes) for chain in _chains(each)}
    system = {chain[0] for each in CLOSED_SYSTEM for chain in _chains(each)}
    nearest = next((each for each in above if each in system or each in work), None)
    return "it belongs to the system" if nearest in system else None


def _places(homes: list[str]) -> Iterator[_ClosedPlace]:
    for home in homes:
        yield _ClosedPlace(home, "a home directory", whole=False)
        for name in _names(home):
            if name.startswith(".") or name in ("bin", "Library"):
                yield _ClosedPlace(os.path.join(home, name), "where settings, keys or programs lie")
    for top in _temporary():
        yield _ClosedPlace(top, "where everybody's temporary files lie", whole=False)
        for name in _names(top):
            if name.startswith((".", "tmux-", "ssh-")):
                yield _ClosedPlace(os.path.join(top, name), "where sockets of other programs lie")
    for top in HOME_PARENTS:
        yield _ClosedPlace(top, "where home directories lie", whole=False)
    for path in os.get_exec_path():
        yield _ClosedPlace(os.path.abspath(path), "where programs are looked for (PATH)")
    for path in (sys.prefix, sys.base_prefix):
        yield _ClosedPlace(path, "where Python lies that runs tmuxmcp")
    for path in sys.path:
        yield _ClosedPlace(os.path.abspath(path), "where Python modules are looked for", whole=False)


def _homes(real: str) -> Iterator[str]:
    """The home directories that matter for a path: the user's own, root's, and whose it lies in."""
    yield os.path.expanduser("~")
    with suppress(KeyError):
        yield pwd.getpwuid(os.geteuid()).pw_dir
    yield "/root"
    while len(real) > 1:
        real, below = os.path.dirname(real), real
        if real in HOME_PARENTS:
            yield below


def _temporary() -> tuple[str, ...]:
    return ("/tmp", "/var/tmp", os.path.abspath(os.environ.get("TMPDIR") or "/tmp"))


def _names(directory: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(directory)
    return []


def _chains(path: str) -> Iterator[list[Identity | None]]:
    """What is above a path by its name, and above where it leads; first itself, None where it is no directory.

    What nobody here can look at, no session can write to either.
    """
    path, real = os.path.abspath(path), os.path.realpath(path)
    names = [real] if real == path else [real, os.path.dirname(path)]
    for name in names:
        missing = name != real or not os.path.isdir(name)
        while not os.path.isdir(name):
            name = os.path.dirname(name)
        with suppress(OSError):
            chain = _upwards(name)
            if len(chain) > 1:  # not the root, in which everything lies
                yield [None, *chain] if missing else [*chain]


def _upwards(directory: str, beside: int | None = None) -> list[Identity]:
    """A directory and all that are above it; `beside`: the descriptor of the one that its name is relative to."""
    found: list[Identity] = []
    fd = os.open(directory, LOOK_FLAGS, dir_fd=beside)
    try:
        while _identity(fd) not in found[-1:]:
            found.append(_identity(fd))
            up = os.open("..", LOOK_FLAGS, dir_fd=fd)
            os.close(fd)
            fd = up
    finally:
        os.close(fd)
    return found


def _identity(fd: int) -> Identity:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
