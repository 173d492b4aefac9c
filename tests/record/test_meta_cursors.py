"""How far each caller has read."""

from __future__ import annotations

from pathlib import Path

from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.meta import Cursors


def test_cursor_is_found_by_the_next_broker(tmp_path: Path) -> None:
    directory = SessionDirectory(tmp_path)
    cursors = Cursors(directory, directory.cursors)
    assert cursors.of("me") == 0
    for offset in (12_345, 7):
        cursors.move("me", offset)
        assert cursors.of("me") == Cursors(directory, directory.cursors).of("me") == offset
    assert Cursors(directory, directory.cursors).of("another") == 0


def test_cursor_that_cannot_be_read_is_at_the_beginning(tmp_path: Path) -> None:
    directory = SessionDirectory(tmp_path)
    directory.cursors.mkdir()
    (directory.cursors / "me").write_text("garbage")
    assert Cursors(directory, directory.cursors).of("me") == 0
