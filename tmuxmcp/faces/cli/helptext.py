"""What `--help` prints: a verb's words and own options first, then those of every command, then the settings."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence

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
