"""File systems by their kind: only one of this machine alone has an index of times."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tmuxmcp.faces.cli.doctor.surroundings import check_file_system
from tmuxmcp.machine import locks
from tmuxmcp.machine.locks import FileSystem, file_system_of

linux = pytest.mark.skipif(sys.platform != "linux", reason="statfs(2) as Linux has it")


@linux
def test_kind_is_what_the_kernel_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert file_system_of(Path("/proc")).local
    monkeypatch.setitem(locks.REMOTE_MAGIC, 0x9FA0, "far")  # the kernel's number of /proc
    assert file_system_of(Path("/proc")) == FileSystem("far")


def test_a_place_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        file_system_of(tmp_path / "none")


@linux
def test_doctor_says_that_times_are_not_written_on_a_shared_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_file_system(Path("/proc/none/at/all")).ok
    monkeypatch.setitem(locks.REMOTE_MAGIC, 0x9FA0, "nfs")
    told = check_file_system(Path("/proc/none/at/all"))
    assert (told.ok, "nfs" in told.message) == (False, True)
    assert told.fix
