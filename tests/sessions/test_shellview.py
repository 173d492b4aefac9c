"""What a real shell's marks say of its commands, and what is made of a clock that somebody set."""

from __future__ import annotations

import time

import pytest

from tests.kit.programs import SHELLS
from tmuxmcp.broker.broker import Broker
from tmuxmcp.terminal.marks import Finished

TELLING = SHELLS[1:]
"""Shells that know a command's own text."""

CLOCK_S = 0.05
"""A shell may read its clock in steps of 10 ms."""


async def last_command(broker: Broker, session_id: str) -> Finished:
    return (await broker.registry.sessions[session_id].scan()).commands[-1]


@pytest.mark.parametrize("shell", SHELLS)
async def test_a_command_has_the_times_of_its_shell(broker: Broker, shell: str) -> None:
    await broker.create_session(shell, name="a")
    before = time.time()
    await broker.run("sleep 0.3", "a")
    command = await last_command(broker, "a")
    assert command.began is not None
    assert command.ended is not None
    assert before - CLOCK_S <= command.began
    assert command.ended - command.began >= 0.3 - CLOCK_S
    assert command.ended <= time.time() + CLOCK_S


@pytest.mark.parametrize("shell", SHELLS)
async def test_no_command_ends_before_it_begins(broker: Broker, shell: str) -> None:
    await broker.create_session(shell, name="a")
    for _ in range(30):
        await broker.run("true", "a")
    for command in (await broker.registry.sessions["a"].scan()).commands[-30:]:
        assert command.began is not None
        assert command.ended is not None
        assert command.began <= command.ended


@pytest.mark.parametrize("shell", TELLING)
@pytest.mark.parametrize("text", ["echo 'ä; b'", "echo a\necho b", "echo '" + "x" * 3000 + "'"])
async def test_a_command_has_its_text(broker: Broker, shell: str, text: str) -> None:
    await broker.create_session(shell, name="a")
    await broker.run(text, "a")
    assert (await last_command(broker, "a")).text == (text if len(text) <= 1000 else text[:1000] + "…")


async def test_a_clock_that_somebody_set_is_not_believed(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    await broker.run("unset EPOCHREALTIME; EPOCHREALTIME=5.25", "a")
    for clock in ("5.25", "99999999999.5", "$'\\a'"):
        await broker.run(f"EPOCHREALTIME={clock}", "a")
        result = await broker.run("sh -c 'exit 3'", "a")
        command = await last_command(broker, "a")
        assert (result.exit_code, command.status, command.began, command.ended) == (3, 3, None, None)
