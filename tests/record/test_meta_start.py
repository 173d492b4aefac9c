"""How the start of a program went."""

from __future__ import annotations

from pathlib import Path

from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.meta import BEGUN, READY, Start


def test_nothing_is_known_before_the_step_wrote_anything(tmp_path: Path) -> None:
    start = Start(SessionDirectory(tmp_path))
    assert (start.report, start.succeeded, start.pid, start.wrappers) == ("", False, None, [])


def test_program_in_a_sandbox_begins_once_its_process_id_is_known(tmp_path: Path) -> None:
    directory = SessionDirectory(tmp_path)
    start = Start(directory)
    directory.report.write_text(READY)
    start.let_begin()
    assert (start.report, start.succeeded) == (READY, True)
    directory.pid.write_text("42\n")
    start.let_begin()
    assert (start.report, start.succeeded, start.pid) == (BEGUN, True, 42)


def test_failure_is_told_as_it_is(tmp_path: Path) -> None:
    directory = SessionDirectory(tmp_path)
    directory.report.write_text("CWD_NOT_FOUND\nno such directory")
    Start(directory).let_begin()
    assert Start(directory).report == "CWD_NOT_FOUND\nno such directory"
    assert not Start(directory).succeeded
