"""The pane that is made ahead for a client's default session: taken once, or gone with all that belongs to it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import psutil
import pytest

from benchmarks.wire import Wire
from tests.conftest import eventually
from tests.kit.tmux import plain_tmux
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.call import iso
from tmuxmcp.contract.errors import SessionBusy, TmuxMcpError
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.contract.value import replace
from tmuxmcp.record.directory import SessionDirectory, sessions_dir

OWNER = "library"
LONG_S = 3600.0


def tmux(state_dir: Path, *words: str) -> list[str]:
    return plain_tmux(state_dir, *words, check=False).split("\n")[:-1]


def spares(state_dir: Path) -> list[str]:
    """The ids of the sessions that spare panes are to be."""
    return [name[1:] for name in tmux(state_dir, "list-sessions", "-F", "#{session_name}") if name.startswith("_sess_")]


def left(state_dir: Path, name: str) -> list[object]:
    """What is left of a spare pane."""
    directory = sessions_dir(state_dir) / name
    processes = [each for each in psutil.process_iter() if _named(each, str(directory))]
    return [*processes, *([directory] if directory.exists() else []), *({name} & set(spares(state_dir)))]


def _is_read(pipe: Path) -> bool:
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def _named(process: psutil.Process, word: str) -> bool:
    try:
        return any(word in each for each in process.cmdline())
    except psutil.Error:
        return False


@asynccontextmanager
async def spare(broker: Broker, waits: bool = True) -> AsyncIterator[str]:
    """A spare pane of a broker, whose step waits already; gives the id of the session that it is to be."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(broker.keep_spare, OWNER, LONG_S)
        made = await eventually(lambda: broker.creation._spare)
        if waits:
            await eventually(lambda: _is_read(made.directory.go))
        yield made.id
        tasks.cancel_scope.cancel()


async def test_first_call_takes_it_and_nothing_tells_that_it_was_made_ahead(broker: Broker, state_dir: Path) -> None:
    async with spare(broker) as name:
        launcher = tmux(state_dir, "list-panes", "-t", f"=_{name}:", "-F", "#{pane_pid}")
        asked_at = iso(time.time())
        assert (await broker.run("echo $TMUXMCP_SESSION")).output.split() == [name]
        assert tmux(state_dir, "list-panes", "-t", f"={name}:", "-F", "#{pane_pid}") == launcher
        assert not spares(state_dir)
    ours = SessionDirectory.of(state_dir, name)
    session = await broker.registry.existing(name)
    assert session.meta.created_at >= asked_at
    assert session.generation == 1
    await broker.destroy_session(name, force=True)
    # Another one, made when it was asked for.
    other = (await broker.run("echo $TMUXMCP_SESSION")).session_id
    assert other != name
    await broker.destroy_session(other, force=True)
    others = SessionDirectory.of(state_dir, other)
    assert {each.name for each in ours.path.iterdir()} == {each.name for each in others.path.iterdir()}
    assert json.loads(ours.meta.read_text()).keys() == json.loads(others.meta.read_text()).keys()


async def test_can_be_taken_before_its_step_waits(broker: Broker) -> None:
    async with spare(broker, waits=False) as name:
        assert (await broker.run("echo $TMUXMCP_SESSION")).output.split() == [name]


async def test_has_the_options_of_any_other_pane(broker: Broker, state_dir: Path) -> None:
    async with spare(broker) as name:
        await broker.run("true")
    other = await broker.create_session("bash")

    def options(session_id: str) -> set[str]:
        said = [
            *tmux(state_dir, "show-options", "-p", "-t", f"={session_id}:"),
            *tmux(state_dir, "show-options", "-w", "-t", f"={session_id}:"),
        ]
        told = {line for line in said if not line.startswith("@")}
        return told | {line.split()[0] for line in said if line.startswith("@")}

    assert options(name) == options(other.session_id)
    await broker.send("exit 7", session_id=name, enter=True, wait_for="exit")
    ended = await broker.get_session(name)
    assert (ended.exited, ended.exit_code) == (True, 7)


async def test_is_in_no_list_and_does_not_count(state_dir: Path, home: Path) -> None:
    settings = BrokerSettings(state_dir=state_dir, program="bash", max_sessions=1)
    async with Broker.open(settings) as broker, Broker.open(settings, "other") as other, spare(broker) as name:
        assert not (await broker.list_sessions(include_exited=True)).sessions
        assert not (await other.list_sessions(include_exited=True)).sessions
        with pytest.raises(TmuxMcpError, match="no session"):
            await other.get_session(name)
        await other.create_session("cat", name="a", wait_ready=False)
        async with Broker.open(settings, "third") as third:  # which removes what killed brokers left
            assert (await third.health()).sessions == 1
        assert spares(state_dir) == [name]
        assert SessionDirectory.of(state_dir, name).path.exists()
        await other.destroy_session("a", force=True)
        assert (await broker.run("true")).session_id == name


async def test_two_first_calls_at_once_share_it(broker: Broker, state_dir: Path) -> None:
    told: list[str] = []
    busy: list[str] = []

    async def call() -> None:
        try:
            told.append((await broker.run("true")).session_id)
        except SessionBusy as error:  # it came amid the other one's command
            busy.append(str(error.details["session_id"]))

    async with spare(broker) as name:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            tasks.start_soon(call)
        assert told + busy == [name, name]
        assert told, "one of them ran"
        assert [each.session_id for each in (await broker.list_sessions()).sessions] == [name]


async def test_settings_of_the_moment_count(broker: Broker, state_dir: Path, tmp_path: Path) -> None:
    """Nothing is decided before it is taken: the directory in which a program begins may be made meanwhile."""
    async with spare(broker) as name:
        there = tmp_path / "there"
        there.mkdir()
        broker.creation.settings = replace(broker.settings, cwd=str(there), env={"MADE": "later"})
        result = await broker.run('echo "$PWD $MADE"')
    assert (result.session_id, result.output.split()) == (name, [str(there), "later"])


async def test_other_size_makes_its_own(broker: Broker, state_dir: Path) -> None:
    async with spare(broker) as name:
        broker.creation.settings = replace(broker.settings, cols=100)
        assert (await broker.run("tput cols")).output.split() == ["100"]
        await eventually(lambda: not left(state_dir, name))


async def test_call_with_arguments_makes_its_own(broker: Broker, state_dir: Path) -> None:
    async with spare(broker) as name:
        made = await broker.create_session("cat", wait_ready=False)
        assert made.session_id != name
        assert spares(state_dir) == [name]


async def test_goes_when_its_time_is_up(broker: Broker, state_dir: Path) -> None:
    name = ""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(broker.keep_spare, OWNER, 0.3)
        name = (await eventually(lambda: spares(state_dir)))[0]
    await eventually(lambda: not left(state_dir, name))
    assert (await broker.run("echo $TMUXMCP_SESSION")).output.split() != [name]


async def test_is_not_made_for_who_has_a_default_session_or_in_a_sandbox(state_dir: Path, home: Path) -> None:
    settings = BrokerSettings(state_dir=state_dir, program="bash")
    async with Broker.open(settings) as broker:
        await broker.run("true")
        await broker.keep_spare(OWNER, 0)
        assert [each.name for each in sessions_dir(state_dir).iterdir()] == [*broker.session_ids]
    async with Broker.open(replace(settings, sandbox="auto")) as broker:
        await broker.keep_spare("another", 0)
        assert [each.name for each in sessions_dir(state_dir).iterdir()] == [*broker.session_ids]


@pytest.mark.parametrize("what", ["pane", "directory", "step"])
async def test_first_call_works_when_it_is_gone(broker: Broker, state_dir: Path, what: str) -> None:
    async with spare(broker) as name:
        directory = SessionDirectory.of(state_dir, name)
        if what == "pane":
            tmux(state_dir, "kill-session", "-t", f"=_{name}")
        elif what == "directory":
            directory.path.rename(directory.path.with_name("elsewhere"))
        else:
            launcher = int(tmux(state_dir, "list-panes", "-t", f"=_{name}:", "-F", "#{pane_pid}")[0])
            (step,) = await eventually(lambda: psutil.Process(launcher).children())
            step.kill()
            await eventually(lambda: not spares(state_dir), 20)
        result = await broker.run("echo $TMUXMCP_SESSION")
        assert result.session_id != name
        assert result.output.split() == [result.session_id]
        await eventually(lambda: not left(state_dir, name))


@pytest.mark.parametrize("how", ["kill-session", "kill-server"])
async def test_nothing_is_left_of_a_pane_that_somebody_ends(broker: Broker, state_dir: Path, how: str) -> None:
    async with spare(broker) as name:
        tmux(state_dir, how, *(["-t", f"=_{name}"] if how == "kill-session" else []))
        await eventually(lambda: not left(state_dir, name))


async def test_what_has_its_directory_by_then_is_left_alone(broker: Broker, state_dir: Path) -> None:
    async with spare(broker) as name:
        directory = SessionDirectory.of(state_dir, name)
        directory.path.rename(directory.path.with_name("elsewhere"))
        directory.path.mkdir()
        directory.log.touch()
    await eventually(lambda: not spares(state_dir))
    await anyio.sleep(0.1)
    assert directory.log.exists()


async def test_program_that_cannot_start_leaves_nothing(broker: Broker, state_dir: Path) -> None:
    async with spare(broker) as name:
        broker.creation.settings = replace(broker.settings, program="/nowhere")
        with pytest.raises(TmuxMcpError, match="nowhere"):
            await broker.run("true")
        await eventually(lambda: not left(state_dir, name))


def serve(state_dir: Path) -> Wire:
    env = os.environ | {"TMUXMCP_STATE_DIR": str(state_dir), "SHELL": "/bin/bash"}
    return Wire([sys.executable, "-m", "tmuxmcp", "serve"], env)


@pytest.mark.parametrize("way", ["kill", "close"])
async def test_server_that_ends_leaves_nothing_of_it(state_dir: Path, home: Path, way: str) -> None:
    wire = await anyio.to_thread.run_sync(serve, state_dir)
    name = (await eventually(lambda: spares(state_dir), 20))[0]
    await eventually(lambda: len(left(state_dir, name)) >= 4)  # launcher, step, sink, directory, tmux session
    if way == "kill":
        wire.process.send_signal(signal.SIGKILL)
        wire.process.wait()
    await anyio.to_thread.run_sync(wire.close)
    await eventually(lambda: not left(state_dir, name))


async def test_stdio_server_has_one_for_its_client(state_dir: Path, home: Path) -> None:
    wire = await anyio.to_thread.run_sync(serve, state_dir)
    try:
        name = (await eventually(lambda: spares(state_dir), 20))[0]
        answer = await anyio.to_thread.run_sync(lambda: wire.call("run", command="echo $TMUXMCP_SESSION"))
        assert answer["structuredContent"]["session_id"] == name
        assert not spares(state_dir)
    finally:
        await anyio.to_thread.run_sync(wire.close)


@pytest.mark.parametrize("told", [True, False], ids=["taken", "not-taken"])
async def test_tmux_decides_when_the_broker_goes_just_then(broker: Broker, state_dir: Path, told: bool) -> None:
    """Killed between tmux's yes and the word to go on, the session is there; before it, nothing is."""
    async with spare(broker) as name:
        held = broker.creation._spare
        assert held
        held._tell = lambda: True  # type: ignore[method-assign]  # the word is lost
        if told:
            assert (await broker.run("echo $TMUXMCP_SESSION")).output.split() == [name]
            return
    await eventually(lambda: not left(state_dir, name))
