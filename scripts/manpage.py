"""Makes the manual page tmuxmcp(1) from what `--help` is made from. scripts/package writes it, for the wheel."""

from __future__ import annotations

import re
from collections.abc import Iterator

import tmuxmcp
from tmuxmcp.config import VARIABLE_PREFIX, Settings
from tmuxmcp.faces.cli import arguments
from tmuxmcp.faces.cli.helptext import COMMON_OPTIONS, EXIT_STATUS, Verb, row, word_of

HANGING = 24
"""Columns by which what an option means is indented."""


def page() -> str:
    """The page, in the macros of man(7)."""
    lines = [
        f'.TH TMUXMCP 1 "" "tmuxmcp {tmuxmcp.__version__}" "User Commands"',
        *(".SH NAME", "tmuxmcp \\- terminal sessions for agents, on tmux"),
        *(".SH SYNOPSIS", ".B tmuxmcp", "COMMAND [OPTIONS] [WORDS]"),
        *(".SH DESCRIPTION", *_paragraphs(arguments.DESCRIPTION)),
        ".SH COMMANDS",
    ]
    for name, verb in arguments.VERBS.items():
        lines += _verb(name, verb)
    common = [each for each in arguments.VERBS["list"].every_argument() if each.dest in COMMON_OPTIONS]
    lines += [".SH OPTIONS OF EVERY COMMAND", *(line for each in common for line in _item(*row(each)))]
    lines += [".SH SETTINGS", *_paragraphs(SETTINGS)]
    for name, field in Settings.model_fields.items():
        lines += _item(f"--{name.replace('_', '-')}", f"{field.description or name}.")
    lines += [".SH EXIT STATUS", *_paragraphs(EXIT_STATUS.removeprefix("Exit status: "))]
    lines += [".SH FILES", *_item("~/.config/tmuxmcp/config.toml", "the settings file")]
    lines += _item("~/.local/state/tmuxmcp", "the socket and the logs, where the setting state_dir says nothing else")
    return "\n".join([*lines, ".SH SEE ALSO", ".BR tmux (1)"]) + "\n"


SETTINGS = f"""\
A setting is a flag of serve, demo and config, an environment variable that begins with {VARIABLE_PREFIX} (rows is
{VARIABLE_PREFIX}ROWS), or a line of the settings file. Flags count before variables, and these before the file."""


def _verb(name: str, verb: Verb) -> Iterator[str]:
    # What has the flags of all settings has those of few here: the settings have a part of their own.
    late = verb.late() if verb.late is arguments.client_words else arguments.few_settings()
    every = [*verb.arguments, *late]
    words = [each for each in every if not each.is_option]
    yield f".SS {_text(' '.join(['tmuxmcp', name, '[OPTIONS]', *map(word_of, words)]))}"
    yield from _paragraphs(verb.description)
    for each in words:
        yield from _item(word_of(each), each.text)
    for each in every:
        if each.is_option and each.dest not in COMMON_OPTIONS:
            yield from _item(*row(each))


def _item(left: str, text: str) -> list[str]:
    return [f'.IP "\\fB{_text(left)}\\fR" {HANGING}', _text(text)]


def _paragraphs(text: str) -> list[str]:
    """Text as lines; what begins a line of the help begins one here."""
    lines = re.sub(r"(?<![.:?\n])\n(?!\n)", " ", text).split("\n")
    return [line for each in lines for line in ((_text(each), ".br") if each else (".PP",))][:-1]


def _text(text: str) -> str:
    """Text in which roff sees neither requests nor escapes."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{text}" if text[:1] in (".", "'") else text
