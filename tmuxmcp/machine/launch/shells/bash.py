"""bash: reads a command from a file whose name comes after our key."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from tmuxmcp.contract.value import value
from tmuxmcp.machine.launch.shells.record import START_UP, Integration, Shell


def _integrate(args: Sequence[str], environment: Mapping[str, str]) -> Integration | None:
    options = _options(args)
    if options is None:
        return None
    file = str(START_UP / "bash.sh")
    env = {"TMUXMCP_BASH": file}
    if options.plain:
        own = os.path.join(environment.get("HOME", "/"), ".bashrc")
        env["TMUXMCP_RC"] = options.rc_file if options.rc_file is not None else own
        return Integration(["--rcfile", file, *options.rest], env, True)
    # --norc, --login and --posix read no --rcfile: the first prompt loads it, and not that of a shell which a start-up
    # file begins, one level below.
    level = environment.get("SHLVL", "")
    loader = f'((SHLVL > {(int(level) if level.isdecimal() else 0) + 1})) || . "$TMUXMCP_BASH"'
    env |= {"PROMPT_COMMAND": loader, "TMUXMCP_FIRST_PROMPT": loader}
    return Integration(list(args), env, True)


@value
class _Options:
    plain: bool
    """It would read its rc file."""
    rc_file: str | None
    rest: list[str]
    """The arguments without --rcfile."""


_WITH_VALUE = ("--rcfile", "--init-file", "-o", "+o", "-O", "+O")


def _options(args: Sequence[str]) -> _Options | None:
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
        if word in _WITH_VALUE:
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
    return _Options(plain, rc_file, rest)


def _bare(lines: bool) -> list[tuple[str, ...]]:
    plain = ("--norc", "--noprofile")
    return [(*plain, "--noediting", "-i") if lines else (*plain, "-i")]


REPEATED_HOOK = re.compile(rb'\{ __tmuxmcp_first "\$\?"; \} [^\n]*\n\Z')
"""What bash prints at the end of a command's output under `set -v`: the line of ours that tells of that end."""

BASH = Shell(
    "bash",
    _integrate,
    reads_files=True,
    prompt_hook="PROMPT_COMMAND",
    editor_on="set -o emacs",
    oldest_version=(4, 4),
    files=("bash", "rbash"),
    valued=_WITH_VALUE,
    reads_lines=True,
    bare=_bare,
    without_files=("--norc", "--noprofile"),
)
