"""The lists of `docs/project/contributing.md`: what a change touches is there, and a word of it stands nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.sources import FILES, PACKAGE, nodes
from tmuxmcp.machine.launch.shells import ADOPTABLE, BY_FILE

PAGE = Path(__file__).parents[1] / "docs" / "project" / "contributing.md"

SECTIONS = dict(re.findall(r"^#### (.*?)\n(.*?)(?=^#)", PAGE.read_text(), re.MULTILINE | re.DOTALL))

WORDS = {
    # section: words of what is there now, and files that use such a word for something else
    "A shell": (
        ("fish", "zsh"),
        ("faces/cli/arguments.py", "faces/cli/completion.py"),
    ),  # shells whose completion is written
    "A view": (
        ("diff", "scrollback"),
        ("broker/programs/gitwork.py", "broker/lifecycle.py", "tmux/panes.py"),
    ),  # git's, the size of tmux's
    "A sandbox level": (("landlock", "bubblewrap"), ()),
    "A file of the session directory": (("out.raw", "events.jsonl"), ()),
}


SHELL_NAMES = re.compile(r"(?<![\w.-])(?:" + "|".join(sorted({*BY_FILE, *ADOPTABLE} - {"sh"})) + r")(?![\w-])")
"""`sh` is what starts our scripts."""

NAMED_SHELLS = {
    "faces/cli/arguments.py": "completes words in three of them",
    "faces/cli/completion.py": "writes a script for each of these",
    "config.py": "a setting is about two of them",
    "contract/guesses.py": "what a model may call `run`",
    "faces/cli/demo.py": "shows a session in one",
    "faces/cli/doctor/__init__.py": "says what to write into the settings",
    "gate/policy/shelltext.py": "reads what they are given, in a process of its own",
    "gate/policy/wrappers.py": "runs the command of its arguments, and the file that ENV names",
    "machine/witness/kernel.py": "is many programs, most of them no shells",
    "record/directory.py": "says what a file is for",
    "terminal/keys.py": "a word for `-`",
    "terminal/modes.py": "pure, and knows programs that are in no record",
    "terminal/film/formats.py": "pure: in which of them a script is written",
}
"""Files outside `machine/launch/` that name shells, and why."""


def files_of(section: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)`", SECTIONS[section], re.MULTILINE)


def files_with(word: str) -> Iterator[str]:
    """Files in which the word stands as a string of its own."""
    for file in FILES:
        if any(isinstance(node, ast.Constant) and node.value == word for node in nodes(file)):
            yield file.relative_to(PACKAGE).as_posix()


def test_there_are_six():
    assert len(SECTIONS) == 6
    assert all(files_of(section) for section in SECTIONS)


@pytest.mark.parametrize("section", SECTIONS)
def test_files_that_are_named_exist(section: str):
    assert not [name for name in files_of(section) if not (PACKAGE / name).exists()]


@pytest.mark.parametrize("section", WORDS)
def test_words_of_a_thing_stand_where_the_page_says(section: str):
    words, others = WORDS[section]
    named = (*files_of(section), *others)
    for word in words:
        found = set(files_with(word))
        assert found, f"{word!r} is spelled otherwise now: choose another word of {section}"
        odd = [file for file in found if not file.startswith(named)]
        assert not odd, f"{word!r} stands in {odd} too: {section} in {PAGE.name} does not say so"


def names_shells(file: Path) -> bool:
    """Whether a string does, other than a docstring."""
    described = {node.value for node in nodes(file) if isinstance(node, ast.Expr)}
    strings = (node for node in nodes(file) if isinstance(node, ast.Constant) and node not in described)
    return any(isinstance(node.value, str) and SHELL_NAMES.search(node.value) for node in strings)


def test_shells_are_named_in_their_records_and_where_there_is_a_reason():
    found = {file.relative_to(PACKAGE).as_posix() for file in FILES if names_shells(file)}
    assert {each for each in found if not each.startswith("machine/launch/")} == NAMED_SHELLS.keys()


def test_an_operation_is_written_where_the_page_says():
    found = {
        file.relative_to(PACKAGE).as_posix()
        for file in FILES
        for node in nodes(file)
        if isinstance(node, ast.ClassDef | ast.Attribute | ast.Name)
        and (getattr(node, "name", "") or getattr(node, "attr", "") or getattr(node, "id", "")) == "Screenshot"
    }
    named = {"contract/requests.py", "contract/operations.py", "broker/screenshot.py"}
    assert found - {"gate/target.py"} == named, "of these the shortcut of `target` alone: it asks tmux itself"
