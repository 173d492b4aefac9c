"""Whether a log holds all that was printed: tmux or the sink is held up, and has more."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import anyio
import pytest

from tests.conftest import SLOW, stop_with_children
from tmuxmcp.broker.broker import Broker
from tmuxmcp.machine.witness import tty
from tmuxmcp.readiness.wait import WaitCondition, wait_for
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux import panes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this witness")


async def started(broker: Broker, *argv: str) -> Session:
    made = await broker.create_session(
        program=argv[0], args=list(argv[1:]), wait_ready=True, ready_timeout_ms=int(10_000 * SLOW)
    )
    assert made.ready
    return broker.registry.sessions[made.session_id]


async def test_output_that_tmux_has_not_read_yet_is_awaited(broker: Broker, state_dir: Path):
    """tmux is held up; its answer comes after what it had to read before."""
    session = await started(broker, "cat")
    size, tmux = session.log.size(), int((state_dir / "tmux.pid").read_text())
    terminal = os.open(session.live().tty, os.O_WRONLY | os.O_NOCTTY)
    os.kill(tmux, signal.SIGSTOP)
    try:
        os.write(terminal, b"printed\n")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wake_later, tmux)
            assert not await session.log_complete(size)
    finally:
        os.kill(tmux, signal.SIGCONT)
        os.close(terminal)


async def wake_later(pid: int) -> None:
    await anyio.sleep(0.05)
    os.kill(pid, signal.SIGCONT)


async def test_output_between_pane_and_log_is_awaited(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    """A sink at work has something that is not in the log yet."""
    session = await started(broker, "cat")
    assert await session.log_complete(session.log.size())
    assert not await session.log_complete(session.log.size() - 1)  # it has grown since
    with monkeypatch.context() as patched:
        patched.setattr(tty, "sleeps", lambda pid: False)
        assert not await session.log_complete(session.log.size())
        assert (await wait_for(session, WaitCondition("ready", 300))).outcome == "timeout"
    assert (await wait_for(session, WaitCondition("ready", 10_000))).outcome == "ready"


async def test_sink_that_writes_between_two_questions_is_noticed(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    """The log is asked for its size when its sink sleeps, not before."""
    session = await started(broker, "cat")
    size = session.log.size()
    sink = stop_with_children(int(session.directory.sink.read_text().split()[0]))
    sleeps = tty.sleeps

    def once_it_has_written(pid: int) -> bool:
        for process in sink:
            process.resume()
        while session.log.size() == size or not sleeps(pid):
            time.sleep(0.001)
        return True

    await panes.type_input(session.tmux, session.live(), b"hello")
    monkeypatch.setattr(tty, "sleeps", once_it_has_written)
    assert not await session.log_complete(size)
