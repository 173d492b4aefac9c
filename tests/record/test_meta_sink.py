"""Who writes a session's log."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from tests.kit.agent import eventually as soon
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.meta import sink_of


def test_no_sink_yet(tmp_path: Path) -> None:
    assert sink_of(SessionDirectory(tmp_path)) == (0, False)
    (tmp_path / "sink.pid").write_text("")
    assert sink_of(SessionDirectory(tmp_path)) == (0, False)


def test_process_id_that_is_used_again_is_no_sink(tmp_path: Path) -> None:
    (tmp_path / "sink.pid").write_text(f"{os.getpid()} 3\n")
    assert sink_of(SessionDirectory(tmp_path)) == (3, False)


def test_sink_of_a_session_with_a_longer_name_is_not_ours(tmp_path: Path) -> None:
    other = tmp_path / "ab"
    with subprocess.Popen(
        [sys.executable, "-c", "input()", "/x/sink.sh", str(other)], stdin=subprocess.PIPE
    ) as process:
        soon(lambda: psutil.Process(process.pid).cmdline()[-1:] == [str(other)])  # its exec is under way
        for directory, expected in ((tmp_path / "a", False), (other, True)):
            directory.mkdir()
            (directory / "sink.pid").write_text(f"{process.pid} 1\n")
            assert sink_of(SessionDirectory(directory)) == (1, expected)


def test_ended_process_that_nobody_collected_is_no_sink(tmp_path: Path) -> None:
    process = subprocess.Popen(["true", "/sink.sh", str(tmp_path)])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    (tmp_path / "sink.pid").write_text(f"{process.pid} 1\n")
    assert sink_of(SessionDirectory(tmp_path)) == (1, False)
    process.wait()
