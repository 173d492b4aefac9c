"""What `--help` prints: a verb's words and own options first, then those of every command, then the settings."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tmuxmcp.contract.value import value

INDENT_COLUMNS = 22
"""Columns of an option; its text stands beside it."""

MOST_COLS, HELP_LEAST_COLS = 100, 40
LONGEST_CHOICES = 24
"""Choices longer than this are told in the text."""

EXIT_STATUS = """\
Exit status: 0 done, 1 error, 2 usage, 3 not found, 4 denied, 124 timed out. `tmuxmcp run` exits with the command's
own status, and with 125 for errors of ours."""

COMMON_OPTIONS = ("help", "json", "config", "version", "set_state_dir", "set_log_level", "help_all")
"""Options of every command."""


class Argument(NamedTuple):
    """An option of the command line, or a word."""

    names: tuple[str, ...]
    """Names of an option begin with `-`; a word has one that nobody types."""
    text: str
    """What it means."""
    how: dict[str, Any]
    """How argparse takes it: arguments of `add_argument`."""
    completes: str = ""
    """What a shell offers for a value without choices: words, or `@sessions` and the like; empty: nothing."""
    apart: str = ""
    """Of the arguments with the same word here only one is given."""

    @property
    def is_option(self) -> bool:
        """Whether it has names that are typed."""
        return self.names[0].startswith("-")

    @property
    def dest(self) -> str:
        """Its name in what `parse` gives."""
        long = next((name for name in self.names if name.startswith("--")), self.names[0])
        return str(self.how.get("dest", long.lstrip("-").replace("-", "_")))

    @property
    def value(self) -> str:
        """What stands for its value in the help; empty: its choices, or it takes none."""
        return str(self.how.get("metavar", ""))

    @property
    def choices(self) -> Sequence[str]:
        """The values that it takes; empty: others too."""
        return tuple(self.how.get("choices", ()))

    @property
    def takes_value(self) -> bool:
        """Whether it is more than a switch."""
        return self.how.get("action") in (None, "append")


class Verb(NamedTuple):
    """A command of the command line. Parser, help, completions, manual page and reference are made of this."""

    summary: str
    handler: str
    """`module.function` of this package; an async one is for operations, and is given a broker or a fleet."""
    description: str
    arguments: Sequence[Argument]
    late: Callable[[], Sequence[Argument]]
    """Makes those arguments whose making takes time: the settings."""
    other_names: tuple[str, ...] = ()

    def every_argument(self) -> list[Argument]:
        """All of them."""
        return [*self.arguments, *self.late()]


def help_of(prog: str, verb: Verb, *, everything: bool = False) -> str:
    """The help of a verb, as wide as the terminal.

    Args:
        prog: how it is called.
        everything: also each setting, of another verb than `serve` that takes all of them.
    """
    arguments = verb.every_argument()
    options = [each for each in arguments if each.is_option]
    settings = [each for each in options if each.dest.startswith("set_")]
    settings = settings if len(settings) > len(COMMON_OPTIONS) else []
    common = [each for each in options if each.dest in COMMON_OPTIONS and each not in settings]
    own = [each for each in options if each not in common and each not in settings]
    pieces = [usage_of(prog, verb), filled(verb.description)]
    pieces.append(_table((word_of(each), each.text) for each in arguments if not each.is_option))
    pieces += [_group("options", map(row, own)), _group("options of every command", map(row, common))]
    if everything or prog.endswith(" serve"):  # to a server they are what it is about
        pieces.append(_group("settings", map(row, settings)))
    elif settings:
        pieces.append(filled(f"Every setting is an option too, as `--cols 100`: `{prog} --help-all` lists them."))
    return "\n\n".join(filter(None, pieces)) + "\n"


def help_of_program(program: Verb, verbs: Mapping[str, Verb]) -> str:
    """The help of the program: its commands and options."""
    rows = [(name + "".join(f" ({other})" for other in each.other_names), each.summary) for name, each in verbs.items()]
    commands = _group("commands", rows)
    options = _group("options", map(row, program.arguments))
    pieces = ["usage: tmuxmcp [OPTIONS] COMMAND ...", filled(program.description), commands, options]
    return "\n\n".join([*pieces, filled(EXIT_STATUS)]) + "\n"


def usage_of(prog: str, verb: Verb) -> str:
    """The line that says in which order words come."""
    words = [word_of(each) for each in verb.every_argument() if not each.is_option]
    return f"usage: {' '.join([prog, '[OPTIONS]', *words])}"


def word_of(argument: Argument) -> str:
    """A word of a command line, in brackets where it may be left out."""
    name = argument.value
    if name.startswith("["):
        return name
    forms = {argparse.REMAINDER: f"[{name} ...]", "*": f"[{name} ...]", "+": f"{name} ...", "?": f"[{name}]"}
    return forms.get(str(argument.how.get("nargs")), name)


def filled(text: str) -> str:
    """Paragraphs as wide as the terminal; a line that ends a sentence ends a line of the help, too."""
    lines = re.sub(r"(?<![.:?\n])\n(?!\n)", " ", text).split("\n")
    return "\n".join(textwrap.fill(line, _cols(), break_on_hyphens=False, break_long_words=False) for line in lines)


def row(option: Argument) -> tuple[str, str]:
    """An option with its value, and what it means."""
    text, value, choices = option.text, "", "|".join(option.choices)
    if option.takes_value:
        long = len(choices) > LONGEST_CHOICES
        value = " " + (option.value or ("WHAT" if long else choices))
        if long and not option.value:
            text = f"{text}: {choices.replace('|', ', ')}"
    return ", ".join(option.names) + value, text


def _group(title: str, rows: Iterable[tuple[str, str]]) -> str:
    table = _table(rows)
    return f"{title}:\n{table}" if table else ""


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(line for left, text in rows for line in _entry(left, text))


def _entry(left: str, text: str) -> Sequence[str]:
    beside = textwrap.wrap(text, _cols() - INDENT_COLUMNS - 2, break_on_hyphens=False, break_long_words=False) or [""]
    if len(left) + 2 > INDENT_COLUMNS:
        return [f"  {left}", *(f"{' ' * (INDENT_COLUMNS + 2)}{line}" for line in beside)]
    first = f"  {left.ljust(INDENT_COLUMNS)}{beside[0]}".rstrip()
    return [first, *(f"{' ' * (INDENT_COLUMNS + 2)}{line}" for line in beside[1:])]


def _cols() -> int:
    return max(HELP_LEAST_COLS, min(MOST_COLS, shutil.get_terminal_size().columns))


# ---- Hints and notes in the words of the command line ----------------------------------------------------------------
#
# `tmuxmcp kill`, where the broker says destroy_session.
#
# The broker's texts name operations and arguments, as clients call them. Here they become verbs and options, at the one
# place where a text is printed for a person; with `--json` they stay as every face has them.

VERB_OF = {
    "create_session": "new",
    "destroy_session": "kill",
    "list_sessions": "list",
    "list_commands": "history",
    "read": "read",
    "run": "run",
    "search": "search",
    "send": "send",
}
"""The verb of each operation that the command line calls with arguments of a person's own."""

_WORDING: list[tuple[str, str]] = [
    # The operations, each in the phrases in which our texts name it.
    *((rf"\b{name} needs a session_id\b", f"`tmuxmcp {verb}` needs an ID") for name, verb in VERB_OF.items()),
    (r"\bneeds a session_id\b", "needs an ID"),
    (r"\bwith create_session\b", "with `tmuxmcp new`"),
    (r"\blist_sessions (?=gives|lists)", "`tmuxmcp list` "),
    (r"\blist_sessions with after=\S+ goes on\b", "`tmuxmcp list` has them all"),
    (r"\bwith read or list_commands\b", "with `tmuxmcp view ID` or `tmuxmcp history ID`"),
    (r"\blist_commands (?=has)", "`tmuxmcp history ID` "),
    (r"\bstop_recording (?=ends)", "`tmuxmcp record ID --stop` "),
    (r"\bstart_recording (?=begins)", "`tmuxmcp record ID` "),
    (r"\bexport_recording (?=makes)", "`tmuxmcp export ID` "),
    (r"\bget_session and read know them\b", "`tmuxmcp log ID` prints what is kept of them"),
    (r"`?\bread view=(screen|scrollback)\b`?", r"`tmuxmcp read ID --view \1`"),
    (r"`?\bread wait_for=(\w+)\b`?", r"`tmuxmcp read ID --wait \1`"),
    (r"`?\bread since=(\d+)\b`?", r"`tmuxmcp read ID --since \1`"),
    (r"`read` (?=gives)|\bread (?=still gives)", "`tmuxmcp read` "),
    (r"\bor read again\b", "or `tmuxmcp read` again"),
    (r"\b([Aa]nswer(?: it)?) with send\b", r"\1 with `tmuxmcp send ID TEXT --enter`"),
    (r"\b([Uu]se|with) send\b", r"\1 `tmuxmcp send`"),
    (r"\bsend `([^`']+)` and Enter\b", r"`tmuxmcp send ID '\1' --enter`"),
    (r"\bwith (?:key C-c|signal INT)(?!\w)", "with `tmuxmcp send ID --key C-c`"),
    (r"\(key C-c, or signal\)", "(`tmuxmcp send ID --key C-c`)"),
    (r"\bread (?=shows)", "`tmuxmcp view ID` "),
    (r"\bforce still ends it\b", "`tmuxmcp release ID` does that, `tmuxmcp kill ID --force` still ends it"),
    (r"\bOnly a person can resume it\b", "`tmuxmcp resume` ends that"),
    (r"\bdestroy it first\b", "end it with `tmuxmcp kill ID` first"),
    (r"\blist_directory shows what is there\b", "Check the path"),
    (r"\bmake a session with program (\w+)", r"make a session by `tmuxmcp new \1`"),
    # The arguments.
    (r"\barguments go into args\b", "arguments are words of their own"),
    (r"\bOne key an element, as in `C-c`", "One key for each --key, as in `--key C-c`"),
    (r"\bas cwd\b", "as --cwd"),
    (r"\bwait_for=(\w+)", r"--wait \1"),
    (r"\bview=(\w+)", r"--view \1"),
    (r"\bformat=(\w+)", r"--format \1"),
    (r"\bmax_bytes\b", "--max-bytes"),
    (r"\bgive prompt_pattern\b", "set TMUXMCP_PROMPT_PATTERN"),
    (r"\bGive a session_id\b", "Give an ID"),
    (r"\ba next_offset\b", "an offset"),
    (r"\b(as|with) `text`", r"\1 TEXT"),
    (r"\bsince=(\d+)", r"--since \1"),
    (r"\bGive text, key, keys or enter\b", "Give TEXT, --key or --enter"),
    (r"\bexpression as pattern\b", "expression as --pattern"),
]
_RULES = [(re.compile(rf"(?<!tmuxmcp )(?:{pattern})"), words) for pattern, words in _WORDING]
_QUOTED = re.compile(r"((?<!\w)'[^']*'(?!\w))")
"""What a person gave, as errors show it: it stays as it is."""


def in_cli_words(text: str) -> str:
    """A text for a person at the command line."""
    pieces = _QUOTED.split(text)
    return "".join(piece if at % 2 else _reworded(piece) for at, piece in enumerate(pieces))


def _reworded(text: str) -> str:
    for pattern, words in _RULES:
        text = pattern.sub(words, text)
    return text


# ---- A point of a log as a person names it: an offset, or a time. It imports nothing that takes time -----------------

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}

AGO_TEXT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])")


@value
class Point:
    """One of the three is given."""

    word: str
    """As it was typed."""
    offset: int | None = None
    ago_s: float | None = None
    at_s: float | None = None
    """Since 1970."""


def age(word: str) -> float:
    """Seconds of `90s`, `15m`, `12h` or `7d`.

    Raises:
        ValueError: it is none of these.
    """
    found = AGO_TEXT.fullmatch(word)
    if not found:
        raise ValueError
    return float(found[1]) * UNITS_S[found[2]]


def point(word: str) -> Point:
    """The point of an option: digits are an offset, `10m` is ten minutes ago, all else ISO 8601.

    A time without a zone is local.

    Raises:
        ValueError: it is none of these.
    """
    if re.fullmatch(r"\d{1,18}", word):
        return Point(word, offset=int(word))
    if AGO_TEXT.fullmatch(word):
        return Point(word, ago_s=age(word))
    try:
        return Point(word, at_s=datetime.fromisoformat(word).astimezone().timestamp())
    except OverflowError as error:
        raise ValueError from error
