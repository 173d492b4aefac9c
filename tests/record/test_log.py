"""The raw log, and who is told when one grows or is closed."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from tests.conftest import SLOW, eventually
from tmuxmcp.contract.errors import IoError
from tmuxmcp.record import log as module
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.log import LOG_READ_BYTES, LogWatcher, RawLog

# ---- the file ------------------------------------------------------------------------------------


def test_new_log_is_empty_and_private(tmp_path: Path) -> None:
    log = RawLog(SessionDirectory(tmp_path))
    log.create()
    assert log.path.stat().st_mode & 0o777 == 0o600
    assert (log.size(), log.head(), log.read(0, 10), list(log.pieces(0, 10))) == (0, 0, b"", [])
    with pytest.raises(IoError):
        log.create()


def test_log_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    log = RawLog(SessionDirectory(tmp_path))
    assert (log.size(), log.head(), log.read(0, 10), list(log.pieces(0, 10))) == (0, 0, b"", [])
    assert log.written() == (0, 0.0)


def test_read_and_pieces(tmp_path: Path) -> None:
    log = RawLog(SessionDirectory(tmp_path))
    text = os.urandom(2 * LOG_READ_BYTES + 5)
    log.path.write_bytes(text)
    assert log.size() == len(text)
    assert log.read(3, 4) == text[3:7]
    assert log.read(len(text) - 2, 10) == text[-2:]
    assert [len(piece) for piece in log.pieces(1, len(text))] == [LOG_READ_BYTES, LOG_READ_BYTES, 4]
    assert b"".join(log.pieces(7, LOG_READ_BYTES + 9)) == text[7 : LOG_READ_BYTES + 9]


def test_a_read_makes_room_for_no_more_than_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = RawLog(SessionDirectory(tmp_path))
    log.path.write_bytes(b"0123456789")
    asked: list[int] = []
    original = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: asked.append(size) or original(fd, size, at))
    assert (log.read(2, LOG_READ_BYTES), log.read(12, LOG_READ_BYTES)) == (b"23456789", b"")
    assert asked == [8, 0]


def test_a_short_piece_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = RawLog(SessionDirectory(tmp_path))
    log.path.write_bytes(b"0123456789")
    assert log.read(2, 6) == b"234567"
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", lambda *_: pytest.fail("it was opened again"))
        assert (log.read(2, 6), log.read(4, 2), log.read(8, 0)) == (b"234567", b"45", b"")
    assert (log.read(2, 20), log.read(0, 3)) == (b"23456789", b"012")
    with log.path.open("ab") as file:
        file.write(b"ab")
    assert log.read(2, 20) == b"23456789ab"


def test_offsets_are_true_where_the_head_was_given_back(tmp_path: Path) -> None:
    log = RawLog(SessionDirectory(tmp_path))
    with log.path.open("wb") as file:  # a hole of 1 MiB
        file.seek(1 << 20)
        file.write(b"kept")
    assert (log.head(), log.size()) == (1 << 20, (1 << 20) + 4)
    assert log.read(0, 10) == log.read((1 << 20) - 1, 10) == b""
    assert log.read(1 << 20, 10) == b"kept"


def test_offsets_are_true_where_the_log_was_emptied(tmp_path: Path) -> None:
    log = RawLog(SessionDirectory(tmp_path))
    log.path.write_bytes(b"kept")
    (tmp_path / "out.base").write_text("1000\n")
    assert (log.head(), log.size(), log.read(999, 9), log.read(1001, 2)) == (1000, 1004, b"", b"ep")
    assert log.written() == (1004, log.path.stat().st_mtime)


# ---- who is told ---------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["inotify", "polling"])
async def watcher(anyio_backend: str, request: pytest.FixtureRequest) -> AsyncIterator[LogWatcher]:
    made = LogWatcher(inotify=request.param)
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(made.run)
        yield made
        task_group.cancel_scope.cancel()
    made.close()


@contextmanager
def writer(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    yield fd
    os.close(fd)


async def test_growth_is_told_to_those_who_wait(watcher: LogWatcher, tmp_path: Path) -> None:
    path = tmp_path / "log"
    with writer(path) as fd:
        growth = watcher.add(path)
        assert watcher.add(path) is growth
        for _ in range(3):
            with watcher.waiting(path), watcher.waiting(path) as waiting, anyio.fail_after(2 * SLOW):
                assert waiting is growth
                change = growth.next_change()
                os.write(fd, b"x")
                await change.wait()


async def test_closing_is_told(watcher: LogWatcher, tmp_path: Path) -> None:
    path = tmp_path / "log"
    with writer(path):
        growth = watcher.add(path)
        change = growth.next_change()
    with anyio.fail_after(3 * SLOW):
        await watcher.closed.wait()
        await change.wait()
    assert watcher.closed_paths == {path}


async def test_removal_wakes_those_who_wait(watcher: LogWatcher, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    growth = watcher.add(path)
    with watcher.waiting(path):
        change = growth.next_change()
        watcher.remove(path)
        with anyio.fail_after(2 * SLOW):
            await change.wait()
    with watcher.waiting(path) as other:
        assert other is not growth
    watcher.remove(path)


async def test_those_who_waited_on_a_former_log_do_not_end_the_watch_on_the_next(
    watcher: LogWatcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SINKS_S", 3600)  # that would tell it as well
    path = tmp_path / "log"
    path.touch()
    watcher.add(path)
    with watcher.waiting(path):
        watcher.remove(path)
        path.rename(tmp_path / "log.1")
        path.touch()
        growth = watcher.add(path)
        outer = watcher.waiting(path)
        outer.__enter__()
    change = growth.next_change()
    with writer(path) as fd:
        os.write(fd, b"x")
        with anyio.fail_after(5 * SLOW):
            await change.wait()
    outer.__exit__(None, None, None)


async def test_log_that_is_gone_can_be_watched(watcher: LogWatcher, tmp_path: Path) -> None:
    growth = watcher.add(tmp_path / "gone")
    with watcher.waiting(tmp_path / "gone") as waiting:
        assert waiting is growth


async def test_dropped_events_wake_everybody(tmp_path: Path) -> None:
    watcher = LogWatcher()
    if not watcher._inotify:
        pytest.skip("needs inotify")
    with open("/proc/sys/fs/inotify/max_queued_events") as file:  # noqa: ASYNC230 - no disk is read
        limit = int(file.read())
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path in paths:
        path.touch()
    changes = [watcher.add(path).next_change() for path in paths]
    with watcher.waiting(paths[0]), watcher.waiting(paths[1]), writer(paths[0]) as a, writer(paths[1]) as b:
        for _ in range(limit // 2 + 10):  # in turns: equal events are joined
            os.write(a, b"x")
            os.write(b, b"x")
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(watcher.run)
        await eventually(lambda: watcher.closed_paths == set(paths))
        assert all(change.is_set() for change in changes)
        task_group.cancel_scope.cancel()
    watcher.close()


async def test_log_is_polled_when_the_system_gives_no_more_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = LogWatcher()
    if not watcher._inotify:
        pytest.skip("needs inotify")

    def none_left(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(watcher._inotify, "add_watch", none_left)
    path = tmp_path / "log"
    path.touch()
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(watcher.run)
        growth = watcher.add(path)
        with watcher.waiting(path), writer(path) as fd, anyio.fail_after(2 * SLOW):
            change = growth.next_change()
            os.write(fd, b"x")
            await change.wait()
        task_group.cancel_scope.cancel()
    watcher.close()


async def test_watcher_that_is_closed_listens_no_more() -> None:
    watcher = LogWatcher()
    if not watcher._inotify:
        pytest.skip("needs inotify")
    async with anyio.create_task_group() as task_group:
        watcher.close()  # as while it pauses in a flood
        task_group.start_soon(watcher.run)
        await anyio.lowlevel.checkpoint()
        task_group.cancel_scope.cancel()


async def test_watcher_that_is_closed_lets_go_of_logs(tmp_path: Path) -> None:
    """Its server ends, and sessions are let go of after it."""
    watcher = LogWatcher()
    log = tmp_path / "log"
    log.touch()
    watcher.add(log)
    with watcher.waiting(log):
        watcher.close()
    watcher.remove(log)
    assert not watcher.watches(log)
