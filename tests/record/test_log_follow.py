"""A session's files read onwards: bytes, and gaps and resizes at their places."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tmuxmcp.contract.follow import Gap, Output, Resize
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import Events
from tmuxmcp.record.log import FileFollower


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "out.raw").write_bytes(b"0123456789")
    return tmp_path


def follower_of(directory: Path, offset: int = 0) -> FileFollower:
    files = SessionDirectory(directory)
    return FileFollower(files, Events(files), offset)


def note(directory: Path, event: str, offset: int, **values: int) -> None:
    with (directory / "events.jsonl").open("a") as file:
        file.write(json.dumps({"time": "", "offset": offset, "event": event, **values}) + "\n")


def test_events_stand_between_the_bytes_around_them(directory: Path) -> None:
    note(directory, "gap", 4)
    note(directory, "input", 5)
    note(directory, "resize", 7, cols=30, rows=10)
    follower = follower_of(directory)
    found = [event for _ in range(5) for event in follower.read()]
    assert found == [Output(0, b"0123"), Gap(4, 4), Output(4, b"456"), Resize(7, 30, 10), Output(7, b"789")]


def test_pieces_are_bounded_and_what_is_added_comes_later(directory: Path) -> None:
    follower = follower_of(directory, 2)
    assert [follower.read(4) for _ in range(3)] == [[Output(2, b"2345")], [Output(6, b"6789")], []]
    assert not follower.has_more
    with (directory / "out.raw").open("ab") as file:
        file.write(b"ab")
    assert follower.has_more
    assert follower.read() == [Output(10, b"ab")]


def test_events_before_the_beginning_are_left_out_and_late_ones_come_late(directory: Path) -> None:
    note(directory, "gap", 1)
    follower = follower_of(directory, 3)
    assert follower.read() == [Output(3, b"3456789")]
    note(directory, "resize", 8, cols=30, rows=10)
    note(directory, "gap", 2)
    assert follower.read() == [Resize(8, 30, 10)]
    note(directory, "gap", 9)
    follower.skip_events()
    assert follower.read() == []


def test_half_a_line_and_nonsense_are_no_events(directory: Path) -> None:
    events = directory / "events.jsonl"
    line = b'{"offset": 10, "event": "gap"}\n'
    events.write_bytes(b'"gap"\n{"event": "gap"}\n{"event": "resize", "offset": 10, "cols": []}\n[]"gap"\n' + line[:9])
    follower = follower_of(directory, 10)
    assert follower.read() == []
    with events.open("ab") as file:
        file.write(line[9:])
    assert follower.read() == [Gap(10, 10)]


def test_a_head_that_is_no_longer_kept_is_a_gap(directory: Path) -> None:
    (directory / "out.base").write_text("100")
    follower = follower_of(directory, 20)
    assert follower.read() == [Gap(20, 100)]
    assert follower.read() == [Output(100, b"0123456789")]


def test_what_is_not_read_is_passed_over_with_its_events(directory: Path) -> None:
    note(directory, "gap", 4)
    follower = follower_of(directory)
    assert follower.pass_over() == [Gap(4, 4)]
    assert (follower.offset, follower.has_more) == (10, False)


def test_log_of_another_session_is_not_read(directory: Path) -> None:
    follower = follower_of(directory, 10)
    (directory / "out.raw").rename(directory / "earlier")
    (directory / "out.raw").write_bytes(b"something else, and longer")
    assert follower.replaced
    assert follower.read() == []
