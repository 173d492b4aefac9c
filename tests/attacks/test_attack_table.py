"""The table of promises in the documentation names tests that exist, and tests of every kind of attack here."""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults.test_fault_table import ROOT, ROW, TEST, functions

PAGE = ROOT / "docs" / "explanation" / "security.md"
LEVELS = re.compile(r"\b(all|bubblewrap|landlock|limits|none)\b")


def rows() -> list[str]:
    table = PAGE.read_text().partition("## The table of promises")[2]
    return [row for row in ROW.findall(table) if not row.startswith(("| attack |", "| --- |"))]


def test_each_promise_says_where_it_holds_and_names_tests_that_exist() -> None:
    assert len(rows()) > 20
    for row in rows():
        _, held, _, tests = (cell.strip() for cell in row.strip("| ").replace("| |", "| - |").split(" | "))
        assert LEVELS.search(held), row
        named = TEST.findall(tests)
        assert named, row
        assert [name for file, name in named if name not in functions(ROOT / file)] == [], row


def test_each_file_of_attacks_is_in_the_table() -> None:
    text = "".join(rows())
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        if file.name != Path(__file__).name:
            assert f"tests/attacks/{file.name}::" in text, file.name
