"""Followers of a session: the screen, then every byte once, then the end; whatever happens in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import anyio
import psutil
import pytest

from tests.conftest import SLOW, eventually
from tests.kit.tmux import plain_tmux
from tests.sessions.test_registry_repair import directory_of, kill_sink, rests
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.errors import InvalidArgument, PolicyDenied, SessionNotFound, Unauthorized
from tmuxmcp.contract.follow import Command, Destroyed, Exit, Gap, Lost, ModeChange, Output, Printed, Resize
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.record.log import LOG_READ_BYTES
from tmuxmcp.sessions import screens
from tmuxmcp.sessions.follow import Event, Follow
from tmuxmcp.terminal.emulator.replay import Replay, blank
from tmuxmcp.terminal.snapshot import Snapshot
from tmuxmcp.tmux.control import ControlClient

Kind = TypeVar("Kind")

SOON_S = 10 * SLOW

FIRST = r"printf 'one\r\n\033[1;31mred\033[4mline\033[m\033]2;title\007\033[5;9Hplace'"
MORE = [
    r"printf '\033[7mreverse\033[m and on'",
    r"printf '\r\033[K'; seq 40",
    r"printf '\033[?1049h\033[2J\033[3;3Hfull screen'",
    r"printf '\033[4;4H\033[32mgreen'",
    r"printf '\033[?1049l'",
]
"""Each begins where the one before left the terminal."""


async def first(follow: Follow, kind: type[Kind], fits: Callable[[Kind], bool] = lambda _: True) -> Kind:
    """The next event of this kind; the others are left out."""
    with anyio.fail_after(SOON_S):
        async for event in follow:
            if isinstance(event, kind) and fits(event):
                return event
    raise AssertionError(f"no {kind.__name__} came")


async def output_until(follow: Follow, text: bytes) -> bytes:
    """What is printed, up to and with the piece in which `text` comes; no byte is missing or given twice."""
    seen, begin = b"", -1
    with anyio.fail_after(SOON_S):
        while text not in seen:
            event = await anext(follow)
            if isinstance(event, Output):
                begin = event.offset if begin < 0 else begin
                assert event.offset == begin + len(seen)
                seen += event.data
    return seen


async def rest(follow: Follow) -> list[Event]:
    """All until the end."""
    with anyio.fail_after(SOON_S):
        return [event async for event in follow]


def log_of(broker: Broker, session_id: str = "a") -> bytes:
    return (broker.settings.state_dir / "sessions" / session_id / "out.raw").read_bytes()


def shown(snapshot: Snapshot) -> tuple[object, ...]:
    cursor = snapshot.cursor
    return snapshot.text_rows(), cursor.row, cursor.col, snapshot.alternate, snapshot.title


async def typed(broker: Broker, text: str, session_id: str = "a") -> None:
    await broker.send(text, session_id=session_id, enter=True, read="none", wait_for="none")


# ---- screen and bytes ------------------------------------------------------------------------------


async def test_late_follower_gets_the_screen_and_then_every_byte_once(broker: Broker) -> None:
    """At any place: the snapshot with the bytes behind it gives the screen of all bytes."""
    script = f'stty -echo; {FIRST}; while read -r line; do eval "$line"; done'
    await broker.create_session("bash", ["-c", script], "a")
    await broker.read("new", "a", wait_for="pattern", pattern="place")
    follows = []
    for step in MORE:
        follow = broker.follow("a")
        snapshot = await first(follow, Snapshot)
        assert not snapshot.approximate
        follows.append((follow, snapshot))
        size = len(log_of(broker))
        await typed(broker, step)
        await eventually(lambda size=size: len(log_of(broker)) > size)
        await broker.read("new", "a", wait_for="ready")
    await typed(broker, "printf END")
    everything = Replay(blank(80, 24))
    await eventually(lambda: log_of(broker).endswith(b"END"))
    everything.feed(log_of(broker))
    for follow, snapshot in follows:
        assert snapshot.offset > 0
        seen = await output_until(follow, b"END")
        assert seen == log_of(broker)[snapshot.offset :]
        replay = Replay(snapshot)
        replay.feed(seen)
        assert shown(replay.snapshot()) == shown(everything.snapshot())


async def test_follower_from_an_offset_gets_bytes_alone(broker: Broker) -> None:
    await broker.create_session("cat", name="a", wait_ready=True)
    await typed(broker, "hello")
    await eventually(lambda: log_of(broker).endswith(b"hello\r\nhello\r\n"))
    await broker.read(session_id="a", wait_for="ready")
    follow = broker.follow("a", since=3)
    event = await anext(follow)
    assert event == Output(3, log_of(broker)[3:])
    assert (await first(follow, ModeChange)).mode == "line_input"
    with pytest.raises(InvalidArgument, match="behind the end"):
        await anext(broker.follow("a", since=1000))
    with pytest.raises(SessionNotFound):
        await anext(broker.follow("no"))


async def test_a_flood_is_given_in_bounded_pieces(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    follow = broker.follow("a", since=0)
    await typed(broker, "seq 300000; echo E''ND")
    seen, most = b"", 0
    with anyio.fail_after(SOON_S * 3):
        while b"END" not in seen[-4096:]:
            event = await anext(follow)
            if isinstance(event, Output):
                assert event.offset == len(seen)
                seen += event.data
                most = max(most, len(event.data))
    assert most <= LOG_READ_BYTES
    assert seen == log_of(broker)[: len(seen)]


@pytest.mark.parametrize("asked", [True, False])
async def test_snapshot_in_a_flood_is_the_screen_at_its_offset(
    broker: Broker, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether tmux tells it, or never has a quiet moment and it is drawn from the log."""
    if not asked:
        monkeypatch.setattr(screens, "SNAPSHOT_RETRY_PAUSES_S", ())
    await broker.create_session("bash", ["-c", "while :; do seq 10000; done"], name="a", wait_ready=False)
    await eventually(lambda: len(log_of(broker)) > 1 << 20)
    for _ in range(5):
        snapshot = await first(broker.follow("a"), Snapshot)
        assert snapshot.approximate or asked
        replay = Replay(blank(80, 24))
        with (broker.settings.state_dir / "sessions/a/out.raw").open("rb") as log:
            log.seek(snapshot.offset - 5000)
            replay.feed(log.read(5000))
        assert shown(replay.snapshot())[:3] == shown(snapshot)[:3]
    await broker.destroy_session("a", force=True)


async def test_follower_that_wants_no_bytes_is_told_that_there_are_some(broker: Broker) -> None:
    await broker.create_session("cat", name="a", wait_ready=True)
    follow = broker.follow("a", output=False)
    assert await follow.batch() == [ModeChange("line_input", True)]
    await typed(broker, "hello")
    printed = await first(follow, Printed)
    assert printed.offset <= len(log_of(broker))


async def test_wait_for_an_event_may_be_given_up_and_taken_up_again(broker: Broker) -> None:
    await broker.create_session("cat", name="a", wait_ready=True)
    follow = broker.follow("a", since=0)
    seen = b""
    for number in range(40):
        await typed(broker, f"line {number}")
        with anyio.move_on_after(0.003 * (number % 5)):
            while True:
                event = await anext(follow)
                seen += event.data if isinstance(event, Output) else b""
    size = sum(2 * len(f"line {number}\r\n") for number in range(40))  # each is echoed, and printed by cat
    with anyio.fail_after(SOON_S):
        while len(seen) < size:
            event = await anext(follow)
            seen += event.data if isinstance(event, Output) else b""
    assert seen == log_of(broker)


# ---- what else happens -----------------------------------------------------------------------------


async def test_sizes_are_told_whoever_changed_them(broker: Broker) -> None:
    await broker.create_session("cat", name="a", wait_ready=True)
    follow = broker.follow("a")
    await follow.batch()
    await broker.resize(rows=30, cols=100, session_id="a")
    assert await first(follow, Resize) == Resize(0, 100, 30)
    async with Broker.open(broker.settings) as other:
        await other.resize(rows=20, session_id="a")
        assert await first(follow, Resize) == Resize(0, 100, 20)
    plain_tmux(broker.settings.state_dir, "resize-window", "-t", "=a:", "-x", "40", "-y", "10")
    assert await first(follow, Resize) == Resize(0, 40, 10)
    await typed(broker, "x")
    await first(follow, Output)  # each was told once


async def test_a_size_of_the_past_is_told_at_its_place(broker: Broker) -> None:
    await broker.create_session("cat", name="a", wait_ready=True)
    for number, size in enumerate([(100, 30), (90, 20)]):
        await typed(broker, f"line {number}")
        await eventually(lambda number=number: log_of(broker).count(b"line %d\r\n" % number) == 2)
        await broker.resize(cols=size[0], rows=size[1], session_id="a")
    await broker.resize(cols=100, rows=30, session_id="a")
    log = log_of(broker)
    half = len(log) // 2
    follow = broker.follow("a", since=0)
    events = [await anext(follow) for _ in range(6)]
    assert [event for event in events if not isinstance(event, ModeChange)] == [
        Output(0, log[:half]),
        Resize(half, 100, 30),
        Output(half, log[half:]),
        Resize(len(log), 90, 20),
        Resize(len(log), 100, 30),
    ]
    assert await anext(broker.follow("a", since=len(log) - 1)) == Output(len(log) - 1, log[-1:])


async def test_commands_and_modes_are_told(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    follow = broker.follow("a")
    await first(follow, ModeChange, lambda event: event.mode == "shell_prompt" and event.ready)
    ran = await broker.run("echo hello; (exit 3)", "a")
    command = await first(follow, Command)
    assert (command.exit_code, command.start, command.end) == (3, ran.start_offset, ran.end_offset)
    await typed(broker, "read -s secret")
    await first(follow, ModeChange, lambda event: event.mode == "password")


async def test_output_that_was_lost_is_told(broker: Broker) -> None:
    await broker.create_session("cat", name="a", wait_ready=True)
    follow = broker.follow("a")
    await follow.batch()
    await typed(broker, "before")
    await output_until(follow, b"before\r\nbefore\r\n")
    size = len(log_of(broker))
    kill_sink(directory_of(broker.settings.state_dir, "a"))
    assert await first(follow, Gap) == Gap(size, size)
    await typed(broker, "after")
    assert (await output_until(follow, b"after\r\nafter\r\n")) == log_of(broker)[size:]
    told = [event for event in [await anext(broker.follow("a", since=size))] if isinstance(event, Gap)]
    assert told == [Gap(size, size)]


async def test_head_that_was_given_back_is_told(state_dir: Path, home: Path) -> None:
    async with Broker.open(BrokerSettings(state_dir=state_dir, log_max_bytes=1 << 20)) as broker:
        await broker.create_session("bash", name="a")
        follow = broker.follow("a", since=0)
        await first(follow, Output)
        await broker.run("seq 400000", "a")
        session = broker.registry.sessions["a"]
        await broker.read(session_id="a", wait_for="ready")
        await eventually(lambda: session.log.head() > 0 and rests(session.directory.path))  # it cuts no more
        gap = await first(follow, Gap)
        assert gap.until > gap.offset
        event = await first(follow, Output)  # its mode may be told in between
        assert event.offset == gap.until
        assert session.log.read(event.offset, len(event.data)) == event.data


# ---- the end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ("echo last; exit 3", Exit(3, None)),
        ("echo last", Exit(0, None)),
        ("echo last; kill -KILL $$", Exit(None, "KILL")),
    ],
    ids=["code", "zero", "signal"],
)
@pytest.mark.parametrize("output", [True, False])
async def test_end_of_the_program_comes_behind_its_last_byte(
    broker: Broker, script: str, end: Exit, output: bool
) -> None:
    await broker.create_session("env", ["sh", "-c", f"read -r line; {script}"], name="a", wait_ready=True)
    follow = broker.follow("a", output=output)
    await follow.batch()
    await typed(broker, "go")
    events = await rest(follow)
    assert events[-1] == end
    printed = b"".join(each.data for each in events if isinstance(each, Output))
    assert printed == log_of(broker)[: len(printed)]
    assert printed.endswith(log_of(broker)[-20:]) == output
    assert await follow.batch() == []
    late = await rest(broker.follow("a"))
    assert [type(each) for each in late] == [Snapshot, Exit]
    everything = await rest(broker.follow("a", since=0))
    assert everything == [Output(0, log_of(broker)), end]


async def test_all_of_a_long_output_comes_before_the_end(broker: Broker) -> None:
    await broker.create_session("env", ["sh", "-c", "seq 200000"], name="a")
    await broker.read(session_id="a", wait_for="exit")
    events = await rest(broker.follow("a", since=0))
    assert b"".join(event.data for event in events if isinstance(event, Output)) == log_of(broker)
    assert [type(event) for event in events[-2:]] == [Output, Exit]


async def test_a_lost_pane_is_told_with_the_last_bytes(broker: Broker) -> None:
    await broker.create_session("cat", name="a", wait_ready=True)
    follow = broker.follow("a", since=0)
    await typed(broker, "hello")
    await output_until(follow, b"hello\r\nhello\r\n")
    plain_tmux(broker.settings.state_dir, "kill-session", "-t", "=a")
    assert (await rest(follow))[-1] == Lost()
    late = await rest(broker.follow("a"))
    assert [type(each) for each in late] == [Snapshot, Lost]
    assert isinstance(late[0], Snapshot)
    assert late[0].text_rows()[:2] == ["hello", "hello"]


async def test_an_ended_server_is_a_lost_pane(broker: Broker) -> None:
    await broker.create_session("cat", name="a", wait_ready=True)
    follow = broker.follow("a")
    await follow.batch()
    plain_tmux(broker.settings.state_dir, "kill-server")
    assert (await rest(follow))[-1] == Lost()


@pytest.mark.parametrize("by_other", [True, False])
@pytest.mark.parametrize("output", [True, False])
async def test_a_destroyed_session_is_told(broker: Broker, by_other: bool, output: bool) -> None:
    await broker.create_session("cat", name="a", wait_ready=True)
    follow, late = broker.follow("a", output=output), broker.follow("a", output=output)
    for each in (follow, late):
        await each.batch()
    async with Broker.open(broker.settings) as other, anyio.create_task_group() as task_group:
        task_group.start_soon((other if by_other else broker).destroy_session, "a", True)
        end = (await rest(follow))[-1]
    assert end in (Destroyed(), Exit(None, "KILL"))  # its program ends first
    assert (await rest(late))[-1] == Destroyed()
    assert (await rest(broker.follow("a", output=output)))[-1] == Destroyed()


async def test_another_session_of_the_same_name_is_not_followed(broker: Broker) -> None:
    await broker.create_session("cat", name="a", wait_ready=True)
    follow = broker.follow("a", since=0)
    await typed(broker, "old")
    await output_until(follow, b"old\r\nold\r\n")
    async with Broker.open(broker.settings) as other:
        await other.destroy_session("a", force=True)
        await other.create_session("env", ["sh", "-c", "echo a new one, much longer than the old; cat"], name="a")
    events = await rest(follow)
    assert not any(b"new" in each.data for each in events if isinstance(each, Output))
    assert isinstance(events[-1], Destroyed)


# ---- several ---------------------------------------------------------------------------------------


async def test_one_that_stops_reading_holds_up_nobody_and_reads_on(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    slow, quick = broker.follow("a", since=0), broker.follow("a", since=0)
    held = await first(slow, Output)
    await typed(broker, "seq 100000; echo E''ND")
    seen = await output_until(quick, b"END")
    assert len(slow._events) <= 8  # nothing queues for it
    late = held.data + await output_until(slow, b"END")  # the prompt may come in the same piece
    assert late.startswith(seen[: seen.index(b"END")])


async def test_nothing_is_left_of_a_follower_that_is_cancelled(broker: Broker) -> None:
    await broker.create_session("cat", name="a", wait_ready=True)
    session = broker.registry.sessions["a"]
    descriptors = psutil.Process().num_fds()
    async with anyio.create_task_group() as task_group:
        for output in (True, False):
            task_group.start_soon(rest, broker.follow("a", output=output))
        await eventually(lambda: session.growth.waiters == 2)
        task_group.cancel_scope.cancel()
    assert session.growth.waiters == 0
    assert psutil.Process().num_fds() <= descriptors


async def test_followers_of_an_idle_session_ask_tmux_nothing(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    await broker.create_session("cat", name="a", wait_ready=True)
    follows = [broker.follow("a", output=output) for output in (True, False)]
    for follow in follows:
        await first(follow, ModeChange)
    asked: list[bytes] = []
    original = ControlClient.request

    def counting(self: ControlClient, line: bytes, timeout_s: float = 5.0) -> Awaitable[object]:
        asked.append(line)
        return original(self, line, timeout_s)

    monkeypatch.setattr(ControlClient, "request", counting)
    with anyio.move_on_after(2):  # what is measured: a time in which nothing happens
        async with anyio.create_task_group() as task_group:
            for follow in follows:
                task_group.start_soon(rest, follow)
    assert asked == []


async def test_without_an_id_the_callers_default_session_is_followed(broker: Broker) -> None:
    ran = await broker.by("me").run("echo mine")
    event = await anext(broker.follow(since=0, call=Call("me", person=True)))
    assert isinstance(event, Output)
    assert b"mine" in event.data
    assert len(broker.registry.sessions) == 1
    assert event.data in log_of(broker, ran.session_id)


async def test_an_agents_follower_is_judged_as_a_reader(state_dir: Path, home: Path) -> None:
    rules = ({"tool": "read", "action": "deny"},)
    async with Broker.open(BrokerSettings(state_dir=state_dir, policy=rules)) as broker:
        await broker.create_session("cat", name="a", wait_ready=True)
        for scopes, error in ((frozenset({"read"}), PolicyDenied), (frozenset[str](), Unauthorized)):
            with pytest.raises(error):
                await anext(broker.follow("a", call=Call("agent", scopes)))
        assert isinstance(await anext(broker.follow("a")), Snapshot)
