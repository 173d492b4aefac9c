"""A value is whole or not there, lines of several writers stand one after the other, and a change is seen."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tmuxmcp.record import documents
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.documents import Cached, Document, Journal, NewerFormat, values_in

KEPT = Document(SessionDirectory.ended, format=2)


@pytest.fixture
def directory(tmp_path: Path) -> SessionDirectory:
    (tmp_path / "a").mkdir()
    return SessionDirectory(tmp_path / "a")


@pytest.fixture
def taken(directory: SessionDirectory) -> SessionDirectory:
    """The directory of a session whose place another session has."""
    (pinned := directory.pinned()).path.rename(directory.path.with_name("a.1"))
    directory.path.mkdir()
    return pinned


class Values(Journal):
    """Keeps what it is given."""

    def __init__(self, directory: SessionDirectory) -> None:
        super().__init__(directory, directory.commands, directory.commands_before)
        self.values: list[Any] = []
        self.begun = 0

    def _start_over(self) -> None:
        self.values.clear()
        self.begun += 1

    def _take(self, lines: bytes) -> None:
        self.values += [values["n"] for values in values_in(lines)]

    def add(self, *numbers: int) -> bool:
        """Append lines; whether they need not be read."""
        with self.open() as file:
            return file.append(b"".join(b'{"n": %d}\n' % number for number in numbers))

    def now(self) -> list[Any]:
        self.read_on()
        return self.values


# ---- documents ---------------------------------------------------------------------------------------


def test_a_document_says_its_format_and_keeps_what_it_is_told_to(directory: SessionDirectory):
    KEPT.write(directory, {"a": 1})
    assert directory.ended.read_text() == '{"format": 2, "a": 1}'
    KEPT.write(directory, {"a": 2}, format=1, keep={"b": 3})
    assert KEPT.read(directory) == {"b": 3, "a": 2}
    assert directory.ended.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("number", [3, "2", None, 1.5])
def test_a_document_of_a_newer_format_is_not_replaced(directory: SessionDirectory, number: object):
    directory.ended.write_text(json.dumps({"format": number}))
    before = directory.ended.read_bytes()
    with pytest.raises(NewerFormat):
        KEPT.write(directory, {"a": 1})
    assert directory.ended.read_bytes() == before


@pytest.mark.parametrize("text", ["", "[]", "null", '{"a": 1', "[" * 100_000, "\udcff"])
def test_a_document_that_cannot_be_read_is_empty_and_replaced(directory: SessionDirectory, text: str):
    directory.ended.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert KEPT.read(directory) == {}
    KEPT.write(directory, {"a": 1})
    assert KEPT.read(directory)["a"] == 1


def test_a_link_is_not_followed(directory: SessionDirectory, tmp_path: Path):
    (tmp_path / "elsewhere").write_text('{"a": 1}')
    directory.ended.symlink_to(tmp_path / "elsewhere")
    assert KEPT.read(directory) == {}
    KEPT.write(directory, {"a": 2})
    assert (tmp_path / "elsewhere").read_text() == '{"a": 1}'
    assert KEPT.read(directory)["a"] == 2


def test_of_two_who_make_a_document_one_does(directory: SessionDirectory):
    KEPT.write(directory, {"a": 1}, new=True)
    with pytest.raises(FileExistsError):
        KEPT.write(directory, {"a": 2}, new=True)
    assert KEPT.read(directory)["a"] == 1
    assert os.listdir(directory.path) == ["ended.json"]


def test_a_full_disk_leaves_the_old_document(directory: SessionDirectory, monkeypatch: pytest.MonkeyPatch):
    KEPT.write(directory, {"a": 1})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="space"):
        KEPT.write(directory, {"a": 2})
    assert KEPT.read(directory)["a"] == 1
    assert os.listdir(directory.path) == ["ended.json"]


def test_nothing_is_written_into_the_directory_of_another_session(taken: SessionDirectory):
    with pytest.raises(FileNotFoundError):
        KEPT.write(taken, {"a": 1})
    with pytest.raises(FileNotFoundError), Values(taken).open():
        pass
    assert os.listdir(taken.path) == []


def test_a_file_is_read_again_once_it_has_changed(directory: SessionDirectory):
    reads: list[int] = []

    def read() -> Any:
        reads.append(1)
        return KEPT.read(directory).get("a")

    cached = Cached(directory.ended, read, None)
    assert (cached.read(), cached.value, reads) == (False, None, [])
    for value in (1, 2, 2):
        KEPT.write(directory, {"a": value})
        assert (cached.read(), cached.read(), cached.value) == (True, False, value)
    assert len(reads) == 3
    cached.read_anew()
    assert len(reads) == 4
    directory.ended.unlink()
    assert (cached.read(), cached.value) == (True, None)


# ---- journals ----------------------------------------------------------------------------------------


def test_several_append_and_all_read_on(directory: SessionDirectory):
    one, other = Values(directory), Values(directory)
    assert one.now() == []
    for number in range(0, 6, 2):
        one.add(number)
        other.add(number + 1)
    assert one.now() == other.now() == [*range(6)]


def test_what_one_writes_alone_it_need_not_read(directory: SessionDirectory, monkeypatch: pytest.MonkeyPatch):
    one, other = Values(directory), Values(directory)
    assert not one.add(1), "nobody knows what is there"
    assert one.now() == [1]
    assert one.add(2, 3)
    one.values += [2, 3]
    monkeypatch.setattr(documents, "lines_of", lambda *_: pytest.fail("it was read"))
    assert one.now() == [1, 2, 3]
    monkeypatch.undo()
    other.add(4)
    assert not one.add(5)
    assert one.now() == other.now() == [1, 2, 3, 4, 5]


def test_a_line_that_was_cut_short_harms_no_other(directory: SessionDirectory, monkeypatch: pytest.MonkeyPatch):
    one, write = Values(directory), os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:-4]))
    assert not one.add(1)
    monkeypatch.undo()
    assert one.now() == []
    Values(directory).add(2)
    assert one.now() == [2]
    assert directory.commands.read_bytes() == b'{"n":\n{"n": 2}\n'


def test_a_line_is_read_when_it_has_its_end(directory: SessionDirectory):
    one = Values(directory)
    for at, byte in enumerate(b'{"n": 1}\n'):
        assert one.now() == [], at
        with directory.commands.open("ab") as file:
            file.write(bytes([byte]))
    assert one.now() == [1]


def test_what_was_put_aside_is_read_to_its_end(directory: SessionDirectory):
    one, late, other = Values(directory), Values(directory), Values(directory)
    one.add(1)
    assert one.now() == [1]
    other.add(2)
    directory.commands.rename(directory.commands_before)
    other.add(3)
    for each in (one, late):
        assert (each.now(), each.begun) == ([1, 2, 3], 1)


def test_whoever_writes_while_it_is_put_aside_is_told(directory: SessionDirectory):
    one = Values(directory)
    with one.open() as file:
        assert file.look()
        directory.commands.rename(directory.commands_before)
        assert not file.append(b'{"n": 1}\n')
        assert (file.in_use, file.size) == (False, 0)
        Values(directory).add(2)
        assert not file.look()


def test_a_file_in_the_place_of_another_is_read_from_its_beginning(directory: SessionDirectory):
    one = Values(directory)
    one.add(1)
    assert one.now() == [1]
    directory.commands.write_bytes(b'{"n": 7}\n{"n": 8}\n')  # the same file to the system
    assert (one.now(), one.begun) == ([7, 8], 2)
    directory.commands.unlink()
    assert (one.now(), one.begun) == ([], 3)
    one.add(9)
    assert one.now() == [9]


def test_a_journal_that_is_a_link_is_neither_read_nor_written(directory: SessionDirectory, tmp_path: Path):
    (tmp_path / "elsewhere").write_bytes(b'{"n": 1}\n')
    directory.commands.symlink_to(tmp_path / "elsewhere")
    one = Values(directory)
    assert one.now() == []
    with pytest.raises(OSError, match="symbolic link"), one.open():
        pass
    assert (tmp_path / "elsewhere").read_bytes() == b'{"n": 1}\n'


def test_a_file_that_was_empty_when_it_was_read_is_not_taken_for_the_next_one(directory: SessionDirectory):
    directory.commands.touch()
    one, other = Values(directory), Values(directory)
    assert one.now() == []
    one.add(1)
    directory.commands.rename(directory.commands_before)
    other.add(2)
    assert one.now() == [1, 2]
