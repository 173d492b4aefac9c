"""Which commands each caller was told of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.meta import MOST_BEYOND, ReportedCallers, ReportedCommands


def test_what_a_caller_was_told_of_is_found_by_the_next_broker(tmp_path: Path) -> None:
    directory = SessionDirectory(tmp_path)
    callers = ReportedCallers(directory)
    assert callers.of("me") == ReportedCommands()
    for told in (ReportedCommands(3, frozenset({5, 900})), ReportedCommands(7), ReportedCommands(7, frozenset({9}))):
        callers.tell("me", told)
        assert callers.of("me") == ReportedCallers(directory).of("me") == told
    assert ReportedCallers(directory).of("another") == ReportedCommands()


@pytest.mark.parametrize("text", ["", "x", "\n", "1 x\n"])
def test_a_file_that_cannot_be_read_tells_of_nothing(tmp_path: Path, text: str) -> None:
    directory = SessionDirectory(tmp_path)
    directory.told.mkdir()
    (directory.told / "me").write_text(text)
    assert ReportedCallers(directory).of("me") == ReportedCommands()


def test_numbers_in_a_row_become_one() -> None:
    ended = [2, 3, 7]
    told = ReportedCommands(1).also(7, ended)
    assert told == ReportedCommands(1, frozenset({7}))
    assert [told.knows(number) for number in (1, 2, 7)] == [True, False, True]
    assert told.also(2, ended) == ReportedCommands(2, frozenset({7}))
    assert told.also(2, ended).also(3, [3, 7]) == ReportedCommands(7)


def test_what_was_not_told_after_all_is_taken_out() -> None:
    ended = [2, 3, 7, 8]
    assert ReportedCommands(7).without([3], [3, 7, 8]) == ReportedCommands(2, frozenset({7}))
    assert ReportedCommands(7).without([2, 3, 7], ended) == ReportedCommands(1)
    assert ReportedCommands(3, frozenset({8})).without([8], [8]) == ReportedCommands(3)
    told = ReportedCommands(3, frozenset({8})).without([3], [3, 7, 8])
    assert [told.knows(number) for number in ended] == [True, False, False, True]


def test_what_is_kept_one_by_one_is_bounded() -> None:
    told = ReportedCommands()
    for number in range(2, 500):
        told = told.also(number, range(1, number + 1))
    assert len(told.beyond) == MOST_BEYOND
    assert told.knows(499)
    assert told.through == 499 - MOST_BEYOND
