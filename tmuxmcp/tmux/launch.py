"""What a pane runs, as the launcher is told.

The launcher gets it by a file in the session's directory, which its step removes after reading.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tmuxmcp.errors import InvalidArgument

PACKAGE = Path(__file__).parent
WITHIN = "spec.within"


def write_spec(
    directory: Path,
    *,
    executable: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    umask: int,
    confine: Sequence[tuple[str, str]] = (),
    name: str = "spec",
) -> None:
    """Write what the launcher's step reads: fields that end with NUL, in a file for the owner alone.

    Args:
        confine: what the step does to itself before, as words and values of `confine.py`.
        name: of the file.

    Raises:
        InvalidArgument: an argument holds NUL.
    """
    if any("\0" in word for word in argv):
        raise InvalidArgument("An argument cannot hold NUL.", hint="Send such text with send.")
    fields = [cwd, str(umask), executable]
    for words in (argv, _pairs(env.items()), _pairs(confine)):
        fields += [str(len(words)), *words]
    fd = os.open(directory / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(b"".join(os.fsencode(field) + b"\0" for field in fields))


def write_wrapped_spec(
    directory: Path,
    wrapper: Sequence[str],
    *,
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
        wrapper: its words; the last of them start the step within.
        confine: what the first of them does to itself.
        within: what the second does.

    Raises:
        InvalidArgument: an argument holds NUL.
    """
    write_spec(directory, executable=executable, argv=argv, env=env, cwd=cwd, umask=umask, confine=within, name=WITHIN)
    outer = [*confine, ("report", str(directory / "error")), ("keep_report", ""), ("hand", str(directory / WITHIN))]
    # Nothing of the caller's variables: by LD_PRELOAD the wrapper would run his code, outside.
    marked = session_mark(directory)
    write_spec(directory, executable=wrapper[0], argv=wrapper, env=marked, cwd="/", umask=umask, confine=outer)


def _pairs(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{name}={value}" for name, value in pairs]


def session_mark(directory: Path) -> dict[str, str]:
    """The variable that all processes of a session inherit, by which those are found that left its terminal."""
    return {"TMUXMCP_KEY": hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}


def launcher_argv(directory: Path, token: str) -> list[str]:
    """Word one of a pane and its arguments."""
    return ["/bin/sh", str(PACKAGE / "launcher.sh"), sys.executable, str(PACKAGE / "step.py"), str(directory), token]


def sink_argv(directory: Path, log_max_bytes: int, number: int = 1) -> list[str]:
    """The command behind pipe-pane; every sink of a session but the first writes down that there was a gap."""
    return ["exec", "/bin/sh", str(PACKAGE / "sink.sh"), str(directory), str(log_max_bytes), str(number)]
