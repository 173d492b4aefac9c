"""With a sandbox in the settings the file tools reach what a session in it reaches, and no more."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.kit.sandboxes import LEVELS, STRONG, a_boxed_broker, levels
from tmuxmcp.broker.broker import Broker
from tmuxmcp.broker.programs import inside
from tmuxmcp.contract.errors import (
    FileMissing,
    InvalidArgument,
    IoError,
    PathOutsideRoot,
    PermissionDenied,
    TmuxMcpError,
    Unsupported,
)
from tmuxmcp.machine import filework, process
from tmuxmcp.machine.files import Files
from tmuxmcp.machine.process import HeadAndTail

REFUSED = (PathOutsideRoot, PermissionDenied, FileMissing, InvalidArgument, IoError)


@pytest.fixture
async def boxed(
    anyio_backend: str, state_dir: Path, home: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Broker]:
    """A broker that demands this level; its roots are `root` and `second`, and it works in `root/project`."""
    for path in (tmp_path / "root" / "project", tmp_path / "second", tmp_path / "beside", home / ".ssh"):
        path.mkdir(parents=True)
    (home / ".ssh" / "key").write_text("secret")
    (home / "kept").mkdir()
    (home / "kept" / "tokens").write_text("secret")
    roots, own = (tmp_path / "root", tmp_path / "second"), (home / "kept" / "tokens",)
    cwd = str(tmp_path / "root" / "project")
    async with a_boxed_broker(request.param, state_dir, *roots, cwd=cwd, own_files=own) as broker:
        yield broker


# ---- what is out of reach ----------------------------------------------------------------------------


@levels(LEVELS)
async def test_nothing_is_written_outside_of_the_roots(boxed: Broker, home: Path, tmp_path: Path) -> None:
    project, beside = tmp_path / "root" / "project", tmp_path / "beside"
    (project / "way").symlink_to("../../beside")
    (project / "file").symlink_to(home / ".ssh" / "key")
    paths = (
        home / ".ssh" / "key",
        "~/.ssh/key",
        "../../beside/made",
        "way/made",
        "file",
        f"/proc/self/root{beside}/made",
        f"/proc/{os.getpid()}/root{beside}/made",
        f"/proc/{os.getpid()}/cwd/made",
        "/tmp/tmuxmcp-test",
        "/var/tmp/tmuxmcp-test",
        "/etc/tmuxmcp-test",
        "/dev/shm/tmuxmcp-test",
    )
    for path in paths:
        with pytest.raises(PathOutsideRoot):
            await boxed.write_file(str(path), "x", create_dirs=True)
    assert os.listdir(beside) == []
    assert (home / ".ssh" / "key").read_text() == "secret"
    assert [path for path in paths if "tmuxmcp-test" in str(path) and os.path.exists(path)] == []  # noqa: ASYNC240


@levels(LEVELS)
async def test_what_the_broker_keeps_is_not_read(boxed: Broker, home: Path, state_dir: Path, tmp_path: Path) -> None:
    project = tmp_path / "root" / "project"
    (project / "state").symlink_to(state_dir)
    (project / "pid").symlink_to(state_dir / "tmux.pid")
    for path in (
        state_dir / "tmux.pid",
        "state/tmux.pid",
        "pid",
        f"/proc/self/root{state_dir}/tmux.pid",
        f"/proc/{os.getpid()}/root{state_dir}/tmux.pid",
        home / "kept" / "tokens",
    ):
        with pytest.raises(PathOutsideRoot):
            await boxed.read_file(str(path))
    for path in (state_dir, "state", "/tmp"):
        with pytest.raises(PathOutsideRoot):
            await boxed.list_directory(str(path))


@pytest.mark.parametrize("boxed", STRONG, indirect=True)
async def test_the_sandbox_holds_without_what_says_why(
    boxed: Broker, home: Path, state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is looked up before may be another thing when it is opened."""
    monkeypatch.setattr(inside, "reached", lambda boundary, writable, path, writes: (Files("", "/"), path))
    for path in (home / ".ssh" / "key", tmp_path / "beside" / "made", "/etc/tmuxmcp-test"):
        with suppress(*REFUSED):
            await boxed.write_file(str(path), "x")
    ours = f"/proc/{os.getpid()}"
    for path in (state_dir / "tmux.pid", f"{ours}/root{state_dir}/tmux.pid", f"{ours}/environ"):
        with pytest.raises(REFUSED):
            await boxed.read_file(str(path))
    assert (home / ".ssh" / "key").read_text() == "secret"
    assert os.listdir(tmp_path / "beside") == []
    assert not os.path.exists("/etc/tmuxmcp-test")  # noqa: ASYNC240 - as fast as anything


@pytest.mark.parametrize("boxed", STRONG, indirect=True)
async def test_a_link_that_comes_and_goes_leads_nowhere(
    boxed: Broker, home: Path, state_dir: Path, tmp_path: Path
) -> None:
    project = tmp_path / "root" / "project"
    (project / "real").mkdir()
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for target in ("real", home / ".ssh", state_dir):
                (project / "new").symlink_to(target)
                (project / "new").rename(project / "way")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(8):
            with suppress(*REFUSED):
                await boxed.write_file("way/made", "x")
            with pytest.raises(REFUSED):
                await boxed.read_file("way/tmux.pid")
    finally:
        over.set()
        thread.join()
    assert os.listdir(home / ".ssh") == ["key"]
    assert not (state_dir / "made").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has more rights outside than inside")
@pytest.mark.parametrize("boxed", STRONG, indirect=True)
async def test_root_reads_no_more_than_a_session_of_its_does(boxed: Broker, tmp_path: Path) -> None:
    theirs = tmp_path / "root" / "project" / "theirs"
    theirs.write_text("theirs")
    theirs.chmod(0o600)
    os.chown(theirs, 12345, 12345)
    await boxed.create_session(name="a")
    assert (await boxed.run("cat theirs", session_id="a")).exit_code == 1
    with pytest.raises(PermissionDenied):
        await boxed.read_file("theirs")


@pytest.mark.parametrize("boxed", STRONG, indirect=True)
async def test_what_is_put_in_place_of_a_root_is_none(boxed: Broker, home: Path, tmp_path: Path) -> None:
    (tmp_path / "second").rename(tmp_path / "moved")
    (tmp_path / "second").symlink_to(home / ".ssh")
    with pytest.raises(PathOutsideRoot):
        await boxed.write_file(str(tmp_path / "second" / "key"), "x")
    everywhere = boxed.boundary.everywhere

    def judged_and_then_moved() -> Any:
        found = everywhere()
        (tmp_path / "root").rename(tmp_path / "elsewhere")
        (tmp_path / "root").symlink_to(home / ".ssh")
        return found

    boxed.boundary.everywhere = judged_and_then_moved  # type: ignore[method-assign]
    with pytest.raises((Unsupported, PathOutsideRoot)):
        await boxed.write_file(str(tmp_path / "root" / "key"), "x")
    assert (home / ".ssh" / "key").read_text() == "secret"


# ---- what works --------------------------------------------------------------------------------------


@levels(LEVELS)
async def test_work_that_is_allowed_works(boxed: Broker, tmp_path: Path, state_dir: Path) -> None:
    project = tmp_path / "root" / "project"
    assert (await boxed.write_file("deep/er/file", "one\ntwo\n", mode="0640", create_dirs=True)).bytes == 8
    assert (project / "deep" / "er" / "file").stat().st_mode & 0o777 == 0o640
    assert (await boxed.read_file("deep/er/file", start_line=2)).data == "two\n"
    (project / "link").symlink_to("deep/er/file")
    await boxed.write_file("link", "three\n")
    assert (project / "deep" / "er" / "file").read_text() == "three\n"
    await boxed.write_file(str(tmp_path / "second" / "b"), "AP8=", encoding="base64")
    read = await boxed.read_file(str(tmp_path / "second" / "b"))
    assert (read.encoding, read.data, read.size) == ("base64", "AP8=", 2)
    listed = await boxed.list_directory(".")
    assert [(each.name, each.type) for each in listed.entries] == [("deep", "directory"), ("link", "symlink")]
    assert (await boxed.read_file("/etc/passwd", max_bytes=4)).truncated
    with pytest.raises(FileMissing, match="In the sandbox"):
        await boxed.read_file("nothing")
    with pytest.raises(InvalidArgument, match="is a directory"):
        await boxed.read_file("deep")
    with pytest.raises(InvalidArgument, match="no name of a file"):
        await boxed.write_file("deep/", "x")
    assert os.listdir(state_dir / "processes") == []


@pytest.mark.parametrize("boxed", ["limits"], indirect=True)
async def test_without_a_root_nothing_is_written(boxed: Broker) -> None:
    boxed.boundary.roots = ()
    with pytest.raises(PathOutsideRoot, match="lies in nothing"):
        await boxed.write_file("/home/tmuxmcp-test", "x")
    assert (await boxed.read_file("/etc/passwd")).size


def test_errors_pass_and_no_answer_is_an_error(tmp_path: Path) -> None:
    def ended(out: bytes, err: bytes = b"") -> process.ProcessEnd:
        streams = HeadAndTail(1000), HeadAndTail(1000)
        for stream, data in zip(streams, (out, err), strict=True):
            stream.feed(data)
        return process.ProcessEnd(1, None, False, *streams, 0, 0, 0, 0, [])

    for error in (FileMissing("no", "hint", path="p"), PermissionDenied("no")):
        with pytest.raises(type(error)) as raised:
            filework.answered(ended(filework.pack({"error": error.as_dict()})))
        assert raised.value.as_dict() == error.as_dict()
    for out in (b"", b"{}", b"[]\n", b'{"piece": 1}\n'):
        with pytest.raises(TmuxMcpError, match="could not be reached"):
            filework.answered(ended(out, b"Traceback\nOSError: broken\n"))
