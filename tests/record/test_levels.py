"""What is written down of adopted shells."""

from __future__ import annotations

import pytest

from tmuxmcp.contract.value import replace
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.levels import ENDED_LEVELS, AdoptionStage, Level, LevelFile


def test_levels_are_read_by_another_broker_once_they_change(directory: SessionDirectory):
    ours, theirs = LevelFile(directory), LevelFile(directory)
    assert not theirs.read() or theirs.value == ()
    asked = Level("a", 1, 5, AdoptionStage.ASKED, where="nested")
    ours.put(asked)
    assert theirs.read()
    assert theirs.value == (asked,)
    assert (asked.pending, asked.stands) == (True, False)
    adopted = replace(asked, stage=AdoptionStage.ADOPTED, pid=7, kind="dash", dialect="posix")
    ours.put(adopted, Level("b", 2, 9))
    assert theirs.read()
    assert not theirs.read()
    assert theirs.value == (adopted, Level("b", 2, 9))
    ours.forget("a")
    assert theirs.read()
    assert [each.nonce for each in theirs.value] == ["b"]


def test_levels_that_have_ended_are_kept_for_a_while(directory: SessionDirectory):
    file = LevelFile(directory)
    for number in range(ENDED_LEVELS + 5):
        file.put(Level(f"n{number}", 1, number, until=number + 1))
    file.put(Level("stands", 1, 99))
    assert [each.nonce for each in file.value] == [*(f"n{number}" for number in range(5, ENDED_LEVELS + 5)), "stands"]


@pytest.mark.parametrize("text", ["", "[]", '{"levels": [{"nonce": "a"}, 5]}', '{"format": 2, "levels": []}'])
def test_levels_that_cannot_be_read_are_none(directory: SessionDirectory, text: str):
    directory.levels.write_text(text)
    file = LevelFile(directory)
    file.read()
    assert file.value == ()
