"""A session's pane as an object of libtmux."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import libtmux
import pytest

from tests.conftest import eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import SessionExited, SessionNotFound, SessionTaken, TmuxFailed, Unauthorized
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.tmux import library


async def in_thread(work: Callable[[], object]) -> object:
    return await anyio.to_thread.run_sync(work)


async def test_pane_is_on_our_socket_and_by_our_tmux(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX", "/nowhere/tmux,1,0")
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("CANARY_TOKEN", "sings")
    await broker.create_session("bash", name="a")
    await broker.run("echo ä", "a")
    pane = await broker.pane("a")
    assert isinstance(pane, libtmux.Pane)
    assert (pane.server.socket_path, pane.pane_height) == (broker.tmux.socket, "24")
    assert "ä" in await in_thread(pane.capture_pane)
    option = partial(pane.cmd, "show-options", "-pqv", "@tmuxmcp_id")
    assert (await in_thread(option)).stdout == ["a"]
    assert broker.tmux.binary in await anyio.Path(pane.server.tmux_bin).read_text()
    shown = await in_thread(partial(pane.cmd, "show-environment", "-g"))
    assert not any("sings" in line for line in shown.stdout)


async def test_pane_types_into_the_session(broker: Broker) -> None:
    await broker.create_session("cat", name="a")
    pane = await broker.pane("a")
    await in_thread(partial(pane.send_keys, "typed by libtmux"))
    await eventually(lambda: b"typed by libtmux" in broker.registry.sessions["a"].log.read(0, 4096))


async def test_pane_whose_directory_has_a_line_feed(broker: Broker, tmp_path: Path) -> None:
    odd = tmp_path / "a\nb"
    odd.mkdir()
    await broker.create_session("bash", name="a", cwd=str(odd))
    pane = await broker.pane("a")
    await in_thread(partial(pane.send_keys, "echo $((6*7))"))
    await eventually(lambda: b"42\r\n" in broker.registry.sessions["a"].log.read(0, 4096))
    assert pane.window_id
    assert pane.session_id


async def test_what_has_no_pane(broker: Broker) -> None:
    with pytest.raises(SessionNotFound):
        await broker.pane("none")
    await broker.create_session("sh", ["-c", "exit 3"], name="ended")
    await broker.read(session_id="ended", wait_for="exit")
    with pytest.raises(SessionExited) as ended:
        await broker.pane("ended")
    assert ended.value.details["exit_code"] == 3
    await broker.create_session("cat", name="lost")
    broker.tmux.run("kill-pane", "-t", "=lost:")
    with pytest.raises(SessionExited):
        await broker.pane("lost")


async def test_default_session_of_another_caller_is_refused(broker: Broker) -> None:
    mine = await broker.run("true")
    assert await broker.pane(mine.session_id)
    theirs = await broker.by("other").run("true")
    with pytest.raises(Unauthorized, match="other"):
        await broker.pane(theirs.session_id)


async def test_session_that_a_person_holds_is_refused(broker: Broker) -> None:
    await broker.create_session("cat", name="a")
    await broker.take("a")
    with pytest.raises(SessionTaken):
        await broker.pane("a")


async def test_pane_starts_no_server_in_the_place_of_ours(state_dir: Path) -> None:
    async with Broker.open(BrokerSettings(state_dir=state_dir, program="cat")) as broker:
        await broker.create_session(name="a")
        pane = await broker.pane("a")
        broker.tmux.run("kill-server")
    assert pane.server.cmd("new-session", "-d").stderr
    assert pane.cmd("display-message", "-p", "x").stderr


async def test_server_that_does_not_answer_is_told(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    await broker.create_session("cat", name="a")
    pane = await broker.registry.sessions["a"].alive()
    monkeypatch.setattr(library, "LIBTMUX_ANSWER_S", 0.2)
    os.kill(broker.tmux.pid, signal.SIGSTOP)
    try:
        with pytest.raises(TmuxFailed, match="did not answer"):
            await library.pane_of(broker.tmux, pane)
    finally:
        os.kill(broker.tmux.pid, signal.SIGCONT)
