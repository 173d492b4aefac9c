"""What a session's shell ran, as callers are told."""

from __future__ import annotations

import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from tests.conftest import TMUX, eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r

pytestmark = pytest.mark.anyio


def by_script(state_dir: Path, *keys: str) -> None:
    """Type into session `a` with plain tmux."""
    subprocess.run([TMUX, "-S", str(state_dir / "tmux.sock"), "send-keys", "-t", "=a:", *keys], check=True)


async def listed(broker: Broker, count: int, **wanted: int | bool) -> list[r.ListedCommand]:
    """The commands, once there are so many that have ended."""

    async def so_many() -> list[r.ListedCommand]:
        found = (await broker.list_commands("a", **wanted)).commands  # type: ignore[arg-type]
        return found if len(found) == count and found[-1].exit_code is not None else []

    return await eventually(so_many, 10)


async def test_commands_are_listed_newest_last(broker: Broker, state_dir: Path, tmp_path: Path) -> None:
    await broker.create_session("bash", name="a")
    run = await broker.run(f"cd {tmp_path}; sleep 0.2", "a")
    by_script(state_dir, "sh -c 'exit 3'", "Enter")
    first, second = await listed(broker, 2)
    assert (first.number, first.text, first.exit_code) == (1, f"cd {tmp_path}; sleep 0.2", 0)
    assert (first.cwd, first.start_offset, first.end_offset) == (str(tmp_path), run.start_offset, run.end_offset)
    assert (first.by, first.level) == ("agent", 0)
    assert first.duration_ms is not None
    assert first.duration_ms >= 190
    assert first.started_at is not None
    made = (await broker.get_session("a")).created_at
    assert datetime.fromisoformat(made) < datetime.fromisoformat(first.started_at)
    assert (second.number, second.text, second.exit_code, second.by) == (2, "sh -c 'exit 3'", 3, "other")


async def test_a_part_of_the_commands_can_be_asked_for(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    for number in range(1, 7):
        await broker.run(f"sh -c 'exit {number % 2}'", "a")

    async def numbers(**wanted: int | bool) -> list[int]:
        found = await broker.list_commands("a", **wanted)  # type: ignore[arg-type]
        assert found.count == len(found.commands)
        return [each.number for each in found.commands]

    await listed(broker, 6)
    assert await numbers(limit=2) == [5, 6]
    assert await numbers(limit=2, before=5) == [3, 4]
    assert await numbers(before=1) == []
    assert await numbers(failed_only=True) == [1, 3, 5]
    assert await numbers(failed_only=True, limit=1, before=5) == [3]


async def test_the_command_that_runs_is_the_last_and_has_no_end(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    await broker.run("sleep 600", "a", timeout_ms=300)
    (command,) = (await broker.list_commands("a")).commands
    assert (command.text, command.exit_code, command.duration_ms, command.end_offset) == ("sleep 600", None, None, None)
    assert (await broker.list_commands("a", failed_only=True)).commands == []


async def test_a_program_that_is_no_shell_tells_of_none(broker: Broker) -> None:
    await broker.create_session("cat", name="a")
    found = await broker.list_commands("a")
    assert (found.count, found.commands) == (0, [])
    assert "tells of no commands" in (found.note or "")
