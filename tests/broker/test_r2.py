"""radare2 through a real client: exact answers, bounds, and that nothing of it is left. Without it: what is refused."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from tests.kit.agent import Agent, an_agent, eventually, refused
from tests.kit.fixtures import of_file
from tests.kit.sandboxes import LEVELS, a_boxed_broker
from tmuxmcp.broker.broker import Broker
from tmuxmcp.broker.programs import r2
from tmuxmcp.contract.errors import InvalidArgument, SessionBusy, TmuxMcpError
from tmuxmcp.contract.settings import BrokerSettings

needs_r2 = pytest.mark.skipif(
    not any(map(shutil.which, r2.ECHO_COMMANDS)), reason="needs radare2 or rizin, which Debian 12 does not have"
)


agent = of_file(an_agent, "--tools", "r2")


@pytest.fixture
def r2_id(agent: Agent) -> Iterator[str]:
    r2_id = agent.call("r2_open", path="/bin/true")["r2_id"]
    yield r2_id
    if r2_id in str(refused("SESSION_NOT_FOUND", agent.call, "r2_close", r2_id="r2_none")).partition("Open:")[2]:
        agent.call("r2_close", r2_id=r2_id)


def running(path: str) -> list[psutil.Process]:
    """Those that have a file open, by their command lines."""
    found = psutil.process_iter(["cmdline"])
    return [each for each in found if (each.info["cmdline"] or [""])[-1] == path and "-q0" in each.info["cmdline"]]


@needs_r2
def test_answers_are_exact(agent: Agent, r2_id: str):
    def text(command: str, **more: Any) -> dict[str, Any]:
        return agent.call("r2_cmd", r2_id=r2_id, command=command, **more)

    elf = Path("/bin/true").read_bytes()
    assert text("s 0;p8 16")["text"] == elf[:16].hex() + "\n"
    zeros = text("pr 16 @ 0")  # with NUL, which ends an answer for others
    assert (zeros["text"], zeros["truncated"]) == (elf[:16].decode(), False)
    assert text("!echo a")["text"] == "a\n"
    wrong = text("nosuchcommand")
    assert wrong["text"] == ""
    assert "nosuchcommand" in wrong["messages"]
    assert text("s 0;p8 16")["text"] == elf[:16].hex() + "\n"
    cut = text("p8 5000 @ 0", max_bytes=100)
    assert (cut["text"], cut["truncated"]) == (elf[:50].hex(), True)
    assert "not UTF-8" in text("!printf '\\377'")["note"]
    assert text("?e " + "a" * 3990)["text"] == "a" * 3990 + "\n"
    assert agent.call("r2_cmdj", r2_id=r2_id, command="pxj 4 @ 0")["json"] == [0x7F, 0x45, 0x4C, 0x46]
    assert agent.call("r2_cmdj", r2_id=r2_id, command="ij")["json"]["bin"]["bits"] == 64
    assert "begins with" in str(refused("INVALID_ARGUMENT", agent.call, "r2_cmdj", r2_id=r2_id, command="?e no"))
    refused("RESOURCE_LIMIT", agent.call, "r2_cmdj", r2_id=r2_id, command="ij", max_bytes=100)
    assert agent.call("r2_close", r2_id=r2_id) == {"closed": True}
    refused("SESSION_NOT_FOUND", agent.call, "r2_cmd", r2_id=r2_id, command="i")


@needs_r2
def test_what_takes_too_long_or_quits_is_gone(agent: Agent, tmp_path: Path):
    file = str(shutil.copy("/bin/true", tmp_path / "a b"))
    (tmp_path / "a b.r2").write_text(f"!touch '{tmp_path}/hostile'\n")
    slow = agent.call("r2_open", path=file)["r2_id"]
    assert running(file)
    begun = time.monotonic()
    assert "ended" in str(refused("TIMEOUT", agent.call, "r2_cmd", r2_id=slow, command="!sleep 60", timeout_ms=300))
    assert time.monotonic() - begun < 10
    eventually(lambda: not running(file))
    refused("SESSION_NOT_FOUND", agent.call, "r2_cmd", r2_id=slow, command="i")
    quits = agent.call("r2_open", path=file)["r2_id"]
    assert "has ended" in str(refused("IO_ERROR", agent.call, "r2_cmd", r2_id=quits, command="q"))
    refused("SESSION_NOT_FOUND", agent.call, "r2_close", r2_id=quits)
    refused("IO_ERROR", agent.call, "r2_open", path=file, args=["-v"])  # says its version, and ends
    opened = [agent.call("r2_open", path=file)["r2_id"] for _ in range(4)]
    assert opened[0] in str(refused("RESOURCE_LIMIT", agent.call, "r2_open", path=file))
    for each in opened:
        agent.call("r2_close", r2_id=each)
    eventually(lambda: not running(file))
    assert not (tmp_path / "hostile").exists()


@needs_r2
def test_it_ends_with_the_server(tmp_path: Path):
    file = str(shutil.copy("/bin/true", tmp_path / "program"))
    with an_agent("--tools", "r2") as agent:
        agent.call("r2_open", path=file)
        assert running(file)
    eventually(lambda: not running(file))


@needs_r2
async def test_one_command_at_a_time_and_a_cancelled_one_ends_it(state_dir: Path, home: Path):
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash")) as broker:
        r2_id = (await broker.r2_open("/bin/true")).r2_id
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(broker.r2_cmd, r2_id, "!sleep 30")
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(SessionBusy):
                await broker.r2_cmd(r2_id, "i")
            tasks.cancel_scope.cancel()
        with pytest.raises(TmuxMcpError, match="None is open"):
            await broker.r2_cmd(r2_id, "i")


PROTOCOL = r"""#!/bin/sh
printf '\0'
while IFS= read -r line; do
    case $line in
        !*) sh -c "${line#!}" ;;
        "?e "*) echo "${line#*e }" ;;
    esac
    printf '\0'
done
"""
"""What speaks as radare2 does, and knows two of its commands."""


@pytest.mark.parametrize("level", LEVELS)
async def test_what_answers_as_radare2_runs_inside(state_dir: Path, home: Path, tmp_path: Path, level: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    (root / "radare2").write_text(PROTOCOL)
    (root / "radare2").chmod(0o700)
    path = f"{root}:{os.environ['PATH']}"
    async with a_boxed_broker(level, state_dir, root, env={"PATH": path}) as broker:
        r2_id = (await broker.r2_open(str(root / "radare2"))).r2_id
        told = await broker.r2_cmd(r2_id, "!grep -c '^NoNewPrivs:.1' /proc/self/status")
        assert told.text == "1\n"
        told = await broker.r2_cmd(r2_id, f"!ls {state_dir} | grep -c tmux.sock")
        assert told.text == ("1\n" if level == "limits" else "0\n")
        await broker.r2_cmd(r2_id, f"!touch {root}/made {outside}")
        assert (root / "made").exists()
        assert outside.exists() == (level == "limits")
        assert (await broker.r2_cmd(r2_id, "?e a")).text == "a\n"
        assert (await broker.r2_close(r2_id)).closed


@needs_r2
@pytest.mark.parametrize("level", LEVELS)
async def test_it_runs_inside(state_dir: Path, home: Path, tmp_path: Path, level: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    file = shutil.copy("/bin/true", root / "program")
    async with a_boxed_broker(level, state_dir, root) as broker:
        r2_id = (await broker.r2_open(str(file))).r2_id
        assert (await broker.r2_cmd(r2_id, "p8 4 @ 0")).text == "7f454c46\n"
        await broker.r2_cmd(r2_id, f"!touch {root}/made")
        await broker.r2_cmd(r2_id, f"!touch {outside}")
        assert (root / "made").exists()
        assert outside.exists() == (level == "limits")
        assert (await broker.r2_close(r2_id)).closed


def test_commands_and_paths_that_are_none(agent: Agent, tmp_path: Path):
    refused("FILE_NOT_FOUND", agent.call, "r2_open", path=str(tmp_path / "none"))
    for path in (str(tmp_path), "", "a\0"):
        refused("INVALID_ARGUMENT", agent.call, "r2_open", path=path)
    os.mkfifo(tmp_path / "pipe")
    refused("INVALID_ARGUMENT", agent.call, "r2_open", path=str(tmp_path / "pipe"))
    refused("INVALID_ARGUMENT", agent.call, "r2_open", path="/bin/true", args=["\0"])
    for command in ("", " ", "i\nq", "i\0", "i\r", "a" * 4001):
        refused("INVALID_ARGUMENT", agent.call, "r2_cmd", r2_id="r2_none", command=command)
    assert "None is open" in str(refused("SESSION_NOT_FOUND", agent.call, "r2_cmd", r2_id="r2_none", command="i"))


def test_files_root_holds_and_without_a_program_it_says_what_to_install(tmp_path: Path):
    root = tmp_path / "root"
    root.mkdir()
    shutil.copy("/bin/true", root / "program")
    (root / "linked").symlink_to("/bin/true")
    with an_agent("--tools", "r2", "--files-root", str(root), "--env", f"PATH={tmp_path}") as agent:
        for path in ("linked", "/bin/true", "../root2"):
            refused("PATH_OUTSIDE_ROOT", agent.call, "r2_open", path=path)
        assert "Install radare2" in str(refused("PROGRAM_NOT_FOUND", agent.call, "r2_open", path="program"))


def test_an_answer_is_json_of_bounded_depth():
    assert r2.parsed(b'{"a": [1, null]}\n') == {"a": [1, None]}
    for data in (b"", b"no", b"NaN", b"\xff", b"[" * 200 + b"]" * 200, b"[" * 100_000, b'{"a": 1} {}'):
        with pytest.raises(InvalidArgument):
            r2.parsed(data)
