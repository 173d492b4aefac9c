"""`scripts/test` itself: a run ends, and fails, whatever becomes of its workers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tests.kit.agent import eventually
from tests.kit.processes import alive

ROOT = Path(__file__).parents[1]
OURS = Path(sys.prefix) == ROOT / ".venv"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not OURS, reason="scripts/test would make a .venv of its own"),
]

TESTS = """\
import os, signal, subprocess, tempfile, time
from pathlib import Path
import pytest

HERE = Path(__file__).parent

def leave_behind():
    # What holds the output open, and what has left its parent: a tmux server.
    pids = [subprocess.Popen(["sleep", "300"]).pid]
    socket = tempfile.mkdtemp() + "/s"
    subprocess.run(["tmux", "-f/dev/null", "-S", socket, "new-session", "-d", "sleep 300"], check=True)
    pids.append(int(subprocess.check_output(["tmux", "-S", socket, "display", "-p", "#{pid}"])))
    (HERE / "new").write_text(" ".join(map(str, pids)))
    (HERE / "new").rename(HERE / "pids")

@pytest.mark.parametrize("number", range(20))
def test_before(number):
    pass

def test_the_bad_one():
    leave_behind()
    HOW

@pytest.mark.parametrize("number", range(20))
def test_after(number):
    pass
"""


DEAF_TIMEOUT = """\
#!/bin/bash
exec REAL "${@:1:6}" env --ignore-signal=INT "${@:7}"
"""
"""A `timeout` whose command ignores interrupts, as its caller does; that of GNU coreutils 9.1 resets them."""


def start(directory: Path, how: str, limit_s: float) -> subprocess.Popen[str]:
    """A run in which one test does not end well."""
    (directory / "test_scratch.py").write_text(TESTS.replace("HOW", how))
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env["TMUXMCP_TEST_LIMIT_S"] = str(int(limit_s))
    return subprocess.Popen(
        [ROOT / "scripts" / "test", "--quick", "-s", "-p", "no:cacheprovider", "-c", "pyproject.toml", directory],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
        start_new_session=True,
    )


def run(directory: Path, how: str, limit_s: float) -> tuple[int, str, float]:
    """Status, output and seconds of such a run; the end of its output is waited for, too."""
    begun = time.monotonic()
    with start(directory, how, limit_s) as process:
        said, _ = process.communicate()
    return process.returncode, said, time.monotonic() - begun


def nothing_is_left(directory: Path) -> bool:
    return not any(map(alive, map(int, (directory / "pids").read_text().split())))


def test_run_that_is_ended_and_no_longer_read_leaves_nothing(tmp_path: Path):
    with start(tmp_path, "time.sleep(1000)", 300) as process:
        eventually((tmp_path / "pids").exists, 60)
        assert process.stdout
        process.stdout.close()
        os.killpg(process.pid, signal.SIGTERM)
    eventually(lambda: nothing_is_left(tmp_path))


def test_worker_that_dies_fails_the_run_which_ends(tmp_path: Path):
    status, said, _ = run(tmp_path, "os.kill(os.getpid(), signal.SIGSEGV)", 60 * SLOW)
    assert status == 1
    assert "crashed while running" in said
    assert "test_scratch.py::test_the_bad_one" in said
    eventually(lambda: nothing_is_left(tmp_path))  # it was killed, and has to be given the processor to end


def test_run_that_hangs_ends_in_its_time(tmp_path: Path):
    limit_s = 8 * SLOW  # it starts in less
    status, said, seconds = run(tmp_path, "os.kill(os.getpid(), signal.SIGSTOP)", limit_s)
    assert status in (124, 137)
    assert "the tests took longer than" in said
    assert seconds < limit_s + 20 + 10 * SLOW
    eventually(lambda: nothing_is_left(tmp_path))  # it was killed, and has to be given the processor to end


def test_run_that_takes_too_long_says_what_it_knows_though_interrupts_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    timeout = tmp_path / "bin" / "timeout"
    timeout.parent.mkdir()
    timeout.write_text(DEAF_TIMEOUT.replace("REAL", shutil.which("timeout") or ""))
    timeout.chmod(0o755)
    monkeypatch.setenv("PATH", f"{timeout.parent}:{os.environ['PATH']}")
    status, said, _ = run(tmp_path, "time.sleep(1000)", 8 * SLOW)
    assert status == 124
    assert "KeyboardInterrupt" in said
    eventually(lambda: nothing_is_left(tmp_path))
