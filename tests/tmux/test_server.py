"""Our tmux server: started in an environment of its own, found again, and never mistaken for another."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import psutil
import pytest

from tests.conftest import SLOW, TMUX, end_server, eventually
from tests.kit.panes import launch_pane
from tmuxmcp.contract.errors import InvalidArgument, PermissionDenied, TmuxFailed, TmuxMcpError, TmuxUnavailable
from tmuxmcp.tmux import panes
from tmuxmcp.tmux import server as server_module
from tmuxmcp.tmux.control import command
from tmuxmcp.tmux.server import SOCKET_PATH_LIMIT, Tmux


@asynccontextmanager
async def opened(state_dir: Path) -> AsyncIterator[Tmux]:
    tmux = Tmux(state_dir)
    async with anyio.create_task_group() as task_group:
        try:
            await tmux.open(task_group)
            yield tmux
        finally:
            tmux.close()
            task_group.cancel_scope.cancel()


def environ(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def gone(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_ZOMBIE
    return True


async def pid_of(tmux: Tmux) -> int:
    return int((await tmux.query(command("display-message", "-p", "#{pid}"))).lines[0])


# ---- what it sees of ours --------------------------------------------------------------------------


async def test_users_configuration_and_tmux_have_no_influence(
    state_dir: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in (home / ".tmux.conf", home / ".config/tmux/tmux.conf", state_dir / ".tmux.conf"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("set -g @theirs 1\nset -g remain-on-exit off\n")
    monkeypatch.setenv("TMUX", "/nowhere/tmux,1,0")
    monkeypatch.setenv("TMUX_PANE", "%77")
    monkeypatch.setenv("TMUX_TMPDIR", "/nowhere")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    async with opened(state_dir) as tmux:
        reply = await tmux.query(
            command("show-options", "-gqv", "@theirs"), command("show-options", "-gwv", "remain-on-exit")
        )
        assert reply.lines == [b"on"]
        assert tmux.run("show-options", "-sv", "exit-empty").stdout == "off\n"


async def test_nothing_of_our_environment_gets_into_the_server(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_TOKEN", "sings")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/sings")
    async with opened(state_dir) as tmux:
        seen = b"\n".join((await tmux.query(command("show-environment", "-g"))).lines)
        assert tmux._client
        assert tmux._client._process
        seen += environ(await pid_of(tmux)) + environ(tmux._client._process.pid)
        launched = await launch_pane(tmux, ["sh", "-c", "cat /proc/self/environ; read line"])
        await eventually(lambda: b"PATH" in launched.log())
        seen += environ(launched.pane.leader)
    assert b"sings" not in seen + launched.log()
    assert b"PATH=" in seen


def umask_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("Umask:")[1].split()[0], 8)


async def test_server_is_private(state_dir: Path) -> None:
    async with opened(state_dir) as tmux:
        assert stat.S_IMODE(tmux.socket.stat().st_mode) & 0o077 == 0
        server = psutil.Process(await pid_of(tmux))
        assert umask_of(server.pid) == 0o077
        assert server.cwd() == "/"
        assert (await tmux.query(command("show-messages"))).lines == []


# ---- finding it ------------------------------------------------------------------------------------


async def test_second_object_finds_the_server_of_the_first(state_dir: Path) -> None:
    async with opened(state_dir) as first:
        pid = await pid_of(first)
    async with opened(state_dir) as second:
        assert await pid_of(second) == pid


async def test_many_that_start_at_once_agree_on_one_server(state_dir: Path) -> None:
    for number in range(10):
        where = state_dir / str(number)
        pids: list[int] = []

        async def start(where: Path = where, pids: list[int] = pids) -> None:
            async with opened(where) as tmux:
                pids.append(await pid_of(tmux))

        try:
            async with anyio.create_task_group() as task_group:
                for _ in range(3):
                    task_group.start_soon(start)
            assert len(pids) == 3
            assert len(set(pids)) == 1
            assert psutil.pid_exists(pids[0])
        finally:
            end_server(where)


async def test_server_survives_brokers_that_come_and_go_while_sessions_begin_and_end(state_dir: Path) -> None:
    """tmux 3.3a crashes when it has news for a control client that is still saying hello."""
    async with opened(state_dir) as first:
        pid = await pid_of(first)

        async def come_and_go() -> None:
            for _ in range(40):
                async with opened(state_dir) as tmux:
                    assert await pid_of(tmux) == pid

        async def begin_and_end() -> None:
            for _ in range(20):
                launched = await launch_pane(first, ["true"])
                assert await panes.kill_session(first, launched.pane)

        async with anyio.create_task_group() as task_group:
            for _ in range(3):
                task_group.start_soon(come_and_go)
            task_group.start_soon(begin_and_end)
        assert await pid_of(first) == pid


async def test_deleted_socket_is_made_again_by_its_server(state_dir: Path) -> None:
    async with opened(state_dir) as tmux:
        pid = await pid_of(tmux)
        launched = await launch_pane(tmux, ["cat"])
        tmux.socket.unlink()
    async with opened(state_dir) as tmux:
        assert await pid_of(tmux) == pid
        launched.tmux = tmux
        assert not (await launched.look()).dead


async def test_no_second_server_beside_one_that_is_held_up(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sessions would be called lost."""
    monkeypatch.setattr(server_module, "SOCKET_S", 0.3)
    async with opened(state_dir) as tmux:
        server = psutil.Process(await pid_of(tmux))
        tmux.socket.unlink()
    server.suspend()
    try:
        async with anyio.create_task_group() as task_group:
            with pytest.raises(TmuxFailed, match=f"process {server.pid}"):
                await Tmux(state_dir).open(task_group)
            task_group.cancel_scope.cancel()
    finally:
        server.resume()
    monkeypatch.setattr(server_module, "SOCKET_S", 5 * SLOW)
    async with opened(state_dir) as tmux:
        assert await pid_of(tmux) == server.pid


async def test_stale_socket_is_no_obstacle(state_dir: Path) -> None:
    async with opened(state_dir) as tmux:
        server = psutil.Process(await pid_of(tmux))
    server.kill()
    await eventually(lambda: gone(server))
    assert tmux.socket.exists()
    async with opened(state_dir) as tmux:
        assert await pid_of(tmux) != server.pid


async def test_server_that_was_killed_is_replaced_at_the_next_request(state_dir: Path) -> None:
    async with opened(state_dir) as tmux:
        server = psutil.Process(await pid_of(tmux))
        server.kill()
        await eventually(lambda: gone(server))
        assert await pid_of(tmux) != server.pid


async def test_process_that_took_over_the_id_of_the_server_gets_no_signal(state_dir: Path) -> None:
    """SIGUSR1 would end it."""
    with subprocess.Popen(["sleep", "60"]) as other:  # noqa: ASYNC220 - it takes a millisecond
        (state_dir / "tmux.pid").write_text(str(other.pid))
        async with opened(state_dir) as tmux:
            assert await pid_of(tmux) != other.pid
        assert other.poll() is None
        other.kill()


@pytest.mark.parametrize("name", ["two words", "%H%%d", "#(touch pwned)", "'\"$HOME`id`", "é 日本", "a;b", "new\nline"])
async def test_awkward_state_directory_works(state_dir: Path, name: str) -> None:
    where = state_dir / name
    try:
        async with opened(where) as tmux:
            launched = await launch_pane(tmux, ["echo", "recorded"])
            await launched.ended()
            assert launched.output() == b"recorded\n"
        assert os.listdir(state_dir) == [name]
    finally:
        end_server(where)


# ---- what is refused -------------------------------------------------------------------------------


def foreign(socket: str, *args: str) -> str:
    argv = [TMUX, "-f/dev/null", "-S", socket, *args]
    return subprocess.run(
        argv, check=True, capture_output=True, text=True, env={"HOME": "/", "PATH": os.defpath}
    ).stdout


async def test_foreign_server_on_our_socket_is_told(state_dir: Path) -> None:
    socket = str(state_dir / "tmux.sock")
    foreign(socket, "new-session", "-d", "sleep", "600")
    error = await _failing(state_dir)
    assert isinstance(error, TmuxFailed)
    assert "not ours" in error.message
    assert "kill-server" in error.hint
    assert len(foreign(socket, "list-sessions").splitlines()) == 1, "we left something behind"


async def _failing(state_dir: Path) -> TmuxMcpError:
    try:
        async with opened(state_dir):
            pytest.fail("it was accepted")
    except* TmuxMcpError as group:
        error = group.exceptions[0]
        assert isinstance(error, TmuxMcpError)
        found = error
    return found


async def test_path_that_no_socket_can_have(state_dir: Path) -> None:
    rest = SOCKET_PATH_LIMIT - len(str(state_dir)) - len("//tmux.sock")
    error = await _failing(state_dir / ("x" * (rest + 1)))
    assert isinstance(error, InvalidArgument)
    assert "state_dir" in error.hint
    longest = state_dir / ("x" * rest)
    async with opened(longest) as tmux:
        assert await pid_of(tmux)
    end_server(longest)


async def test_state_directory_that_is_not_ours_alone(state_dir: Path) -> None:
    real = state_dir / "real"
    real.mkdir(mode=0o700)
    link = state_dir / "link"
    link.symlink_to(real)
    file = state_dir / "file"
    file.touch()
    open_to_all = state_dir / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    for path, words in ((link, "symbolic link"), (file, "not a directory"), (open_to_all, "open to other users")):
        error = await _failing(path)
        assert isinstance(error, PermissionDenied), path
        assert words in error.message
        assert error.hint
    assert list(real.iterdir()) == list(open_to_all.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give directories away")
async def test_state_directory_of_somebody_else(state_dir: Path) -> None:
    path = state_dir / "theirs"
    path.mkdir(mode=0o700)
    os.chown(path, 12345, 12345)
    error = await _failing(path)
    assert isinstance(error, PermissionDenied)
    assert "another user" in error.message


async def test_new_state_directory_is_private(state_dir: Path) -> None:
    where = state_dir / "a" / "b"
    before = os.umask(0)
    try:
        async with opened(where):
            assert stat.S_IMODE(where.stat().st_mode) == 0o700
            assert stat.S_IMODE(where.parent.stat().st_mode) & 0o022 == 0
    finally:
        os.umask(before)
        end_server(where)


async def test_file_in_the_place_of_the_socket(state_dir: Path) -> None:
    (state_dir / "tmux.sock").write_text("mine")
    error = await _failing(state_dir)
    assert isinstance(error, PermissionDenied)
    assert (state_dir / "tmux.sock").read_text() == "mine"


async def test_tmux_that_is_missing(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(server_module, "SEARCH_PATH", "/nowhere")
    error = await _failing(state_dir)
    assert isinstance(error, TmuxUnavailable)
    assert "apt install tmux" in error.hint


async def test_tmux_that_is_not_on_path_is_found_where_systems_put_it(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "SEARCH_PATH", os.path.dirname(TMUX))
    monkeypatch.setenv("PATH", "/nowhere")
    tmux = Tmux(state_dir)
    tmux.check()
    assert tmux.binary == TMUX


@pytest.mark.parametrize(
    ("said", "accepted"),
    [
        ("3.1", False),
        ("2.9a", False),
        ("3.2", True),
        ("3.10b", True),
        ("next-3.6", True),
        ("master", True),
        ("openbsd-7.4", True),
    ],
)
async def test_version_of_tmux(
    state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, accepted: bool
) -> None:
    fake = tmp_path / "tmux"
    fake.write_text(f"#!/bin/sh\necho tmux {said}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    tmux = Tmux(state_dir)
    if accepted:
        tmux.check()
        assert (tmux.binary, tmux.version) == (str(fake), said)
    else:
        error = await _failing(state_dir)
        assert isinstance(error, TmuxUnavailable)
        assert said in error.message
        assert "3.2" in error.hint


async def test_tmux_that_cannot_be_run(state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "tmux"
    fake.write_bytes(b"\0")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert isinstance(await _failing(state_dir), TmuxUnavailable)
    assert shutil.which("tmux") == str(fake)
