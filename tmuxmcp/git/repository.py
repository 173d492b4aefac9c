"""Where a repository lies, and a stand-in for its git directory that holds no configuration of the repository's.

git runs programs that a repository names: hooks, filters, pagers, file system monitors, external diffs, ssh commands,
helpers for credentials, and newer versions of git know more of them. All are named in configuration. So git is given
another directory in place of the repository's own: the same objects, references and index by links, and a
configuration of a few checked values. A name of a driver in .gitattributes then names nothing.
"""

from __future__ import annotations

import os
import re
import stat

from tmuxmcp.errors import FileMissing, InvalidArgument, IoError, PathOutsideRoot, PermissionDenied
from tmuxmcp.latedataclass import dataclass

SMALL_FILE_BYTES = 4096
"""Bytes of a file that holds one path or one reference."""

TREE_FILES = ("index", "shallow", "ORIG_HEAD", "MERGE_HEAD", "FETCH_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")
"""Of one working tree."""

REPOSITORY_FILES = ("refs", "packed-refs", "info", "shallow")
"""Of all working trees of a repository."""

KEPT_CONFIGURATION = {
    "core.filemode": "true|false",
    "core.ignorecase": "true|false",
    "core.symlinks": "true|false",
    "core.precomposeunicode": "true|false",
    "core.trustctime": "true|false",
    "core.checkstat": "default|minimal",
    "core.autocrlf": "true|false|input",
    "core.eol": "lf|crlf|native",
    "extensions.objectformat": "sha1|sha256",
}
"""What is taken over of the repository's configuration: names and their values. None of it names a program."""


@dataclass(frozen=True)
class Repository:
    """The real paths of a repository."""

    top: str
    """Its working tree; empty: it has none."""
    directory: str
    """The git directory of this working tree."""
    common: str
    """The git directory that all its working trees share."""
    within: str
    """The path that was asked for, as it lies in the working tree; empty: all of it."""


def find(path: str, root: str) -> Repository:
    """The repository that holds a path.

    Args:
        path: absolute.
        root: directory beneath which all of the repository must lie; empty: there is no such bound.

    Raises:
        FileMissing, InvalidArgument, PathOutsideRoot, PermissionDenied, IoError
    """
    try:
        real = os.path.realpath(path, strict=True)
        _check_beneath(real, root, path)
        found = _search(real, root)
        if not found:
            raise InvalidArgument(
                f"{path!r} lies in no git repository.", hint="Give a directory of one, or make one by `git init`."
            )
        for each in (found.directory, found.common, os.path.realpath(os.path.join(found.common, "objects"))):
            _check_beneath(each, root, path)
        alternates = os.path.join(found.common, "objects", "info", "alternates")
        if root and os.path.lexists(alternates):
            raise PathOutsideRoot(f"{path!r} takes objects from elsewhere ({alternates}).", path=path)
        return found
    except (FileNotFoundError, NotADirectoryError):
        raise FileMissing(f"There is no {path!r}.", hint="Give the path of a git repository.", path=path) from None
    except PermissionError:
        raise PermissionDenied(f"{path!r} cannot be read.", path=path) from None
    except OSError as error:
        raise IoError(f"{path!r} cannot be read: {error.strerror}.") from None


def stand_in(repository: Repository, place: str) -> None:
    """Fill an empty directory with links to what is the repository's, but for its configuration.

    Raises:
        OSError: something of it cannot be read.
    """
    for base, names in ((repository.common, REPOSITORY_FILES), (repository.directory, TREE_FILES)):
        for name in names:
            source, link = os.path.join(base, name), os.path.join(place, name)
            if os.path.lexists(source) and not os.path.lexists(link):
                os.symlink(os.path.realpath(source), link)
    for name in os.listdir(repository.directory):
        if name.startswith("sharedindex.") and "/" not in name:
            os.symlink(os.path.join(repository.directory, name), os.path.join(place, name))
    logs = os.path.join(repository.common, "logs")
    if os.path.isdir(logs):
        os.symlink(os.path.realpath(logs), os.path.join(place, "logs"))
    # git refuses a HEAD that is a link, unless it leads to a reference.
    with open(os.path.join(place, "HEAD"), "wb") as file:
        file.write(_small(os.path.join(repository.directory, "HEAD")))


def configuration(listed: bytes) -> dict[str, str]:
    """What is kept of a configuration, as `git config --list -z` tells it: the last value of each name."""
    kept = {}
    for entry in listed.split(b"\0"):
        name, _, value = entry.decode(errors="replace").partition("\n")
        if name in KEPT_CONFIGURATION and re.fullmatch(KEPT_CONFIGURATION[name], value.lower()):
            kept[name] = value.lower()
    return kept


def configured(values: dict[str, str], *, bare: bool) -> str:
    """The text of a configuration with these values, in which nothing runs a program."""
    version = 1 if "extensions.objectformat" in values else 0
    lines = [
        f"[core]\nrepositoryformatversion = {version}\nbare = {str(bare).lower()}",
        "fsmonitor = false\nhooksPath = /dev/null\npager = cat\nattributesFile = /dev/null",
    ]
    lines += [f"[{name.partition('.')[0]}]\n{name.partition('.')[2]} = {value}" for name, value in values.items()]
    # `git diff` would write the index anew.
    lines.append("[diff]\nautoRefreshIndex = false\n[protocol]\nallow = never\n[gc]\nauto = 0\n")
    return "\n".join(lines)


def _search(real: str, root: str) -> Repository | None:
    """Look at a path and at all above it."""
    directory = real if os.path.isdir(real) else os.path.dirname(real)
    while True:
        dot = os.path.join(directory, ".git")
        if os.path.lexists(dot):
            own = _git_directory(dot)
            if own:
                within = os.path.relpath(real, directory)
                return Repository(directory, own, _common(own), "" if within == "." else within)
        elif _is_git_directory(directory):
            return Repository("", directory, _common(directory), "")
        if directory in (root, "/"):
            return None
        directory = os.path.dirname(directory)


def _git_directory(dot: str) -> str:
    """Where `.git` leads: it is a directory, or a file that names one; empty: nowhere."""
    if not os.path.isdir(dot):
        text = _small(dot).removesuffix(b"\n")
        if not text.startswith(b"gitdir: "):
            return ""
        dot = os.path.join(os.path.dirname(dot), os.fsdecode(text[8:]))
    real = os.path.realpath(dot)
    return real if _is_git_directory(real) else ""


def _is_git_directory(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "HEAD")) and (
        os.path.isfile(os.path.join(path, "commondir"))
        or all(os.path.isdir(os.path.join(path, each)) for each in ("objects", "refs"))
    )


def _common(directory: str) -> str:
    name = os.path.join(directory, "commondir")
    if not os.path.isfile(name):
        return directory
    return os.path.realpath(os.path.join(directory, os.fsdecode(_small(name).rstrip(b"\n"))))


def _small(path: str) -> bytes:
    """A small regular file; what else bears the name is not waited for.

    Raises:
        OSError
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(fd, SMALL_FILE_BYTES) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    finally:
        os.close(fd)


def _check_beneath(real: str, root: str, path: str) -> None:
    if root and real != root and not real.startswith(root.rstrip("/") + "/"):
        raise PathOutsideRoot(f"{path!r} leads out of {root}.", hint="Give a path beneath files_root.", path=path)
