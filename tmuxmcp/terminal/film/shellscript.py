"""What a shell ran as a script for it: what succeeded as it is, all else as comments that nothing can end. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from tmuxmcp.contract.latedataclass import dataclass

SCRIPT_SHELLS = frozenset({"bash", "zsh", "fish", "sh", "dash", "ash", "ksh", "ksh93", "mksh"})
"""Whose scripts begin a comment with `#` and an interpreter's line with `#!/usr/bin/env NAME`."""

ELLIPSIS = "…"
"""Behind a text of which only the beginning is kept."""

SHOWN_OTHERWISE = re.compile(r"<U\+[0-9A-F]{4,6}>")
"""How an invisible character is shown: what it was cannot be run."""


@dataclass(frozen=True)
class RanCommand:
    """A command, as far as it is known."""

    number: int
    text: str | None
    exit_code: int | None
    over: bool
    """It has ended."""
    level: int
    """Of the shell that ran it; 0: the session's own."""
    cwd: str | None
    """Where its shell was at its end."""
    stdin: bool = False
    """It read something that was given to it."""


def script(shell: str, head: Iterable[str], start: str, commands: Iterable[RanCommand]) -> str:
    """The script.

    Args:
        shell: its name.
        head: what stands above it, as comments.
        start: where the shell began; empty: that is not known.
    """
    first = [f"#!/usr/bin/env {shell}"] if shell in SCRIPT_SHELLS else []
    return (
        "\n".join([*first, *(line for each in head for line in _comment(each)), *_lines(shell, start, commands)]) + "\n"
    )


def _lines(shell: str, start: str, commands: Iterable[RanCommand]) -> Iterator[str]:
    here = start
    if start:
        yield _cd(shell, start)
    for command in commands:
        why = _why_not(command)
        if why:
            yield from _comment(f"{command.number}, {why}" + (f": {command.text}" if command.text else ""))
        else:
            yield command.text or ""
        if command.level or command.cwd is None:
            continue
        if why and command.cwd != here:
            yield _cd(shell, command.cwd)
        here = command.cwd


def _why_not(command: RanCommand) -> str:
    """Why a command stands in a comment; empty: it does not."""
    text = command.text
    if text is None:
        return "its text is not known"
    if command.level:
        return f"in a shell inside (level {command.level}), exit code {_code(command)}"
    if not command.over:
        return "still running"
    if command.exit_code != 0:
        return f"exit code {_code(command)}"
    if command.stdin:
        return "it read what it was given as stdin"
    if text.endswith(ELLIPSIS):
        return "only its beginning is known"
    if SHOWN_OTHERWISE.search(text) or any(not _is_plain(char) for char in text):
        return "it holds characters that cannot be shown"
    if text.endswith("\\"):
        return "its end is not known"
    return ""


def _code(command: RanCommand) -> str:
    return "not known" if command.exit_code is None else str(command.exit_code)


def _is_plain(char: str) -> bool:
    return char.isprintable() or char in "\n\t"


def _comment(text: str) -> Iterator[str]:
    """A text as comments: what ends a line anywhere, or changes how one looks, is spelled out."""
    for at, line in enumerate(text.split("\n")):
        shown = "".join(char if char.isprintable() or char == "\t" else ascii(char)[1:-1] for char in line)
        yield f"# {'    ' if at else ''}{shown}".rstrip()


def _cd(shell: str, path: str) -> str:
    """The command that goes to a directory."""
    if not all(map(_is_plain, path)):
        return "\n".join(_comment(f"cd to a directory whose name cannot be shown: {path}"))
    if shell == "fish":
        return "cd '" + path.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"cd {shlex.quote(path)}"
