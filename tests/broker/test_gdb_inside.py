"""gdb in a sandbox: at each level that this machine has it debugs, and what its commands run is inside as well."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import anyio
import pytest

from tests.broker.test_gdb import built
from tests.conftest import eventually
from tests.kit.sandboxes import LEVELS, a_boxed_broker
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import IoError, PathOutsideRoot, PolicyDenied, SessionTaken
from tmuxmcp.contract.results import GdbCmdResult
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.sessions import lease

pytestmark = pytest.mark.skipif(not (shutil.which("gdb") and shutil.which("gcc")), reason="needs gdb and gcc")


@pytest.mark.parametrize("level", LEVELS)
async def test_it_debugs_inside_and_so_do_its_commands(state_dir: Path, home: Path, tmp_path: Path, level: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    program = built(root)
    (root / "commands").write_text(f"shell touch {outside}-source\n")
    async with a_boxed_broker(level, state_dir, root, cwd=str(root)) as broker:
        opened = await broker.gdb_open(str(program), ["a b"])

        async def ask(command: str, timeout_ms: int = 10_000) -> GdbCmdResult:
            return await broker.gdb_cmd(opened.gdb_id, command, timeout_ms)

        facts = await broker.get_session(opened.session_id)
        assert (opened.sandbox, facts.sandbox) == (level, level)
        assert ("keeps no files apart" in (opened.note or "")) == (level == "limits")
        await ask("break check")
        assert (await ask("run", 1000)).running
        screen = await broker.read(session_id=opened.session_id, view="screen", wait_for="pattern", pattern="Word")
        assert "<a b>" in screen.content
        await broker.send("open sesame", session_id=opened.session_id, enter=True, wait_for="none")
        stopped = (await ask("")).stopped
        assert stopped
        assert stopped.frame
        assert stopped.frame["func"] == "check"
        assert '"open sesame"' in (await ask("print word")).text

        # Whatever its commands run is where the program is.
        tries = {
            "shell": "shell touch {}",
            "bang": "!touch {}",
            "pipe": "pipe print 1 | touch {}",
            "python": "python open({!r}, 'w').close()",
            "source": f"source {root}/commands",
            "write": "dump value {} 1",
        }
        for name, command in tries.items():
            await ask(command.format(f"{outside}-{name}"))
            assert (tmp_path / f"outside-{name}").exists() == (level == "limits"), name
            if name != "source":
                await ask(command.format(f"{root}/{name}"))
                assert (root / name).exists(), name
        # What is busy inside is interrupted from outside.
        assert "not answered" in ((await ask("shell sleep 60", 300)).note or "")
        await ask("interrupt")
        assert (await ask("continue")).stopped

        for path in (*([] if level == "limits" else [str(state_dir / "tmux.sock")]), "/tmp/none"):
            with pytest.raises(PathOutsideRoot):
                await broker.gdb_open(path)
        with pytest.raises(PolicyDenied, match="attach"):
            await broker.gdb_open(pid=os.getpid())
        assert (await broker.gdb_close(opened.gdb_id)).closed


async def test_nothing_is_typed_or_run_while_a_person_has_the_session(
    state_dir: Path, home: Path, tmp_path: Path
) -> None:
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash")) as broker:
        opened = await broker.gdb_open(str(built(tmp_path)), ["loop"])
        gdb_id, session = opened.gdb_id, broker.registry.sessions[opened.session_id]
        assert (await broker.gdb_cmd(gdb_id, "run", 300)).running
        await lease.take(session, "cli")
        for command in ("interrupt", "print 1", "shell true", "-exec-interrupt"):
            with pytest.raises(SessionTaken):
                await broker.gdb_cmd(gdb_id, command)
        with pytest.raises(SessionTaken):
            await broker.gdb_close(gdb_id)
        assert (await broker.gdb_cmd(gdb_id, "", 100)).running
        await lease.release(session)
        # Whoever waits for a stop is told at once.
        async with anyio.create_task_group() as tasks:
            told: list[GdbCmdResult] = []

            async def wait() -> None:
                told.append(await broker.gdb_cmd(gdb_id, "", 30_000))

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await lease.take(session, "cli")
            await eventually(lambda: told)
        assert "taken" in (told[0].note or "")
        await lease.release(session)
        assert (await broker.gdb_cmd(gdb_id, "interrupt")).stopped
        # Its session ends with it, however it ends.
        with pytest.raises(IoError):
            await broker.gdb_cmd(gdb_id, "shell kill -9 $PPID")

        async def ended() -> bool:
            return (await broker.get_session(opened.session_id)).exited

        await eventually(ended)
