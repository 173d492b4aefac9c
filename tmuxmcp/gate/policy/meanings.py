"""What a command does, in whatever spelling: the condition `does` of the policy's rules. Pure.

A program's own rules for its options are followed: clusters, abbreviations, options behind operands, and `--`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tmuxmcp.gate.policy.commandfacts import NETWORK_DEVICE
from tmuxmcp.gate.policy.machineharm import ends_machine, writes_disk
from tmuxmcp.gate.policy.optionwords import Match, both, either, is_option, operands, options
from tmuxmcp.gate.policy.shelltext import TEXT_SHELLS, SimpleCommand, Word, words_of
from tmuxmcp.gate.policy.wrapped import basename, takes_value

GIT_VALUED = words_of("-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source")
"""Options of git itself that take the next word."""

PUSH_VALUED = words_of("-o --push-option --repo --receive-pack --exec")
"""Options of `git push` that take the next word."""

DOWNLOADERS = words_of(
    "curl wget wget2 fetch http https httpie xh aria2c axel lynx links elinks w3m GET lwp-request lwp-download "
    "nc ncat netcat socat telnet ftp lftp"
)
"""Programs that bring what another machine sends."""

INTERPRETERS: Mapping[str, str] = {
    **dict.fromkeys(("python", "python2", "python3", "pypy", "pypy3"), "cm"),
    **dict.fromkeys(("perl", "ruby"), "eE"),
    **dict.fromkeys(("node", "nodejs", "bun", "lua", "Rscript"), "ep"),
    "php": "rBRE",
}
"""Programs that run what they read, and the letters of options by which they get their program elsewhere."""

STANDARD_INPUT_PATHS = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")


def match_meaning(name: str, command: SimpleCommand) -> Match:
    """Whether a command does what a meaning says; None when that hangs on what cannot be known."""
    if command.program is None:
        return None
    return MEANINGS[name](basename(command.program) or "", command)


# ---- rm, recursive and forced --------------------------------------------------------------------


def _removes_tree(name: str, command: SimpleCommand) -> Match:
    if name != "rm":
        return False
    recursive: Match = False
    forced: Match = False
    for option in options(command.argv[1:]):
        recursive = either(recursive, is_option(option, "rR", "--recursive"))
        forced = either(forced, is_option(option, "f", "--force"))
    return both(recursive, forced)


# ---- a forced push ---------------------------------------------------------------------------------


def _pushes_by_force(name: str, command: SimpleCommand) -> Match:
    words: Sequence[Word] = command.argv[1:]
    if name == "git":
        subcommand, words = _git(words)
        if subcommand != "push":
            return subcommand if subcommand is None else False
    elif name != "git-push":
        return False
    match: Match = False
    for option in options(words, PUSH_VALUED):
        # --force-with-lease and --force-if-includes as well; they have --force for a beginning.
        long = option is not None and option.startswith("--force-")
        mirrors = is_option(option, "", "--mirror")
        match = either(match, either(long or mirrors, is_option(option, "f", "--force")))
    for word in operands(words, PUSH_VALUED):
        match = either(match, None if word is None else word.startswith("+"))
    return match


def _git(words: Sequence[Word]) -> tuple[Word, Sequence[Word]]:
    """The subcommand of git, and what follows it; None where it may be any."""
    at = 0
    while at < len(words):
        word = words[at]
        if word is None:
            return None, ()
        if not word.startswith("-"):
            return word, words[at + 1 :]
        value = words[at + 1] if at + 1 < len(words) else ""
        if word == "-c" and (value is None or value.lower().startswith("alias.")):
            return None, ()
        if word.startswith("--config-env"):
            return None, ()
        at += 2 if word in GIT_VALUED else 1
    return "", ()


# ---- a download that is run ------------------------------------------------------------------------


def _runs_download(name: str, command: SimpleCommand) -> Match:
    """Whether a shell or an interpreter gets its commands from the network: by a pipe, `<(...)`, `$(...)`."""
    if not _is_interpreter(name):
        return False
    from_network = _gets_download(command)
    return False if from_network is False else both(from_network, _reads_program(name, command.argv[1:]))


def _is_interpreter(name: str) -> bool:
    return name in TEXT_SHELLS or name in ("eval", "source", ".") or _bare(name) in INTERPRETERS


def _bare(name: str) -> str:
    """`python3.12` is Python."""
    return re.sub(r"(?<=\d)\.[\d.]+\Z", "", name)


def _gets_download(command: SimpleCommand) -> Match:
    match: Match = any(file is not None and NETWORK_DEVICE.match(file) is not None for file in command.files)
    for each in command.gets:
        match = either(match, None if each.program is None else _downloads(each))
    return match


def _downloads(command: SimpleCommand) -> bool:
    read = any(file is not None and NETWORK_DEVICE.match(file) is not None for file in command.files)
    return read or basename(command.program) in DOWNLOADERS


def _reads_program(name: str, words: Sequence[Word]) -> Match:
    """Whether what such a command gets from elsewhere is its program, and not data for one that is written out."""
    if name in ("eval", "source", "."):
        return any(word is None or word in STANDARD_INPUT_PATHS for word in words)
    at = 0
    while at < len(words):
        word = words[at]
        if word is None or word in STANDARD_INPUT_PATHS:
            return True  # a substitution, or standard input by its name
        if name in TEXT_SHELLS:
            if re.match(r"-\w*c\w*\Z", word) or word in ("--command", "--init-command"):
                return None in words[at + 1 :] or any("{}" in (each or "") for each in words[at + 1 :])
            if re.match(r"-\w*s\w*\Z", word):
                return True
            at += takes_value(word)
        elif _gives_program(_bare(name), word):
            return None in words[at + 1 : at + 2]
        if not word.startswith(("-", "+")):
            return False  # a script
        at += 1
    return True


def _gives_program(name: str, option: str) -> bool:
    """Whether an option brings the program: `-c TEXT`, `-m MODULE`, `-lane TEXT`."""
    if option.startswith("--"):
        return option.startswith(("--eval", "--print", "--run", "--process"))
    return bool(re.match(rf"-\w*[{INTERPRETERS[name]}]", option))


MEANINGS: dict[str, Callable[[str, SimpleCommand], Match]] = {
    "remove-tree": _removes_tree,
    "force-push": _pushes_by_force,
    "run-download": _runs_download,
    "end-machine": ends_machine,
    "write-disk": writes_disk,
}
"""What the condition `does` can name."""
