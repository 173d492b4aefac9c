"""Whom the kernel knows to read a secret: by the file that runs, and nobody by what it calls itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.agent import eventually
from tmuxmcp.contract.value import replace
from tmuxmcp.shell.secretreader import ReadingProgram, SecretReader, _program

SLEEP = os.path.realpath(shutil.which("sleep") or "")


@pytest.fixture
def copied(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A program that calls itself by another's path, and its process id."""
    file = tmp_path / "sleep"
    shutil.copy(SLEEP, file)
    with subprocess.Popen([SLEEP, "600"], executable=file) as process:
        yield file, process.pid
        process.kill()


def reader(*programs: ReadingProgram) -> SecretReader:
    return SecretReader(programs, (), "")


def test_a_program_is_its_file_and_not_its_name(copied: tuple[Path, int], tmp_path: Path):
    file, pid = copied
    runs = reader(_program(pid)).runs
    (tmp_path / "link").symlink_to(file)
    os.link(file, tmp_path / "hard")
    assert all(runs([str(path)]) for path in (file, tmp_path / "link", tmp_path / "hard"))
    assert not any(runs(paths) for paths in ([SLEEP], [], ["/none"], [str(tmp_path)]))
    file.unlink()
    shutil.copy(SLEEP, file)  # as an update does: another file of that name
    assert not runs([str(file)])
    assert str(_program(pid)) == f'"{file} (deleted)" (process {pid}), which calls itself "{SLEEP} 600"'


def test_what_is_not_known_is_no_match(copied: tuple[Path, int]):
    file, pid = copied
    known = _program(pid)
    unseen = replace(known, file=None)
    assert not reader(unseen).runs([str(file)])
    assert not reader(known, unseen).runs([str(file)])  # one of two that may read it
    assert not reader().runs([str(file)])
    assert not replace(reader(known), relays=("script",)).runs([str(file)])
    assert not replace(reader(known), host="far").runs([str(file)])
    assert reader(known, known).runs([str(file)])


def test_a_process_that_comes_again_is_another(copied: tuple[Path, int]):
    known = _program(copied[1])
    assert known == _program(copied[1])
    assert known != replace(known, born_s=known.born_s + 1)


def test_words_can_do_nothing_to_a_terminal(tmp_path: Path):
    with subprocess.Popen([SLEEP, "600"], executable=SLEEP) as process:
        words = str(_program(process.pid))
        process.kill()
    assert "\x1b" not in words
    with subprocess.Popen(["\x1b[2Jevil\nline\u202e", "600"], executable=SLEEP) as process:
        eventually(lambda: b"evil" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
        words = str(_program(process.pid))
        process.kill()
    assert not any(char in words for char in "\x1b\n\u202e")
    assert words.startswith(f'"{SLEEP}" (process ')
    assert "evil" in words
