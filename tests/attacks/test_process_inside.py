"""With a sandbox in the settings `run_process` runs inside, at each level: what is out of its reach, and what works."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from tests.conftest import SLOW, eventually
from tests.kit.processes import living
from tests.kit.sandboxes import LEVELS, STRONG, a_boxed_broker, levels
from tmuxmcp.broker.broker import Broker
from tmuxmcp.broker.programs.inside import workplace
from tmuxmcp.contract.errors import PolicyDenied, ProgramNotFound, Unsupported
from tmuxmcp.contract.results import RunProcessResult
from tmuxmcp.contract.settings import BrokerSettings, Limits
from tmuxmcp.contract.value import replace
from tmuxmcp.machine.sandbox import sandbox

LONG_MS = 50_000


@pytest.fixture
async def boxed(
    anyio_backend: str, state_dir: Path, home: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Broker]:
    """A broker that demands this level, without a network; its root is `root`, and it works in `root/project`."""
    project = tmp_path / "root" / "project"
    for path in (project, tmp_path / "beside", home / ".ssh"):
        path.mkdir(parents=True)
    root, more = tmp_path / "root", {"sandbox_network": False, "cwd": str(project)}
    async with a_boxed_broker(request.param, state_dir, root, **more) as broker:
        yield broker


async def sh(broker: Broker, command: str, **more: Any) -> RunProcessResult:
    return await broker.run_process(["sh", "-c", command], **{"timeout_ms": LONG_MS, **more})


# ---- what is out of reach ----------------------------------------------------------------------------


@levels(LEVELS)
async def test_the_tmux_server_runs_nothing_for_it(boxed: Broker, state_dir: Path, home: Path) -> None:
    await boxed.create_session(name="other")
    attack = f"tmux -N -S {state_dir}/tmux.sock run-shell 'touch {home}/made'"
    assert (await sh(boxed, attack)).rc != 0
    unix = f'import socket; socket.socket(socket.AF_UNIX).connect("{state_dir}/tmux.sock")'
    assert (await boxed.run_process([sys.executable, "-c", unix])).rc == 1
    assert not (home / "made").exists()


@levels(STRONG)
async def test_nothing_of_other_sessions_and_of_the_home_directory(
    boxed: Broker, state_dir: Path, home: Path, tmp_path: Path
) -> None:
    await boxed.create_session(name="other")
    broker = psutil.Process()
    for attack in (
        f"cat {state_dir}/sessions/other/meta.json",
        f"cat {state_dir}/sessions/other/out.raw",
        f"cat {state_dir}/tmux.pid",
        f"echo x >>{home}/.bashrc",
        f"echo x >{home}/.ssh/authorized_keys",
        f"echo x >{tmp_path}/beside/made",
        "echo x >/etc/tmuxmcp-test",
        f"ln -s {home} link && echo x >link/made",
        f"cat /proc/{broker.pid}/environ",
        f"echo x >/proc/{broker.pid}/root{home}/made",
        f"kill -0 {broker.pid}",
    ):
        if attack.startswith("kill") and sandbox.best() == "landlock" and sandbox.landlock.version() < 6:
            continue
        ran = await sh(boxed, attack)
        assert ran.rc not in (0, None), (attack, ran)
    assert sorted(os.listdir(home)) == [".ssh"]
    assert os.listdir(home / ".ssh") == os.listdir(tmp_path / "beside") == []
    assert not os.path.exists("/etc/tmuxmcp-test")  # noqa: ASYNC240 - as fast as anything


@levels(STRONG)
async def test_no_loopback_without_the_network(boxed: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}))"
        assert (await boxed.run_process([sys.executable, "-c", code], timeout_ms=LONG_MS)).rc == 1
        boxed.boundary.settings = replace(boxed.settings, sandbox_network=True)
        assert (await boxed.run_process([sys.executable, "-c", code], timeout_ms=LONG_MS)).rc == 0


@levels(LEVELS)
async def test_it_has_what_a_session_has_of_the_sandbox(boxed: Broker) -> None:
    asked = "grep -E '^(NoNewPrivs|Seccomp|CapEff|CapBnd):' /proc/self/status; ls -1d /* 2>&1; umask"
    ran = await sh(boxed, asked)
    assert ran.sandbox == sandbox.best()
    await boxed.create_session("bash", name="a")
    assert ran.stdout == (await boxed.run(asked, session_id="a")).output
    assert "NoNewPrivs:\t1" in ran.stdout
    assert "CapEff:\t0000000000000000" in ran.stdout
    assert ("keeps no files apart" in (ran.note or "")) == (ran.sandbox == "limits")


@levels(LEVELS)
async def test_its_variables_have_no_effect_outside(boxed: Broker, home: Path, monkeypatch) -> None:
    monkeypatch.setenv("A_SECRET_TOKEN", "canary")
    variables = {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(home / "loader")}
    ran = await sh(boxed, "cat /proc/$PPID/environ /proc/self/environ", env=variables)
    assert "LD_DEBUG=libs" in ran.stdout
    assert "canary" not in ran.stdout
    assert ran.sandbox == "limits" or os.listdir(home) == [".ssh"]


# ---- where it works ----------------------------------------------------------------------------------


@levels(LEVELS)
async def test_it_works_beneath_the_roots_alone(boxed: Broker, home: Path, state_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "root" / "way").symlink_to("../beside")
    for cwd in (tmp_path / "beside", tmp_path / "root" / "way", home, home / ".ssh", state_dir, Path("/"), tmp_path):
        with pytest.raises(PolicyDenied, match="cannot work in"):
            await boxed.run_process(["touch", "made"], cwd=str(cwd))
    root = (tmp_path / "root").resolve()
    for cwd in (root, root / "project"):
        ran = await sh(boxed, "pwd; touch made", cwd=str(cwd))
        assert (ran.rc, ran.stdout, ran.cwd) == (0, f"{cwd}\n", str(cwd))
    if sandbox.best() != "limits":  # only its project: another one needs another cwd
        await sh(boxed, f"touch {root}/other")
        assert sorted(os.listdir(root)) == ["made", "project", "way"]
    assert os.listdir(tmp_path / "beside") == []


@levels(LEVELS)
async def test_without_a_root_it_works_in_a_directory_that_goes(boxed: Broker, home: Path, state_dir: Path) -> None:
    boxed.boundary.roots = ()
    ran = await sh(boxed, "pwd; ls -A; echo x >file; cat file")
    assert (ran.rc, ran.stdout) == (0, f"{ran.cwd}\nx\n")
    assert "an empty directory of its own" in (ran.note or "")
    assert os.listdir(state_dir / "processes") == []


def test_what_a_killed_broker_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "left" / "tmp" / "deep").mkdir(parents=True)
    with workplace(tmp_path) as first, workplace(tmp_path) as second:
        assert {path.name for path in tmp_path.iterdir()} == {first.path.name, second.path.name}
        assert first.path.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


@levels(STRONG)
async def test_what_is_put_in_place_of_the_project_is_not_let_in(boxed: Broker, home: Path, tmp_path: Path) -> None:
    project = tmp_path / "root" / "project"
    judge = boxed.boundary.project

    def judged_and_then_moved(*given: str) -> Any:
        found = judge(*given)
        project.rename(tmp_path / "moved")
        project.symlink_to(home / ".ssh")
        return found

    boxed.boundary.project = judged_and_then_moved  # type: ignore[method-assign]
    with pytest.raises(Unsupported, match="something else has been put in its place"):
        await boxed.run_process(["touch", "made"])
    assert os.listdir(home / ".ssh") == []


# ---- as exact as outside -----------------------------------------------------------------------------


@levels(LEVELS)
async def test_status_streams_and_input_are_exact(boxed: Broker) -> None:
    ran = await sh(boxed, "cat; echo err >&2; exit 7", stdin="in\n")
    assert (ran.rc, ran.signal, ran.stdout, ran.stderr, ran.timed_out) == (7, None, "in\n", "err\n", False)
    for name in ("TERM", "SEGV", "KILL"):
        ran = await sh(boxed, f"kill -{name} $$")
        assert (ran.rc, ran.signal) == (None, name)
    assert (await sh(boxed, "exit 143")).rc == 143
    ran = await sh(boxed, "head -c 3000000 /dev/zero | tr '\\0' x; echo end", max_output_bytes=1000)
    assert (ran.stdout_bytes, ran.truncated, ran.stdout[-4:]) == (3_000_004, True, "end\n")
    with pytest.raises(ProgramNotFound):
        await boxed.run_process(["no-such-program"])
    busy = "import time\nwhile time.process_time() < 0.3: pass\nx = bytearray(60_000_000)"
    ran = await sh(boxed, f'"{sys.executable}" -c "{busy}"; true')
    assert ran.usage.cpu_ms >= 300
    assert ran.usage.max_rss_kb > 60_000


@levels(LEVELS)
async def test_limits_hold(boxed: Broker) -> None:
    ran = await sh(boxed, "ulimit -n; ulimit -v", limits=Limits(open_files=77, memory_mb=500))
    assert ran.stdout == f"77\n{500 * 1024}\n"


STAYS = (
    "import os, time; got, told = os.pipe(); os.fork() and (os.read(got, 1), os._exit(0)); os.setsid(); "
    "print('there', flush=True); os.write(told, b'x'); time.sleep(1000)"
)
SLEEPS = "import time; time.sleep(1000)"


@levels(LEVELS)
async def test_the_whole_tree_ends_with_the_time(boxed: Broker, tmp_path: Path) -> None:
    mark = f"mark-{tmp_path.name}"
    command = f"trap 'echo told; exit 3' TERM; {sys.executable} -c \"{STAYS}\" {mark}; sleep 1000 & wait"
    ran = await sh(boxed, command, timeout_ms=int(2500 * SLOW))
    assert (ran.rc, ran.timed_out, ran.stdout) == (3, True, "there\ntold\n")
    assert living(mark) == []


@levels(LEVELS)
async def test_what_it_leaves_running_ends(boxed: Broker, tmp_path: Path) -> None:
    mark = f"mark-{tmp_path.name}"
    ran = await boxed.run_process([sys.executable, "-c", STAYS, mark], timeout_ms=LONG_MS)
    assert (ran.rc, ran.stdout) == (0, "there\n")
    assert "1 processes that it left running were ended" in (ran.note or "")
    assert living(mark) == []


@levels(LEVELS)
async def test_cancelled_it_ends(boxed: Broker, tmp_path: Path) -> None:
    mark = f"mark-{tmp_path.name}"
    async with anyio.create_task_group() as tg:
        tg.start_soon(boxed.run_process, [sys.executable, "-c", SLEEPS, mark])
        await eventually(lambda: living(mark))
        tg.cancel_scope.cancel()
    assert living(mark) == []


def names_of(pids: list[str]) -> list[str]:
    found = []
    for pid in pids:
        with suppress(psutil.Error):
            found.append(psutil.Process(int(pid)).name())
    return found


@pytest.mark.parametrize("boxed", [level for level in LEVELS if "bubblewrap" in level.values], indirect=True)
async def test_bwrap_is_a_child_of_the_thread_that_stays(boxed: Broker, tmp_path: Path) -> None:
    """By --die-with-parent it would end with another one: an idle one is given up after some seconds."""
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    if not children.exists():  # noqa: ASYNC240 - as fast as anything
        pytest.skip("this kernel does not list children")
    mark = f"mark-{tmp_path.name}"
    async with anyio.create_task_group() as tg:
        tg.start_soon(boxed.run_process, [sys.executable, "-c", SLEEPS, mark])
        await eventually(lambda: living(mark) and "bwrap" in names_of(children.read_text().split()))
        tg.cancel_scope.cancel()


@levels(LEVELS)
async def test_work_that_is_allowed_works(boxed: Broker, tmp_path: Path) -> None:
    project = tmp_path / "root" / "project"
    (project / "main.c").write_text('#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    compiler = shutil.which("cc")
    build = f"{compiler} -o tool main.c" if compiler else "printf '#!/bin/sh\\necho built\\n' >tool; chmod +x tool"
    ran = await sh(boxed, f"{build} && ./tool && mkdir -p d && mv tool d/ && cat $(mktemp)")
    assert (ran.rc, ran.stdout, ran.stderr) == (0, "built\n", "")
    assert subprocess.check_output([project / "d" / "tool"]) == b"built\n"  # noqa: ASYNC221 - as fast as anything


async def test_required_is_refused_where_it_cannot_be_had(state_dir: Path, home: Path, monkeypatch) -> None:
    monkeypatch.setattr(sandbox, "best", lambda: "limits")
    monkeypatch.setattr(sandbox, "why_no_bubblewrap", lambda: "bubblewrap is not installed")
    async with Broker.open(BrokerSettings(state_dir=state_dir, sandbox="required")) as broker:
        with pytest.raises(Unsupported, match="bubblewrap is not installed"):
            await broker.run_process(["touch", str(home / "made")])
    assert os.listdir(home) == []
