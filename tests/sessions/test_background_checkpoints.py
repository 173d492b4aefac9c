"""Checkpoints are made in the background, by one broker, by a process that stands back and may fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import anyio
import psutil
import pytest

from tests.conftest import SLOW, eventually
from tests.sessions.test_screens_past import looked, same
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.machine.locks import if_free
from tmuxmcp.record.past.checkpoints import Checkpoints, RecordKind, ScreenRecord
from tmuxmcp.record.past.replaying import Past
from tmuxmcp.sessions import background
from tmuxmcp.sessions.background import CheckpointMaker
from tmuxmcp.sessions.screens import screen_at

VIM = (Path(__file__).parents[1] / "corpora" / "vim.raw").read_bytes()


@asynccontextmanager
async def making(broker: Broker) -> AsyncIterator[CheckpointMaker]:
    made = CheckpointMaker(broker.registry)
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(made.run)
        yield made
        task_group.cancel_scope.cancel()


@pytest.fixture
async def vim(broker: Broker, tmp_path: Path) -> Broker:
    """A session that has drawn for a second or two."""
    file = tmp_path / "vim"
    file.write_bytes(VIM * 300)
    await broker.create_session("bash", name="a")
    await broker.run(f"cat {file}", "a", timeout_ms=int(20_000 * SLOW))
    return broker


def screens(broker: Broker) -> list[ScreenRecord]:
    return Checkpoints(broker.registry.sessions["a"].directory).records()


async def test_screens_are_kept_while_nobody_asks(vim: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "CHECKPOINT_CPU_S", 0.1)
    offset, live = await looked(vim)
    async with making(vim) as made:
        made.find_work()
        process = await eventually(lambda: made._replaying.process, 20)
        child = psutil.Process(process.pid)
        await eventually(lambda: child.nice() == 19, 20)
        await eventually(lambda: len(screens(vim)) > 2, 60)
        await eventually(lambda: made._replaying.process is None, 60)  # it is there only while there is work
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
        made.find_work()
        assert not made._wanted  # nothing was printed since
    kept = screens(vim)
    assert {each.kind for each in kept} == {RecordKind.SCREEN}
    assert kept[-1].offset <= offset
    session = vim.registry.sessions["a"]
    session.past = vim.registry.past = Past()
    same(await vim.read(session_id="a", view="screen", at_offset=offset, format="ansi"), live)
    some = kept[1].offset
    then = await screen_at(session, some)
    session.directory.screens.unlink()
    session.past.close()
    session.past = vim.registry.past = Past()
    assert await screen_at(session, some) == then


async def test_one_broker_makes_them(vim: Broker) -> None:
    with if_free(vim.registry.sessions["a"].directory.screens_lock) as free:
        assert free
        async with making(vim) as made:
            made.find_work()
            await eventually(lambda: not made._wanted, 20)
    assert screens(vim) == []


async def test_a_process_that_fails_makes_none_and_is_given_up(vim: Broker, tmp_path: Path) -> None:
    crash = tmp_path / "crash.py"
    crash.write_text("raise SystemExit")
    async with making(vim) as made:
        made._replaying.script = crash
        for _ in range(background.MOST_FAILURES):
            made.find_work()
            assert made._wanted
            await eventually(lambda: not made._wanted, 20)
        made.find_work()
        assert not made._wanted
    assert screens(vim) == []


async def test_what_is_given_back_meanwhile_is_passed_over(vim: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    session = vim.registry.sessions["a"]
    monkeypatch.setattr(background, "CHECKPOINT_CPU_S", 0.1)
    real, heads = session.log.head, [0, 1 << 20]
    await anyio.run_process(["fallocate", "-p", "-o", "0", "-l", str(1 << 20), str(session.log.path)])
    monkeypatch.setattr(session.log, "head", lambda: heads.pop(0) if heads else real())
    async with making(vim) as made:
        made.find_work()
        await eventually(lambda: screens(vim) and not made._wanted, 60)
    assert screens(vim)[0].offset > 1 << 20


async def test_a_broker_that_stays_makes_them(
    state_dir: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "CHECKPOINT_CPU_S", 0.1)
    file = tmp_path / "vim"
    file.write_bytes(VIM * 300)
    for stays in (False, True):
        async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash"), keeps_times=stays) as broker:
            if not stays:
                await broker.create_session("bash", name="a")
                await broker.run(f"cat {file}", "a", timeout_ms=int(20_000 * SLOW))
                assert broker.services.making is None
                continue
            await eventually(lambda broker=broker: screens(broker), 60)  # type: ignore[misc]  # bound at once


async def test_it_stands_aside_while_a_call_is_answered(vim: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for long, and not always: calls that follow one another at once must not keep it from its work."""

    def stopped() -> bool:
        return child.status() == psutil.STATUS_STOPPED

    monkeypatch.setattr(background, "ASIDE_S", 0.01)
    monkeypatch.setattr(background, "BETWEEN_S", 0)
    async with making(vim) as made:
        made.find_work()
        child = psutil.Process((await eventually(lambda: made._replaying.process, 20)).pid)
        with made.aside():
            assert made._stopped_at is None or made._replaying.started, "it would not end with us yet"
        await eventually(lambda: made._replaying.started, 20)
        with made.aside():
            assert made._stopped_at is not None
            await eventually(lambda: made._stopped_at is None and not stopped())
        monkeypatch.setattr(background, "ASIDE_S", 1000)
        with made.aside():
            await eventually(stopped)
        await eventually(lambda: not stopped())
        monkeypatch.setattr(background, "BETWEEN_S", 1000)
        with made.aside():
            assert made._stopped_at is None


async def test_every_call_has_it_stand_aside(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aside: list[CheckpointMaker] = []
    monkeypatch.setattr(CheckpointMaker, "aside", lambda made: nullcontext(aside.append(made)))
    async with Broker.open(BrokerSettings(state_dir=state_dir), keeps_times=True) as broker:
        await broker.list_sessions()
        assert aside == [broker.services.making]
