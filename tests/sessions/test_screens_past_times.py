"""Screens of past times, through a broker that notes when what was printed."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from tests.conftest import eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import InvalidArgument, NotRetained
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.record.events import ExitedEvent, InputEvent, SessionClock
from tmuxmcp.sessions import background
from tmuxmcp.sessions.background import Delays


@pytest.fixture
async def broker(
    anyio_backend: str, state_dir: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Broker]:
    """A broker that notes each time as known, however long a busy machine holds it up."""
    monkeypatch.setattr(Delays, "lately", lambda delays: False)
    monkeypatch.setattr(background, "HELD_UP_S", 3600.0)
    settings = BrokerSettings(state_dir=state_dir, program="bash")
    async with Broker.open(settings, keeps_times=True) as opened:
        yield opened


async def at_rest(broker: Broker, command: str) -> int:
    """Run a command; the time by the session's clock once the prompt behind it is drawn."""
    await broker.run(command, "a")
    await broker.read(session_id="a", wait_for="ready")
    return await time_now(broker)


async def time_now(broker: Broker) -> int:
    """The time of what was printed last, as soon as it is noted."""
    session = broker.registry.sessions["a"]
    return await eventually(lambda: session.times.ms_at(session.log.size()))


async def screen(broker: Broker, at_ms: int) -> r.ReadResult:
    """The screen of a time, as soon as the broker has noted what was printed then."""

    async def read() -> r.ReadResult | None:
        with suppress(NotRetained):
            return await broker.read("screen", "a", at_ms=at_ms)
        return None

    return await eventually(read, 20)


async def test_the_screen_of_a_time(broker: Broker) -> None:
    await broker.create_session(name="a")
    first = await at_rest(broker, "clear; echo one")
    second = await at_rest(broker, "clear; echo two")
    then = await screen(broker, first)
    assert "\none\n" in f"\n{then.content}\n"
    assert "two" not in then.content
    assert (then.time, then.approximate, then.mode) == (first, False, None)
    assert "two" in (await screen(broker, second)).content
    assert "two" in (await screen(broker, -1)).content
    before = await broker.screenshot("svg", session_id="a", at_ms=first)
    assert before.approximate is False

    with pytest.raises(InvalidArgument, match="no time of session"):
        await broker.read("screen", "a", at_ms=10**9)
    with pytest.raises(InvalidArgument, match="at_ms does not go with view=new"):
        await broker.read("new", "a", at_ms=first)


async def test_what_is_printed_while_the_clock_is_read_was_not_there_when_it_was_typed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create_session(name="a")
    session, clock = broker.registry.sessions["a"], time.time
    size = session.log.size()

    def slow() -> float:
        now_s = clock()
        with session.log.path.open("ab") as log:
            log.write(b"printed meanwhile\r\n")
        return now_s

    with monkeypatch.context() as patch:
        patch.setattr(time, "time", slow)
        session.write_input(bytes=1, keys=0)
    assert session.log.size() > size
    assert [each.offset for each in session.events.read() if isinstance(each, InputEvent)][-1] == size


async def test_what_stood_before_output_that_was_noted_late_is_known(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However busy the machine is: the broker has looked meanwhile, and nothing had come."""
    await broker.create_session(name="a")
    await at_rest(broker, "echo one")
    session = broker.registry.sessions["a"]
    monkeypatch.setattr(Delays, "lately", lambda delays: True)
    quiet = session.now_ms()
    await eventually(lambda: session.now_ms() > quiet + 200)
    late = await at_rest_late(broker, "echo two")
    content = (await screen(broker, quiet + 100)).content
    assert "one" in content
    assert "two" not in content
    assert "two" in (await screen(broker, -1)).content
    unknown = next(ms for ms in range(quiet, late) if session.times.offset_at(ms) is None)
    with pytest.raises(NotRetained, match=r"between [0-9]+ ms and [0-9]+ ms, and nobody noted when exactly") as found:
        await broker.read("screen", "a", at_ms=unknown)
    assert (hint := re.search(r"at_ms=([0-9]+) shows", found.value.hint))
    assert "two" in (await screen(broker, int(hint[1]))).content


async def at_rest_late(broker: Broker, command: str) -> int:
    """As `at_rest`, where no time is noted as known."""
    await broker.run(command, "a")
    await broker.read(session_id="a", wait_for="ready")
    session = broker.registry.sessions["a"]
    await eventually(lambda: session.times.offset_at(session.now_ms()) == session.log.size())
    return session.now_ms()


async def test_a_later_size_makes_a_screen_approximate(broker: Broker) -> None:
    await broker.create_session("cat", name="a", wait_ready=False)
    await broker.send("line", enter=True, session_id="a", wait_for="changed")
    await broker.read(session_id="a", wait_for="ready")
    before = await time_now(broker)
    assert not (await screen(broker, before)).approximate
    await broker.resize(session_id="a", cols=50)
    then = await screen(broker, before)
    assert (then.approximate, then.cols) == (True, 50)
    assert "size changed" in (then.note or "")


async def exits(broker: Broker) -> None:
    await broker.read(session_id="a", wait_for="exit")


async def exits_and_is_destroyed(broker: Broker) -> None:
    await broker.read(session_id="a", wait_for="exit")
    await broker.destroy_session("a")


async def is_destroyed(broker: Broker) -> None:
    await broker.destroy_session("a", force=True)


async def is_lost(broker: Broker) -> None:
    broker.tmux.run("kill-session", "-t", "=a")

    async def lost() -> bool:
        return (await broker.get_session("a")).mode == "lost"

    await eventually(lost)


@pytest.mark.parametrize(
    ("end", "sleeps"), [(exits, 0), (exits_and_is_destroyed, 0), (is_destroyed, 600), (is_lost, 600)]
)
async def test_the_time_of_an_ended_session_ends_with_it(
    broker: Broker, end: Callable[[Broker], Awaitable[None]], sleeps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long ago that was, and whether its pane is still there."""
    await broker.create_session("sh", ["-c", f"echo one; sleep 1; echo two; sleep {sleeps}"], name="a")
    await broker.read(session_id="a", wait_for="pattern", pattern="two")
    await time_now(broker)
    times, log = broker.registry.sessions["a"].times, broker.registry.sessions["a"].log
    last = times.ms_at(log.read(0, 100).index(b"two") + 1)
    assert last is not None
    await end(broker)
    session = await broker.registry.known("a")
    if end is not is_lost:
        await eventually(lambda: any(isinstance(each, ExitedEvent) for each in session.events.read()))
    clock = SessionClock.now_ms
    monkeypatch.setattr(SessionClock, "now_ms", lambda self: clock(self) + 3_600_000)
    end_ms = (await broker.seeing().activity("a")).end_ms
    assert last <= end_ms < last + 120_000
    assert "two" in (await screen(broker, -1)).content
    assert "two" not in (await screen(broker, -(end_ms - last) - 300)).content
    assert (await screen(broker, session.end_ms())).time >= end_ms
    with pytest.raises(InvalidArgument, match=r"which ended [0-9]+ ms after it was made"):
        await broker.read("screen", "a", at_ms=end_ms + 1000)  # when it printed last may have been noted meanwhile
    exported = await broker.export_recording("a", format="txt", from_ms=last - end_ms - 500)
    assert "two" in await anyio.Path(exported.path).read_text()
    assert exported.duration_s < 120
