"""What we know of a shell that we start: one record each, beside this file."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tmuxmcp.contract.value import value

START_UP = Path(__file__).parents[1] / "shell"
"""Where our start-up files lie."""

COMMAND_KEY = b"\x1b[7777~"
"""The private key of our start-up files: the shell takes a command. Those that listen for it answer with `P;k=g`."""

FUNCTION_KEY = b"\x1b[34;8~"
"""The same in fish, which from 4.0.6 on drops a key that its decoder does not know: F20 with Shift, Alt and Ctrl."""

BARE_PROMPT = "tmuxmcp# "
"""What a shell shows that was started bare. mksh shows root no prompt without `#`."""


def never_integrated(args: Sequence[str], environment: Mapping[str, str]) -> Integration | None:
    """There is no start-up file of ours for it."""
    return None


def never_bare(lines: bool) -> list[tuple[str, ...]]:
    """Of a shell of which it is not known how."""
    return []


def options(*words: str) -> Callable[[bool], list[tuple[str, ...]]]:
    """How to start a shell bare, whether or not it reads whole lines."""
    return lambda lines: [words]


@value
class Integration:
    """How a shell comes to send marks."""

    args: list[str]
    env: dict[str, str]
    marks: bool
    """False: this program sends none."""


def braced(command: bytes, path: str) -> bytes:
    """A command of a shell with the grammar of sh, given a file to read."""
    return b"{ %b\n} < %b" % (command, os.fsencode(shlex.quote(path)))


@value
class Shell:
    """A shell, by the name of its program."""

    name: str
    integrate: Callable[[Sequence[str], Mapping[str, str]], Integration | None] = never_integrated
    """`integrate(args, environment)`: how it loads our start-up file; None when it would not be interactive."""
    reads_files: bool = False
    """After `COMMAND_KEY` it reads the command from a file; otherwise it listens for it at the terminal."""
    key: bytes = COMMAND_KEY
    """The key after which it takes a command."""
    reads_from: Callable[[bytes, str], bytes] = braced
    """`reads_from(command, path)`: the command, given a file to read; what it changes in the shell stays."""
    draws_after_mark: bool = False
    """Its B mark comes before its prompt is drawn."""
    leaves_refused: bool = False
    """When it has said that it took no command, it leaves its prompt, and draws another."""
    prompt_hook: str = ""
    """Variable that holds what the shell runs before each prompt."""
    editor_on: str = ""
    """What its user types to switch its line editor on."""
    status_variable: str = "$?"
    """What its user writes for the exit status of the last command."""
    temporary_prefix: str = ""
    """Variable with which its temporary files' paths begin, if it takes no notice of TMPDIR."""
    oldest_version: tuple[int, ...] = ()
    """With an older one `run` cannot work; empty: none is known."""
    files: tuple[str, ...] = ()
    """Names of its program's file."""
    called: tuple[str, ...] = ()
    """Other names of its processes, which processes that are no shells have as well."""
    applets: tuple[str, ...] = ()
    """Its names as an applet of a program that is many, such as busybox."""
    valued: tuple[str, ...] = ("-o", "+o")
    """Options that a word with their value follows."""
    getopt: str = ""
    """Letters of options whose value may stand in the same word, as getopt(3) has it; empty: a shell as POSIX has it,
    in which the value of `o` follows a word of several letters that ends with it."""
    edits: bool = True
    """It has a line editor."""
    reads_lines: bool = False
    """Its prompt may be a read of a whole line: it has no line editor, or that is switched off."""
    lines_ask: bool = False
    """It certainly has no such prompt: when it waits for a whole line, that is a question."""
    reads_lines_afar: bool = False
    """Its prompt may be such a read where only the name of its process is known, which others may have as well."""
    keeps_file: bool = False
    """It has a regular file open at its prompt, its history; others then read commands from it."""
    has_helpers: bool = False
    """Processes of its own are in its group, which do not read."""
    keeps_broken_line: bool = False
    """What was typed in its line editor may still stand there after C-c."""
    bare: Callable[[bool], list[tuple[str, ...]]] = never_bare
    """`bare(lines)`: arguments with which it reads no file of a user's and shows `BARE_PROMPT`, which `PS1` has too.

    Those for all ways in which it may edit lines, or those with which it reads whole ones.
    """
    without_files: tuple[str, ...] = ()
    """Arguments with which it reads no start-up file of its user's, and still sends marks."""
    exercise: tuple[bytes, ...] = (
        b"",
        b"\r",
        b"f() { x=$(:); }; f; for i in 1 2; do eval :; done; : | :\r",
        b"read x </dev/null; cd /; [ a = b ] || alias a=b; unalias a; trap : USR1; kill -USR1 $$\r",
        b")\r",
        b"case $(echo /*) in *) set -- a b; echo ~ $* ${x:-$((1 + 1))} >/dev/null;; esac; f\r",
    )
    """What is done between its prompts, so that what calls leave behind on the stack differs from one to the next."""
