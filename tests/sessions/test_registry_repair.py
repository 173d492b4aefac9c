"""A session's sink is killed, robbed and starved; its output is recorded again and the gap is told."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import psutil
import pytest

from tests.conftest import SLOW, eventually
from tests.kit.disks import a_small_disk
from tests.kit.tmux import plain_tmux
from tmuxmcp.broker import broker as broker_module
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.log import LogWatcher
from tmuxmcp.record.meta import Sink, sink_of
from tmuxmcp.sessions.registry import Repair


def directory_of(state_dir: Path, session_id: str) -> Path:
    return state_dir / "sessions" / session_id


def sink(directory: Path) -> Sink:
    return sink_of(SessionDirectory(directory))


def sinks(directory: Path) -> list[psutil.Process]:
    """All processes that write, or wrote, this session's log."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            if any(word.endswith("/sink.sh") for word in words) and str(directory) in words:
                found += [process, *process.children()]
    return found


def rests(directory: Path) -> bool:
    """Whether the sink has nothing to do: it waits for more, and what was too much is cut off."""
    for process in sinks(directory):
        with suppress(psutil.Error):
            if process.name() == "dd" and process.status() == psutil.STATUS_SLEEPING:
                return True
    return False


def kill_sink(directory: Path) -> None:
    for process in sinks(directory):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def gaps(directory: Path) -> list[int]:
    with suppress(FileNotFoundError):
        events = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]
        return [event["offset"] for event in events if event["event"] == "gap"]
    return []


async def back(directory: Path, number: int, timeout: float = 5) -> None:
    """The sink of this number runs: within a second on a quiet machine."""
    await eventually(lambda: sink(directory) == (number, True), timeout)


async def test_killed_sink_is_back_within_a_second_and_readers_are_told(broker: Broker, state_dir: Path) -> None:
    await broker.create_session(name="a")
    await broker.run("echo before", session_id="a")
    directory = directory_of(state_dir, "a")
    for number in (2, 3):
        await broker.read(session_id="a", wait_for="ready")
        size = (directory / "out.raw").stat().st_size
        kill_sink(directory)
        await back(directory, number, 1 if number == 2 else 2)
        assert gaps(directory)[-1] == size
        ran = await broker.run("echo after", session_id="a")
        assert ran.output.strip() == "after"
    assert len(gaps(directory)) == 2
    read = await broker.read(session_id="a", since=0)
    assert "lost" in (read.note or "")
    assert str(gaps(directory)[0]) in (read.note or "")
    assert (await broker.get_session("a")).healthy


async def test_sink_that_a_script_pushed_aside_is_back(broker: Broker, state_dir: Path, tmp_path: Path) -> None:
    await broker.create_session(name="a")
    directory = directory_of(state_dir, "a")
    stolen = tmp_path / "stolen"
    plain_tmux(state_dir, "pipe-pane", "-t", "=a:", f"cat >>{stolen}")
    await back(directory, 2)
    assert (await broker.run("echo after", session_id="a")).output.strip() == "after"
    plain_tmux(state_dir, "pipe-pane", "-t", "=a:")
    await back(directory, 3, 2)
    assert (await broker.run("echo again", session_id="a")).output.strip() == "again"
    assert len(gaps(directory)) == 2


async def test_two_brokers_that_notice_together_mend_once(broker: Broker, state_dir: Path) -> None:
    await broker.create_session(name="a", program="cat")
    directory = directory_of(state_dir, "a")
    async with Broker.open(broker.settings) as other:
        assert [each.session_id for each in (await other.list_sessions()).sessions] == ["a"]
        for number in range(2, 5):
            kill_sink(directory)
            await back(directory, number, 3)
            for each in (broker, other):  # both have looked, and are content
                await eventually(lambda each=each: not each.watcher.closed_paths)  # type: ignore[misc]
                await each.send(text="x\n", session_id="a", wait_for="none")
            await eventually(lambda: len([p for p in sinks(directory) if p.name() == "sh"]) == 1)
            assert len(gaps(directory)) == number - 1
    assert plain_tmux(state_dir, "show-options", "-pqv", "-t", "=a:", "@tmuxmcp_sink") == "4\n"


async def test_new_sink_that_has_said_nothing_yet_is_not_mended(
    state_dir: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Repair, "run", lambda _: anyio.sleep_forever())  # brokers that notice only when told
    settings = BrokerSettings(state_dir=state_dir)
    directory = directory_of(state_dir, "a")
    async with Broker.open(settings) as first, Broker.open(settings) as second:
        await first.create_session(name="a", program="cat", wait_ready=False)
        await second.get_session("a")
        for number in range(2, 12):
            kill_sink(directory)
            await eventually(lambda: not sink(directory).alive)
            for each in (first, second):
                await Repair.mend(each.registry.sessions["a"], settings.log_max_bytes)
            await back(directory, number)
    assert len(gaps(directory)) == 10


async def test_sink_that_died_while_no_broker_ran_is_mended_at_adoption(state_dir: Path, home: Path) -> None:
    settings = BrokerSettings(state_dir=state_dir)
    directory = directory_of(state_dir, "a")
    async with Broker.open(settings) as first:
        await first.create_session(name="a", program="cat")
    kill_sink(directory)
    plain_tmux(state_dir, "send-keys", "-t", "=a:", "unheard", "Enter")
    async with Broker.open(settings) as second:
        assert sink(directory).number == 2 or await eventually(lambda: sink(directory).number == 2)
        await second.send(text="heard\n", session_id="a", wait_for="pattern", pattern="heard")
        read = await second.read(session_id="a", since=0)
    assert "heard" in read.content
    assert "lost" in (read.note or "")
    assert len(gaps(directory)) == 1


async def test_adoption_leaves_a_healthy_sink_alone(state_dir: Path, home: Path) -> None:
    settings = BrokerSettings(state_dir=state_dir)
    async with Broker.open(settings) as first:
        for number in range(5):
            await first.create_session(name=f"a{number}", program="cat", wait_ready=False)
            async with Broker.open(settings):
                pass
    for number in range(5):
        assert sink(directory_of(state_dir, f"a{number}")) == (1, True)
        assert gaps(directory_of(state_dir, f"a{number}")) == []


async def test_pane_that_ends_is_not_mended(broker: Broker, state_dir: Path) -> None:
    for number in range(20):
        await broker.create_session(name=f"a{number}", program="sh", args=["-c", "echo done"], wait_ready=False)
    for number in range(20):
        read = await broker.read(session_id=f"a{number}", wait_for="exit", timeout_ms=int(10_000 * SLOW))
        assert read.exited
        kill_sink(directory_of(state_dir, f"a{number}"))
    async with Broker.open(broker.settings) as other:
        assert (await other.list_sessions()).count == 20
    await eventually(lambda: not broker.watcher.closed_paths)
    assert plain_tmux(state_dir, "list-panes", "-a", "-F", "#{@tmuxmcp_sink}").split() == ["1"] * 20
    assert [gaps(directory_of(state_dir, f"a{number}")) for number in range(20)] == [[]] * 20


@pytest.fixture
def polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without inotify."""
    monkeypatch.setattr(broker_module, "LogWatcher", lambda: LogWatcher(inotify=False))


@pytest.mark.usefixtures("polling")
async def test_without_inotify_sinks_are_looked_at_once_a_second(state_dir: Path, home: Path) -> None:
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash")) as broker:
        await broker.create_session(name="a")
        directory = directory_of(state_dir, "a")
        kill_sink(directory)
        await back(directory, 2, 3)
        assert (await broker.run("echo after", session_id="a")).output.strip() == "after"
        assert len(gaps(directory)) == 1


@pytest.fixture
def small_disk(state_dir: Path) -> Iterator[Path]:
    """Sessions lie on a file system of 1 MiB."""
    with a_small_disk(state_dir / "sessions", "1m") as path:
        yield path
        plain_tmux(state_dir, "kill-server", check=False)


async def test_full_disk_is_told_and_recording_goes_on_when_there_is_room(
    small_disk: Path, state_dir: Path, home: Path
) -> None:
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash")) as broker:
        await broker.create_session(name="a")
        (small_disk / "ballast").write_bytes(bytes(600 << 10))
        await broker.send(text="seq 200000", enter=True, session_id="a", wait_for="none")
        directory = small_disk / "a"
        await eventually(lambda: not sink(directory).alive, 10)
        (small_disk / "ballast").unlink()
        await eventually(lambda: sink(directory).alive and gaps(directory), 15)
        await broker.send(key="c-c", session_id="a", wait_for="none")
        await broker.send(text="echo room again", enter=True, session_id="a", wait_for="pattern", pattern="room again")


async def test_idle_broker_and_server_sleep(state_dir: Path, home: Path) -> None:
    """The price of an idle session is memory alone."""
    count = 200 if os.environ.get("TMUXMCP_TEST_MANY") else 30
    async with Broker.open(BrokerSettings(state_dir=state_dir, max_sessions=count)) as broker:
        for number in range(count):
            await broker.create_session(name=f"a{number}", program="cat", wait_ready=False)
        server = psutil.Process(int((state_dir / "tmux.pid").read_text()))

        def wake_ups() -> int:
            return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw + server.num_ctx_switches().voluntary

        async def quiet() -> bool:
            before = wake_ups()
            await anyio.sleep(2)  # what is measured: two seconds of nothing
            return wake_ups() - before < 10

        await eventually(quiet, 20)


async def test_shell_whose_end_of_a_command_was_not_recorded_can_be_used_again(
    state_dir: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command's status is not known, and nobody waits for it; the next one is exact again."""
    monkeypatch.setattr(Repair, "run", lambda _: anyio.sleep_forever())  # mended when told
    settings = BrokerSettings(state_dir=state_dir, program="bash")
    async with Broker.open(settings) as broker:
        await broker.create_session(name="a")
        command = f"echo kept; tmux -S {state_dir}/tmux.sock pipe-pane -t =a:; echo lost"
        ran = await broker.run(command, session_id="a", timeout_ms=5000)
        assert (ran.completed, ran.exit_code) == (False, None)
        await Repair.mend(broker.registry.sessions["a"], settings.log_max_bytes)
        await back(directory_of(state_dir, "a"), 2)
        after = await broker.run("echo after; (exit 3)", session_id="a")
        assert (after.output, after.exit_code) == ("after\n", 3)
