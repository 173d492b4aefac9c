"""The sink by itself, with a pipe where tmux would be: bounded, exact, and hard to kill."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import psutil
import pytest

from tests.conftest import SLOW, eventually
from tests.kit.disks import a_small_disk
from tests.kit.panes import SENTINEL, launch_pane
from tmuxmcp.machine.launch.launch import LAUNCH_ROOM
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import GapEvent, decode, encode
from tmuxmcp.record.log import RawLog
from tmuxmcp.record.meta import sink_of
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.server import Tmux

MAX = 1 << 20
RECORD = 16


def stream(start: int, size: int) -> bytes:
    """A stretch of an endless text in which every place is another: records that hold their own offset."""
    first = start // RECORD
    count = (start + size) // RECORD - first + 1
    text = b"".join(b"%015d\n" % (number * RECORD) for number in range(first, first + count))
    return text[start - first * RECORD :][:size]


class Sink:
    """A running sink and what was fed to it."""

    def __init__(self, directory: Path, env: dict[str, str], max_bytes: int = MAX) -> None:
        self.log = RawLog(SessionDirectory(directory))
        self.directory = directory
        argv = ["/bin/sh", str(LAUNCH_ROOM / "sink.sh"), str(directory), str(max_bytes), "1"]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, env={**os.environ, **env})
        self.fed = self.log.size()

    async def feed(self, size: int) -> None:
        """Write so much more of the stream and wait until the sink took it."""
        stdin = self.process.stdin
        assert stdin
        data = stream(self.fed, size)
        await anyio.to_thread.run_sync(lambda: (stdin.write(data), stdin.flush()))
        self.fed += size
        await eventually(lambda: self.log.size() == self.fed, 20)

    def end(self) -> int:
        assert self.process.stdin
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        return self.process.wait(10 * SLOW)

    def disk(self) -> int:
        return os.stat(self.log.path).st_blocks * 512

    async def kept_is_true(self) -> None:
        """What is still there has its true offset, and what is not reads as nothing."""
        head, data = await eventually(self.kept)
        assert data == stream(head, len(data))
        if head:
            assert self.log.read(0, 100) == b""
            assert self.log.read(head - 1, 100) == b""

    def kept(self) -> tuple[int, bytes] | None:
        """The head and every byte behind it; `None` where the sink cut in between: a log that is cut is empty first."""
        head, size = self.log.head(), self.log.size()
        data = b"".join(self.log.pieces(head, size))
        same = (self.log.head(), self.log.size()) == (head, size) == (head, head + len(data))
        return (head, data) if same and size >= self.fed else None


def without_holes(tmp_path: Path) -> dict[str, str]:
    return {"TMUXMCP_HOLES": "no"}


def with_holes(tmp_path: Path) -> dict[str, str]:
    return {}


def busybox(tmp_path: Path) -> dict[str, str]:
    """A system that has nothing but busybox."""
    path = shutil.which("busybox")
    if not path:
        pytest.skip("needs busybox")
    links = tmp_path / "bin"
    links.mkdir()
    for name in ("sh", "dd", "tail", "cat", "mv", "rm", "ls", "date", "fallocate"):
        (links / name).symlink_to(path)
    return {"PATH": str(links)}


@pytest.fixture(params=[with_holes, without_holes, busybox], ids=lambda mode: mode.__name__)
def env(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    mode: Callable[[Path], dict[str, str]] = request.param
    return mode(tmp_path)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A session's directory with an empty log; its name is awkward."""
    path = tmp_path / "a %H #(id) 'dir\""
    path.mkdir()
    RawLog(SessionDirectory(path)).create()
    return path


async def test_log_is_bounded_with_true_offsets(directory: Path, env: dict[str, str]) -> None:
    sink = Sink(directory, env)
    for size in (1, 70_001, 3 * MAX, 5, 999_999, 10 * MAX, 123):
        left = size
        while left:
            await sink.feed(min(left, MAX // 2))
            left -= min(left, MAX // 2)
            assert sink.disk() < 1.5 * MAX
        await sink.kept_is_true()
    head = sink.log.head()
    assert sink.fed - head >= MAX // 4
    assert sink.end() == 0
    assert sink.log.size() == sink.fed
    assert not (directory / "out.keep").exists()


async def test_next_sink_goes_on_where_the_last_one_ended(directory: Path, env: dict[str, str]) -> None:
    for _ in range(4):
        sink = Sink(directory, env)
        for _ in range(5):
            await sink.feed(MAX // 3 + 17)
        assert sink.end() == 0
        assert sink.disk() < 1.5 * MAX
        await sink.kept_is_true()
    assert sink.fed == 20 * (MAX // 3 + 17)


async def test_reader_never_sees_wrong_bytes_while_the_sink_cuts(directory: Path, env: dict[str, str]) -> None:
    """Not even zeros: it is told nothing where the head is gone."""
    sink = Sink(directory, env)
    reads = 0

    async def read_on() -> None:
        nonlocal reads
        position = 0
        while True:
            data = sink.log.read(position, 40_000)
            assert data == stream(position, len(data)), position
            position += len(data)
            reads += bool(data)
            if not data and position < sink.log.head():
                position = sink.log.head()
            # Some way behind, where the cuts are.
            position = max(sink.log.head(), position - 100_000) if position == sink.log.size() else position
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(read_on)
        for _ in range(30):
            await sink.feed(MAX // 3)
        task_group.cancel_scope.cancel()
    assert reads > 20
    sink.end()


def copier(sink: Sink) -> psutil.Process | None:
    with suppress(psutil.NoSuchProcess):  # it changes while we look
        return next((child for child in psutil.Process(sink.process.pid).children() if child.name() == "dd"), None)
    return None


async def test_killed_copier_is_replaced_and_told(directory: Path) -> None:
    sink = Sink(directory, {})
    await sink.feed(1000)
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        killed = await eventually(lambda: copier(sink))
        # dd looks for SIGINT, then reads: in between it would come too late for a read that waits.
        await eventually(lambda dd=killed: dd.status() == psutil.STATUS_SLEEPING)
        killed.send_signal(number)
        await eventually(lambda old=killed: copier(sink) not in (None, old))
        await sink.feed(5000)
    await sink.kept_is_true()
    lines = (directory / "events.jsonl").read_bytes().splitlines(keepends=True)
    events = [decode(line) for line in lines]
    assert events == [GapEvent(event.time, offset) for event, offset in zip(events, (1000, 6000, 11_000), strict=True)]
    assert [encode(event) for event in events] == lines
    assert all(event.time.startswith("20") for event in events)
    assert sink.end() == 0


async def test_stopping_and_going_on_loses_nothing(directory: Path) -> None:
    sink = Sink(directory, {})
    for _ in range(10):
        process = await eventually(lambda: copier(sink))
        with suppress(psutil.NoSuchProcess):  # each of them ends after a while
            process.suspend()
            process.resume()
        await sink.feed(300_000)
    await sink.kept_is_true()
    assert sink.end() == 0


async def test_process_id_is_written_down(directory: Path) -> None:
    sink = Sink(directory, {})
    await sink.feed(1)
    assert (directory / "sink.pid").read_text() == f"{sink.process.pid} 1\n"
    assert (directory / "sink.pid").stat().st_mode & 0o777 == 0o600
    sink.end()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    with a_small_disk(tmp_path / "disk", "512k") as path:
        yield path


async def test_full_disk_ends_it(small_disk: Path) -> None:
    RawLog(SessionDirectory(small_disk)).create()
    sink = Sink(small_disk, {})
    stdin = sink.process.stdin
    assert stdin
    with suppress(BrokenPipeError):
        await anyio.to_thread.run_sync(lambda: (stdin.write(stream(0, MAX)), stdin.flush()))
    assert sink.end() == 1
    await sink.kept_is_true()


async def test_pane_is_bounded_while_no_broker_runs(tmux: Tmux) -> None:
    code = """import sys
for start in range(0, 12_000_000, 16_000):
    sys.stdout.write("".join("%014d\\n" % number for number in range(start, start + 16_000, 16)))"""
    launched = await launch_pane(tmux, [sys.executable, "-IS", "-c", code], log_max_bytes=MAX)
    pane = await launched.ended(30)
    assert pane.exit_code == 0
    files = SessionDirectory(launched.directory)
    await panes.kill_session(tmux, pane)
    await eventually(lambda: not sink_of(files).alive)  # it cuts no more
    log = RawLog(files)
    assert os.stat(log.path).st_blocks * 512 < 1.5 * MAX
    text = SENTINEL.sub(b"", b"".join(log.pieces(log.head(), log.size())))
    assert len(text) >= MAX
    first = -log.head() % RECORD
    # 14 digits and a line end of two bytes: the digits are the offset.
    assert all(int(text[at : at + 14]) == log.head() + at for at in range(first, len(text) - RECORD, RECORD))
