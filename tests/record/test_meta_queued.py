"""Input that may wait for a program that does not read."""

from __future__ import annotations

from pathlib import Path

from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.meta import TERMINAL_TAKES_BYTES, QueuedInput


def test_little_input_is_not_written_down_and_much_is_known_to_every_broker(tmp_path: Path) -> None:
    directory = SessionDirectory(tmp_path)
    QueuedInput(directory).bytes = TERMINAL_TAKES_BYTES
    assert not directory.queued.exists()
    QueuedInput(directory).bytes = TERMINAL_TAKES_BYTES + 1
    assert QueuedInput(directory).bytes == TERMINAL_TAKES_BYTES + 1
    QueuedInput(directory).bytes = 1
    assert QueuedInput(directory).bytes == 1
