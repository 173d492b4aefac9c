"""How each shell comes to tell where commands begin and end (`shell/`), and how a command is given to it.

Shells are told apart by the name of their program, which a session knows as long as it lives.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SHELL = Path(__file__).parent / "shell"

KEY = b"\x1b[7777~"
"""The private key of our start-up files: bash clears its line, zsh and fish answer and listen for a command."""


SHOW_PROMPT = b"\x1b[7778~"
"""Another one, in bash: it draws the prompt anew, with its marks, and changes nothing."""


@dataclass(frozen=True)
class Integration:
    """How a shell comes to send marks."""

    args: list[str]
    env: dict[str, str]
    marks: bool
    """False: this program sends none."""


def integrate(
    program: str, args: Sequence[str], *, nonce: str, own_history: Path, history: str, environment: Mapping[str, str]
) -> Integration:
    """Have a shell load our start-up file, where there is one for it and it is interactive.

    Args:
        program: path of the executable.
        own_history: the file of a history that is the session's own.
        history: `session`, `user` or `none`.
        environment: the session's.
    """
    of_shell = _INTEGRATIONS.get(_name(program))
    integration = of_shell(args, environment) if of_shell else None
    if integration is None:
        return Integration(list(args), {}, False)
    history_file = {"session": str(own_history), "none": "none"}.get(history, "")
    env = {"TMUXMCP_NONCE": nonce, "TMUXMCP_HISTFILE": history_file, **integration.env}
    return Integration(integration.args, env, True)


def keyed(program: str) -> bool:
    """Whether this shell listens for a command after the key; otherwise the command is pasted."""
    return _name(program) in ("zsh", "fish")


def status_variable(program: str) -> str:
    """What the shell's user writes for the exit status of the last command."""
    return "$status" if _name(program) == "fish" else "$?"


def draws_after_mark(program: str) -> bool:
    """Whether this shell's B mark comes before its prompt is drawn: fish prints it from an event."""
    return _name(program) == "fish"


def command_keys(job: str, text: bytes) -> bytes:
    """What a shell that listens is told: the job's name of eight characters, for its marks, sizes, the command.

    By the size, in characters or in bytes, it sees that all has come and nothing else.
    """
    characters = len(text.decode("utf-8", "surrogateescape"))
    return b"%b\0%d %d\0%b\0" % (job.encode(), characters, len(text), text)


def refused_keys(job: str) -> bytes:
    """What a shell that listens refuses, as it has no valid size: it says so under this name and runs nothing."""
    return b"%b\0-\0\0" % job.encode()


def one_line(text: bytes) -> bytes:
    """A command for bash as one line without control characters, where pastes are taken for keys.

    `$'...'` is ANSI-C quoting, in which `!` is no history expansion when it is written as a number.
    """
    return b"eval $'" + re.sub(rb"[\x00-\x1f\x7f'\\!]", lambda found: b"\\%03o" % found[0][0], text) + b"'"


def _name(program: str) -> str:
    return os.path.basename(program)


# ---- bash ----------------------------------------------------------------------------------------


def _bash(args: Sequence[str], environment: Mapping[str, str]) -> Integration | None:
    options = _bash_options(args)
    if options is None:
        return None
    file = str(SHELL / "bash.sh")
    env = {"TMUXMCP_BASH": file}
    if options.plain:
        own = os.path.join(environment.get("HOME", "/"), ".bashrc")
        env["TMUXMCP_RC"] = options.rc_file if options.rc_file is not None else own
        return Integration(["--rcfile", file, *options.rest], env, True)
    # --norc, --login and --posix read no --rcfile: the first prompt loads it.
    loader = '. "$TMUXMCP_BASH"'
    env |= {"PROMPT_COMMAND": loader, "TMUXMCP_FIRST_PROMPT": loader}
    return Integration(list(args), env, True)


@dataclass(frozen=True)
class _BashOptions:
    plain: bool
    """It would read its rc file."""
    rc_file: str | None
    rest: list[str]
    """The arguments without --rcfile."""


_BASH_WITH_VALUE = ("--rcfile", "--init-file", "-o", "+o", "-O", "+O")


def _bash_options(args: Sequence[str]) -> _BashOptions | None:
    """Read bash's options (bash(1), OPTIONS); None when the shell will not be interactive."""
    rest: list[str] = []
    rc_file: str | None = None
    plain = True
    words = iter(args)
    for word in words:
        if word in ("--rcfile", "--init-file"):
            rc_file = next(words, None)
            continue
        rest.append(word)
        if word in _BASH_WITH_VALUE:
            rest.append(next(words, ""))
        elif word in ("--norc", "--login", "--posix"):
            plain = False
        elif word in ("--help", "--version", "--dump-strings", "--dump-po-strings") or word in ("-", "--"):
            return None
        elif word.startswith("--"):
            continue
        elif word[:1] in ("-", "+") and len(word) > 1:
            if "c" in word or ("s" in word and "i" not in word):
                return None
            plain = plain and "l" not in word
        else:
            return None  # a script
    return _BashOptions(plain, rc_file, rest)


# ---- zsh -----------------------------------------------------------------------------------------


def _zsh(args: Sequence[str], environment: Mapping[str, str]) -> Integration | None:
    options = _zsh_options(args)
    if options is None:
        return None
    rest, reads_files = options
    env = {"ZDOTDIR": str(SHELL / "zsh")}
    if "ZDOTDIR" in environment:
        env["TMUXMCP_ZDOTDIR"] = environment["ZDOTDIR"]
    if not reads_files:
        env["TMUXMCP_NORCS"] = "1"
    return Integration(rest, env, True)


def _zsh_options(args: Sequence[str]) -> tuple[list[str], bool] | None:
    """Read zsh's options (zshoptions(1)): those without NO_RCS, which would keep ours out, and whether it was absent.

    None when the shell will not be interactive, or reads no file that we could stand in for.
    """
    rest: list[str] = []
    reads_files = True
    words = iter(args)
    for word in words:
        if word in ("-o", "+o"):
            name = next(words, "")
            if _option_name(name) in ("norcs", "rcs"):
                reads_files = reads_files and (word == "-o") == (_option_name(name) == "rcs")
                continue
            if _option_name(name) in ("privileged", "shinstdin", "singlecommand", "nozle"):
                return None
            rest += [word, name]
        elif word in ("-", "--") or not word or word[0] not in "-+":
            return None  # a script
        elif word.startswith("--"):
            if _option_name(word) == "norcs":
                reads_files = False
                continue
            if word in ("--help", "--version", "--emulate") or _option_name(word) in ("privileged", "singlecommand"):
                return None
            rest.append(word)
        elif set(word[1:]) & set("cbpton") or ("s" in word and "i" not in word):
            return None
        else:
            reads_files = reads_files and not (word[0] == "-" and "f" in word)
            word = word.replace("f", "")
            if len(word) > 1:
                rest.append(word)
    return rest, reads_files


def _option_name(word: str) -> str:
    """Blanks of every kind do not count in an option's name."""
    return word.lower().replace("_", "").replace("-", "")


# ---- fish ----------------------------------------------------------------------------------------

_FISH_WITH_VALUE = ("-C", "--init-command", "-d", "--debug", "-o", "--debug-output", "-f", "--features", "--profile")
_FISH_NOT_INTERACTIVE = ("--command", "--no-execute", "--help", "--version", "--print-")


def _fish(args: Sequence[str], environment: Mapping[str, str]) -> Integration | None:
    words = iter(args)
    for word in words:
        if word in _FISH_WITH_VALUE:
            next(words, "")
        elif not _fish_option(word):
            return None
    file = str(SHELL / "marks.fish").replace("\\", "\\\\").replace("'", "\\'")
    return Integration([*args, "--init-command", f"source '{file}'"], {}, True)


def _fish_option(word: str) -> bool:
    """Whether fish(1) is still interactive with it: it is no script, and no option that ends at once."""
    if word in ("-", "--") or word[:1] != "-":
        return False
    if word.startswith("--"):
        return not word.startswith(_FISH_NOT_INTERACTIVE)
    return word[:2] in _FISH_WITH_VALUE or not set(word) & set("cnvh")


_INTEGRATIONS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
