"""Programs that run another program of their arguments: env, sudo, xargs, find -exec, `bash -c`, ssh.

Pure; runs where shell text is parsed (`parser.py`). A program that is not in these tables and runs others all the
same is not seen through.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping

from tmuxmcp.contract.value import replace, value
from tmuxmcp.gate.policy import shelltext
from tmuxmcp.gate.policy.debuggertext import debugger_texts, is_debugger
from tmuxmcp.gate.policy.shelltext import UNKNOWN_COMMAND, SimpleCommand, Word, words_of

NESTED_WRAPPERS = 8
"""`env env env ...`: what is deeper counts as not understood."""


@value
class Wrapper:
    """How the command line of a program goes that runs its own arguments."""

    valued: str = ""
    """Options that take the next word, with blanks between."""
    operands: int = 0
    """Words before the program: a duration, a file."""
    assignments: bool = False
    """NAME=VALUE may stand before the program."""


WRAPPERS = {
    "env": Wrapper("-u --unset -C --chdir -a --argv0", assignments=True),
    "sudo": Wrapper(
        "-u --user -g --group -h --host -p --prompt -C --close-from -D --chdir -R --chroot -r --role -t --type -T "
        "--command-timeout -U --other-user",
        assignments=True,
    ),
    "doas": Wrapper("-u -C"),
    "runuser": Wrapper("-u --user -g --group -G --supp-group -s --shell -c --command --session-command"),
    "pkexec": Wrapper("--user"),
    "run0": Wrapper("-u --user -g --group -D --chdir"),
    "nohup": Wrapper(),
    "setsid": Wrapper(),
    "nice": Wrapper("-n --adjustment"),
    "ionice": Wrapper("-c --class -n --classdata"),
    "chrt": Wrapper(operands=1),
    "taskset": Wrapper(operands=1),
    "timeout": Wrapper("-s --signal -k --kill-after", operands=1),
    "stdbuf": Wrapper("-i --input -o --output -e --error"),
    "time": Wrapper("-o --output -f --format"),
    "command": Wrapper(),
    "builtin": Wrapper(),
    "exec": Wrapper("-a"),
    "coproc": Wrapper(),
    "noglob": Wrapper(),
    "nocorrect": Wrapper(),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "xargs": Wrapper("-I -n -P -L -d -a -E -s --max-args --max-procs --arg-file --delimiter --max-chars --replace"),
    "strace": Wrapper("-e -o -p -s -u -P -S -a -O -b -I -E"),
    "ltrace": Wrapper("-e -o -p -s -u -l -n -a -S -F"),
    "watch": Wrapper("-n --interval -q --equexit"),
    "flock": Wrapper("-w --timeout -E --conflict-exit-code", operands=1),
    "chroot": Wrapper(operands=1),
    "unshare": Wrapper("-S --setuid -G --setgid -R --root -w --wd"),
    "nsenter": Wrapper("-t --target -S --setuid -G --setgid"),
    "setpriv": Wrapper("--reuid --regid --groups --bounding-set --inh-caps --ambient-caps --securebits --pdeathsig"),
    "prlimit": Wrapper("-p --pid -o --output"),
    "systemd-run": Wrapper("-u --unit -p --property -M --machine -H --host --uid --gid -E --setenv --slice"),
    "firejail": Wrapper(),
    "lvm": Wrapper(),
    "proxychains": Wrapper("-f"),
    "proxychains4": Wrapper("-f"),
    "torsocks": Wrapper(),
    "parallel": Wrapper("-j --jobs -a --arg-file -I --delay"),
    "uv": Wrapper(operands=1),
    "ssh": Wrapper(
        "-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B",
        operands=1,
    ),
}

TEXT_WRAPPERS = frozenset({"watch", "ssh", "parallel"})
"""They join their words and give them to a shell."""

START_SHELLS = frozenset({"ssh", "sudo", "doas", "run0", "chroot", "unshare", "nsenter", "runuser"})
"""They may start a shell where no program is named."""

APPEND_WORDS = frozenset({"xargs"})
"""They run the program with more words, which nobody knows beforehand."""

COMMAND_OPTION = {
    "su": ("-c", "--command", "--session-command"),
    "runuser": ("-c", "--command", "--session-command"),
    "script": ("-c", "--command"),
    "flock": ("-c",),
}
"""Programs that take a shell text by an option."""

TEXT_BUILTINS = frozenset(
    {"eval", "alias", "trap", "bind", "complete", "compgen", "mapfile", "readarray", "source", ".", "fc"}
)
FIND_RUNS = ("-exec", "-execdir", "-ok", "-okdir")
FD_RUNS = ("-x", "-X", "--exec", "--exec-batch")

STDIN_FILES = frozenset({"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
SHELL_VALUED = ("-o", "+o", "-O", "+O", "--emulate")

STARTUP_FILE = re.compile(r"--?(?:rcfile|init-file)")
"""bash's options that name a file of commands, by one hyphen or two."""

BASH_LONG = frozenset({"-norc", "-noprofile", "-noediting", "-login", "-posix", "-restricted", "-verbose"})
"""bash's long options, with one hyphen: no clusters."""

SSH_RUNS = re.compile(r"(?:-o)?\s*(?:Proxy|Local|KnownHosts)Command\s*[=\s]\s*(.*)", re.DOTALL | re.IGNORECASE)
"""ssh's settings that have a shell of this machine run something."""


def unwrapped(command: SimpleCommand, depth: int = 0) -> Iterator[SimpleCommand]:
    """A command, and every one that it would start, as far as its words tell."""
    yield command
    name = basename(command.program)
    if name is None:
        return
    inner = _inner(name, command)
    unknown = replace(UNKNOWN_COMMAND, untold=command.untold)
    for each in inner:
        if depth >= NESTED_WRAPPERS or each is UNKNOWN_COMMAND:
            yield unknown
        else:
            yield from unwrapped(each, depth + 1)


def basename(program: Word) -> Word:
    """The name of a program, without its directory."""
    return program and os.path.basename(program)


def _inner(name: str, command: SimpleCommand) -> list[SimpleCommand]:
    words = command.argv[1:]
    if name.endswith("=") and not words:
        return run_by(name[:-1], command.assigned, command)
    if name in shelltext.TEXT_SHELLS:
        return _shell(name, command, words)
    if name in ("read", "printf"):
        named = words if name == "read" else words[1:2] if words[:1] == ("-v",) else ()
        return [UNKNOWN_COMMAND] if any(word and runs_by_value(word) for word in named) else []
    if name in ("ssh", "scp", "sftp"):
        told = (SSH_RUNS.fullmatch(word) for word in words if word)
        return [each for found in told if found for each in _text(command, found[1])] + _after(name, command, words)
    if is_debugger(name):
        return [each for text in debugger_texts(name, words, command.fed) for each in _text(command, text)]
    if name == "coproc" and "{" in words:  # coproc NAME { ...; }, which the grammar does not have
        return [UNKNOWN_COMMAND]
    if name in COMMAND_OPTION:
        return _option_text(command, words, COMMAND_OPTION[name]) + _after(name, command, words)
    if name in TEXT_BUILTINS:
        return _builtin(name, command, words)
    if name in ("find", "fd", "fdfind"):
        return _runs(command, words, FIND_RUNS if name == "find" else FD_RUNS)
    return _after(name, command, words)


def _after(name: str, command: SimpleCommand, words: tuple[Word, ...]) -> list[SimpleCommand]:
    """What a wrapper runs: the words behind its own."""
    wrapper = WRAPPERS.get(name)
    if wrapper is None:
        return []
    if name == "env" and (split := _split_string(words)) is not None:
        return [replace(command, argv=("env", *split), files=(), written=())] if split else [UNKNOWN_COMMAND]
    valued, operands, at = wrapper.valued.split(), wrapper.operands, 0
    set_before: list[SimpleCommand] = []
    while at < len(words):
        word = words[at]
        if word is None:
            # It could be anything; behind a known number of operands it is the program.
            if operands == 0 or name not in ("ssh", "timeout", "flock", "chroot"):
                return [UNKNOWN_COMMAND]
            operands -= 1
        elif word == "--":
            at += 1 + operands
            break
        elif word in valued:
            at += 1
        elif word == "-" and name == "env":
            pass
        elif wrapper.assignments and ASSIGNMENT.match(word):
            variable, _, value = word.partition("=")
            set_before += run_by(variable, value, command)
        elif word.startswith("-") and len(word) > 1:
            pass
        elif operands:
            operands -= 1
        else:
            break
        at += 1
    rest = words[at:]
    if not rest:
        return [UNKNOWN_COMMAND] if name in START_SHELLS and command.fed else set_before
    if name in TEXT_WRAPPERS:
        return _text(command, None if None in rest else " ".join(word or "" for word in rest))
    if name in APPEND_WORDS:
        rest = (*rest, None)
    return [*set_before, replace(command, argv=rest, files=(), written=())]


def _split_string(words: tuple[Word, ...]) -> tuple[Word, ...] | None:
    """The words of env instead of `-S TEXT`; empty: they cannot be known; None: there is no such option."""
    at = 0
    while at < len(words):
        word = words[at]
        if word is None or word in ("-", "--") or not word.startswith("-"):
            return None  # env's own options end here
        if re.match(r"--s|-[a-zA-Z0]*S", word):
            option, _, value = word.partition("=" if word.startswith("--") else "S")
            text, at = (value, at + 1) if value else (words[at + 1] if at + 1 < len(words) else None, at + 2)
            if text is None or re.search(r"[\\$#]", text):  # env's own escapes and variables
                return ()
            before = (option,) if re.fullmatch(r"-\w+", option) else ()
            try:
                return (*before, *shlex.split(text), *words[at:])
            except ValueError:
                return ()
        at += 2 if word in WRAPPERS["env"].valued.split() else 1
    return None


def _shell(name: str, command: SimpleCommand, words: tuple[Word, ...]) -> list[SimpleCommand]:
    """`bash -c TEXT`; a shell that reads its commands from a pipe or a file given to it is not understood.

    So is one that is given a start-up file. A script is a program like others.
    """
    at, by_text, found = 0, False, list[SimpleCommand]()
    while at < len(words):
        word = words[at]
        if word is None or STARTUP_FILE.fullmatch(word):
            return [UNKNOWN_COMMAND]
        if (given := shelltext.TEXT_OPTIONS.get(name, shelltext.NO_OPTION).fullmatch(word)) is not None:
            at += given[1] is None
            found += _text(command, given[1] or (words[at] if at < len(words) else None))
        elif word in BASH_LONG:
            pass
        elif re.match(r"-\w*c\w*\Z", word):
            by_text = True
            at += takes_value(word)
        elif takes_value(word):
            at += 1
        elif word in STDIN_FILES and not by_text:
            break
        elif word in ("-", "--") and by_text:
            return found + _text(command, words[at + 1] if at + 1 < len(words) else None)
        elif not word.startswith(("-", "+")) or word == "-":
            return found + _text(command, word) if by_text else found
        at += 1
    if by_text:
        return [*found, UNKNOWN_COMMAND]
    return [*found, UNKNOWN_COMMAND] if command.fed else found


def takes_value(option: str) -> bool:
    """Whether an option of a shell takes the next word: `-o pipefail`, `-euo pipefail`."""
    return option in SHELL_VALUED or bool(re.match(r"[-+]\w*[oO]\Z", option))


def _option_text(command: SimpleCommand, words: tuple[Word, ...], options: tuple[str, ...]) -> list[SimpleCommand]:
    found: list[SimpleCommand] = []
    for at, word in enumerate(words):
        name, equals, value = (word or "").partition("=")
        # A long option may be cut short.
        long = len(name) > 3 and name.startswith("--") and any(option.startswith(name) for option in options)
        if long and equals:
            found += _text(command, value)
        elif long or word in options or re.match(r"-\w*c\Z", word or ""):
            found += _text(command, words[at + 1] if at + 1 < len(words) else None)
    return found


def _builtin(name: str, command: SimpleCommand, words: tuple[Word, ...]) -> list[SimpleCommand]:
    """Text that the shell itself runs, now or later."""
    if name == "eval":
        return _text(command, None if None in words else " ".join(word or "" for word in words)) if words else []
    if name == "alias":
        return [each for word in words for each in _text(command, word and word.partition("=")[2])]
    if name == "trap":
        operands = [word for word in words if word is None or not re.match(r"-[lpP]|--$", word)]
        return _text(command, operands[0]) if operands and operands[0] not in ("", "-") else []
    if name in ("mapfile", "readarray"):
        return _option_text(command, words, ("-C",))
    if name == "fc":  # without -l it runs lines of the history
        return [] if any(word and re.match(r"-\w*l", word) for word in words) else [UNKNOWN_COMMAND]
    if name in ("source", "."):
        return [UNKNOWN_COMMAND] if command.fed and not STDIN_FILES.isdisjoint(words) else []
    if name == "bind":
        return [UNKNOWN_COMMAND] if any(word is None or word == "-x" for word in words) else []
    return _option_text(command, words, ("-C",))


def _runs(command: SimpleCommand, words: tuple[Word, ...], options: tuple[str, ...]) -> list[SimpleCommand]:
    """`find -exec PROGRAM ... ;`, each of them."""
    found = []
    for at, word in enumerate(words):
        if word in options:
            argv = words[at + 1 :]
            end = next((number for number, each in enumerate(argv) if each in (";", "+")), len(argv))
            # What stands for `{}` is only known when it runs.
            found.append(replace(command, argv=tuple(None if each and "{}" in each else each for each in argv[:end])))
    return [each for each in found if each.argv]


def _text(command: SimpleCommand, text: Word) -> list[SimpleCommand]:
    if text is None:
        return [UNKNOWN_COMMAND]
    found = shelltext.parse(text, command.cwds)
    return [
        replace(each, fed=each.fed or command.fed, gets=shelltext.merged(command.gets, each.gets)) for each in found
    ]


# ---- Variables by which a program or a shell runs something that its arguments do not name. Pure ---------------------
#
# Some hold shell text, which is judged like any other; some name a file of commands or of code, of which nothing is
# known. Others, such as PATH, change what is found: with them a rule that allows knows no longer what it allows.

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
        return _text_of_variable(
            None if value is None else value.lstrip("|-") if name.startswith("LESS") else value, command
        )
    if name in PROMPT_VARIABLES:
        if value is None or not re.search(r"\$[({]|`", value):
            return [UNKNOWN_COMMAND] if value is None else []
        return _text_of_variable(': "' + value.replace('"', "") + '"', command)
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


def _text_of_variable(value: Word, command: SimpleCommand) -> list[SimpleCommand]:
    if value is None:
        return [UNKNOWN_COMMAND]
    return [replace(each, fed=each.fed or command.fed) for each in shelltext.parse(value, command.cwds)]


def of_environment(env: Mapping[str, str], program: Word, cwd: str | None) -> Iterator[SimpleCommand]:
    """What a caller's variables come to for a program that is started with them.

    A variable that changes what runs counts as a command `NAME=`, as an assignment in a shell text does.
    """
    where = SimpleCommand((), cwds=(cwd,))
    for name, given in env.items():
        found = run_by(name, given, where)
        if name in STARTUP_VARIABLES or (name == "ENV" and os.path.basename(program or "") in POSIX_SHELLS):
            found = [UNKNOWN_COMMAND]
        if found or name in SEARCH_PATH_VARIABLES:
            yield SimpleCommand((name + "=",), cwds=(cwd,))
        yield from found
