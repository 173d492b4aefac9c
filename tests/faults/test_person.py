"""A person types in the terminal, at random, while an agent runs commands there: no answer is false."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from tests.conftest import SLOW, TMUX
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.machine.launch import shells

ROUNDS = 200 if os.environ.get("TMUXMCP_TEST_MANY") else 15


async def type_at_random(broker: Broker, session_id: str, rng: random.Random) -> None:
    """Commands, empty lines, half-typed words and Ctrl-C, a few dozen each second."""
    target = ["-t", f"={session_id}:"]
    for number in range(1_000_000):
        keys = rng.choices(
            [[f"echo p{number}", "Enter"], ["Enter"], ["C-c"], ["x", "y"], ["ls", "Enter", "Enter"]],
            [50, 20, 15, 10, 5],
        )[0]
        argv = [TMUX, "-N", "-S", str(broker.tmux.socket), "send-keys", *target, *keys]
        with anyio.move_on_after(5 * SLOW):
            await anyio.run_process(argv, check=False)
        await anyio.sleep(rng.uniform(0, 0.03))


def false_in(ran: r.RunResult, times: int, output: str, status: int) -> str:
    """What is not so in the answer about a command that was run so many times."""
    note = ran.note or ""
    if times > 1:
        return "it ran twice"
    if ran.completed and times == 1 and (ran.exit_code, output in ran.output) == (status, True):
        return ""
    if ran.completed and ran.exit_code == 130:
        return ""  # the person's Ctrl-C
    if not ran.completed and ran.exit_code is None and ("cannot be told" in note or "read by it" in note):
        return ""
    return "" if "refused" in note and not times else "it says what is not so"


@pytest.mark.parametrize("program", ["bash", "zsh", "fish"])
async def test_a_person_who_types_at_random_makes_no_answer_false(broker: Broker, tmp_path: Path, program: str) -> None:
    rng, did = random.Random(30), tmp_path / "did"
    did.touch()
    await broker.create_session(program, name="a")
    await broker.run("true", session_id="a")
    found = []
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(type_at_random, broker, "a", random.Random(31))
        for number in range(ROUNDS):
            status = rng.randrange(1, 100)
            with suppress(TmuxMcpError):
                command = f"echo {number} >>{did}; echo c{number}; sh -c 'exit {status}'"
                ran = await broker.run(command, session_id="a", timeout_ms=int(1000 * SLOW))
                times = did.read_text().split().count(str(number))
                why = false_in(ran, times, f"c{number}\n", status)
                found += [(why, times, ran)] if why else []
                continue
            assert str(number) not in did.read_text().split(), "it was refused, and ran"
        task_group.cancel_scope.cancel()
    assert found == [], "\n".join(map(str, found))


@pytest.mark.parametrize("program", ["zsh", "fish"])
@pytest.mark.parametrize("keys", [b"x", b"echo theirs\r", b"0123456789abcdef"])
async def test_keys_between_ours_and_the_command_change_nothing(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, program: str, keys: bytes
) -> None:
    """A person types at the very moment when the shell listens for a command."""
    whole = shells.command_keys
    monkeypatch.setattr(shells, "command_keys", lambda job, text, proof: keys + whole(job, text, proof))
    await broker.create_session(program, name="a")
    for number in range(3):
        ran = await broker.run(f"echo {number}; sh -c 'exit 5'", session_id="a", timeout_ms=int(15_000 * SLOW))
        assert (ran.output, ran.exit_code, ran.completed) == (f"{number}\n", 5, True)
