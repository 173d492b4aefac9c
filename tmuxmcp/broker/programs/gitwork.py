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
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import IO, Any

from tmuxmcp.broker.programs import gitparse as parse
from tmuxmcp.broker.programs import gitrepository as repository
from tmuxmcp.broker.programs.gitrepository import Repository
from tmuxmcp.contract.errors import InvalidArgument, IoError, ProgramNotFound, ResourceLimit, TmuxMcpError, Unsupported
from tmuxmcp.contract.latedataclass import dataclass
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
    found = repository.find(asked["path"], asked["root"])
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


@dataclass(frozen=True)
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
    values = repository.configuration(listed)
    stand_in = os.path.join(place, "stand-in")
    os.mkdir(stand_in)
    repository.stand_in(found, root, stand_in)
    with open(os.path.join(stand_in, "config"), "w") as file:
        file.write(repository.configured(values, bare=not found.top))
    env["GIT_DIR"] = stand_in
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
    answer = parse.status(data)
    changed = [each["path"] for each in answer["files"] if each["unstaged"] == "modified"]
    return answer | {"truncated": cut, "note": _unfiltered(git, changed)}


def _log(git: _Git, ref: str, limit: int, most: int) -> dict[str, Any]:
    if not ref and not _has_commit(git):
        return {"commits": [], "truncated": False}
    words = ["log", f"--format=tformat:{parse.COMMIT_FORMAT}", f"--max-count={limit}", "--encoding=UTF-8", "--no-color"]
    words += ["--no-show-signature", "--no-decorate", "--no-mailmap", "--no-ext-diff", "--no-textconv"]
    data, cut = git.run(*words, "--end-of-options", *([ref] if ref else []), *git.pathspec, most=most)
    return {"commits": parse.commits(data), "truncated": cut}


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
            repository.check_submodule(git.found, os.fsdecode(entry.partition(b"\t")[2]), git.root)


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
