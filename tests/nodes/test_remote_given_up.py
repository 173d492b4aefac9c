"""A machine that says nothing: what its callers wait for it, and that nothing they have given up is done later."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import psutil

import tmuxmcp
from tests.conftest import SLOW, eventually, until_exists
from tests.nodes.brokers import Brokers
from tmuxmcp.config import Settings
from tmuxmcp.contract import requests as q
from tmuxmcp.contract.errors import NodeUnreachable, OutcomeUnknown, TmuxMcpError
from tmuxmcp.nodes.fleet import Fleet

MORE_S = 2.0 + 0.5 * SLOW
"""So much longer than its own time a call of a machine that says nothing takes at most, on a machine that is busy."""

NEXT_S = 1.0 + 0.3 * SLOW


async def make(fleet: Fleet, name: str, node: str = "n2") -> str:
    return (await fleet.create_session("bash", name=name, placement=q.Placement(node=node))).session_id


@contextmanager
def stopped(process: psutil.Process) -> Iterator[None]:
    process.suspend()
    try:
        yield
    finally:
        process.resume()


async def told(call: Awaitable[Any]) -> tuple[str, float]:
    """What a call comes to, and after which time."""
    begun = time.monotonic()
    try:
        await call
        code = "ok"
    except TmuxMcpError as error:
        code = error.code
    return code, time.monotonic() - begun


async def answers(fleet: Fleet, name: str) -> str | None:
    with suppress(NodeUnreachable, OutcomeUnknown):
        return (await fleet.get_session(name)).session_id
    return None


async def test_nothing_that_was_given_up_is_done_later(fleet: Fleet, brokers: Brokers, tmp_path: Path):
    runs, idle = await make(fleet, "runs"), await make(fleet, "idle")
    ends, sized = await make(fleet, "ends"), await make(fleet, "sized")
    marks = {name: tmp_path / name for name in ("first", "second", "run", "send", "steps", "process", "file")}
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "first": lambda: fleet.run(f"sleep 3; touch {marks['first']}", runs, timeout_ms=60_000),
        "second": lambda: fleet.run(f"touch {marks['second']}", runs, timeout_ms=5_000),
        "run": lambda: fleet.run(f"touch {marks['run']}", idle, timeout_ms=100, request_id="given-up"),
        "send": lambda: fleet.send(f"touch {marks['send']}", enter=True, session_id=idle, read="none"),
        "create": lambda: fleet.create_session("bash", name="late", placement=q.Placement(node="n2")),
        "destroy": lambda: fleet.destroy_session(ends, True),
        "resize": lambda: fleet.resize(40, 100, session_id=sized),
        "signal": lambda: fleet.signal("KILL", "session", session_id=sized),
        "process": lambda: fleet.run_process(["touch", str(marks["process"])], cwd="n2:/"),
        "file": lambda: fleet.write_file(f"n2:{marks['file']}", "x"),
    }
    came: dict[str, str] = {}

    async def do(name: str) -> None:
        came[name], _ = await told(calls[name]())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(do, "first")
        await eventually(lambda: _runs(fleet, runs))
        with stopped(brokers.process("n2")):
            async with anyio.create_task_group() as given_up:
                for name in calls:
                    if name != "first":
                        given_up.start_soon(do, name)
    assert set(came.values()) == {"OUTCOME_UNKNOWN"}, came
    await eventually(lambda: answers(fleet, idle))
    await eventually(marks["first"].exists, timeout=20)  # it goes on
    # Whatever lies in front of this in a session, or in the broker, has had its turn.
    for name in (runs, idle, sized):
        assert (await eventually(lambda name=name: _echoes(fleet, name))) == "here\n"
    assert [name for name, mark in marks.items() if mark.exists()] == ["first"]
    there = {each.session_id for each in (await fleet.list_sessions(include_exited=False)).sessions}
    assert ("late@n2" in there, ends in there) == (False, True)
    facts = await fleet.get_session(sized)
    assert (facts.rows, facts.exited) == (24, False)
    # The same id again: it was not done, so it is now.
    again = await fleet.run(f"touch {marks['run']}", idle, request_id="given-up")
    assert (again.exit_code, marks["run"].exists()) == (0, True)


async def _runs(fleet: Fleet, name: str) -> bool:
    return (await fleet.get_session(name)).mode == "running"


async def _echoes(fleet: Fleet, name: str) -> str | None:
    with suppress(TmuxMcpError):
        return (await fleet.run("echo here", name, timeout_ms=20_000)).output
    return None


async def test_a_stopped_broker_costs_a_caller_its_own_time_and_two_seconds(fleet: Fleet, brokers: Brokers):
    name = await make(fleet, "waited")
    with stopped(brokers.process("n2")):
        code, took = await told(fleet.run("true", name, timeout_ms=1_000))
        assert (code, took < 1.0 + MORE_S) == ("OUTCOME_UNKNOWN", True), took
        for again in (
            lambda: fleet.run("true", name),
            lambda: fleet.get_session(name),
            lambda: fleet.create_session("bash", placement=q.Placement(node="n2")),
            lambda: fleet.read("screen", name),
        ):
            code, took = await told(again())
            assert (code, took < NEXT_S) == ("NODE_UNREACHABLE", True), took
        begun = time.monotonic()
        assert (await fleet.list_sessions()).missing == ["n2"]
        assert time.monotonic() - begun < NEXT_S
    begun = time.monotonic()
    assert (await fleet.run("echo back", name)).output == "back\n"
    assert time.monotonic() - begun < NEXT_S


async def test_a_look_at_a_stopped_broker_that_nobody_has_asked_yet(brokers: Brokers, tmp_path: Path):
    brokers.write()
    async with tmuxmcp.open_fleet(brokers.file, Settings(state_dir=tmp_path / "s")) as fresh:
        with stopped(brokers.process("n2")):
            code, took = await told(fresh.get_session("any@n2"))
            assert (code, took < MORE_S) == ("NODE_UNREACHABLE", True), took
            code, took = await told(fresh.run("true", "any@n2"))
            assert (code, took < NEXT_S) == ("NODE_UNREACHABLE", True), took


async def test_what_goes_on_long_is_waited_for(fleet: Fleet, brokers: Brokers):
    name = await make(fleet, "long")
    with stopped(brokers.process("n1")):  # another one
        done = await fleet.run("sleep 6; echo done", name, timeout_ms=50_000)
    assert (done.output, done.exit_code) == ("done\n", 0)


async def test_a_way_that_broke_before_the_call_began_is_known(fleet: Fleet, brokers: Brokers, tmp_path: Path):
    """The call waits for its session's first prompt when its connection goes; the broker lives on, and is not told."""
    mark, go = tmp_path / "mark", tmp_path / "go"
    start_up = brokers.services["n2"].state_dir / "home" / ".bashrc"
    start_up.write_text(until_exists(go))
    async with proxied(brokers, "n2") as way:
        placed = q.Placement(node="n2")
        name = (await fleet.create_session("bash", name="starts", placement=placed, wait_ready=False)).session_id
        came: list[tuple[str, float]] = []

        async def run() -> None:
            came.append(await told(fleet.run(f"touch {mark}", name, timeout_ms=30_000)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await anyio.sleep(1)  # it is there, and goes on
            way.cut()
        start_up.unlink()
        go.touch()
        code, took = came[0]
        assert (code, took < 10 * SLOW) == ("NODE_UNREACHABLE", True), came  # as it has not begun
        assert (await eventually(lambda: _echoes(fleet, name))) == "here\n"
        assert not mark.exists()


async def test_a_slow_way_is_no_silence(fleet: Fleet, brokers: Brokers):
    async with proxied(brokers, "n2", delay_s=0.7):
        name = await make(fleet, "slow")
        assert (await fleet.run("echo slow", name)).output == "slow\n"
        assert (await fleet.run("sleep 4; echo long", name)).output == "long\n"
        assert (await fleet.list_sessions()).missing == []
        assert [each.exit_code for each in (await fleet.list_commands(name)).commands] == [0, 0]
        await fleet.destroy_session(name, True)


class Way:
    """A proxy to a broker: each byte takes its time, and all connections can be cut."""

    def __init__(self, port: int, delay_s: float) -> None:
        self._port, self._delay_s = port, delay_s
        self._open: set[anyio.abc.SocketStream] = set()
        self._hosts = b"host: -", b"host: -"

    def stands_for(self, port: int) -> None:
        """Have the broker see its own address."""
        self._hosts = b"127.0.0.1:%d" % port, b"127.0.0.1:%d" % self._port

    async def serve(self, client: anyio.abc.SocketStream) -> None:
        async with client, await anyio.connect_tcp("127.0.0.1", self._port) as broker:
            self._open |= {client, broker}
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._pass, client, broker)
                await self._pass(broker, client)
                tasks.cancel_scope.cancel()

    async def _pass(self, one: anyio.abc.SocketStream, other: anyio.abc.SocketStream) -> None:
        send, receive = anyio.create_memory_object_stream[tuple[float, bytes]](1000)

        async def read() -> None:
            with send, suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                while True:
                    data = (await one.receive()).replace(*self._hosts)
                    await send.send((anyio.current_time() + self._delay_s, data))

        async with receive, anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async for due, data in receive:
                    await anyio.sleep(max(due - anyio.current_time(), 0))
                    await other.send(data)

    def cut(self) -> None:
        """Break the connections to the gateway alone: the broker is not told."""
        for each in self._open:
            if each.extra(anyio.abc.SocketAttribute.remote_port) != self._port:
                each.extra(anyio.abc.SocketAttribute.raw_socket).shutdown(2)


@asynccontextmanager
async def proxied(brokers: Brokers, node: str, delay_s: float = 0.0) -> AsyncIterator[Way]:
    """A machine by a way of its own."""
    way = Way(brokers.services[node].port, delay_s)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, way.serve)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        way.stands_for(port)
        brokers.file.write_text(
            brokers.file.read_text().replace(brokers.services[node].url, f"http://127.0.0.1:{port}")
        )
        yield way
        tasks.cancel_scope.cancel()
    brokers.write()
