"""Variables by which a program or a shell runs something that its arguments do not name. Pure.

Some hold shell text, which is judged like any other; some name a file of commands or of code, of which nothing is
known. Others, such as PATH, change what is found: with them a rule that allows knows no longer what it allows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tmuxmcp.gate.policy.shelltext import UNKNOWN_COMMAND, SimpleCommand, Word, parse, words_of

SHELL_TEXT_VARIABLES = words_of(
    "PROMPT_COMMAND EDITOR VISUAL FCEDIT SUDO_EDITOR PAGER MANPAGER SYSTEMD_PAGER GIT_PAGER BROWSER LESSOPEN LESSCLOSE "
    "GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_EXTERNAL_DIFF GIT_SSH GIT_SSH_COMMAND GIT_PROXY_COMMAND GIT_ASKPASS "
    "SSH_ASKPASS SUDO_ASKPASS RSYNC_RSH CVS_RSH FZF_DEFAULT_COMMAND"
)
"""Their values are shell text, or a program."""

PROMPT_VARIABLES = words_of("PS0 PS1 PS2 PS3 PS4 PROMPT PROMPT2 RPROMPT RPS1 SPROMPT")
"""Prompts: shells run the substitutions in them."""

CODE_FILE_VARIABLES = words_of(
    "BASH_ENV ZDOTDIR LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES DYLD_FRAMEWORK_PATH DYLD_LIBRARY_PATH GCONV_PATH "
    "OPENSSL_CONF PYTHONSTARTUP PERL5OPT PERL5DB RUBYOPT INPUTRC FPATH VIMINIT EXINIT GIT_CONFIG GIT_CONFIG_GLOBAL "
    "GIT_CONFIG_SYSTEM GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GIT_EXEC_PATH GIT_TEMPLATE_DIR SHELLOPTS BASHOPTS"
)
"""They name files of commands or of code, or hold it in another language than the shell's."""

OPTION_VARIABLES = {
    "NODE_OPTIONS": re.compile(r"(?:^|\s)(?:-r|--require|--import|--loader|--experimental-loader)\b"),
    "JAVA_TOOL_OPTIONS": re.compile(r"-agent|-javaagent|-XX:\+?On|@|-Xbootclasspath"),
    "MAKEFLAGS": re.compile(r"\$|--?[Ee]"),
}
OPTION_VARIABLES |= dict.fromkeys(("_JAVA_OPTIONS", "JDK_JAVA_OPTIONS"), OPTION_VARIABLES["JAVA_TOOL_OPTIONS"])
"""Options, some of which load code."""

STARTUP_VARIABLES = words_of("HOME XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_HOME XDG_DATA_DIRS")
"""Where programs that are started look for their start-up files."""

SEARCH_PATH_VARIABLES = words_of(
    "PATH LD_LIBRARY_PATH PYTHONPATH PYTHONHOME PERL5LIB PERLLIB RUBYLIB NODE_PATH CLASSPATH SHELL"
)
"""They change which program or code a name stands for."""

POSIX_SHELLS = words_of("sh dash ash ksh mksh yash busybox")
"""Shells that take every value of ENV for a file of commands."""


def run_by(name: str, value: Word, command: SimpleCommand) -> list[SimpleCommand]:
    """What a variable has run that is set for a command, or for all that follow.

    Args:
        value: None: not known.
        command: where it would run.
    """
    name = name.removesuffix("+")
    if name in SHELL_TEXT_VARIABLES:
        return _text(None if value is None else value.lstrip("|-") if name.startswith("LESS") else value, command)
    if name in PROMPT_VARIABLES:
        if value is None or not re.search(r"\$[({]|`", value):
            return [UNKNOWN_COMMAND] if value is None else []
        return _text(': "' + value.replace('"', "") + '"', command)
    if name == "ENV":
        return [UNKNOWN_COMMAND] if value is None or re.search(r"[/$`~]", value) else []
    if name in OPTION_VARIABLES:
        return [UNKNOWN_COMMAND] if value is None or OPTION_VARIABLES[name].search(value) else []
    if name in CODE_FILE_VARIABLES or name.startswith(("BASH_FUNC_", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")):
        return [UNKNOWN_COMMAND] if value != "" else []
    return []


def runs_by_value(name: str) -> bool:
    """Whether something is run by what a variable holds."""
    return name in SHELL_TEXT_VARIABLES or name in PROMPT_VARIABLES or name in CODE_FILE_VARIABLES or name == "ENV"


def _text(value: Word, command: SimpleCommand) -> list[SimpleCommand]:
    if value is None:
        return [UNKNOWN_COMMAND]
    return [replace(each, fed=each.fed or command.fed) for each in parse(value, command.cwds)]


def of_environment(env: Mapping[str, str], program: Word, cwd: str | None) -> Iterator[SimpleCommand]:
    """What a caller's variables come to for a program that is started with them.

    A variable that changes what runs counts as a command `NAME=`, as an assignment in a shell text does.
    """
    where = SimpleCommand((), cwds=(cwd,))
    for name, value in env.items():
        found = run_by(name, value, where)
        if name in STARTUP_VARIABLES or (name == "ENV" and os.path.basename(program or "") in POSIX_SHELLS):
            found = [UNKNOWN_COMMAND]
        if found or name in SEARCH_PATH_VARIABLES:
            yield SimpleCommand((name + "=",), cwds=(cwd,))
        yield from found
