"""What the marks said up to an offset."""

from __future__ import annotations

from pathlib import Path

import pytest

from tmuxmcp.record.checkpoint import Checkpoint
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.terminal.marks import ShellState, ShellTrack


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
