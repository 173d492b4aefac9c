"""Ending a session ends everything in it, however hard it holds on, and nothing else."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import psutil
import pytest

from tests.conftest import SLOW, eventually, stop_with_children
from tests.kit.limits import numbers
from tests.kit.processes import alive
from tmuxmcp.broker.broker import Broker
from tmuxmcp.machine import proc
from tmuxmcp.machine.launch.launch import KEY_VARIABLE
from tmuxmcp.machine.processes import Census, Counting
from tmuxmcp.sessions.end import process_tree

HOLDS_ON = """import signal, time
for number in (1, 2, 3, 15):
    signal.signal(number, signal.SIG_IGN)
print("here", flush=True)
time.sleep(600)"""

CHILDREN = [
    "sleep 600 & echo $! >>{file}",
    "nohup sleep 600 >/dev/null 2>&1 & echo $! >>{file}",
    "setsid sh -c 'echo $$ >>{file}; exec sleep 600' </dev/null >/dev/null 2>&1 &",
    "(setsid sh -c 'sleep 600 & echo $! >>{file}' >/dev/null 2>&1 &)",
    "(trap '' HUP TERM; sh -c 'echo $$ >>{file}; exec sleep 600') &",
    "sh -c 'echo $$ >>{file}; kill -STOP $$; sleep 600' &",
]


async def test_everything_in_the_session_ends(broker: Broker, tmp_path: Path) -> None:
    await broker.create_session(name="a")
    await broker.create_session(name="other")
    other = (await broker.get_session("other")).pid
    pids: list[int] = []
    for number, line in enumerate(CHILDREN):
        file = tmp_path / str(number)
        await broker.run(line.format(file=file), session_id="a")
        pids += await eventually(lambda file=file: numbers(file))  # type: ignore[misc]
    pids.append((await broker.get_session("a")).pid or 0)
    assert all(alive(pid) for pid in pids)
    ended = await broker.destroy_session("a", grace_ms=300)
    assert ended.destroyed
    assert ended.survivors == []
    assert [pid for pid in pids if alive(pid)] == []
    assert other
    assert alive(other)
    assert (await broker.run("echo here", session_id="other")).output.strip() == "here"


async def test_idle_shell_is_ended_long_before_its_time(broker: Broker) -> None:
    await broker.create_session(name="a")
    ended = await broker.destroy_session("a", grace_ms=60_000)
    assert ended.survivors == []
    assert (ended.exit_code, ended.exit_signal) == (None, "HUP")


async def test_program_that_ignores_everything_gets_its_time_and_is_killed(broker: Broker) -> None:
    await broker.create_session(name="a", program=sys.executable, args=["-c", HOLDS_ON], wait_ready=False)
    await broker.read(session_id="a", wait_for="pattern", pattern="here")
    ended = await broker.destroy_session("a", grace_ms=300)
    assert ended.duration_ms >= 300
    assert (ended.exit_code, ended.exit_signal, ended.survivors) == (None, "KILL", [])


async def test_program_that_cleans_up_is_given_the_time(broker: Broker, tmp_path: Path) -> None:
    code = f"""import signal, sys, time
def end(*_):
    open({str(tmp_path / "clean")!r}, "w").close()
    sys.exit(7)
signal.signal(15, end)
print("here", flush=True)
time.sleep(600)"""
    await broker.create_session(name="a", program=sys.executable, args=["-c", code], wait_ready=False)
    await broker.read(session_id="a", wait_for="pattern", pattern="here")
    ended = await broker.destroy_session("a", grace_ms=int(10_000 * SLOW))
    assert (ended.exit_code, ended.exit_signal, ended.survivors) == (7, None, [])
    assert (tmp_path / "clean").exists()


async def test_force_does_not_ask(broker: Broker) -> None:
    await broker.create_session(name="a", program=sys.executable, args=["-c", HOLDS_ON], wait_ready=False)
    await broker.read(session_id="a", wait_for="pattern", pattern="here")
    begun = time.monotonic()
    ended = await broker.destroy_session("a", force=True, grace_ms=10_000)
    assert time.monotonic() - begun < 2 * SLOW
    assert (ended.exit_code, ended.exit_signal) == (None, "KILL")


async def test_named_signal_is_the_one_that_is_sent(broker: Broker) -> None:
    await broker.create_session(name="a", program="sleep", args=["600"], wait_ready=False)
    pid = (await broker.get_session("a")).pid
    await eventually(lambda: psutil.Process(pid).name() == "sleep")
    assert (await broker.destroy_session("a", signal="INT")).exit_signal == "INT"


async def test_stopped_program_ends(broker: Broker) -> None:
    await broker.create_session(name="a", program="sleep", args=["600"], wait_ready=False)
    pid = (await broker.get_session("a")).pid
    assert pid
    await eventually(lambda: psutil.Process(pid).name() == "sleep")
    os.kill(pid, signal.SIGSTOP)
    ended = await broker.destroy_session("a", grace_ms=10_000)
    assert (ended.exit_signal, ended.survivors) == ("TERM", [])
    assert ended.duration_ms < 5000 * SLOW


async def test_program_that_makes_children_as_it_ends(broker: Broker, tmp_path: Path) -> None:
    """What is born while the session ends does not outlive it."""
    file = tmp_path / "pids"
    code = f"trap 'sh -c \"echo \\$\\$ >>{file}; exec sleep 600\" & exit' TERM; echo here; while :; do sleep 0.01; done"
    await broker.create_session(name="a", program="sh", args=["-c", code], wait_ready=False)
    await broker.read(session_id="a", wait_for="pattern", pattern="here")
    ended = await broker.destroy_session("a")
    assert ended.survivors == []
    assert [pid for pid in numbers(file) if alive(pid)] == []


async def test_launcher_goes_on_telling_how_the_program_ended(broker: Broker) -> None:
    """What it runs while it waits for the log is none of the session's processes."""
    await broker.create_session(name="a", program="sleep", args=["600"], wait_ready=False)
    session = broker.registry.sessions["a"]
    program = (await broker.get_session("a")).pid
    assert program
    sink = stop_with_children(int(session.directory.sink.read_text().split()[0]))
    try:
        os.kill(program, signal.SIGTERM)
        await eventually(lambda: not alive(program))
        leader = psutil.Process(session.live().leader)
        seen: set[int] = set()
        until = time.monotonic() + 2  # it gives up after 10
        while len(seen) < 5 and time.monotonic() < until:
            seen |= {helper.pid for helper in leader.children()}
            assert process_tree(session) == []
        assert leader.is_running()
    finally:
        for process in sink:
            process.resume()
    ended = await broker.destroy_session("a")
    assert (ended.exit_code, ended.exit_signal, ended.survivors) == (None, "TERM", [])


async def test_nothing_of_ours_is_left(broker: Broker, state_dir: Path) -> None:
    await broker.create_session(name="a")
    await broker.destroy_session("a")

    def left() -> list[str]:
        words = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                words.append(" ".join(process.cmdline()))
        return [line for line in words if str(state_dir / "sessions") in line]

    await eventually(lambda: not left())


async def test_signal_to_the_session_reaches_all_but_the_launcher(broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    await broker.create_session(name="a")
    await broker.run(CHILDREN[0].format(file=file), session_id="a")
    (child,) = numbers(file)
    await eventually(lambda: psutil.Process(child).name() == "sleep")  # until then it ignores what its shell does
    shell = (await broker.get_session("a")).pid
    sent = await broker.signal("TERM", target="session", session_id="a")
    assert set(sent.pids) == {child, shell}
    await eventually(lambda: not alive(child))
    assert (await broker.run("echo here", session_id="a")).output.strip().endswith("here")


async def test_sessions_that_end_at_once_share_what_they_look_at(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    names, counted = [f"s{number}" for number in range(12)], 0
    for name in names:
        await broker.create_session("sh", ["-c", "trap '' HUP; setsid sleep 600 & sleep 600"], name=name)
        await broker.read(session_id=name, wait_for="ready", timeout_ms=1)
    sessions = [broker.registry.sessions[name] for name in names]
    await eventually(lambda: all(len(process_tree(session)) == 3 for session in sessions))
    pids = [pid for session in sessions for pid in process_tree(session)]
    count = Census.count

    def counting(census: Census) -> Iterator[None]:
        nonlocal counted
        counted += 1
        yield from count(census)

    monkeypatch.setattr(Census, "count", counting)
    found = []

    async def destroy(name: str) -> None:
        found.append((await broker.destroy_session(name, force=name < "s5")).survivors)

    async with anyio.create_task_group() as task_group:
        for name in names:
            task_group.start_soon(destroy, name)
    assert (found, [pid for pid in pids if alive(pid)]) == ([[]] * 12, [])
    assert counted < len(names), "each of them needs two or three"


async def test_a_count_begins_after_it_was_asked_for(monkeypatch: pytest.MonkeyPatch):
    counting, asked, got = Counting(KEY_VARIABLE), [], {}

    async def ask(name: str) -> None:
        got[name] = await counting.census(0)

    count = Census.count

    def begins(census: Census) -> Iterator[None]:
        asked.append((census, set(got)))
        yield from count(census)

    monkeypatch.setattr(Census, "count", begins)
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(ask, "a")
        await eventually(lambda: asked)
        for name in "bcd":
            task_group.start_soon(ask, name)
    (first, _), (second, _) = asked
    assert got == {"a": first, "b": second, "c": second, "d": second}
    with anyio.move_on_after(0):  # one that was not completed counts for nobody
        await counting.census(0)
    assert await counting.census(0) is not second


async def test_a_count_begins_with_the_oldest_that_somebody_waits_for():
    counting, found = Counting(KEY_VARIABLE), {}
    old_s = proc.stat(f"/proc/{os.getpid()}").born_s
    async with await anyio.open_process(["sleep", "600"]) as child:
        new_s = proc.stat(f"/proc/{child.pid}").born_s

        async def ask(name: str, since_s: float) -> None:
            census = await counting.census(since_s)
            seen = {row.pid for pid in (os.getppid(), os.getpid()) for row in census.children(pid, since_s)}
            found[name] = [pid in seen for pid in (os.getpid(), child.pid)]

        try:
            async with anyio.create_task_group() as task_group, anyio.create_task_group() as given_up:
                given_up.start_soon(ask, "given up", math.inf)
                await anyio.lowlevel.checkpoint()
                task_group.start_soon(ask, "asked meanwhile", new_s)
                await anyio.lowlevel.checkpoint()
                given_up.cancel_scope.cancel()
                for name, since_s in (("all", old_s), ("new", new_s), ("none", new_s + 600)):
                    task_group.start_soon(ask, name, since_s)
        finally:
            child.kill()
    both, younger = [True, True], [False, True]
    assert found == {"asked meanwhile": younger, "all": both, "new": younger, "none": [False, False]}


async def test_who_waits_for_its_output_is_woken_by_its_end(broker: Broker) -> None:
    """Its log may have been closed, which wakes them too, before its end was known."""
    await broker.create_session(name="a")
    session = broker.registry.sessions["a"]
    change = session.growth.next_change()
    session.see(None)
    assert session.exited
    assert change.is_set()
