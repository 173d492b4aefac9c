"""`run` that is cancelled while it types: the shell takes the next command as if nothing had been."""

from __future__ import annotations

import random

import anyio
import pytest

from tmuxmcp.broker.broker import Broker
from tmuxmcp.errors import SessionBusy

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("program", ["bash", "zsh", "fish"])
async def test_cancelled_at_any_moment_of_its_typing(broker: Broker, program: str) -> None:
    rng = random.Random(3)
    await broker.create_session(program, name="a")
    await broker.run("true", session_id="a")
    for number in range(60):
        with anyio.move_on_after(rng.uniform(0, 0.012)):
            await broker.run(f"echo cancelled{number}", session_id="a")
        with anyio.fail_after(10):
            while True:
                try:
                    ran = await broker.run(f"echo next{number}", session_id="a")
                    break
                except SessionBusy:  # the cancelled command still runs
                    await broker.read(session_id="a", wait_for="ready", timeout_ms=1000)
        assert (ran.output, ran.exit_code, ran.note) == (f"next{number}\n", 0, None)
