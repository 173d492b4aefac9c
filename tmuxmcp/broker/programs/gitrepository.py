"""Where a repository lies, and a stand-in for its git directory that holds no configuration of the repository's.

git runs programs that a repository names: hooks, filters, pagers, file system monitors, external diffs, ssh commands,
helpers for credentials, and newer versions of git know more of them. All are named in configuration. So git is given
another directory in place of the repository's own: the same objects, references and index by links, and a
configuration of a few checked values. A name of a driver in .gitattributes then names nothing.

git follows whatever it finds there, wherever it leads. So with a root, all that it is given is walked through before.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from tmuxmcp.contract.errors import FileMissing, InvalidArgument, IoError, PathOutsideRoot, PermissionDenied
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine.files import Files

SMALL_FILE_BYTES = 4096
"""Bytes of a file that holds one path or one reference."""

ALTERNATES_BYTES = 65536
"""Bytes of a file that names other directories of objects."""

TREE_FILES = ("index", "shallow", "ORIG_HEAD", "MERGE_HEAD", "FETCH_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")
"""Of one working tree."""

REPOSITORY_FILES = ("refs", "packed-refs", "info", "shallow", "logs")
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

    @property
    def objects(self) -> str:
        """Where its objects lie."""
        return os.path.join(self.common, "objects")

    def linked(self) -> Iterator[tuple[str, str]]:
        """What git is given of it by links: names in the stand-in, and where it lies."""
        own = [*TREE_FILES, *(name for name in os.listdir(self.directory) if name.startswith("sharedindex."))]
        for base, names in ((self.common, REPOSITORY_FILES), (self.directory, own)):
            for name in names:
                if os.path.lexists(source := os.path.join(base, name)):
                    yield name, source


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
        if root:
            _check_seen(found, root, path)
        return found
    except (FileNotFoundError, NotADirectoryError):
        raise FileMissing(f"There is no {path!r}.", hint="Give the path of a git repository.", path=path) from None
    except PermissionError:
        raise PermissionDenied(f"{path!r} cannot be read.", path=path) from None
    except OSError as error:
        raise IoError(f"{path!r} cannot be read: {error.strerror}.") from None


def stand_in(repository: Repository, root: str, place: str) -> None:
    """Fill an empty directory with links to what is the repository's, but for its configuration.

    Raises:
        TmuxMcpError, OSError: something of it cannot be read.
    """
    for name, source in repository.linked():
        link = os.path.join(place, name)
        if not os.path.lexists(link):
            os.symlink(os.path.realpath(source), link)
    # git refuses a HEAD that is a link, unless it leads to a reference.
    with open(os.path.join(place, "HEAD"), "wb") as file:
        file.write(_small(os.path.join(repository.directory, "HEAD"), root))


def check_submodule(repository: Repository, within: str, root: str) -> None:
    """Look at a directory of the working tree that stands for another repository's commit, if that repository is there.

    Raises:
        PathOutsideRoot: what git would open of it leads out of the root.
        TmuxMcpError, OSError: it cannot be read.
    """
    directory = os.path.join(repository.top, within)
    dot = os.path.join(directory, ".git")
    if os.path.lexists(dot) and not os.path.islink(directory) and (own := _git_directory(dot, root)):
        _check_seen(Repository(directory, own, _common(own, root), ""), root, dot)


def _check_seen(found: Repository, root: str, path: str) -> None:
    """Walk through all that git is going to open of a repository; no link in it leads out of the root.

    Links that are put there later are not seen: then what git is kept in by has to hold.

    Raises:
        PathOutsideRoot, TmuxMcpError, OSError
    """
    for each in (found.directory, found.common):
        _check_beneath(each, root, path)
    todo = [os.path.join(found.directory, "HEAD"), os.path.join(found.common, "config"), found.objects]
    todo += [source for _, source in found.linked()]
    if found.top:
        todo.append(os.path.join(found.top, ".gitmodules"))
    walked = set()
    while todo:
        real = os.path.realpath(todo.pop())
        _check_beneath(real, root, path)
        if real in walked or not os.path.isdir(real):
            continue
        walked.add(real)
        with os.scandir(real) as entries:
            todo += [entry.path for entry in entries if entry.is_symlink() or entry.is_dir()]
        todo += _alternates(real, root, path)


def _alternates(directory: str, root: str, path: str) -> Iterator[str]:
    """Other directories of objects that one of them names (gitrepository-layout(5)).

    Raises:
        PathOutsideRoot: it cannot be told where they lie.
    """
    name = os.path.join(directory, "info", "alternates")
    if not os.path.lexists(name):
        return
    _check_beneath(os.path.realpath(name), root, path)
    text = _small(name, root, ALTERNATES_BYTES)
    for line in text.partition(b"\0")[0].split(b"\n"):
        if line.startswith(b'"') or len(text) == ALTERNATES_BYTES:
            raise PathOutsideRoot(f"{path!r} takes objects from elsewhere, as {name} says.", path=path)
        if line and not line.startswith(b"#"):
            yield os.path.join(directory, os.fsdecode(line))


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
            own = _git_directory(dot, root)
            if own:
                within = os.path.relpath(real, directory)
                return Repository(directory, own, _common(own, root), "" if within == "." else within)
        elif _is_git_directory(directory):
            return Repository("", directory, _common(directory, root), "")
        if directory in (root, "/"):
            return None
        directory = os.path.dirname(directory)


def _git_directory(dot: str, root: str) -> str:
    """Where `.git` leads: it is a directory, or a file that names one; empty: nowhere."""
    if not os.path.isdir(dot):
        text = _small(dot, root).removesuffix(b"\n")
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


def _common(directory: str, root: str) -> str:
    name = os.path.join(directory, "commondir")
    if not os.path.isfile(name):
        return directory
    return os.path.realpath(os.path.join(directory, os.fsdecode(_small(name, root).rstrip(b"\n"))))


def _small(path: str, root: str, most: int = SMALL_FILE_BYTES) -> bytes:
    """A small file.

    Raises:
        TmuxMcpError: it is no regular file, leads out of the root, or cannot be read.
    """
    return Files(root, "/").read(path, 0, most).data


def _check_beneath(real: str, root: str, path: str) -> None:
    if root and real != root and not real.startswith(root.rstrip("/") + "/"):
        raise PathOutsideRoot(f"{path!r} leads out of {root}.", hint="Give a path beneath files_root.", path=path)
