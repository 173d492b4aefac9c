"""Many callers and several brokers that make sessions at once, and brokers that are killed while they do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.conftest import eventually
from tests.kit.tmux import plain_tmux
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import MaxSessions, SessionExists, TmuxMcpError
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.machine.launch import launch
from tmuxmcp.record.directory import SessionDirectory, sessions_dir

MAKER = """
import sys
import anyio
from pathlib import Path
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.settings import BrokerSettings

async def main():
    async with Broker.open(BrokerSettings(state_dir=Path(sys.argv[1]))) as broker:
        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(lambda: broker.create_session(program="sleep", args=["1000"], wait_ready=False))
        print("done", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file for which the launcher waits in directories whose name begins with `slow`."""
    file, launcher_argv = tmp_path / "gate", launch.launcher_argv

    def waits(directory: Path, token: str) -> list[str]:
        argv = launcher_argv(directory, token)
        if not directory.name.startswith("slow"):
            return argv
        return ["/bin/sh", "-c", f'until test -e {file}; do sleep 0.01; done; exec "$@"', "sh", *argv]

    monkeypatch.setattr(launch, "launcher_argv", waits)
    yield file
    file.touch()


async def test_limit_is_exact_whatever_is_made_at_once_by_several_brokers(state_dir: Path) -> None:
    settings, made, refused = BrokerSettings(state_dir=state_dir, max_sessions=6), [], []

    async def create(broker: Broker) -> None:
        try:
            made.append((await broker.create_session(program="cat", wait_ready=False)).session_id)
        except MaxSessions as error:
            refused.append(error)

    async with Broker.open(settings) as one, Broker.open(settings) as other:
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(create, one)
                tasks.start_soon(create, other)
        assert (len(set(made)), len(refused)) == (6, 4)
        assert {each.session_id for each in (await one.list_sessions()).sessions} == set(made)


async def test_name_is_given_once(state_dir: Path) -> None:
    told: list[object] = []

    async def create(broker: Broker) -> None:
        try:
            told.append((await broker.create_session(program="cat", name="a", wait_ready=False)).pid)
        except SessionExists as error:
            told.append(type(error))

    settings = BrokerSettings(state_dir=state_dir)
    async with Broker.open(settings) as one, Broker.open(settings) as other, anyio.create_task_group() as tasks:
        for broker in (one, other, one, other):
            tasks.start_soon(create, broker)
    assert told.count(SessionExists) == 3


async def test_program_that_is_slow_to_start_holds_up_no_other(broker: Broker, gate: Path) -> None:
    made: list[str] = []

    async def create(name: str) -> None:
        made.append((await broker.create_session(program="cat", name=name, wait_ready=False)).session_id)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(create, "slow")
        await eventually(lambda: "slow" in broker.registry.sessions)
        await create("quick")
        assert made == ["quick"]
        await anyio.Path(gate).touch()
    assert made == ["quick", "slow"]


async def test_failed_start_takes_nothing_from_who_has_the_name_by_then(broker: Broker, gate: Path) -> None:
    failed: list[Exception] = []

    async def create() -> None:
        try:
            await broker.create_session(program="cat", name="slow", wait_ready=False)
        except TmuxMcpError as error:
            failed.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(create)
        await eventually(lambda: "slow" in broker.registry.sessions)
        first = broker.registry.sessions["slow"]
        await broker.destroy_session("slow", force=True)
        tasks.start_soon(partial(broker.create_session, program="cat", name="slow", wait_ready=False))
        await eventually(lambda: broker.registry.sessions.get("slow") not in (None, first))
        await eventually(lambda: failed)
        await anyio.Path(gate).touch()
    assert (await broker.get_session("slow")).foreground is not None
    assert SessionDirectory.of(broker.settings.state_dir, "slow").meta.exists()


@pytest.mark.parametrize("panes", [1, 4, 9])
async def test_broker_killed_while_it_makes_sessions_leaves_none_unknown(state_dir: Path, panes: int) -> None:
    maker = subprocess.Popen(  # noqa: ASYNC220 - it is killed
        [sys.executable, "-c", MAKER, str(state_dir)], stdout=subprocess.PIPE
    )

    def there(form: str) -> list[str]:
        return [
            line for line in plain_tmux(state_dir, "list-panes", "-a", "-F", form, check=False).splitlines() if line
        ]

    try:
        await eventually(lambda: len(there("#{@tmuxmcp_id}")) >= panes, 20)
    finally:
        os.kill(maker.pid, signal.SIGKILL)
        maker.communicate()
    # What a broker leaves that is killed a moment earlier: what to run is written down, and no pane is there.
    half = SessionDirectory.of(state_dir, "half")
    half.path.mkdir(mode=0o700)
    half.log.touch()
    half.spec.write_text("")
    half.meta.write_text(json.dumps({"session_id": "half"}))
    async with Broker.open(BrokerSettings(state_dir=state_dir)) as broker:
        listed = {each.session_id for each in (await broker.list_sessions()).sessions}
        assert listed == set(there("#{@tmuxmcp_id}"))
        assert {path.name for path in sessions_dir(state_dir).iterdir()} == listed
        for name in listed:
            session = await broker.registry.existing(name)
            assert await broker.creation.wait_for_program(session)
            assert not session.exited
