"""What `--help` prints: a verb's words and own options first, then those of every command, then the settings."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from datetime import datetime

from tmuxmcp.contract.value import value

INDENT_COLUMNS = 22
"""Columns of an option; its text stands beside it."""

MOST_COLS, HELP_LEAST_COLS = 100, 40
LONGEST_CHOICES = 24
"""Choices longer than this are told in the text."""

COMMON_OPTIONS = ("help", "json", "config", "version", "set_state_dir", "set_log_level", "help_all")
"""Options of every command."""


def help_of(parser: argparse.ArgumentParser, *, everything: bool = False) -> str:
    """The help of the program or of a verb, as wide as the terminal.

    Args:
        everything: also each setting, of another verb than `serve` that takes all of them.
    """
    actions = parser._actions
    verbs = [action for action in actions if isinstance(action, argparse._SubParsersAction)]
    words = [action for action in actions if not action.option_strings and action not in verbs]
    options = [action for action in actions if action.option_strings]
    settings = [each for each in options if each.dest.startswith("set_")]
    settings = settings if len(settings) > len(COMMON_OPTIONS) else []
    common = [each for each in options if each.dest in COMMON_OPTIONS and each not in settings]
    own = [each for each in options if each not in common and each not in settings]
    pieces = [usage_of(parser), filled(parser.description or "")]
    pieces.append(_table((word_of(each), each.help or "") for each in words))
    pieces += [
        _group("commands", ((str(each.metavar or each.dest), each.help or "") for each in action._choices_actions))
        for action in verbs
    ]
    pieces.append(_group("options", map(row, own)))
    pieces.append(_group("options of every command" if " " in parser.prog else "options", map(row, common)))
    if everything or parser.prog.endswith(" serve"):  # to a server they are what it is about
        pieces.append(_group("settings", map(row, settings)))
    elif settings:
        pieces.append(
            filled(f"Every setting is an option too, as `--cols 100`: `{parser.prog} --help-all` lists them.")
        )
    pieces.append(filled(parser.epilog or ""))
    return "\n\n".join(filter(None, pieces)) + "\n"


def usage_of(parser: argparse.ArgumentParser) -> str:
    """The line that says in which order words come."""
    words = [word_of(each) for each in parser._actions if not each.option_strings]
    return f"usage: {' '.join([parser.prog, '[OPTIONS]', *words])}"


def word_of(action: argparse.Action) -> str:
    """A word of a command line, in brackets where it may be left out."""
    name = str(action.metavar or action.dest)
    if name.startswith("["):
        return name
    forms = {argparse.REMAINDER: f"[{name} ...]", "*": f"[{name} ...]", "+": f"{name} ...", "?": f"[{name}]"}
    return forms.get(str(action.nargs), f"{name} ..." if action.nargs == argparse.PARSER else name)


def filled(text: str) -> str:
    """Paragraphs as wide as the terminal; a line that ends a sentence ends a line of the help, too."""
    lines = re.sub(r"(?<![.:?\n])\n(?!\n)", " ", text).split("\n")
    return "\n".join(textwrap.fill(line, _cols(), break_on_hyphens=False, break_long_words=False) for line in lines)


def choices_of(action: argparse.Action) -> str:
    """The values that an option takes; empty: they are not few."""
    return "|".join(map(str, action.choices)) if action.choices else ""


def row(action: argparse.Action) -> tuple[str, str]:
    """An option with its value, and what it means."""
    text, value, choices = (action.help or "").replace("%%", "%"), "", choices_of(action)
    if action.nargs != 0:
        long = len(choices) > LONGEST_CHOICES
        value = " " + str(action.metavar or ("WHAT" if long else choices) or action.dest.upper())
        if long and action.metavar is None:
            text = f"{text}: {choices.replace('|', ', ')}"
    return ", ".join(action.option_strings) + value, text


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
