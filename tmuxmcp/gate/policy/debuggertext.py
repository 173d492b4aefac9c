"""What the commands of gdb and radare2 have a shell run, as far as their texts tell. Pure.

Each function gives shell texts; None stands for something that cannot be told: code in another language, a file of
commands, a command that nobody knows. gdb takes any beginning of a command's name that no other name has.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence

from tmuxmcp.gate.policy.shelltext import Word, words_of

MOST_NESTED = 8
"""`with X -- with X -- ...`: what is deeper counts as not understood."""

MOST_ESCAPES = 32
"""`!` and `|` in one text of radare2: with more it counts as not understood."""

NAME = re.compile(r"[A-Za-z0-9_.-]+|[!|<>+]")
"""The name that a command of gdb begins with."""

RUNS_CODE = words_of(
    "actions add-auto-load-safe-path add-auto-load-scripts-directory alias commands compile define define-prefix "
    "document edit eval expression guile guile-repl gr if jit-reader-load new-ui python python-interactive source "
    "while while-stepping stepping ws"
)
"""Commands of gdb behind which anything may be: code, files, further lines, other names for commands."""

SHORT_NAMES = words_of("c d do dow i j n p s")
"""Names of gdb that are beginnings of others, too, and run nothing."""

KNOWN_NAMES = words_of(
    "+ - < > a advance agent-printf add-symbol-file add-symbol-file-from-memory append apropos attach awatch b "
    "backtrace bookmark br bre brea break break-range bt call catch cd checkpoint clear clone-inferior collect "
    "compare-sections complete condition continue core-file delete delete del demangle detach directory disable "
    "disassemble disconnect display dont-repeat down down-silently dprintf dump echo enable end exit explore fg find "
    "finish fin flash-erase focus forward-search fs ftrace function gcore generate-core-file goto-bookmark h handle "
    "hbreak help ignore inferior inf info init-if-undefined inspect interrupt jit-reader-unload jump k kill l layout "
    "list load macro mem memory-tag monitor next nexti ni nosharedlibrary output overlay passcount path po print "
    "print-object printf ptype pwd q queue-signal quit rbreak rc record rec refresh remote remove-inferiors "
    "remove-symbol-file restart restore return reverse-continue reverse-finish reverse-next reverse-nexti "
    "reverse-search reverse-step reverse-stepi rev rn rni rs rsi rwatch save search section select-frame sharedlibrary "
    "show si signal skip step stepi stop strace symbol-file task tbreak tb tcatch tdump teval tfind thbreak tp trace "
    "tr tra trac tsave tstart tstatus tstop tty tui tvariable u undisplay unset until up up-silently update watch wh "
    "whatis where winheight winwidth x"
)
"""Commands of gdb that run nothing but the program that is debugged."""

CALLS = re.compile(r"\$_shell\b|\b(?:system|popen|posix_spawnp?|exec[lv]p?e?|dlopen|__libc_dlopen\w*)\b[\s)]*\(")
"""In an expression: a function of gdb's, or of the C library in the debugged program, that runs something."""

SHELL_SPECIAL = re.compile(r"[^\w\s./:=,+@%-]")

MI_NAMES = re.compile(
    r"-(?:ada|add-inferior|break(?!-commands)|catch|complete|data|dprintf-insert|enable|environment|exec(?!-arg)"
    r"|file-list|file-symbol|gdb-(?:show|version|exit)|inferior|info|list|remove-inferior|stack|symbol|thread|trace"
    r"|target-(?!sel)|var)(?![A-Za-z0-9])[\w-]*"
)
"""Commands of GDB/MI that run nothing but the program that is debugged."""

MI_OPTION = re.compile(r"--(?:thread-group|thread|frame|language)\s+\S+\s*|--all\s*|--\s+")


def gdb_texts(text: str, depth: int = 0) -> Iterator[Word]:
    """What a command of gdb's console or of GDB/MI has a shell run; None for what cannot be told."""
    text = text.strip()
    if depth > MOST_NESTED or CALLS.search(text):
        yield None
    elif text.startswith("-") and text[1:2].isalpha():
        yield from _mi(text, depth)
    elif text and not text.startswith("#"):
        found = NAME.match(text)
        name = found[0].lower() if found else ""
        handlers = _handlers(name)
        for handle in handlers:
            yield from handle(text[len(name) :].strip(), depth)
        if not (handlers or name in SHORT_NAMES or any(each.startswith(name) for each in KNOWN_NAMES if name)):
            yield None


def _handlers(name: str) -> list[_Handler]:
    """What concerns a name; of several that it may stand for, each one."""
    if not name or name in SHORT_NAMES:
        return []
    if name in HANDLERS:
        return [HANDLERS[name]]
    found = [handler for each, handler in HANDLERS.items() if each.startswith(name)]
    return [*dict.fromkeys(found)] if name not in KNOWN_NAMES else []


def _nothing_told(rest: str, depth: int) -> Iterator[Word]:
    yield None


def _shell(rest: str, depth: int) -> Iterator[Word]:
    yield rest or None  # without a command, a shell that reads what gdb would


def _make(rest: str, depth: int) -> Iterator[Word]:
    yield f"make {rest}"


def _pipe(rest: str, depth: int) -> Iterator[Word]:
    delimiter, option = "|", re.match(r"-+d\S*\s+(\S+)\s|-+\s", rest + " ")
    if option:
        delimiter, rest = option[1] or "|", rest[option.end() :]
    command, found, shell = rest.partition(delimiter)
    yield from gdb_texts(command, depth + 1)
    yield shell if found else None


def _with(rest: str, depth: int) -> Iterator[Word]:
    """`with SETTING -- COMMAND`; a setting counts as set, too."""
    setting, found, command = rest.partition("--")
    yield from _set(setting.strip(), depth)
    if found:
        yield from gdb_texts(command, depth + 1)


def _each_suffix(rest: str, depth: int) -> Iterator[Word]:
    """`thread apply 1-3 -q COMMAND`: the command may begin at any word; only one that runs something is told."""
    if depth > 1:
        yield None  # the words of one such command are looked at, and not those of all in it as well
        return
    for found in re.finditer(r"(?:^|(?<=\s))\S", rest):
        name = NAME.match(rest, found.start())
        for handle in _handlers(name[0].lower()) if name else ():
            if name and handle is not _each_suffix:
                yield from handle(rest[name.end() :].strip(), depth + 2)


def _interpreter(rest: str, depth: int) -> Iterator[Word]:
    """`INTERPRETER "COMMAND" ...`."""
    words = _words(MI_OPTION.sub("", rest))
    if not words:
        yield None
        return
    for each in words[1:]:
        yield from gdb_texts(each, depth + 1)


def _words(text: str) -> list[str] | None:
    """Words as gdb splits them; None where it cannot be told."""
    try:
        return shlex.split(text)
    except ValueError:
        return None


def _arguments(rest: str, depth: int) -> Iterator[Word]:
    """Arguments of the debugged program: gdb starts it with a shell."""
    if SHELL_SPECIAL.search(rest):
        yield f": {rest}"


def _program(rest: str, depth: int) -> Iterator[Word]:
    """A file that becomes the debugged program."""
    words = _words(rest)
    if words is None:
        yield None
    elif files := [each for each in words if not each.startswith("-")]:
        yield shlex.quote(files[0])


def _inferior(rest: str, depth: int) -> Iterator[Word]:
    if found := re.search(r"(?:^|\s)-e\S*\s+(\S+)", rest):
        yield from _program(found[1], depth)


def _target(rest: str, depth: int) -> Iterator[Word]:
    kind, _, where = rest.partition(" ")
    if "|" in where:
        yield where.partition("|")[2]
    elif kind and "exec".startswith(kind):
        yield from _program(where, depth)


def _set(rest: str, depth: int) -> Iterator[Word]:
    name, _, value = rest.partition(" ")
    name, value = name.lower(), value.strip()
    if len(name) >= 3 and "args".startswith(name):
        yield from _arguments(value, depth)
    elif name.startswith("exec-w"):
        yield value
    elif len(name) >= 2 and "environment".startswith(name):
        variable, _, setting = value.replace("=", " ", 1).partition(" ")
        if re.fullmatch(r"\w+", variable):
            yield f"{variable}={shlex.quote(setting.strip())}"
    elif name.startswith(("au", "da", "dprintf-f", "py", "gu")):  # auto-load, data-directory, a function of the program
        yield None


def _mi(text: str, depth: int) -> Iterator[Word]:
    name, _, rest = text.partition(" ")
    if name == "-interpreter-exec":
        yield from _interpreter(rest, depth)
    elif name == "-target-select":
        yield from _target(rest, depth)
    elif name == "-exec-arguments":
        yield from _arguments(rest, depth)
    elif name in ("-file-exec-and-symbols", "-file-exec-file"):
        yield from _program(MI_OPTION.sub("", rest), depth)
    elif name == "-gdb-set":
        yield from _set(MI_OPTION.sub("", rest), depth)
    elif name == "-break-commands":
        words = _words(MI_OPTION.sub("", rest))
        for each in [""] if words is None else words[1:]:
            yield from gdb_texts(each, depth + 1) if words else (None,)
    elif not MI_NAMES.fullmatch(name):
        yield None


_Handler = Callable[[str, int], Iterator[Word]]

_HANDLED_NAMES: tuple[tuple[_Handler, frozenset[str]], ...] = (
    (_nothing_told, RUNS_CODE | words_of("pi py gu")),
    (_shell, words_of("! shell")),
    (_make, words_of("make")),
    (_pipe, words_of("| pipe")),
    (_with, words_of("w with maintenance mt")),
    (_interpreter, words_of("interpreter-exec")),
    (_each_suffix, words_of("f frame t thread faas taas tfaas")),
    (_arguments, words_of("r run start starti")),
    (_program, words_of("file exec-file")),
    (_inferior, words_of("add-inferior")),
    (_target, words_of("target")),
    (_set, words_of("set")),
)
HANDLERS = {name: handler for handler, names in _HANDLED_NAMES for name in sorted(names)}
"""What each command of gdb has run, by its name; its arguments and how deep it is nested are given."""


# ---- radare2 -----------------------------------------------------------------------------------

R2_UNTOLD = re.compile(
    r"#!|`|(?:^|[;\n(@\"'&])\s*\d*\.(?![.\d])|(?:^|[;\n(@\"'&])\s*\d*(?:L|o[a-z+]*|R|=|sys)\b[^;]*[a-z]+://"
    r"|(?:^|[;\n(@\"'&])\s*\d*(?:L|#)\S*\s|\$\w*=|\bcmd\.\w+\s*="
)
"""Scripts, plugins, other languages, output that is run as commands, commands that are kept for later."""


def r2_texts(text: str) -> Iterator[Word]:
    """What a command of radare2 or rizin has a shell run; None for what cannot be told.

    A shell gets what stands behind `!` or `|`; which of several begins it hangs on quotes, so each may.
    """
    if R2_UNTOLD.search(text):
        yield None
    escapes = [at for at, char in enumerate(text) if char in "!|"]
    if len(escapes) > MOST_ESCAPES:
        yield None
        return
    for at in escapes:
        if shell := text[at + 1 :].strip().lstrip("!|").strip():
            yield shell


# ---- their command lines -------------------------------------------------------------------------

GDB_PROGRAMS = re.compile(r"(?:.*-)?gdb(?:tui|-multiarch)?|cgdb")
GDB_COMMAND = re.compile(
    r"--?(?:i?ex|eiex|eval-command|init-eval-command|early-init-eval-command)(?:=(.*))?", re.DOTALL
)
GDB_FILE = re.compile(r"--?(?:e?ix|x|comm\w*|init-command|early-init-command|P|python)(?:=.*)?", re.DOTALL)
GDB_EXEC = re.compile(r"--?(?:exec|se?|e|symbols)(?:=(.*))?", re.DOTALL)
GDB_VALUED = re.compile(r"--?(?:c|core|p|pid|d|directory|cd|D|data-directory|i|interpreter|ui|b|l|tty)")
R2_PROGRAMS = words_of("r2 radare2 rizin")
R2_VALUED = words_of("-a -b -B -C -e -E -F -k -l -m -p -P -r -R -s")


def debugger_texts(name: str, words: Sequence[Word], fed: bool) -> Iterator[Word]:
    """What gdb or radare2 has a shell run by its arguments; the program that it is to debug counts, too.

    Args:
        fed: it reads its commands from what it is given.
    """
    if fed:
        yield None
    yield from _r2_line(words) if name in R2_PROGRAMS else _gdb_line(words)


def is_debugger(name: str) -> bool:
    """Whether the program of a name is known here."""
    return name in R2_PROGRAMS or GDB_PROGRAMS.fullmatch(name) is not None


def _gdb_line(words: Sequence[Word]) -> Iterator[Word]:
    at, operands = 0, 0
    while at < len(words):
        word = words[at]
        value = words[at + 1] if at + 1 < len(words) else None
        if word is None or GDB_FILE.fullmatch(word):
            yield None
            at += 1
        elif word in ("-args", "--args"):
            rest = words[at + 1 :]
            yield None if None in rest else shlex.join(each or "" for each in rest)
            return
        elif found := GDB_COMMAND.fullmatch(word):
            command = value if found[1] is None else found[1]
            yield from (None,) if command is None else gdb_texts(command)
            at += found[1] is None
        elif found := GDB_EXEC.fullmatch(word):
            program = value if found[1] is None else found[1]
            yield None if program is None else shlex.quote(program)
            at += found[1] is None
        elif GDB_VALUED.fullmatch(word):
            at += 1
        elif re.match(r"--?(?:ev|init|ear|com|py)", word):  # a name cut short
            yield None
        elif not word.startswith("-"):
            if not operands:
                yield shlex.quote(word)
            operands += 1
        at += 1


def _r2_line(words: Sequence[Word]) -> Iterator[Word]:
    at, debugs = 0, any(word and re.match(r"-\w*d", word) for word in words)
    while at < len(words):
        word = words[at]
        value = words[at + 1] if at + 1 < len(words) else None
        if word is None or re.match(r"-\w*[iI]|-\w*[ce].", word):
            yield None
        elif re.match(r"-\w*[ce]\Z", word):
            yield from (None,) if value is None else r2_texts(value)
            at += 1
        elif word in R2_VALUED:
            at += 1
        elif not word.startswith("-") and (debugs or "://" in word):
            yield None if "://" in word else shlex.quote(word)
        at += 1
