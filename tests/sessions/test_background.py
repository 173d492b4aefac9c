"""Who writes a session's timing index, and that what it tells is true: what runs there prints its own times.

Real servers over stdio: they are killed, stopped and started beside each other.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

import tmuxmcp
from tests.conftest import SLOW
from tests.kit.agent import Agent, eventually
from tests.kit.tmux import typed_by_script
from tmuxmcp import Settings
from tmuxmcp.contract.call import seconds_of
from tmuxmcp.machine import locks
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.log import RawLog
from tmuxmcp.record.meta import Meta
from tmuxmcp.record.past.timing import Times
from tmuxmcp.sessions.background import Delays

TICKS = "while sleep 0.03 && echo T$EPOCHREALTIME; do :; done"  # it ends with its terminal
LATE_MS = 1000 * SLOW
"""What is printed takes so long at most until it is in the log and a writer that is not held up sees it."""


def directory_of(state_dir: Path, session_id: str = "a") -> SessionDirectory:
    return SessionDirectory.of(state_dir, session_id)


def ticks(directory: SessionDirectory) -> list[tuple[int, float]]:
    """Where each line that told its own time ends, and that time by the session's clock."""
    meta = Meta.load(directory)
    assert meta
    made = seconds_of(meta.created_at)
    assert made
    lines = re.finditer(rb"T(\d+\.\d{6})\r\n", directory.log.read_bytes())
    return [(line.end(), (float(line[1]) - made) * 1000) for line in lines]


def dated(directory: SessionDirectory) -> list[tuple[int, float]]:
    """Of these lines the ones whose time is known; each of these times is true."""
    times = Times(directory)
    found = []
    for offset, true_ms in ticks(directory):
        told = times.ms_at(offset)
        if told is not None:
            assert -5 <= told - true_ms < LATE_MS, (offset, told, true_ms)
            found.append((offset, true_ms))
    return found


def unknown(directory: SessionDirectory) -> list[int]:
    """Where the spans end of which the times are not known."""
    return [step.offset for step in Times(directory).steps(0, 1 << 40) if not step.known]


def writes(directory: SessionDirectory) -> bool:
    with locks.if_free(directory.timing_lock) as free:
        return not free


@contextmanager
def stopped(agent: Agent) -> Iterator[None]:
    os.kill(agent.server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(agent.server.pid, signal.SIGCONT)


def begin_ticks(agent: Agent) -> SessionDirectory:
    agent.call("create_session", program="bash", name="a")
    agent.call("send", session_id="a", text=TICKS, enter=True, read="none")
    directory = directory_of(agent.state_dir)
    eventually(lambda: len(dated(directory)) >= 10)
    return directory


def test_what_is_printed_has_its_time(state_dir: Path) -> None:
    with Agent(state_dir, "bash") as agent:
        directory = begin_ticks(agent)
        times = Times(directory)

        def between_known() -> tuple[int, float] | None:
            """A line behind which the next one is dated too: else more may have been printed by then."""
            earlier = reversed(dated(directory)[:-1])
            return next((each for each in earlier if times.offset_at(times.ms_at(each[0])) is not None), None)

        offset, true_ms = eventually(between_known)
        told = agent.call("read", session_id="a", since=offset - 1, max_bytes=1)["time"]
        assert -5 <= told - true_ms < LATE_MS
        assert times.offset_at(told) >= offset


def test_another_server_takes_over_from_one_that_was_killed(state_dir: Path) -> None:
    with Agent(state_dir, "bash") as first, Agent(state_dir, "bash") as second:
        directory = begin_ticks(first)
        second.call("get_session", session_id="a")
        with stopped(second):
            before = dated(directory)
            first.kill()
            size = len(ticks(directory))
            eventually(lambda: len(ticks(directory)) >= size + 20)
            alone = ticks(directory)[-1]
        eventually(lambda: dated(directory)[-1][0] > alone[0])
        assert {*before} <= {*dated(directory)}
        assert any(before[-1][0] < end and alone[0] <= end for end in unknown(directory))
        assert all(ms is None for ms in map(Times(directory).ms_at, (alone[0], alone[0] - 1)))


def test_a_new_server_notes_what_nobody_saw(state_dir: Path) -> None:
    with Agent(state_dir, "bash") as first:
        directory = begin_ticks(first)
        first.kill()
    before, size = dated(directory), len(ticks(directory))
    eventually(lambda: len(ticks(directory)) >= size + 10)
    alone = ticks(directory)[-1]
    with Agent(state_dir, "bash") as second:
        second.call("get_session", session_id="a")
        eventually(lambda: dated(directory)[-1][0] > alone[0])
        assert [each for each in dated(directory) if each[0] <= alone[0]] == before
        assert any(alone[0] <= end for end in unknown(directory))


def test_what_came_while_the_writer_was_stopped_has_no_time(state_dir: Path) -> None:
    with Agent(state_dir, "bash") as agent:
        directory = begin_ticks(agent)
        with stopped(agent):
            size = len(ticks(directory))
            eventually(lambda: len(ticks(directory)) >= size + 20)
            during = ticks(directory)[size + 1 :]
        eventually(lambda: dated(directory)[-1][0] > during[-1][0])
        assert not {offset for offset, _ in dated(directory)} & {offset for offset, _ in during}


def noted_to(directory: SessionDirectory) -> int:
    """Up to where the index has been written."""
    return max((step.offset for step in Times(directory).steps(0, 1 << 40)), default=0)


IN_A_THREAD = """
import sys, threading
from pathlib import Path
import anyio, tmuxmcp

async def keep():
    settings = tmuxmcp.Settings(state_dir=Path(sys.argv[1]), program="bash")
    async with tmuxmcp.open_broker(settings, keeps_times=True) as broker:
        await broker.create_session(name="a")
        print("made", flush=True)
        await anyio.sleep_forever()

threading.Thread(target=anyio.run, args=[keep]).start()
"""


def test_a_writer_in_a_thread_that_was_stopped_dates_nothing_of_it(state_dir: Path) -> None:
    program = subprocess.Popen([sys.executable, "-c", IN_A_THREAD, str(state_dir)], stdout=subprocess.PIPE)
    try:
        assert program.stdout
        assert program.stdout.readline() == b"made\n"
        directory = directory_of(state_dir)
        eventually(lambda: noted_to(directory) == directory.log.stat().st_size)  # nothing is left to be written
        program.send_signal(signal.SIGSTOP)
        typed_by_script(state_dir, TICKS, "Enter")
        eventually(lambda: len(ticks(directory)) >= 20)
        during = ticks(directory)
        program.send_signal(signal.SIGCONT)
        eventually(lambda: noted_to(directory) > during[-1][0])
        assert all(Times(directory).ms_at(offset) is None for offset, _ in during)
    finally:
        program.kill()
        program.communicate()


def test_what_is_noted_is_written_when_the_server_goes_and_when_the_session_ends(state_dir: Path) -> None:
    with Agent(state_dir, "bash") as agent:
        begin_ticks(agent)
        agent.call("create_session", program="bash", args=["-c", "echo last"], name="b", wait_ready=False)
        eventually(lambda: agent.call("get_session", session_id="b")["exited"])
        ended = directory_of(state_dir, "b")
        eventually(lambda: not writes(ended))
        steps = list(Times(ended).steps(0, 1 << 40))
        assert steps[-1].offset == ended.log.stat().st_size
    directory = directory_of(state_dir)
    before, last = list(Times(directory).steps(0, 1 << 40))[-2:]
    assert not writes(directory)
    assert (before.offset, last.known) == (last.offset, True)  # nothing more came until it went


async def test_a_broker_of_a_command_or_a_program_notes_what_it_found_and_left(state_dir: Path) -> None:
    """What stood between two of them is known."""
    settings = Settings(state_dir=state_dir, program="bash")
    sizes, moments = [], []
    for _ in range(2):
        async with tmuxmcp.open_broker(settings) as broker:
            if not sizes:
                await broker.create_session(name="a")
            await broker.run("echo x", "a")
            await broker.read("new", "a", wait_for="ready")  # the prompt is drawn: nothing more comes
            session = broker.registry.sessions["a"]
        sizes.append(session.log.size())
        moments.append(session.now_ms())
        while session.now_ms() < moments[-1] + 100:
            await anyio.sleep(0.01)
    times = Times(directory_of(state_dir))
    assert [times.offset_at(ms + 50) for ms in moments] == sizes
    async with tmuxmcp.open_broker(settings) as broker:
        await broker.list_sessions()
        assert not writes(directory_of(state_dir))
        then = await broker.read("screen", "a", at_ms=moments[0] + 50)
    assert then.content.count("echo x") == 1


async def test_a_broker_that_only_looks_writes_no_times(state_dir: Path) -> None:
    settings = Settings(state_dir=state_dir, program="bash")
    async with tmuxmcp.open_broker(settings) as broker:
        await broker.create_session(name="a")
    directory = directory_of(state_dir)
    before = directory.timing.read_bytes()
    async with tmuxmcp.open_broker(settings) as broker:
        await broker.read("screen", "a")
        await broker.list_sessions()
    assert directory.timing.read_bytes() == before


async def test_a_writer_that_goes_on_after_a_stop_knows_at_once(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it was about to do when it was stopped, it dates nothing by what it sees first."""
    made: list[Delays] = []
    monkeypatch.setattr(Delays, "__init__", lambda self, init=Delays.__init__: (made.append(self), init(self))[1])
    before = signal.getsignal(signal.SIGCONT)
    settings = Settings(state_dir=state_dir, program="bash")
    async with tmuxmcp.open_broker(settings, keeps_times=True) as broker:
        await broker.create_session(name="a")
        with anyio.fail_after(10 * SLOW):
            while signal.getsignal(signal.SIGCONT) is before or made[0].lately():
                await anyio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGCONT)
        assert made[0].lately()
    assert signal.getsignal(signal.SIGCONT) is before


async def test_a_stop_between_size_and_time_makes_the_time_unknown(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, written = Settings(state_dir=state_dir, program="bash"), RawLog.written

    def stopped_behind(log: RawLog) -> tuple[int, float]:
        found = written(log)
        os.kill(os.getpid(), signal.SIGCONT)
        return found

    async with tmuxmcp.open_broker(settings, keeps_times=True) as broker:
        await broker.create_session(name="a")
        monkeypatch.setattr(RawLog, "written", stopped_behind)
        await broker.run("echo x", "a")
        size = broker.registry.sessions["a"].log.size()
    steps = [step for step in Times(directory_of(state_dir)).steps(0, 1 << 40) if step.offset >= size]
    assert steps
    assert not steps[0].known


def test_a_broker_in_a_thread_writes_times_of_sessions_made_later(state_dir: Path) -> None:
    async def make() -> None:
        settings = Settings(state_dir=state_dir, program="bash")
        async with tmuxmcp.open_broker(settings, keeps_times=True) as broker:
            await broker.health()  # it has begun to keep times, and there was no session
            await broker.create_session(name="a")
            await broker.run("echo x", "a")

    with ThreadPoolExecutor(1) as threads:
        threads.submit(anyio.run, make).result()
    assert directory_of(state_dir).timing.exists()
