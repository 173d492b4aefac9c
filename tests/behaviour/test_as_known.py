"""Calls that take a pane for what tmux last told of it: they find out when it is not, and look anew."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import NotAShell, SessionExited, SessionTaken, TmuxFailed
from tmuxmcp.contract.request import Request
from tmuxmcp.contract.requests import Read, Run
from tmuxmcp.sessions import lease
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux import leases
from tmuxmcp.tmux.control import ControlClient
from tmuxmcp.tmux.leaseoptions import Lease

AGENT = Call("agent")


async def started(broker: Broker) -> Session:
    await broker.create_session("bash", name="a")
    await broker.run("true", "a")
    return await broker.registry.existing("a")


def tmux(broker: Broker, *words: str) -> None:
    """A script of somebody's: no broker is told."""
    assert broker.tmux.run(*words).returncode == 0


async def test_run_sees_what_scripts_did_to_the_pane(broker: Broker) -> None:
    session = await started(broker)
    target = session.live().pane_id
    keys = [r"printf '\033[?1000h'", "Enter"]
    changes: list[tuple[list[str], Callable[[], object]]] = [
        (["resize-window", "-t", target, "-x", "40", "-y", "10"], lambda: (session.cols, session.rows) == (40, 10)),
        (["copy-mode", "-t", target], lambda: True),
        (["send-keys", "-t", target, *keys], lambda: session.pane and session.pane.wants_mouse),
    ]
    for number, (words, seen) in enumerate(changes):
        size = session.log.size()
        tmux(broker, *words)
        if "send-keys" in words:
            await eventually(lambda size=size: b"\x1b[?1000h" in session.log.read(size, 4096))
            await broker.read(session_id="a", wait_for="ready")
        ran = await broker.run(f"echo {number}{'x' * 60}", "a")
        assert (ran.exit_code, ran.output) == (0, f"{number}{'x' * 60}\n")
        assert seen(), words
    assert "it asks for the mouse" in (ran.note or "")


async def test_pane_with_another_program_gets_no_command(broker: Broker) -> None:
    session = await started(broker)
    pid = session.live().leader
    tmux(broker, "respawn-pane", "-k", "-t", session.live().pane_id, "cat")
    with pytest.raises(NotAShell):
        await broker.run("echo typed", "a")
    assert session.live().leader != pid
    assert "typed" not in (await broker.read("screen", "a")).content


async def test_ended_default_session_is_made_anew(broker: Broker) -> None:
    asked: list[Request[Any]] = [Run("echo $$"), Read("screen")]
    for request in asked:
        first = await broker.do(Run("true"), AGENT)
        session = broker.registry.sessions[first.session_id]
        tmux(broker, "kill-pane", "-t", session.live().pane_id)
        again = await broker.do(request, AGENT)
        assert again.session_id != first.session_id
        assert not again.ended


async def test_lease_of_somebody_gone_is_given_back(broker: Broker) -> None:
    """Taken by another broker, of which this one was not told, by a terminal that is gone since."""
    session = await started(broker)
    pane = session.live()
    old = Lease("somebody", "attach", time.time() - 2 * lease.ATTACHES_S, pid=2**22 - 1)
    how = leases.GiveBackRule(session.log.path, "", "")
    assert await leases.take(broker.tmux, pane, old, None, how=how, now_s=old.since_s or 0)
    assert session.lease is None
    ran = await broker.run("echo given back", "a")
    assert (ran.exit_code, ran.output) == (0, "given back\n")


async def test_taken_session_gets_no_command(broker: Broker) -> None:
    session = await started(broker)
    held = Lease("somebody", "cli", time.time())
    how = leases.GiveBackRule(session.log.path, "", "")
    assert await leases.take(broker.tmux, session.live(), held, None, how=how, now_s=time.time())
    assert session.lease is None
    with pytest.raises(SessionTaken):
        await broker.run("echo typed", "a")
    assert b"typed" not in session.log.read(0, 1 << 20)
    assert session.lease


async def test_command_that_tmux_did_not_answer_for_never_runs(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """tmux stands still while it is given the key, and presses it when the caller has his error."""
    await started(broker)
    original, server = ControlClient.request, broker.tmux.pid
    monkeypatch.setattr(ControlClient, "request", lambda self, line, timeout_s=5.0: original(self, line, 0.3))
    os.kill(server, signal.SIGSTOP)
    try:
        with pytest.raises(TmuxFailed):
            await broker.run(f"touch {tmp_path}/ran", "a")
    finally:
        os.kill(server, signal.SIGCONT)
    monkeypatch.undo()
    assert (await broker.run("echo next", "a")).output == "next\n"
    assert not (tmp_path / "ran").exists()


async def test_screen_of_a_pane_that_is_gone_says_so(broker: Broker) -> None:
    session = await started(broker)
    tmux(broker, "kill-pane", "-t", session.live().pane_id)
    assert (await broker.read("screen", "a")).exited
    with pytest.raises(SessionExited):
        await broker.run("true", "a")
