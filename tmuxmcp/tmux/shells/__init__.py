"""The shells that we start: how each tells where commands begin and end, and how a command is given to it.

A shell has a file here with its record, which `SHELLS` lists, and a start-up file in `shell/`. Shells are told apart by
the name of their program, which a session knows as long as it lives.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tmuxmcp.tmux.shells.bash import BASH
from tmuxmcp.tmux.shells.fish import FISH
from tmuxmcp.tmux.shells.record import Integration, Shell
from tmuxmcp.tmux.shells.zsh import ZSH

SHELLS = {shell.name: shell for shell in (BASH, ZSH, FISH)}
"""By name, in the order in which a person is told of them."""

OTHER = Shell("", lambda args, environment: None)
"""A program for which we have no start-up file."""

KEY = b"\x1b[7777~"
"""The private key of our start-up files: the shell takes a command. zsh and fish answer and listen for it."""

SHOW_PROMPT = b"\x1b[7778~"
"""Another one, in bash: it draws the prompt anew, with its marks, and changes nothing."""


def shell_of(program: str) -> Shell:
    """What we know of a program as a shell; `OTHER` where that is nothing."""
    return SHELLS.get(os.path.basename(program), OTHER)


def integrate(
    program: str,
    args: Sequence[str],
    *,
    nonce: str,
    own_history: Path,
    given: Path,
    history: str,
    history_expansion: bool = False,
    environment: Mapping[str, str],
) -> Integration:
    """Have a shell load our start-up file, where there is one for it and it is interactive.

    Args:
        program: path of the executable.
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
    env = {"TMUXMCP_NONCE": nonce, "TMUXMCP_HISTFILE": history_file, **integration.env}
    if shell.reads_files:
        given.mkdir(mode=0o700, exist_ok=True)
        env["TMUXMCP_GIVEN"] = str(given)
    if history_expansion:
        env["TMUXMCP_HISTEXPAND"] = "1"
    return Integration(integration.args, env, True)


def temporary_prefixes() -> dict[str, str]:
    """Variables that tell shells with which path their temporary files begin, and the name that it ends with."""
    return {shell.temporary_prefix: shell.name for shell in SHELLS.values() if shell.temporary_prefix}


def command_keys(job: str, text: bytes) -> bytes:
    """What a shell that listens is told: the job's name of eight characters, for its marks, sizes, the command.

    By the size, in characters or in bytes, it sees that all has come and nothing else.
    """
    characters = len(text.decode("utf-8", "surrogateescape"))
    return b"%b\0%d %d\0%b\0" % (job.encode(), characters, len(text), text)


def file_keys(job: str) -> bytes:
    """What makes a shell that reads files run the command in the file of this name.

    The key comes twice: the first one ends a search or half a key, and may be taken for text.
    """
    return KEY * 2 + job.encode() + b"\0"


def refused_keys(job: str) -> bytes:
    """What a shell that listens refuses, as it has no valid size: it says so under this name and runs nothing."""
    return b"%b\0-\0\0" % job.encode()
