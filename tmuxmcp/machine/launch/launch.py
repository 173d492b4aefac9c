"""What a pane runs, as the launcher is told.

The launcher gets it by a file in the session's directory, which its step removes after reading.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tmuxmcp.contract.errors import InvalidArgument

LAUNCH_ROOM = Path(__file__).parent

PACKAGE_ROOT = LAUNCH_ROOM.parents[1]


def write_spec(
    path: Path,
    *,
    executable: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    umask: int,
    confine: Sequence[tuple[str, str]] = (),
) -> None:
    """Write what the launcher's step reads: fields that end with NUL, in a file for the owner alone.

    Args:
        confine: what the step does to itself before, as words and values of `confine.py`.

    Raises:
        InvalidArgument: an argument holds NUL.
    """
    if any("\0" in word for word in argv):
        raise InvalidArgument("An argument cannot hold NUL.", hint="Send such text with send.")
    fields = [cwd, str(umask), executable]
    for words in (argv, _pairs(env.items()), _pairs(confine)):
        fields += [str(len(words)), *words]
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(b"".join(os.fsencode(field) + b"\0" for field in fields))


def write_wrapped_spec(
    path: Path,
    path_within: Path,
    wrapper: Sequence[str],
    *,
    report: Path,
    mark: Mapping[str, str],
    executable: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    umask: int,
    confine: Sequence[tuple[str, str]],
    within: Sequence[tuple[str, str]],
) -> None:
    """Write what the step reads that becomes a wrapper, and what the step within reads that becomes the program.

    Args:
        path: of the first of these files; path_within: of the second.
        wrapper: its words; those that start the step within come after them.
        report: the file in which failures are told.
        mark: `session_mark`, all that the wrapper gets as environment.
        confine: what the first of them does to itself.
        within: what the second does.

    Raises:
        InvalidArgument: an argument holds NUL.
    """
    write_spec(path_within, executable=executable, argv=argv, env=env, cwd=cwd, umask=umask, confine=within)
    outer = [*confine, ("report", str(report)), ("keep_report", ""), ("hand", str(path_within))]
    # Nothing of the caller's variables: by LD_PRELOAD the wrapper would run his code, outside.
    whole = [*wrapper, sys.executable, "-I", "-S", str(LAUNCH_ROOM / "begin.py"), "inside"]
    write_spec(path, executable=whole[0], argv=whole, env=mark, cwd="/", umask=umask, confine=outer)


def _pairs(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{name}={value}" for name, value in pairs]


KEY_VARIABLE = b"TMUXMCP_KEY"
"""Name of the variable that all processes of a session inherit."""


def session_mark(directory: Path) -> dict[str, str]:
    """The variable that all processes of a session inherit, by which those are found that left its terminal."""
    return {KEY_VARIABLE.decode(): hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}


def launcher_argv(directory: Path, token: str) -> list[str]:
    """Word one of a pane and its arguments."""
    return [
        "/bin/sh",
        str(LAUNCH_ROOM / "launcher.sh"),
        sys.executable,
        str(LAUNCH_ROOM / "begin.py"),
        str(directory),
        token,
    ]


def sink_argv(directory: Path, log_max_bytes: int, number: int = 1) -> list[str]:
    """The command behind pipe-pane; every sink of a session but the first writes down that there was a gap."""
    return ["exec", "/bin/sh", str(LAUNCH_ROOM / "sink.sh"), str(directory), str(log_max_bytes), str(number)]
