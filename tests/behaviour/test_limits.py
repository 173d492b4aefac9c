"""A session's limits hold for all that it starts, and whoever keeps them is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import SLOW, eventually
from tests.kit.limits import GROUPS, daemon, kept, needs, numbers
from tests.kit.processes import alive
from tmuxmcp.broker import sending
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import InvalidArgument, ResourceLimit
from tmuxmcp.contract.settings import BrokerSettings, Limits
from tmuxmcp.machine import cgroup, processes


@pytest.fixture
def no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in most containers."""
    monkeypatch.setattr(cgroup, "places", lambda pid="self": [])


# ---- ending everything -----------------------------------------------------------------------------


@pytest.mark.skipif(not GROUPS, reason="no cgroup can be made here")
async def test_daemon_without_environment_is_ended_by_the_group(broker: Broker, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(processes, "mark_of", lambda key, pid: processes.NO_MARK)
    await ends_daemon(broker, tmp_path)


@pytest.mark.usefixtures("no_groups")
async def test_daemon_without_environment_is_ended_by_its_mark(broker: Broker, tmp_path: Path) -> None:
    await ends_daemon(broker, tmp_path)


async def ends_daemon(broker: Broker, tmp_path: Path) -> None:
    command, file = daemon(tmp_path)
    await broker.create_session(name="a")
    await broker.create_session(name="other")
    other = (await broker.get_session("other")).pid or 0
    await broker.run(command, session_id="a")
    (pid,) = await eventually(lambda: numbers(file))
    await eventually(lambda: Path(f"/proc/{pid}/environ").read_bytes() == b"")
    assert os.getsid(pid) != os.getsid(other)
    ended = await broker.destroy_session("a", grace_ms=200)
    assert ended.survivors == []
    assert not alive(pid)
    assert alive(other)


async def test_what_a_lost_session_left_behind_is_ended(broker: Broker, tmp_path: Path) -> None:
    """Its tmux server was killed; nobody tells what holds on that all is over."""
    command, file = daemon(tmp_path)
    await broker.create_session(name="a")
    await broker.run(command, session_id="a")
    (pid,) = await eventually(lambda: numbers(file))
    broker.tmux.run("kill-session", "-t", "=a")
    ended = await broker.destroy_session("a", grace_ms=100)
    assert (ended.destroyed, ended.survivors) == (True, [])
    assert not alive(pid)


# ---- limits ----------------------------------------------------------------------------------------


CHILDREN_TOGETHER = """import os, time
sizes = []
for number in range(3):
    if os.fork() == 0:
        data = bytearray(60 << 20)
        time.sleep(600)
while True:
    pid, status = os.wait()
    print("ended by", status & 127, flush=True)"""


FORKS = """import os, time
children = 0
try:
    while children < 100:
        if os.fork() == 0:
            time.sleep(600)
        children += 1
except OSError:
    pass
print("children", children, flush=True)
time.sleep(600)"""


@needs("memory")
async def test_memory_of_the_whole_tree_counts(broker: Broker) -> None:
    """Each child alone would be within the limit."""
    limits = Limits(memory_mb=100)
    await broker.create_session("python3", ["-c", CHILDREN_TOGETHER], name="a", wait_ready=False, limits=limits)
    read = await broker.read(session_id="a", wait_for="pattern", pattern="ended by 9", timeout_ms=20_000)
    assert read.outcome == "matched"
    assert kept(await broker.get_session("a")) == {"memory_mb": "cgroup"}
    # A command of a shell says it once.
    await broker.create_session("bash", name="b", limits=limits)
    ran = await broker.run("python3 -c 'bytearray(10**9)'", "b", timeout_ms=20_000)
    assert ran.exit_code == 137
    assert "limit memory_mb" in (ran.note or "")
    assert (await broker.run("(exit 137)", "b")).note is None


@needs("pids")
async def test_processes_of_the_whole_tree_count(broker: Broker) -> None:
    await broker.create_session("python3", ["-c", FORKS], name="a", wait_ready=False, limits=Limits(processes=20))
    await broker.create_session("bash", name="b")
    read = await broker.read(session_id="a", wait_for="pattern", pattern=r"children [0-9]+\n")
    assert read.matched == "children 19\n"
    assert (await broker.run("(true); echo fine", session_id="b")).output == "fine\n"
    assert (await broker.destroy_session("a", force=True)).survivors == []


@pytest.mark.usefixtures("no_groups")
async def test_without_groups_each_process_is_limited_and_what_nobody_keeps_is_told(broker: Broker) -> None:
    limits = Limits(memory_mb=200, open_files=64, file_mb=1, cpu_seconds=1, cpu_percent=50, duration_s=900.5)
    made = await broker.create_session("bash", name="a", limits=limits)
    assert "cpu_percent" in str(made.note)
    by = kept(await broker.get_session("a"))
    assert by.pop("duration_s") == "broker"
    assert by.pop("cpu_percent") == "nobody"
    assert set(by.values()) == {"rlimit"}
    assert (await broker.run("python3 -c 'bytearray(400 << 20)'", session_id="a")).exit_code == 1
    assert (await broker.run("ulimit -n -H", session_id="a")).output == "64\n"
    assert (await broker.run("head -c 2M /dev/zero >~/big; stat -c %s ~/big", session_id="a")).output.endswith(
        "1048576\n"
    )
    assert (await broker.run("bash -c 'while :; do :; done'", session_id="a", timeout_ms=20_000)).exit_code in (
        137,
        152,
    )


async def test_a_session_lives_no_longer_than_its_own_limit(broker: Broker) -> None:
    await broker.create_session("cat", name="long", limits=Limits(duration_s=600))
    await broker.create_session("sleep", ["600"], name="a", wait_ready=False, limits=Limits(duration_s=0.3))

    async def names() -> list[str]:
        return [session.session_id for session in (await broker.list_sessions(include_exited=False)).sessions]

    async def only_the_other() -> bool:
        return await names() == ["long"]

    await eventually(only_the_other, 10)


@pytest.mark.skipif(not any(place.unified for place in GROUPS), reason="only version 2 counts processor time for us")
async def test_processor_time_of_all_together_counts(broker: Broker) -> None:
    """Each of them ends before its own second is over."""
    loop = "while :; do timeout 0.2 sh -c 'while :; do :; done'; done"
    await broker.create_session("sh", ["-c", loop], name="a", wait_ready=False, limits=Limits(cpu_seconds=1))

    async def gone() -> bool:
        return not (await broker.list_sessions(include_exited=False)).sessions

    await eventually(gone, 30)
    ended = (await broker.get_session("a")).ended
    assert ended
    assert ended.reason == "cpu"


async def test_settings_bound_what_a_caller_may_ask_for(state_dir: Path, home: Path) -> None:
    settings = BrokerSettings(state_dir=state_dir, program="bash", limits=Limits(open_files=100, file_mb=5))
    async with Broker.open(settings) as broker:
        await broker.create_session(name="a", limits=Limits(open_files=1000, file_mb=2))
        limits = {limit.name: limit.value for limit in (await broker.get_session("a")).limits}
        assert limits == {"open_files": 100, "file_mb": 2}


async def test_groups_are_gone_with_their_session(broker: Broker) -> None:
    await broker.create_session(name="a", limits=Limits(memory_mb=500, processes=100, cpu_percent=100))
    groups = broker.registry.sessions["a"].bounds.groups
    pid = (await broker.get_session("a")).pid
    assert all(pid in cgroup.members([group]) for group in groups)
    await broker.destroy_session("a")
    assert [group for group in groups if os.path.exists(group)] == []  # noqa: ASYNC240 - as fast as anything


# ---- input that nobody reads -----------------------------------------------------------------------

NEVER_READS = "import tty, time; tty.setraw(0); print('here', flush=True); time.sleep(600)"


async def is_full(broker: Broker) -> bool:
    """Whether what was typed has filled the terminal: what is typed next has to wait in tmux."""
    look = await broker.registry.sessions["a"].look()
    return look.facts is not None and look.facts.unread >= sending.TTY_FULL


async def test_input_to_a_program_that_never_reads_is_bounded(state_dir: Path, home: Path) -> None:
    settings = BrokerSettings(state_dir=state_dir, max_input_bytes=50_000)
    async with Broker.open(settings) as broker, Broker.open(settings) as other:
        await broker.create_session("python3", ["-c", NEVER_READS], name="a", wait_ready=False)
        await broker.read(session_id="a", wait_for="pattern", pattern="here")
        for each in (broker, other):  # what one of them typed the other knows
            await each.send("x" * 24_000, session_id="a", read="none")
            await eventually(lambda: is_full(broker))
        for each in (broker, other):
            with pytest.raises(ResourceLimit, match="does not read its input: 48,000 bytes wait") as caught:
                await each.send("x" * 24_000, session_id="a")
            assert caught.value.details["limit"] == "max_input_bytes"
        await broker.send("x" * 1000, session_id="a", read="none")
        assert (await broker.signal("KILL", session_id="a")).delivered


async def test_a_line_that_is_refused_does_not_count_as_waiting(broker: Broker) -> None:
    await broker.create_session("sleep", ["600"], name="a", wait_ready=False)
    for _ in range(2):
        await broker.send("x\n" * 4000, session_id="a", read="none")
        await eventually(lambda: is_full(broker))
    queued = broker.registry.sessions["a"].queued
    waiting = queued.bytes
    with pytest.raises(InvalidArgument, match="A line has 5,000 bytes"):
        await broker.send("y" * 5000, session_id="a")
    assert queued.bytes == waiting > 8000


SLOW_READER = """import sys, time, tty
tty.setraw(0)
print('here', flush=True)
left = int(sys.argv[1])
time.sleep(0.2)
while left > 0:
    left -= len(sys.stdin.buffer.raw.read(4096))
print('all', flush=True)
time.sleep(600)"""


async def test_input_to_a_slow_reader_arrives(state_dir: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "QUEUE_S", sending.QUEUE_S * SLOW)
    settings = BrokerSettings(state_dir=state_dir, max_input_bytes=50_000)
    async with Broker.open(settings) as broker:
        await broker.create_session("python3", ["-c", SLOW_READER, "180000"], name="a", wait_ready=False)
        await broker.read(session_id="a", wait_for="pattern", pattern="here")
        for _ in range(6):
            await broker.send("x" * 30_000, session_id="a", read="none")
        assert (await broker.read(session_id="a", wait_for="pattern", pattern="all")).outcome == "matched"
