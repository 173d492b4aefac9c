"""kill -9 of a broker while it adopts a shell: the next one finishes what that began, and no shell stays deaf."""

from __future__ import annotations

import os
import random
import signal
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.conftest import SLOW
from tests.kit import forks
from tests.kit.adopted import begin, enter
from tests.kit.programs import need
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.settings import BrokerSettings

ROOT = Path(__file__).parents[2]
MANY = bool(os.environ.get("TMUXMCP_TEST_MANY"))
STEPS = [
    (shell, str(step))
    for shell in (("bash --norc", "zsh -f", "fish --no-config", "dash") if MANY else ("dash",))
    for step in ((1, 2, 3, 4, 5, 6) if MANY else (1, 2, 3, 4, 5))
]
TIMES = [
    (shell, f"{random.Random(seed).uniform(0.2, 0.6):.3f}")
    for seed, shell in enumerate(["bash --norc", "zsh -f", "fish --no-config", "dash"] * 25 if MANY else [])
]


@pytest.mark.parametrize(("shell", "moment"), STEPS + TIMES)
async def test_a_later_broker_finishes_what_a_killed_one_began(
    broker: Broker, state_dir: Path, shell: str, moment: str
):
    need(shell.split()[0])
    await begin(broker, shell)
    words = [str(state_dir), moment]
    call = partial(forks.run, words, forks.environment(), ROOT, 60 * SLOW, module="tests.adoption.killed")
    killed = await anyio.to_thread.run_sync(call)
    assert killed.returncode == -signal.SIGKILL or "." in moment, killed.stderr.decode()
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="bash")) as later:
        result = await later.run("echo out; stty", "a", adopt="yes")
        assert result.output.startswith("out\n")
        assert "-echo" not in result.output
        assert (result.exit_code, result.shell and result.shell.level) == (0, 1)
        left = await later.run("exit 5", "a")
        assert (left.outcome, left.exit_code) == ("left", 5)
        assert (await later.run("echo back", "a")).output == "back\n"
        numbers = [each.number for each in (await later.list_commands("a")).commands]
        assert len(numbers) == len(set(numbers))
        await enter(later, "dash")  # nobody is kept from typing
        assert (await later.run("echo again", "a", adopt="yes")).output == "again\n"
