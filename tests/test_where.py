"""The lists of `docs/project/contributing.md`: what a change touches is there, and a word of it stands nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import FILES, PACKAGE, nodes

PAGE = Path(__file__).parents[1] / "docs" / "project" / "contributing.md"

SECTIONS = dict(re.findall(r"^#### (.*?)\n(.*?)(?=^#)", PAGE.read_text(), re.MULTILINE | re.DOTALL))

WORDS = {
    # section: words of what is there now, and files that use such a word for something else
    "A shell": (("fish", "zsh"), ("cli/arguments.py", "cli/completion.py")),  # shells whose completion is written
    "A view": (
        ("diff", "scrollback"),
        ("git/work.py", "broker/verbs.py", "tmux/panes.py"),
    ),  # git's, the size of tmux's
    "A sandbox level": (("landlock", "bubblewrap"), ()),
    "A file of the session directory": (("out.raw", "events.jsonl"), ()),
}


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


def test_an_operation_is_written_where_the_page_says():
    found = {
        file.relative_to(PACKAGE).as_posix()
        for file in FILES
        for node in nodes(file)
        if isinstance(node, ast.ClassDef | ast.Attribute | ast.Name)
        and (getattr(node, "name", "") or getattr(node, "attr", "") or getattr(node, "id", "")) == "Screenshot"
    }
    assert found >= {"contract/requests.py", "contract/operations.py", "broker/verbs.py"}
    assert found - {"contract/requests.py", "contract/operations.py", "broker/verbs.py"} <= {
        "gate/target.py",  # its own shortcut: it asks tmux itself
        "reading/screenshot.py",
    }
