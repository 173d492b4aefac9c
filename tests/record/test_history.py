"""Screens of the past: right wherever all of the log can be read, and cheap to look around in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tmuxmcp.broker.broker import Broker
from tmuxmcp.record import history
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.history import History, of_session
from tmuxmcp.record.log import RawLog
from tmuxmcp.sessions import kept
from tmuxmcp.terminal.replay import Replay, SizeChange, blank


@pytest.fixture
def log(tmp_path: Path) -> RawLog:
    log = RawLog(SessionDirectory(tmp_path))
    log.create()
    return log


def lines(count: int) -> bytes:
    return b"".join(b"line %d\r\n" % number for number in range(count))


def test_a_screen_at_each_offset(log: RawLog) -> None:
    data = b"one\r\n\x1b[?1049hover\x1b[?1049l" * 4
    log.path.write_bytes(data)
    past = History(log, 20, 6)
    for offset in (0, 5, 30, len(data), 17):
        replay = Replay(blank(20, 6))
        replay.feed(data[:offset])
        found = past.screen_at(offset)
        assert (found.snapshot, found.certain) == (replay.snapshot(), True)
    assert past.screen_at(10**9).snapshot.offset == len(data)


def test_looking_around_reads_little(log: RawLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "KEYFRAME_BYTES", 1000)
    log.path.write_bytes(lines(3000))
    past = History(log, 20, 6)
    last = past.screen_at(30_000).snapshot
    read = 0
    original = log.read

    def counting(offset: int, size: int) -> bytes:
        nonlocal read
        read += size
        return original(offset, size)

    monkeypatch.setattr(log, "read", counting)
    assert past.screen_at(30_000).snapshot == last
    past.screen_at(29_500)
    assert read <= 2000


def test_work_and_memory_are_bounded(log: RawLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "REPLAY_BYTES", 5000)
    monkeypatch.setattr(history, "KEYFRAME_BYTES", 500)
    log.path.write_bytes(lines(3000))
    past = History(log, 20, 6)
    found = past.screen_at(30_000)
    assert not found.certain
    assert found.snapshot.text_rows() == History(log, 20, 6).screen_at(30_000).snapshot.text_rows()
    for offset in range(0, 30_000, 300):
        past.screen_at(offset)
    assert len(past._kept) <= history.KEYFRAMES


def test_a_change_of_size_is_a_screen_to_begin_with(log: RawLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "REPLAY_BYTES", 100)
    log.path.write_bytes(lines(300))
    past = History(log, 20, 6)
    past.resized(SizeChange(2000, 30, 3, blank(30, 3, 2000)))
    at, later = past.screen_at(2000), past.screen_at(2500)
    assert (at.certain, at.snapshot) == (True, blank(30, 3, 2000))
    assert (later.certain, later.snapshot.cols, later.snapshot.rows) == (False, 30, 3)


@pytest.mark.anyio
async def test_the_past_of_a_session_and_its_present(broker: Broker, state_dir: Path) -> None:
    await broker.create_session("bash", args=["--norc"], name="a")
    first = await broker.run("echo first", "a")
    await broker.resize(rows=10, cols=40, session_id="a")
    await broker.run("clear; seq 30", "a")
    shown = await broker.read("screen", "a", wait_for="ready")
    past = of_session(kept.find(state_dir, "a").directory)
    then, now = past.screen_at(first.end_offset), past.screen_at(10**9)
    assert then.certain
    assert "first" in then.snapshot.text_rows()
    assert (then.snapshot.cols, then.snapshot.rows) == (80, 24)
    assert (now.snapshot.cols, now.snapshot.rows) == (40, 10)
    assert "\n".join(now.snapshot.text_rows()).rstrip() == shown.content.rstrip()
