"""A small file is replaced whole."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tmuxmcp.faces.page import codes
from tmuxmcp.machine.ownfiles import make_directory, write_atomically, write_once
from tmuxmcp.record.notedcalls import CallFile


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_file_is_private_and_nothing_is_left_beside_it(tmp_path: Path):
    write_atomically(tmp_path / "a", "one")
    write_atomically(tmp_path / "a", "zwei ä")
    assert (tmp_path / "a").read_text("utf-8") == "zwei ä"
    assert mode_of(tmp_path / "a") == 0o600
    assert os.listdir(tmp_path) == ["a"]


def test_given_mode_is_set_whatever_the_umask(tmp_path: Path):
    write_atomically(tmp_path / "a", "", mode=0o664, to_disk=True)
    assert mode_of(tmp_path / "a") == 0o664


def test_reader_sees_one_text_or_the_other(tmp_path: Path):
    path, texts = tmp_path / "a", ("a" * 100_000, "b" * 100_000)
    write_atomically(path, texts[0])
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            for text in texts:
                write_atomically(path, text)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    seen = {path.read_text() for _ in range(300)}
    ended.set()
    for writer in writers:
        writer.join()
    assert seen <= set(texts)


def test_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path):
    write_atomically(tmp_path / "a", "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(tmp_path / "a", "new \udcff")
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_failure_to_replace_leaves_nothing(tmp_path: Path):
    (tmp_path / "a").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path / "a", "text")
    assert os.listdir(tmp_path) == ["a"]


def test_what_is_there_is_not_written_again(tmp_path: Path):
    write_once(tmp_path / "a", "one")
    write_once(tmp_path / "a", "two")
    assert (tmp_path / "a").read_text() == "one"
    assert mode_of(tmp_path / "a") == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    write_once(tmp_path / "link", "three")
    assert sorted(os.listdir(tmp_path)) == ["a", "link"]


def test_of_several_who_write_at_once_all_find_the_same(tmp_path: Path):
    found, start = [], threading.Barrier(8)

    def write(text: str) -> None:
        start.wait()
        write_once(tmp_path / "a", text)
        found.append((tmp_path / "a").read_text())

    writers = [threading.Thread(target=write, args=(str(number) * 1000,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize(
    "first",
    [
        make_directory,
        codes.running,
        lambda state: codes.make_code(state, 1),
        lambda state: codes.AccessSecrets(state, 1),
        lambda state: CallFile(state / "request_ids" / "person", "request-1").take(),
    ],
)
def test_whatever_comes_first_makes_a_state_directory_for_us_alone(tmp_path: Path, first: Callable[[Path], object]):
    before = os.umask(0o022)
    try:
        first(tmp_path / "state" / "tmuxmcp")
    finally:
        os.umask(before)
    assert {mode_of(each) for each in (tmp_path / "state").rglob("*") if each.is_dir()} == {0o700}
    assert mode_of(tmp_path / "state") == 0o700
