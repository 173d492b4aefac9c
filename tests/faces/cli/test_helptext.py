"""The command line says what to do in its own words: its verbs and options, never those of the operations."""

from __future__ import annotations

import ast
import re
import shlex
from functools import cache

import pytest

from tests.kit.sources import FILES, PACKAGE, nodes
from tmuxmcp.faces.cli.arguments import VERBS as VERBS_THERE_ARE
from tmuxmcp.faces.cli.arguments import parse
from tmuxmcp.faces.cli.helptext import VERB_OF, in_cli_words

SILENT = {"cli", "demo", "doctor", "faces", "nodes", "page"}
"""Rooms whose texts are the command line's own, or not printed there."""

FOREIGN = re.compile(
    r"\b(?:create_session|destroy_session|list_sessions|get_session|list_commands|(?:start|stop|export)_recording|session_id|next_offset)\b"
    r"|\b(?:wait_for|view|format|since)=|(?<!-)\bkey C-c|\bsignal INT|(?<!TMUXMCP_)\bprompt_pattern\b"
    r"|\b(?:[Uu]se|with) send\b|(?<!tmuxmcp )\bread (?:still gives|again)|`read` gives|`text`|(?<!-)\bmax_bytes\b"
    r"|\blist_directory\b|\bgo into args\b|\bas cwd\b|\ban element\b|\bread shows\b|\bforce still\b|\bwith program\b"
)
NOT_SAID = {
    "record/excerpt.py",  # stands in the text of a read, which is the same everywhere
    "machine/files.py",  # of the file tools, which the command line has no verbs for
    "contract/guesses.py",  # of arguments that a tool does not have
    "gate/policy/judge.py",  # names of tools, which policies are written with
}


@cache
def sentences() -> list[tuple[str, str]]:
    """Each text of the source that is no docstring and has more than one word, and where it stands."""
    found = []
    for file in FILES:
        where = file.relative_to(PACKAGE)
        if len(where.parts) == 1 or where.parts[0] in SILENT or where.as_posix() in NOT_SAID:
            continue
        apart = {id(each.value) for each in nodes(file) if isinstance(each, ast.Expr)}
        apart |= {id(part) for each in nodes(file) if isinstance(each, ast.JoinedStr) for part in each.values}
        for each in nodes(file):
            if isinstance(each, ast.JoinedStr):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "7" for part in each.values)
            elif isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in apart:
                text = each.value
            else:
                continue
            if " " in text:
                found.append((where.as_posix(), text))
    return found


def test_no_hint_or_note_speaks_of_operations():
    said = [(where, text) for where, text in sentences() if FOREIGN.search(text)]
    assert len(said) > 20
    assert [(where, in_cli_words(text)) for where, text in said if FOREIGN.search(in_cli_words(text))] == []


def test_each_verb_exists():
    assert set(VERB_OF.values()) <= set(VERBS_THERE_ARE)
    named = {verb for _, text in sentences() for verb in re.findall(r"`tmuxmcp ([a-z]+)", in_cli_words(text))}
    assert {"new", "list", "history", "read", "send"} <= named <= set(VERBS_THERE_ARE)


def test_what_is_to_be_typed_can_be_typed():
    """Each command line in a hint has a verb that exists, and options that this verb has."""
    typed = {line for _, text in sentences() for line in re.findall(r"`tmuxmcp ([^`]+)`", in_cli_words(text))}
    assert len(typed) > 15
    for line in typed:
        verb, *words = shlex.split(line)
        parser = parse([verb] if verb != "search" else [verb, "x"]).parser
        for word in words:
            assert not word.startswith("-") or word in parser.options, line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Sessions are: none. Make one with create_session.", "Sessions are: none. Make one with `tmuxmcp new`."),
        ("destroy_session needs a session_id.", "`tmuxmcp kill` needs an ID."),
        (
            "There is no program 'a b'. Hint: Check the spelling and PATH; arguments go into args.",
            "There is no program 'a b'. Hint: Check the spelling and PATH; arguments are words of their own.",
        ),
        ("There is no 'x'. Hint: list_directory shows what is there.", "There is no 'x'. Hint: Check the path."),
        (
            "read shows what happens meanwhile; try again once the person has released it. force still ends it.",
            "`tmuxmcp view ID` shows what happens meanwhile; try again once the person has released it. "
            "`tmuxmcp release ID` does that, `tmuxmcp kill ID --force` still ends it.",
        ),
        ("list_sessions gives them.", "`tmuxmcp list` gives them."),
        (
            "bash waits for a line: answer with send",
            "bash waits for a line: answer with `tmuxmcp send ID TEXT --enter`",
        ),
        ("then read wait_for=command gives it", "then `tmuxmcp read ID --wait command` gives it"),
        ("`read view=screen` gives the text.", "`tmuxmcp read ID --view screen` gives the text."),
        ("send `set -o emacs` and Enter.", "`tmuxmcp send ID 'set -o emacs' --enter`."),
    ],
)
def test_operations_become_verbs(text, said):
    assert in_cli_words(text) == said
    assert in_cli_words(said) == said


@pytest.mark.parametrize(
    "text",
    [
        "There is no session 'with create_session'.",
        "Sessions are: list_sessions, read, view. Raise log_max_bytes.",
        "'view=screen' cannot be sent: no key has this name.",
    ],
)
def test_what_a_person_named_stays_as_it_is(text):
    assert in_cli_words(text) == text
