"""`run` that is cancelled while it types: the shell takes the next command as if nothing had been."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress

import anyio
import pytest

from tests.conftest import eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.errors import SessionBusy
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux.shells import shell_of

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


@pytest.mark.parametrize("how", ["run", "send"])
@pytest.mark.parametrize("program", ["bash", "zsh", "fish"])
async def test_shell_that_answers_too_late_takes_the_next_line(broker: Broker, program: str, how: str) -> None:
    """It stands still while it is given a command; what comes later is not swallowed by what it then listens for."""
    await broker.create_session(program, name="a")
    await broker.run("true", session_id="a")
    session = broker.registry.sessions["a"]
    assert session.pid
    os.kill(session.pid, signal.SIGSTOP)
    try:
        with suppress(SessionBusy):
            late = await broker.run("echo late", session_id="a", timeout_ms=1500)
            assert not late.completed
    finally:
        os.kill(session.pid, signal.SIGCONT)
    await broker.read(session_id="a", wait_for="ready", timeout_ms=5000)
    await eventually(lambda: listens_or_rests(session))
    if how == "run":
        assert (await broker.run("echo next", session_id="a")).output == "next\n"
    else:
        sent = await broker.send("echo next", enter=True, session_id="a")
        assert sent.result
        assert "\nnext\n" in sent.result.content


async def listens_or_rests(session: Session) -> bool:
    """A late answer has come, or bash has read a late command."""
    look = await session.look()
    return look.shell.listening or (shell_of(session.meta.program).reads_files and look.at_editor)
