"""What the marks said up to an offset."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.levels import Checkpoint
from tmuxmcp.terminal.marks import Numbers, ShellState, ShellTrack


def test_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    directory = SessionDirectory(tmp_path)
    saved = Checkpoint("n0nce", 123, ShellTrack(state=ShellState.PROMPT))
    saved.save(directory)
    found = Checkpoint.load(directory)
    assert found
    assert (found.nonce, found.offset, found.track.as_dict()) == ("n0nce", 123, saved.track.as_dict())


@pytest.mark.parametrize("text", ["", "[]", "null", '{"nonce": "n0nce"}', '{"nonce": "", "offset": "x", "track": {}}'])
def test_checkpoint_that_cannot_be_read_is_none(text: str, tmp_path: Path) -> None:
    directory = SessionDirectory(tmp_path)
    assert Checkpoint.load(directory) is None
    directory.checkpoint.write_text(text)
    assert Checkpoint.load(directory) is None


def test_checkpoint_of_several_shells_has_all_of_them(tmp_path: Path) -> None:
    directory = SessionDirectory(tmp_path)
    inner = {"b": ShellTrack(state=ShellState.PROMPT, number=9)}
    Checkpoint("a", 5, ShellTrack(number=4), inner, Numbers(9, {"a": 3})).save(directory)
    found = Checkpoint.load(directory)
    assert found is not None
    assert (dict(found.inner), found.numbers) == (inner, Numbers(9, {"a": 3}))
    assert json.loads(directory.checkpoint.read_text())["format"] == 2  # who knows one shell alone does not read it


def test_checkpoint_of_one_shell_is_as_it_always_was(tmp_path: Path) -> None:
    directory = SessionDirectory(tmp_path)
    Checkpoint("a", 5, ShellTrack(number=4), {}, Numbers(4)).save(directory)
    assert set(json.loads(directory.checkpoint.read_text())) == {"nonce", "offset", "track"}
    found = Checkpoint.load(directory)
    assert found is not None
    assert found.numbers == Numbers(4)
