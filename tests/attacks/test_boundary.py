"""With a sandbox in the settings there is one boundary, for all that acts, and callers do not move it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.kit.sandboxes import BEST
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import InvalidArgument, PathOutsideRoot, PolicyDenied, TmuxMcpError
from tmuxmcp.contract.operations import OPERATIONS
from tmuxmcp.contract.request import ACTS_BESIDE_SESSIONS, REGISTERED, Acts, Request, operation
from tmuxmcp.contract.results import WriteFileResult
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import asdict, replace
from tmuxmcp.machine.sandbox import sandbox
from tmuxmcp.machine.sandbox.project import roots_of


@pytest.fixture
def places(home: Path) -> Path:
    """A home directory with a root, a project in it, and what lies beside it."""
    for name in ("root/project", "root-two", "beside", ".ssh", ".config"):
        (home / name).mkdir(parents=True)
    (home / "root" / "way").symlink_to("../beside")
    (home / "to-root").symlink_to("root")
    return home


def confined(state_dir: Path, **values: Any) -> BrokerSettings:
    return replace(BrokerSettings(state_dir=state_dir, program="bash", sandbox="auto"), **values)


# ---- what acts -------------------------------------------------------------------------------------


def test_every_operation_says_what_it_touches() -> None:
    assert {row.acts for row in OPERATIONS.values()} <= set(get_args(Acts))
    with pytest.raises(TypeError, match="acts"):
        operation("Title", object)  # type: ignore[call-arg, arg-type, type-var]
    for row in OPERATIONS.values():
        if row.acts == "nothing":
            assert row.read_only, row.name
        if row.types:
            assert row.acts == "pane", row.name


async def test_what_acts_beside_sessions_acts_inside(state_dir: Path, places: Path) -> None:
    """Each operation that there is: a new one needs an attack of its own here."""
    made = places / "made"
    attacks: dict[str, dict[str, Any]] = {
        "run_process": {"argv": ["sh", "-c", f"grep NoNewPrivs: /proc/self/status; touch {made}"]},
        "write_file": {"path": str(made), "data": "x"},
        "read_file": {"path": str(state_dir / "tmux.pid")},
        "list_directory": {"path": str(state_dir)},
        **{name: {"path": str(state_dir)} for name in ("git_status", "git_log", "git_diff")},
        "r2_open": {"path": str(state_dir / "tmux.pid")},
        "gdb_open": {"path": str(state_dir / "tmux.pid")},
        "start_recording": {"path": str(made)},
        "export_recording": {"path": str(made)},
    }
    # These go on with the very file or process of another.
    follow = {"stop_recording", "r2_cmd", "r2_cmdj", "r2_close", "gdb_cmd", "gdb_close"}
    assert {*attacks, *follow} == {row.name for row in OPERATIONS.values() if row.acts in ACTS_BESIDE_SESSIONS}
    settings = confined(state_dir, sandbox_roots=(str(places / "root"),))
    async with Broker.open(settings) as broker:
        ran = await broker.perform(OPERATIONS["run_process"], attacks.pop("run_process"), Call("agent"))
        assert "NoNewPrivs:\t1\n" in asdict(ran).values()
        for name, arguments in attacks.items():
            with pytest.raises(PathOutsideRoot):
                await broker.perform(OPERATIONS[name], arguments, Call("agent"))
    assert BEST == "limits" or not made.exists()


@pytest.mark.parametrize("acts", ACTS_BESIDE_SESSIONS)
async def test_an_operation_that_nobody_brought_inside_is_refused(state_dir: Path, places: Path, acts: Acts) -> None:
    @operation("Probe", WriteFileResult, acts=acts, repeatable=False)
    class Probe(Request[WriteFileResult]):
        """Acts beside sessions."""

    try:
        async with Broker.open(confined(state_dir)) as broker:
            with pytest.raises(PolicyDenied, match="outside the sandbox"):
                await broker.do(Probe())
    finally:
        REGISTERED.pop("probe")


# ---- where ---------------------------------------------------------------------------------------


async def test_a_caller_works_beneath_the_roots_alone(state_dir: Path, places: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root = places / "root"
    async with Broker.open(confined(state_dir, sandbox_roots=(str(places / "to-root"),))) as broker:
        outside = (places / "beside", places / "root-two", root / "way", root / ".." / "beside", elsewhere, places)
        for cwd in (*outside, places / ".ssh", state_dir, Path("/tmp"), Path("/")):
            with pytest.raises(PolicyDenied):
                await broker.create_session(cwd=str(cwd))
        for cwd in (root, root / "project", places / "to-root" / "project"):
            made = await broker.create_session(cwd=str(cwd))
            assert Path(made.cwd or "").is_relative_to(root.resolve())
            ran = await broker.run("echo x >file && cat file && rm file", session_id=made.session_id)
            assert ran.output == "x\n"
            for other in (places / "beside", places / "root-two", elsewhere):
                await broker.run(
                    f"echo x >{other}/made; ln -s {other} link; echo x >link/made", session_id=made.session_id
                )
                if sandbox.best() != "limits":
                    assert os.listdir(other) == []


async def test_without_names_the_directory_of_the_settings_or_of_the_start_is_the_root(
    state_dir: Path, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(places / "root-two")
    for cwd, inside, outside in (
        (str(places / "root"), places / "root" / "project", places / "root-two"),
        ("", places / "root-two", places / "root"),
    ):
        async with Broker.open(confined(state_dir, cwd=cwd)) as broker:
            monkeypatch.chdir(places / "root")  # resolved once, at the start
            made = await broker.create_session(cwd=str(inside))
            assert made.cwd == str(inside.resolve())
            with pytest.raises(PolicyDenied, match="in none of sandbox_roots"):
                await broker.create_session(cwd=str(outside))
            monkeypatch.chdir(places / "root-two")


async def test_started_in_the_home_directory_there_is_no_root(
    state_dir: Path, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in (places, places / ".ssh", places.parent, Path("/")):
        monkeypatch.chdir(start)
        async with Broker.open(confined(state_dir)) as broker:
            made = await broker.create_session()
            assert f"{state_dir.name}/sessions/" in (made.cwd or "")
            assert "an empty directory of its own" in (made.note or "")
            ran = await broker.run("echo x >file; ls", session_id=made.session_id)
            assert ran.output == "file\n"
            with pytest.raises(PolicyDenied, match="sandbox_roots"):
                await broker.create_session(cwd=str(places / "root"))
            await broker.destroy_session(made.session_id)


async def test_what_is_put_in_place_of_a_root_is_none(state_dir: Path, places: Path) -> None:
    root = places / "root"
    async with Broker.open(confined(state_dir, sandbox_roots=(str(root),))) as broker:
        root.rename(places / "moved")
        (places / "root").symlink_to("beside")
        with pytest.raises(PolicyDenied, match="in none of sandbox_roots"):
            await broker.create_session(cwd=str(root))
        root.unlink()
        shutil.copytree(places / "beside", root)
        with pytest.raises(PolicyDenied, match="in none of sandbox_roots"):
            await broker.create_session(cwd=str(root))


def test_no_root_is_where_keys_settings_or_programs_lie(places: Path, state_dir: Path) -> None:
    ours = [str(state_dir), str(places / ".config")]
    for path in (
        places,
        places / ".ssh",
        places / ".config",
        places.parent,
        state_dir,
        "/",
        "/etc",
        "/tmp",
        places / "no",
    ):
        with pytest.raises(InvalidArgument, match=re.escape(f"{path} cannot be one of sandbox_roots")):
            roots_of([str(places / "root"), str(path)], ".", ours)
        assert roots_of([], str(path), ours) == ()
    assert [root.path for root in roots_of([str(places / "to-root")], ".", ours)] == [str((places / "root").resolve())]


async def test_a_closed_root_ends_the_start(state_dir: Path, places: Path) -> None:
    with pytest.raises(TmuxMcpError, match="cannot be one of sandbox_roots"):
        async with Broker.open(confined(state_dir, sandbox_roots=(str(places),))):
            pass
