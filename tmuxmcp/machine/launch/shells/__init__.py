"""What we know of shells: how each tells where commands begin and end, and how a command is given to it.

A shell has a record here, and one that we start (`SHELLS`) a start-up file in `shell/`. Shells that we start are told
apart by the name of their program, which a session knows as long as it lives; those that others started by the name of
their program's file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tmuxmcp.contract.value import replace
from tmuxmcp.machine.launch.shells.bash import BASH
from tmuxmcp.machine.launch.shells.fish import FISH
from tmuxmcp.machine.launch.shells.posix import ASH, DASH, KSH93, MKSH, SH
from tmuxmcp.machine.launch.shells.record import COMMAND_KEY as COMMAND_KEY
from tmuxmcp.machine.launch.shells.record import Integration, Shell
from tmuxmcp.machine.launch.shells.zsh import ZSH

SHELLS = {shell.name: shell for shell in (BASH, ZSH, FISH)}
"""Those that we start, by name, in the order in which a person is told of them."""

KNOWN = SHELLS | {shell.name: shell for shell in (SH, DASH, ASH, MKSH, KSH93)}
"""All that there is a record of, by name."""

BY_FILE = {file: shell for shell in KNOWN.values() for file in shell.files}
"""By the name of the program's file."""

ADOPTABLE = frozenset(BY_FILE).union(*(shell.called for shell in KNOWN.values()))
"""Names of processes that the marks can be typed into."""

BY_APPLET = {name: shell for shell in KNOWN.values() for name in shell.applets}
"""By the name of an applet."""

OTHER_PROGRAM = Shell("")
"""A program for which we have no start-up file."""

SHOW_PROMPT = b"\x1b[7778~"
"""Another private key, in bash: it draws the prompt anew, with its marks, and changes nothing."""


def names(last: str) -> str:
    """The shells that we start, for a sentence; `last`: the word before the last one."""
    *first, end = SHELLS
    return f"{', '.join(first)} {last} {end}"


def shell_of(program: str) -> Shell:
    """What we know of a program as a shell; `OTHER_PROGRAM` where that is nothing."""
    return SHELLS.get(os.path.basename(program), OTHER_PROGRAM)


ADOPTED_SHELLS = {
    "bash": Shell("bash", prompt_hook="PROMPT_COMMAND", editor_on="set -o emacs"),
    "zsh": replace(ZSH, integrate=OTHER_PROGRAM.integrate, temporary_prefix=""),
    "fish": replace(FISH, integrate=OTHER_PROGRAM.integrate),
}
"""The shells that listen for commands when they are adopted, by their dialect: none of them reads a file."""


def adopted(dialect: str, kind: str) -> Shell:
    """What we know of a shell that was adopted; `kind`: its name."""
    return ADOPTED_SHELLS.get(dialect) or Shell(kind, prompt_hook="PS1")


def integrate(
    program: str,
    args: Sequence[str],
    *,
    nonce: str,
    nonce_file: Path,
    own_history: Path,
    given: Path,
    history: str,
    history_expansion: bool = False,
    environment: Mapping[str, str],
) -> Integration:
    """Have a shell load our start-up file, where there is one for it and it is interactive.

    Args:
        program: path of the executable.
        nonce_file: by which the shell gets the nonce, as everybody can read its environment; made here.
        own_history: the file of a history that is the session's own.
        given: the directory in which a shell finds commands, if it reads them from files; made here.
        history: `session`, `user` or `none`.
        history_expansion: leave `!` its meaning at the prompt: earlier commands.
        environment: the session's.
    """
    shell = shell_of(program)
    integration = shell.integrate(args, environment)
    if integration is None:
        return Integration(list(args), {}, False)
    history_file = {"session": str(own_history), "none": "none"}.get(history, "")
    with open(os.open(nonce_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(f"{nonce}\n")
    env = {"TMUXMCP_NONCE_FILE": str(nonce_file), "TMUXMCP_HISTFILE": history_file, **integration.env}
    if shell.reads_files:
        given.mkdir(mode=0o700, exist_ok=True)
        env["TMUXMCP_GIVEN"] = str(given)
    if history_expansion:
        env["TMUXMCP_HISTEXPAND"] = "1"
    return Integration(integration.args, env, True)


def temporary_prefixes() -> dict[str, str]:
    """Variables that tell shells with which path their temporary files begin, and the name that it ends with."""
    return {shell.temporary_prefix: shell.name for shell in SHELLS.values() if shell.temporary_prefix}


def command_keys(job: str, text: bytes, proof: str = "") -> bytes:
    """What a shell that listens is told: a proof and the job's name, for its marks, sizes, the command.

    By the size, in characters or in bytes, it sees that all has come and nothing else. The name has eight characters,
    and the shell knows it by its place at the end: one that an earlier version began takes no notice of a proof.
    """
    characters = len(text.decode("utf-8", "surrogateescape"))
    return b"%b%b\0%d %d\0%b\0" % (proof.encode(), job.encode(), characters, len(text), text)


def file_keys(job: str, half: str = "") -> bytes:
    """What makes a shell that reads files run the command in the file of this name.

    The key comes twice: the first one ends a search or half a key, and may be taken for text. The proof is not in the
    file, which other processes of the same user can read. Such a shell shows its second half alone, and is given no
    more: it reads a byte at a time.

    Args:
        half: that half of the proof.
    """
    return COMMAND_KEY * 2 + half.encode() + job.encode() + b"\0"


def refused_keys(job: str) -> bytes:
    """What a shell that listens refuses, as it has no valid size: it says so under this name and runs nothing.

    One that has read a part of a command needs less of it: only NULs are left for its line, which leave that as it is.
    """
    return b"%b\0\0\0" % job.encode()
