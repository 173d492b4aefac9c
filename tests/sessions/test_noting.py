"""A caller keeps its identity through kills, and shares it with nobody who lives."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tmuxmcp.sessions import noting

HOLDER = """import sys
from pathlib import Path
from tmuxmcp.sessions.noting import claim_name
print(claim_name(Path(sys.argv[1]), sys.argv[2]), flush=True)
sys.stdin.read()"""


@contextmanager
def holder(state_dir: Path, key: str) -> Iterator[str]:
    """Another process that claims an identity, until it is killed."""
    argv = [sys.executable, "-c", HOLDER, str(state_dir), key]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def _claims_end_with_the_test() -> Iterator[None]:
    """A claim lasts as long as its process; here it is the test's."""
    before = set(os.listdir("/dev/fd"))
    yield
    for fd in set(os.listdir("/dev/fd")) - before:
        try:
            if "/callers/" in os.readlink(f"/dev/fd/{fd}"):
                os.close(int(fd))
        except OSError:
            pass  # the descriptor of listdir itself


def test_killed_caller_is_known_again(tmp_path: Path) -> None:
    with holder(tmp_path, "key") as first:
        assert noting.is_alive(tmp_path, first)
    assert not noting.is_alive(tmp_path, first)
    assert noting.claim_name(tmp_path, "key") == first
    assert noting.is_alive(tmp_path, first)


def test_two_that_live_differ_and_each_is_known_again(tmp_path: Path) -> None:
    with holder(tmp_path, "key") as first:
        with holder(tmp_path, "key") as second, holder(tmp_path, "other") as other:
            assert len({first, second, other}) == 3
        with holder(tmp_path, "key") as again:
            assert again == second
        assert noting.is_alive(tmp_path, first)


def test_identity_can_be_a_files_name(tmp_path: Path) -> None:
    for key in ("", "../..", "a/b", "\0", "\udcff", "x" * 10_000):
        name = noting.claim_name(tmp_path, key)
        assert name.replace("-", "").isalnum()
        assert (tmp_path / "callers" / name).exists()


def test_unknown_identity_is_not_alive(tmp_path: Path) -> None:
    assert not noting.is_alive(tmp_path, "nobody-0")


def test_those_who_look_do_not_see_each_other(tmp_path: Path) -> None:
    with holder(tmp_path, "key") as name:
        pass
    with open(tmp_path / "callers" / name) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert not noting.is_alive(tmp_path, name)


def test_look_does_not_cost_the_identity(tmp_path: Path) -> None:
    with holder(tmp_path, "key") as name:
        pass
    fd = os.open(tmp_path / "callers" / name, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_SH)
    timer = threading.Timer(0.1, os.close, [fd])  # whoever looks may be stopped for a moment
    timer.start()
    claimed = noting.claim_name(tmp_path, "key")
    timer.join()
    assert claimed == name


def test_old_files_are_forgotten_but_not_those_in_use(tmp_path: Path) -> None:
    with holder(tmp_path, "gone") as gone, holder(tmp_path, "here") as here:
        pass
    with holder(tmp_path, "here") as again:
        assert again == here
        long_ago = time.time() - noting.IDENTITY_FORGOTTEN_S - 10
        for name in (gone, here):
            os.utime(tmp_path / "callers" / name, (long_ago, long_ago))
        new = noting.claim_name(tmp_path, "new")
        assert sorted(os.listdir(tmp_path / "callers")) == sorted([here, new])
        assert noting.is_alive(tmp_path, here)


def test_claim_makes_a_file_young_again(tmp_path: Path) -> None:
    with holder(tmp_path, "key") as name:
        pass
    file = tmp_path / "callers" / name
    os.utime(file, (time.time() - 1000, time.time() - 1000))
    noting.claim_name(tmp_path, "key")
    assert time.time() - file.stat().st_mtime < 100


def test_lock_on_a_file_that_was_forgotten_meanwhile_is_no_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "claim"
    flock = fcntl.flock

    def forget_first(fd: int, kind: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        path.unlink()
        flock(fd, kind)

    monkeypatch.setattr(fcntl, "flock", forget_first)
    assert not noting._take(path)
    assert noting._take(path)
