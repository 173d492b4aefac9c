"""Locks between processes: held by one, or shared; waited for, but not for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from tmuxmcp.machine import locks

HOLDER = """import sys
from pathlib import Path
from tmuxmcp.machine.locks import open_lock, take
print(take(open_lock(Path(sys.argv[1])), shared=sys.argv[2] == "shared"), flush=True)
sys.stdin.read()"""


@contextmanager
def holder(path: Path, how: str = "alone") -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until it ends."""
    argv = [sys.executable, "-c", HOLDER, str(path), how]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "True\n"
        yield process
        process.kill()


async def test_lock_is_held_inside_and_let_go_of_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    async with locks.lock_within(path, patience_s=1) as taken:
        assert taken
        with locks.if_free(path) as free:
            assert not free
    with locks.if_free(path) as free:
        assert free
    assert path.stat().st_mode & 0o777 == 0o600


async def test_wait_for_a_lock_ends(tmp_path: Path) -> None:
    with holder(tmp_path / "lock"):
        begun = time.monotonic()
        async with locks.lock_within(tmp_path / "lock", patience_s=0.1) as taken:
            assert not taken
        assert 0.1 <= time.monotonic() - begun < 5


async def test_lock_comes_free_when_its_process_is_killed(tmp_path: Path) -> None:
    with holder(tmp_path / "lock") as process:
        async with anyio.create_task_group() as tg:
            tg.start_soon(anyio.to_thread.run_sync, process.kill)
            async with locks.lock_within(tmp_path / "lock", patience_s=30) as taken:
                assert taken


async def test_wait_for_a_lock_can_be_given_up(tmp_path: Path) -> None:
    with holder(tmp_path / "lock"):
        with anyio.move_on_after(0.05) as scope:
            async with locks.lock_within(tmp_path / "lock", patience_s=30):
                pytest.fail("somebody else holds it")
        assert scope.cancelled_caught


async def test_shared_lock_keeps_out_only_who_wants_it_alone(tmp_path: Path) -> None:
    with holder(tmp_path / "lock", "shared"):
        async with locks.lock_within(tmp_path / "lock", patience_s=1, shared=True) as taken:
            assert taken
        with locks.if_free(tmp_path / "lock") as free:
            assert not free


def test_lock_that_is_not_there_is_not_made_unasked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        locks.open_lock(tmp_path / "lock", make=False)
    assert os.listdir(tmp_path) == []
