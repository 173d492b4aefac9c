"""The table of faults in the documentation names tests that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "faults.md"
ROW = re.compile(r"^\|(?! fault |---).*\|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cache
def functions(file: Path) -> set[str]:
    return set(re.findall(r"^(?:async )?def (\w+)\(", file.read_text(), re.MULTILINE))


def test_each_row_names_tests_that_exist() -> None:
    rows = ROW.findall(PAGE.read_text())
    assert len(rows) > 20
    for row in rows:
        named = TEST.findall(row.rsplit("|", 2)[1])
        assert named, row
        assert [name for file, name in named if name not in functions(ROOT / file)] == [], row


def test_each_test_of_this_room_is_in_the_table() -> None:
    text = PAGE.read_text()
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        if file.name != Path(__file__).name:
            assert f"tests/faults/{file.name}::" in text
