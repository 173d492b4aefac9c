"""What a read says beside its content."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from tests.conftest import SLOW
from tests.kit.agent import eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.broker.reading import _mode
from tmuxmcp.contract.call import seconds_of
from tmuxmcp.contract.value import replace
from tmuxmcp.machine.witness.kernel import InputWait, Verdict
from tmuxmcp.readiness.wait import Answer, WaitCondition, wait_for


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process of which nothing is passed on meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_lines_are_counted(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    await broker.run("seq 100", "a")
    await broker.read(session_id="a", wait_for="ready")  # the prompt is a line as well
    whole = await broker.read(session_id="a", view="scrollback")
    part = await broker.read(session_id="a", view="scrollback", limit=5)
    assert whole.lines == len(whole.content.splitlines()) > 100
    assert (part.lines, len(part.content.splitlines())) == (whole.lines, 5)
    assert (await broker.read(session_id="a", command=1)).lines == 100
    screen = await broker.read(session_id="a", view="screen")
    assert screen.lines == len(screen.content.splitlines())
    assert (await broker.read(session_id="a", view="raw")).lines is None


async def test_what_the_view_does_nothing_with_is_told(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    for view in ("new", "screen"):
        note = (await broker.read(session_id="a", view=view, limit=5)).note
        assert note
        assert "limit=5 counts for view=scrollback only." in note
    assert "offset=0" in ((await broker.read(session_id="a", offset=0)).note or "")
    assert (await broker.read(session_id="a", limit=1000)).note is None
    assert "counts" not in ((await broker.read(session_id="a", view="scrollback", limit=5, offset=0)).note or "")


async def test_the_time_is_that_of_the_session(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    run = await broker.run("echo one; sleep 0.2", "a")
    made = seconds_of((await broker.get_session("a")).created_at)
    assert made is not None
    await broker.read(session_id="a", wait_for="ready")  # what ends where the log has gone on has no time
    read = await broker.read(session_id="a")
    assert read.time is not None
    assert 200 <= read.time <= (time.time() - made) * 1000 + 1
    later = await broker.read(session_id="a")
    assert later.time is not None
    assert later.time >= read.time
    assert (await broker.read(session_id="a", since=run.start_offset, max_bytes=2)).time is None


async def test_of_a_session_that_has_ended_the_time_stands_still(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    await broker.send("exit", enter=True, session_id="a", wait_for="exit", timeout_ms=int(20_000 * SLOW))
    times = {(await broker.read(session_id="a")).time for _ in range(3)}
    assert len(times) == 1
    assert None not in times


async def test_a_session_says_how_many_commands_it_ran(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    assert (await broker.get_session("a")).commands == 0
    await broker.run("true", "a")
    await broker.run("sleep 600", "a", timeout_ms=int(1000 * SLOW))
    assert (await broker.get_session("a")).commands == 2


async def test_the_mode_of_a_moment_ago_goes_by_the_screen_of_now(broker: Broker) -> None:
    """vim's `:!cat`: ready by the kernel, while tmux was last asked when vim still drew; then busy for a moment."""
    await broker.create_session("cat", name="a", wait_ready=True)
    look = await broker.registry.sessions["a"].look()
    assert look.mode == "line_input"
    assert look.pane
    settled = replace(look, pane=replace(look.pane, alternate_screen=True))
    assert settled.mode == "fullscreen"
    busy = replace(look, verdict=Verdict(InputWait.BUSY, "it works"))
    assert busy.mode == "running"
    assert _mode(busy, Answer("ready", "kernel", 0, settled)) == "line_input"


@pytest.mark.skipif(shutil.which("script") is None, reason="script is not installed")
async def test_a_secret_is_told_of_while_the_relay_before_it_works(broker: Broker) -> None:
    """A tmux inside, which draws the alternate screen, has its status line to draw right after the answer."""
    asks = r"stty -echo; printf '\033[?1049hsecret: '; read x"
    await broker.create_session("sh", ["-c", 'script -qc "$0" /dev/null; :', asks], name="a")
    session = broker.registry.sessions["a"]
    answer = await wait_for(session, WaitCondition("ready", int(10_000 * SLOW)))
    assert answer.settled
    below = psutil.Process(session.live().leader).children(recursive=True)
    relay = next(each for each in below if each.name() == "script")
    with stopped(relay.pid):
        await session.refresh()
        look = await session.look()
        assert (look.waiting, look.mode) == (InputWait.BUSY, "fullscreen")
        assert _mode(look, answer) == "password"
