"""One look at a repository, in a process of its own, which a sandbox is put around.

The request is a line of JSON on standard input, the answer one on standard output.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import IO, Any

from tmuxmcp.broker.programs import gitparse
from tmuxmcp.contract.errors import (
    FileMissing,
    InvalidArgument,
    IoError,
    PathOutsideRoot,
    PermissionDenied,
    ProgramNotFound,
    ResourceLimit,
    TmuxMcpError,
    Unsupported,
)
from tmuxmcp.contract.value import value
from tmuxmcp.machine.files import Files
from tmuxmcp.machine.launch import confine
from tmuxmcp.machine.sandbox import landlock

LIST_BYTES = 1024 * 1024
"""Bytes that are read of a list; what exceeds them is left out."""

GIT_SAID_BYTES = 4096
"""Bytes kept of what git says on its standard error."""

INDEX_BYTES = 64 * 1024 * 1024
"""Bytes that are read of a list of all files of a repository."""

PREFIXES = ("/", "/usr", "/usr/local")
PARTS_OF_PREFIX = ("bin", "lib", "lib32", "lib64", "libexec", "share")
"""Where programs and what they need lies, in each of them and in that of git."""

OTHER_PARTS = ("/nix/store", "/gnu/store", "/home/linuxbrew/.linuxbrew", "/etc/ld.so.cache", "/etc/ld.so.preload")
"""What programs need elsewhere."""

EMPTY_TREE = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
"""What a repository without a commit is compared with (gitglossary(7), empty tree)."""

DIFF_OPTIONS = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", "--submodule=short")


def main() -> None:
    """Do what standard input says."""
    asked = json.loads(sys.stdin.buffer.read())
    try:
        with tempfile.TemporaryDirectory(prefix="git-", dir=asked["temporary"] or None) as place:
            answer = _run(asked, place)
    except TmuxMcpError as error:
        answer = {"error": error.as_dict()}
    except OSError as error:
        answer = {"error": IoError(f"The repository cannot be read: {error.strerror}.").as_dict()}
    sys.stdout.write(json.dumps(answer))


def _run(asked: dict[str, Any], place: str) -> dict[str, Any]:
    found = find(asked["path"], asked["root"])
    git = _prepared(found, asked["root"], asked["PATH"], place)
    answer: dict[str, Any]
    match asked["work"]:
        case "status":
            answer = _status(git)
        case "log":
            answer = _log(git, asked["ref"], asked["limit"], asked["max_bytes"])
        case _:
            answer = _diff(git, asked["ref"], asked["max_bytes"])
    return answer | {"root": found.top or found.directory}


@value
class _Git:
    """git, with a stand-in for the repository's directory."""

    program: str
    env: dict[str, str]
    found: Repository
    root: str
    """Beneath which the repository lies; empty: there is no such bound."""
    confining: Sequence[tuple[str, str]]
    object_format: str

    def run(self, *words: str, most: int) -> tuple[bytes, bool]:
        """What it prints, at most so many bytes, and whether there was more.

        Raises:
            InvalidArgument, IoError: it fails.
        """
        argv = [self.program, "--no-pager", "--no-optional-locks", *words]
        cwd = self.found.top or self.found.directory
        said = bytearray()
        with _start(argv, self.env, cwd, self.confining, subprocess.PIPE) as process:
            assert process.stdout
            assert process.stderr
            reader = threading.Thread(target=_drain, args=(process.stderr, said), daemon=True)
            reader.start()
            data = process.stdout.read(most + 1)
            if len(data) > most:
                process.kill()
                return data[:most], True
            process.wait()
            reader.join()
        if process.returncode:
            raise _failure(said.decode(errors="replace").strip())
        return data, False

    @property
    def pathspec(self) -> list[str]:
        """What is asked for, at the end of a command."""
        return ["--", self.found.within] if self.found.within else ["--"]


def _drain(stream: IO[bytes], said: bytearray) -> None:
    while piece := stream.read1(65536):  # type: ignore[attr-defined]  # a pipe is buffered
        said += piece[: GIT_SAID_BYTES - len(said)]


def _start(
    argv: list[str], env: dict[str, str], cwd: str, confining: Sequence[tuple[str, str]], stderr: int
) -> subprocess.Popen[bytes]:
    within = partial(confine.confine, list(confining)) if confining else None
    return subprocess.Popen(
        argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, preexec_fn=within
    )


def _confining(program: str, env: dict[str, str], root: str, place: str) -> Sequence[tuple[str, str]]:
    """What git does, so that it reads nothing but what lies beneath a root, whatever links are made meanwhile.

    Returns:
        Words of `confine.py`. None: the kernel has no Landlock, or this git needs more than usual to start.
    """
    abi = landlock.version()
    if not root or not abi:
        return ()
    prefixes = [*PREFIXES, *(os.path.dirname(os.path.dirname(each)) for each in (program, os.path.realpath(program)))]
    parts = [os.path.join(prefix, part) for prefix in prefixes for part in PARTS_OF_PREFIX]
    runnable = sorted({os.path.realpath(each) for each in (*parts, *OTHER_PARTS)})
    words = landlock.reading_words(abi, readable=[root], runnable=runnable, writable=place)
    with suppress(OSError, subprocess.SubprocessError):
        with _start([program, "version"], env, place, words, subprocess.DEVNULL) as process:
            process.communicate()
        return words if process.returncode == 0 else ()
    return ()


def _prepared(found: Repository, root: str, path: str, place: str) -> _Git:
    """git, ready to look at a repository.

    Raises:
        ProgramNotFound: there is none.
        Unsupported: the repository keeps its references in a way that is not read here.
    """
    absolute = os.pathsep.join(each for each in path.split(os.pathsep) if each.startswith("/"))
    program = shutil.which("git", path=absolute)
    if not program:
        hint = "Install git: `apt install git`, `dnf install git` or `apk add git`."
        raise ProgramNotFound("There is no git in the PATH.", hint=hint, program="git")
    env = {
        "PATH": absolute,
        "HOME": place,
        "XDG_CONFIG_HOME": place,
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_CEILING_DIRECTORIES": place,
    }
    confining = _confining(program, env, root, place)
    listed = _configuration(program, env, confining, os.path.join(found.common, "config"), place)
    if re.search(rb"(^|\0)extensions\.refstorage\n(?!files(\0|$))", listed):
        raise Unsupported("The repository keeps its references in a reftable.", hint="Use run with git itself.")
    values = configuration(listed)
    directory = os.path.join(place, "stand-in")
    os.mkdir(directory)
    stand_in(found, root, directory)
    with open(os.path.join(directory, "config"), "w") as file:
        file.write(configured(values, bare=not found.top))
    env["GIT_DIR"] = directory
    env["GIT_OBJECT_DIRECTORY"] = os.path.realpath(found.objects)
    if found.top:
        env["GIT_WORK_TREE"] = found.top
    return _Git(program, env, found, root, confining, values.get("extensions.objectformat", "sha1"))


def _configuration(
    program: str, env: dict[str, str], confining: Sequence[tuple[str, str]], path: str, place: str
) -> bytes:
    """The values of one file of configuration: nothing that it includes, and nothing is done that they say."""
    if not os.path.isfile(path):
        return b""
    argv = [program, "config", "--file", path, "--no-includes", "--list", "-z"]
    with _start(argv, env, place, confining, subprocess.DEVNULL) as process:
        assert process.stdout
        data = process.stdout.read(LIST_BYTES + 1)
        if len(data) > LIST_BYTES:
            process.kill()
    if process.returncode:
        raise IoError("git cannot read the repository's configuration.", hint="Is there a mistake in .git/config?")
    return data


def _status(git: _Git) -> dict[str, Any]:
    _need_tree(git)
    _check_submodules(git)
    words = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--ignore-submodules=dirty")
    data, cut = git.run(*words, *git.pathspec, most=LIST_BYTES)
    answer = gitparse.status(data)
    changed = [each["path"] for each in answer["files"] if each["unstaged"] == "modified"]
    return answer | {"truncated": cut, "note": _unfiltered(git, changed)}


def _log(git: _Git, ref: str, limit: int, most: int) -> dict[str, Any]:
    if not ref and not _has_commit(git):
        return {"commits": [], "truncated": False}
    words = [
        "log",
        f"--format=tformat:{gitparse.COMMIT_FORMAT}",
        f"--max-count={limit}",
        "--encoding=UTF-8",
        "--no-color",
    ]
    words += ["--no-show-signature", "--no-decorate", "--no-mailmap", "--no-ext-diff", "--no-textconv"]
    data, cut = git.run(*words, "--end-of-options", *([ref] if ref else []), *git.pathspec, most=most)
    return {"commits": gitparse.commits(data), "truncated": cut}


def _diff(git: _Git, ref: str, most: int) -> dict[str, Any]:
    if not ref:
        _need_tree(git)
    if git.found.top:
        _check_submodules(git)
    base = ref or ("HEAD" if _has_commit(git) else EMPTY_TREE[git.object_format])
    rest = ["--end-of-options", base, *git.pathspec]
    data, cut = git.run("diff", *DIFF_OPTIONS, *rest, most=most)
    names, _ = git.run("diff", "--name-only", "-z", *DIFF_OPTIONS, *rest, most=LIST_BYTES)
    changed = [os.fsdecode(each) for each in names.split(b"\0")[:-1]] if git.found.top else []
    notes = [_unfiltered(git, changed)]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", "replace")
        if not cut or error.end < len(data):
            notes.append("Bytes that are not UTF-8 are shown as \N{REPLACEMENT CHARACTER}.")
    return {"text": text, "truncated": cut, "note": " ".join(each for each in notes if each) or None}


def _check_submodules(git: _Git) -> None:
    """git asks the repository of each submodule for its commit.

    Raises:
        PathOutsideRoot, ResourceLimit
    """
    if not git.root:
        return
    data, cut = git.run("ls-files", "--stage", "-z", *git.pathspec, most=INDEX_BYTES)
    if cut:
        raise ResourceLimit("The repository has too many files.", hint="Give a path in the repository.")
    for entry in data.split(b"\0"):
        if entry.startswith(b"160000 "):
            check_submodule(git.found, os.fsdecode(entry.partition(b"\t")[2]), git.root)


def _has_commit(git: _Git) -> bool:
    try:
        git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", most=100)
    except TmuxMcpError:
        return False
    return True


def _need_tree(git: _Git) -> None:
    if not git.found.top:
        raise InvalidArgument("The repository has no working tree.", hint="Use git_log, or git_diff with ref.")


def _unfiltered(git: _Git, paths: list[str]) -> str | None:
    """A remark on files that git would pass through a program before it compares them; here it has not."""
    if not paths or not git.found.top:
        return None
    told, _ = git.run("check-attr", "-z", "filter", "--", *paths[:1000], most=LIST_BYTES)
    words = told.split(b"\0")
    known = zip(words[0::3], words[2::3], strict=False)
    named = [os.fsdecode(path) for path, value in known if value not in (b"unspecified", b"unset")]
    if not named:
        return None
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    return (
        "Filters of .gitattributes were not run: they are programs. What they change is compared as it lies there, "
        f"and may only seem to be modified: {', '.join(map(repr, named[:3]))}{more}."
    )


def _failure(said: str) -> TmuxMcpError:
    last = next((line for line in said.splitlines() if line.startswith("fatal:")), said[:300]).removeprefix("fatal: ")
    wrong = (
        "bad revision",
        "unknown revision",
        "ambiguous argument",
        "bad object",
        "no merge base",
        "Invalid revision",
    )
    if any(each in said for each in wrong):
        return InvalidArgument(f"git: {last}.", hint="ref is a branch, a tag, a commit or a range such as main..HEAD.")
    if "unable to read" in said or "missing" in said or "promisor" in said:
        return IoError(f"git: {last}.", hint="Objects are missing, and none are fetched: use run with git itself.")
    return IoError(f"git: {last}.")


# ---- Where a repository lies -----------------------------------------------------------------------------------------
#
# And a stand-in for its git directory that holds no configuration of the repository's.
#
# git runs programs that a repository names: hooks, filters, pagers, file system monitors, external diffs, ssh commands,
# helpers for credentials, and newer versions of git know more of them. All are named in configuration. So git is given
# another directory in place of the repository's own: the same objects, references and index by links, and a
# configuration of a few checked values. A name of a driver in .gitattributes then names nothing.
#
# git follows whatever it finds there, wherever it leads. So with a root, all that it is given is walked through before.

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


@value
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
