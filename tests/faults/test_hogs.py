"""Programs that take all they can, under limits: stopped at the limit, nothing of them is left, others go on."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psutil

from tests.conftest import SLOW, eventually
from tests.kit.limits import daemon, kept, needs, numbers
from tests.kit.processes import alive
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.settings import BrokerSettings, Limits
from tmuxmcp.sessions.end import process_tree

PROCESSES = 40
BOMB = """import os, sys
input()
while True:
    try:
        os.fork()
    except OSError:
        pass"""
MEMORY = "hog = []\nwhile True:\n    hog.append(bytearray(8 << 20))"
STUBBORN = "trap '' HUP INT TERM QUIT TSTP; while :; do sleep 1; done"
LASTS_S = 1.0 * SLOW
"""Within that time what is under a limit has to begin."""


async def is_gone(broker: Broker, session_id: str, within_s: float) -> None:
    """The broker has ended it, with all that is in it."""
    session = broker.registry.sessions[session_id]

    async def gone() -> bool:
        listed = {row.session_id for row in (await broker.list_sessions(include_exited=False)).sessions}
        return session_id not in listed and not any(map(alive, process_tree(session)))  # the dead may wait for init

    await eventually(gone, within_s)


async def fine(broker: Broker) -> None:
    assert (await broker.run("(echo fine)", session_id="beside")).output == "fine\n"


@needs("pids")
async def test_fork_bomb_ends_at_its_time(broker: Broker) -> None:
    """It does not go off before it is certain that the kernel counts its processes."""
    await broker.create_session(name="beside")
    limits = Limits(processes=PROCESSES, duration_s=LASTS_S, cpu_percent=50)
    await broker.create_session(sys.executable, ["-IS", "-c", BOMB], name="a", wait_ready=False, limits=limits)
    assert kept(await broker.get_session("a"))["processes"] == "cgroup"
    session = broker.registry.sessions["a"]
    await broker.send("\n", session_id="a", read="none")
    await eventually(lambda: len(process_tree(session)) > PROCESSES // 2)
    assert len(process_tree(session)) <= PROCESSES
    await fine(broker)
    await is_gone(broker, "a", LASTS_S + 2)
    await fine(broker)


@needs("memory")
async def test_memory_hog_is_stopped(broker: Broker) -> None:
    await broker.create_session(name="beside")
    limits = Limits(memory_mb=100)
    await broker.create_session(sys.executable, ["-IS", "-c", MEMORY], name="a", wait_ready=False, limits=limits)
    read = await broker.read(session_id="a", wait_for="exit", timeout_ms=int(20_000 * SLOW))
    assert read.exited
    assert (await broker.get_session("a")).exit_code != 0
    assert not any(map(alive, process_tree(broker.registry.sessions["a"])))
    await fine(broker)


async def test_endless_output_is_bounded_and_ends(state_dir: Path, home: Path) -> None:
    """`tests/attacks/test_exhaustion.py` tries other floods, without a limit of time."""
    most = 4 << 20
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash", log_max_bytes=most)) as broker:
        await broker.create_session(name="beside")
        limits = Limits(duration_s=LASTS_S)
        await broker.create_session("yes", name="a", wait_ready=False, limits=limits)
        directory, memory = state_dir / "sessions/a", psutil.Process().memory_info().rss
        await fine(broker)
        ran = await broker.read(session_id="a", timeout_ms=200, wait_for="idle")
        assert len(ran.content) < 20_000
        await is_gone(broker, "a", LASTS_S + 2)
        assert (directory / "out.raw").stat().st_blocks * 512 < 2 * most
        assert psutil.Process().memory_info().rss - memory < 64 << 20
        await fine(broker)


async def test_file_larger_than_its_limit_is_cut_off(broker: Broker, home: Path) -> None:
    await broker.create_session(name="a", limits=Limits(file_mb=2))
    ran = await broker.run("head -c 10G /dev/zero >~/big; stat -c %s ~/big", session_id="a")
    assert ran.output.endswith(f"{2 << 20}\n")


async def test_program_that_ignores_signals_and_its_daemon_end_in_time(broker: Broker, tmp_path: Path) -> None:
    """destroy_session within its grace time and 2 s; the time limit of a session likewise."""
    await broker.create_session(name="beside")
    command, file = daemon(tmp_path)
    for number, limits in enumerate((None, Limits(duration_s=LASTS_S))):
        name = f"a{number}"
        file.unlink(missing_ok=True)
        words = ["-c", f"{command}\n{STUBBORN}"]
        await broker.create_session("bash", words, name=name, wait_ready=False, limits=limits)
        (pid,) = await eventually(lambda: numbers(file))
        begun = time.monotonic()
        if limits:
            await is_gone(broker, name, LASTS_S + 2)
        else:
            ended = await broker.destroy_session(name, grace_ms=300)
            assert ended.survivors == []
            assert time.monotonic() - begun < (0.3 + 2) * SLOW
        assert not alive(pid)
    await fine(broker)
