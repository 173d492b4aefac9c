"""A command in a file: what the shell has not read can be taken back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tmuxmcp.contract.errors import IoError
from tmuxmcp.record.commands import SPARE_NAME, give, place_of
from tmuxmcp.record.directory import SessionDirectory


def test_a_command_waits_until_it_is_read(tmp_path: Path) -> None:
    given = give(tmp_path, "j1", b"echo \xff")
    file = tmp_path / "j1"
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"echo \xff\0", 0o600)
    assert given.waits
    given.tidy()
    assert file.exists()
    file.write_bytes(b"")
    assert not given.waits
    given.tidy()
    assert not file.exists()


def test_the_emptied_file_is_used_again(tmp_path: Path) -> None:
    given = give(tmp_path, "j1", b"a long command")
    inode = given.path.stat().st_ino
    os.truncate(given.path, 0)
    given.tidy()
    again = give(tmp_path, "j2", b"true")
    assert (again.path.stat().st_ino, again.path.read_bytes()) == (inode, b"true\0")
    assert [path.name for path in tmp_path.iterdir()] == ["j2"]
    assert give(tmp_path, "j3", b"false").path.read_bytes() == b"false\0"
    assert again.path.read_bytes() == b"true\0"


def test_what_a_program_puts_in_place_of_the_emptied_file_is_not_used(tmp_path: Path) -> None:
    place, outside = tmp_path / "given", tmp_path / "outside"
    place.mkdir()
    outside.touch(mode=0o600)
    spare = place / SPARE_NAME
    for put in (
        lambda: spare.symlink_to(outside),
        lambda: spare.hardlink_to(outside),
        lambda: os.mkfifo(spare, 0o600),
        lambda: spare.mkdir(mode=0o700),
        lambda: spare.write_text("something else") and spare.chmod(0o600),
        lambda: spare.touch(mode=0o666),
    ):
        put()
        given = give(place, "j1", b"true")
        assert given.path.read_bytes() == b"true\0"
        assert outside.read_bytes() == b""
        given.take_back()
        spare.rmdir() if spare.is_dir() else spare.unlink()


def test_an_empty_command_waits_as_well(tmp_path: Path) -> None:
    assert give(tmp_path, "j1", b"").waits


def test_what_is_taken_back_or_gone_is_not_said_to_wait(tmp_path: Path) -> None:
    given = give(tmp_path, "j1", b"true")
    given.take_back()
    given.take_back()
    assert not given.waits
    assert list(tmp_path.iterdir()) == []


def test_commands_of_earlier_calls_are_taken_back(tmp_path: Path) -> None:
    give(tmp_path, "j1", b"true")
    (tmp_path / SPARE_NAME).touch(mode=0o600)
    give(tmp_path, "j2", b"true").take_back_earlier()
    give(tmp_path, "j3", b"true")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["j2", "j3"]


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "j1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IoError, match="Nothing was run"):
        give(tmp_path, "j1", b"true")
    assert not (tmp_path / "elsewhere").exists()


def test_where_a_shell_looks_for_commands(tmp_path: Path) -> None:
    directory = SessionDirectory(tmp_path)
    assert place_of(directory) is None
    directory.given_within.mkdir(parents=True)
    assert place_of(directory) == directory.given_within
