from __future__ import annotations

import os
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tmuxmcp.contract.errors import (
    FileMissing,
    InvalidArgument,
    IoError,
    PathOutsideRoot,
    PermissionDenied,
    TmuxMcpError,
)
from tmuxmcp.machine import files as files_module
from tmuxmcp.machine import ownfiles
from tmuxmcp.machine.files import Files

TRIES = 2000


@pytest.fixture(params=["openat2", "steps"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of staying beneath a root."""
    if request.param == "steps":
        monkeypatch.setattr("tmuxmcp.machine.files.open_beneath", ownfiles.walk)
    elif sys.platform != "linux":
        pytest.skip("only Linux has openat2")
    return request.param


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a file and a directory; beside it something secret."""
    (tmp_path / "root" / "dir").mkdir(parents=True)
    (tmp_path / "root" / "dir" / "file").write_text("one\ntwo\nthree\n")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "file").write_text("secret")
    (tmp_path / "rootX").mkdir()
    (tmp_path / "rootX" / "file").write_text("secret")
    return tmp_path / "root"


@pytest.fixture
def files(root: Path, way: str) -> Files:
    return Files(str(root), "/nowhere")


def text(files: Files, path: str) -> bytes:
    return files.read(path, 0, 1000).data


# ---- reading ------------------------------------------------------------------------------------


def test_pieces(files: Files):
    assert files.read("dir/file", 4, 3) == files_module.FilePart(b"two", 14, 4, True)
    assert files.read("dir/file", 4, 10) == files_module.FilePart(b"two\nthree\n", 14, 4, False)
    assert files.read("dir/file", 99, 10) == files_module.FilePart(b"", 14, 99, False)


@pytest.mark.parametrize(
    ("first", "last", "most", "data", "truncated"),
    [
        (1, 1, 99, b"one\n", False),
        (2, 3, 99, b"two\nthree\n", False),
        (2, None, 99, b"two\nthree\n", False),
        (2, 2, 4, b"two\n", False),
        (1, 2, 6, b"one\ntw", True),
        (3, 9, 99, b"three\n", False),
        (4, 9, 99, b"", False),
        (9, None, 99, b"", False),
    ],
)
def test_lines(files: Files, first: int, last: int | None, most: int, data: bytes, truncated: bool):
    piece = files.read_lines("dir/file", first, last, most)
    assert (piece.data, piece.truncated, piece.size) == (data, truncated, 14)
    assert b"one\ntwo\nthree\n"[piece.offset :].startswith(data)


def test_a_line_far_into_a_file(files: Files, root: Path):
    (root / "long").write_text("".join(f"{number}\n" for number in range(1, 400_001)))
    assert files.read_lines("long", 350_000, 350_001, 99).data == b"350000\n350001\n"


@pytest.mark.parametrize("path", ["dir/file", "./dir//file", "dir/../dir/file", "{root}/dir/file"])
def test_paths_beneath_the_root(files: Files, root: Path, path: str):
    assert text(files, path.format(root=root)).startswith(b"one")


def test_links_that_stay_inside_are_followed(files: Files, root: Path):
    (root / "near").symlink_to("dir/file")
    (root / "dir" / "up").symlink_to("../near")
    (root / "absolute").symlink_to(root / "dir")
    for path in ("near", "dir/up", "absolute/file"):
        assert text(files, path).startswith(b"one")


@pytest.mark.parametrize(
    "path",
    ["..", "../secret/file", "dir/../../secret/file", "/etc/passwd", "{root}X/file", "{root}/../secret/file", "~"],
)
def test_paths_out_of_the_root_are_refused(files: Files, root: Path, path: str):
    path = path.format(root=root)
    for act in acts(files, path):
        with pytest.raises(PathOutsideRoot):
            act()
    assert (root.parent / "secret" / "file").read_text() == "secret"


def acts(files: Files, path: str) -> list[Callable[[], object]]:
    writes = [] if path in ("..", "~") else [lambda: files.write(path, b"x", None, True)]
    return [lambda: files.read(path, 0, 9), lambda: files.list_directory(path, 9), *writes]


@pytest.mark.parametrize("target", ["../secret", "/etc", "dir/../../secret"])
def test_links_out_of_the_root_are_refused(files: Files, root: Path, target: str):
    (root / "link").symlink_to(target)
    for path in ("link/file", "link/passwd"):
        with pytest.raises(PathOutsideRoot):
            text(files, path)
        with pytest.raises(PathOutsideRoot):
            files.write(path, b"x", None, True)
    with pytest.raises(PathOutsideRoot):
        files.list_directory("link", 9)


def test_a_link_to_a_file_outside_is_not_written_through(files: Files, root: Path):
    (root / "link").symlink_to("../secret/file")
    (root / "new").symlink_to("../secret/new")
    for path in ("link", "new"):
        with pytest.raises(PathOutsideRoot):
            files.write(path, b"x", None, False)
    assert os.listdir(root.parent / "secret") == ["file"]
    assert (root.parent / "secret" / "file").read_text() == "secret"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_special_files_are_refused(files: Files, root: Path):
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener, inside(root):
        listener.bind("socket")
    anywhere = Files("", "/")
    for reader, path in [(files, "fifo"), (files, "socket"), (files, "dir")] + [
        (anywhere, path) for path in ("/dev/null", "/dev/zero", "/proc/self/environ", "/proc/version", "/sys/kernel")
    ]:
        with pytest.raises(InvalidArgument):
            reader.read(path, 0, 9)
        with pytest.raises((InvalidArgument, PermissionDenied)):
            reader.write(path, b"x", None, False)


@contextmanager
def inside(directory: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("missing", FileMissing),
        ("dir/file/x", FileMissing),
        ("missing/x", FileMissing),
        ("", InvalidArgument),
        ("a\0b", InvalidArgument),
        ("\ud800", InvalidArgument),
        ("x" * 300, InvalidArgument),
        ("loop", InvalidArgument),
    ],
)
def test_each_mistake_has_its_error(files: Files, root: Path, path: str, error: type[TmuxMcpError]):
    (root / "loop").symlink_to("loop")
    with pytest.raises(error):
        text(files, path)


def test_a_root_that_is_gone_is_told(way: str):
    with pytest.raises(IoError, match="files_root"):
        text(Files("/no/such/root", "/"), "x")


def test_without_a_root(root: Path):
    files = Files("", str(root))
    assert text(files, "dir/file").startswith(b"one")
    assert text(files, "../secret/file") == b"secret"
    assert files.write(str(root / "new"), b"x", None, False) == 1


# ---- writing ------------------------------------------------------------------------------------


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_has_the_umask_an_old_one_keeps_its_mode(files: Files, root: Path):
    assert files.write("new", b"12345", None, False) == 5
    umask = os.umask(0o022)
    os.umask(umask)
    assert mode_of(root / "new") == 0o666 & ~umask
    (root / "new").chmod(0o751)
    files.write("new", b"67", None, False)
    assert (mode_of(root / "new"), (root / "new").read_bytes()) == (0o751, b"67")
    files.write("new", b"", 0o600, False)
    assert (mode_of(root / "new"), (root / "new").read_bytes()) == (0o600, b"")
    assert sorted(os.listdir(root)) == ["dir", "new"]


def test_directories_are_made_when_asked_for(files: Files, root: Path):
    with pytest.raises(FileMissing):
        files.write("a/b/c", b"x", None, False)
    files.write("a/b/c", b"x", None, True)
    assert (root / "a" / "b" / "c").read_bytes() == b"x"


def test_writing_through_a_link_keeps_the_link(files: Files, root: Path):
    (root / "link").symlink_to("dir/link")
    (root / "dir" / "link").symlink_to("file")
    files.write("link", b"new", None, False)
    assert (root / "link").is_symlink()
    assert (root / "dir" / "file").read_bytes() == b"new"


@pytest.mark.parametrize("path", ["dir", ".", "..", "dir/", "dir/.."])
def test_what_is_no_file_is_not_written(files: Files, path: str):
    with pytest.raises(InvalidArgument):
        files.write(path, b"x", None, True)


@pytest.mark.parametrize("nameless", [True, False])
def test_an_interrupted_write_leaves_nothing(files: Files, root: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool):
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(IoError, match="No space"):
        files.write("dir/file", b"x", None, False)
    assert os.listdir(root / "dir") == ["file"]
    assert text(files, "dir/file").startswith(b"one")


@pytest.mark.parametrize("nameless", [True, False])
def test_a_created_file_is_new_and_its_owners_alone(
    files: Files, root: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool
):
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    assert files.create("dir/new", iter([b"one", b"two"])) == 6
    assert ((root / "dir" / "new").read_bytes(), mode_of(root / "dir" / "new")) == (b"onetwo", 0o600)
    (root / "link").symlink_to("nowhere")
    for path in ("dir/file", "dir/new", "dir", "link"):
        with pytest.raises(InvalidArgument):
            files.create(path, [b"x"])
        with pytest.raises(InvalidArgument):
            files.check_new(path)
    files.check_new("dir/another")
    with pytest.raises(FileMissing):
        files.check_new("missing/new")
    assert os.listdir(root / "dir") in (["file", "new"], ["new", "file"])
    assert not (root / "nowhere").exists()


def test_a_file_that_appears_meanwhile_is_kept(files: Files, root: Path):
    def pieces() -> Iterator[bytes]:
        (root / "new").write_text("theirs")
        yield b"ours"

    with pytest.raises(InvalidArgument, match="nothing is overwritten"):
        files.create("new", pieces())
    assert (root / "new").read_text() == "theirs"
    assert sorted(os.listdir(root)) == ["dir", "new"]


def test_a_place_that_is_kept_is_filled_once(files: Files, root: Path):
    place = files.reserve("new")
    assert ((root / "new").read_bytes(), mode_of(root / "new")) == (b"", 0o600)
    for path in ("new", "dir/file", "dir"):
        with pytest.raises(InvalidArgument):
            files.reserve(path)
    assert files.create("new", [b"all"], reserved=place) == 3
    with pytest.raises(InvalidArgument):
        files.create("new", [b"again"], reserved=place)
    assert (root / "new").read_text() == "all"
    assert not files.release("new", place)


def test_a_place_that_is_given_back_is_free(files: Files, root: Path):
    place = files.reserve("new")
    assert files.release("new", place)
    assert sorted(os.listdir(root)) == ["dir"]
    assert not files.release("new", place)


def test_a_path_that_leads_elsewhere_by_now_is_not_filled(tmp_path: Path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    files = Files("", str(tmp_path))
    place = files.reserve("here/new")
    here.rename(tmp_path / "away")
    here.symlink_to(there)
    for content in (None, ""):  # nothing there, and another empty file
        if content is not None:
            (there / "new").write_text(content)
        with pytest.raises(InvalidArgument, match="no more"):
            files.create("here/new", [b"x"], reserved=place)
        assert not files.release("here/new", place)
    assert (there / "new").read_text() == ""


def test_readers_see_the_old_or_the_new(root: Path):
    files = Files(str(root), "/")
    stop = threading.Event()
    contents = [bytes([65 + n]) * 50_000 for n in range(2)]
    files.write("file", contents[0], None, False)

    def write() -> None:
        for number in range(100_000):
            if stop.is_set():
                break
            files.write("file", contents[number % 2], None, False)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert {(root / "file").read_bytes() for _ in range(300)} <= set(contents)
    finally:
        stop.set()
        writer.join()


# ---- races --------------------------------------------------------------------------------------


@contextmanager
def swapping(root: Path) -> Iterator[None]:
    """`here` is now a directory, now a link that leads out."""
    (root / "here").mkdir()
    (root / "here" / "file").write_text("inside")
    (root / "away").symlink_to("../secret")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(root / "here", root / "kept")
            os.rename(root / "away", root / "here")
            os.rename(root / "here", root / "away")
            os.rename(root / "kept", root / "here")

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        yield
    finally:
        stop.set()
        swapper.join()


def test_a_race_never_leads_out(files: Files, root: Path):
    seen = set()
    with swapping(root):
        for number in range(TRIES):
            with suppress(PathOutsideRoot, FileMissing, InvalidArgument, IoError):
                seen.add(text(files, "here/file"))
            if number % 20 == 0:
                with suppress(PathOutsideRoot, FileMissing, InvalidArgument, IoError):
                    files.write(f"here/new{number % 7}", b"x", None, False)
    assert seen <= {b"inside"}
    assert os.listdir(root.parent / "secret") == ["file"]


# ---- listing ------------------------------------------------------------------------------------


def test_entries_are_what_they_are(files: Files, root: Path):
    os.mkfifo(root / "fifo")
    (root / "link").symlink_to("/etc/passwd")
    (root / "dir" / "file").chmod(0o640)
    entries, more = files.list_directory(".", 99)
    assert [(entry.name, entry.kind) for entry in entries] == [
        ("dir", "directory"),
        ("fifo", "fifo"),
        ("link", "symlink"),
    ]
    assert not more
    (entry,), _ = files.list_directory("dir", 99)
    assert (entry.size, entry.mode) == (14, 0o640)
    assert entry.mtime == (root / "dir" / "file").stat().st_mtime


def test_a_listing_is_bounded_and_in_order(files: Files, root: Path):
    for number in range(200):
        (root / "dir" / f"{number:03}").touch()
    entries, more = files.list_directory("dir", 50)
    assert ([entry.name for entry in entries], more) == ([f"{number:03}" for number in range(50)], True)


def test_listing_a_file_is_a_mistake(files: Files):
    with pytest.raises(InvalidArgument):
        files.list_directory("dir/file", 9)
