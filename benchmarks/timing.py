"""What the timing index costs: the same calls with a writer and without one, taken in turns, and its size on disk.

Two brokers of one process, each with a tmux server of its own, differ in nothing but `keeps_times`.

Measured on 2 cores, Python 3.11, tmux 3.3a, not quiet: `run true` 6.4 ms with it and 6.3 without (in a shorter round
7.8 and 7.8), 100 MB through `run` 4.6 s and 4.5 (20 MB: 1.3 and 1.4). The index takes 0.00 % of a flood and 3.5 % of
a line of 80 columns every 20 ms, and all of it is dated. Keys typed one by one cost some 15 bytes for each byte of
echo: 1.4 to 5 times the output with prompts. That goes on up to 64 KiB; beyond, the index is at most a twelfth of the
output, and coarse.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio

from benchmarks.common import Row, workshop
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.past.timing import Times

FLOOD = "yes 0123456789012345678901234567890123456789012345678 | head -c {bytes}"
LINE = "0123456789" * 8
Call = Callable[[Broker], Awaitable[object]]

PAUSE_S = 0.03
"""Between two calls: so long a session is idle, and the writer sleeps."""


@asynccontextmanager
async def pair(state: Path) -> AsyncIterator[tuple[Broker, Broker]]:
    """Two brokers with a session `a` each: one with the index, one without."""
    async with AsyncExitStack() as stack:
        brokers = []
        for name, keeps in (("with", True), ("without", False)):
            place = state / name
            place.mkdir(parents=True, mode=0o700)
            settings = BrokerSettings(state_dir=place, program="bash", max_wait_ms=600_000)
            brokers.append(await stack.enter_async_context(Broker.open(settings, keeps_times=keeps)))
            await brokers[-1].create_session(name="a")
            await brokers[-1].run("true", "a")
        yield brokers[0], brokers[1]


def end(state: Path) -> None:
    """End the tmux servers of the state directories below this one."""
    for socket in state.rglob("tmux.sock"):
        subprocess.run(["tmux", "-S", socket, "kill-server"], capture_output=True, check=False)


async def paired(call: Call, brokers: tuple[Broker, Broker], count: int) -> list[float]:
    """Medians of seconds of a call, with the index and without."""
    found: list[list[float]] = [[], []]
    for number in range(count):
        for which in (0, 1) if number % 2 else (1, 0):
            await anyio.sleep(PAUSE_S)
            begun = time.perf_counter()
            await call(brokers[which])
            found[which].append(time.perf_counter() - begun)
    return [statistics.median(each) for each in found]


async def _measure(state: Path, quick: bool) -> tuple[list[float], list[float]]:
    async with pair(state) as brokers:
        runs = await paired(lambda broker: broker.run("true", "a"), brokers, 100 if quick else 500)
        flood = FLOOD.format(bytes=20_000_000 if quick else 100_000_000)
        floods = await paired(lambda broker: broker.run(flood, "a", timeout_ms=600_000), brokers, 2 if quick else 5)
        return runs, floods


async def _size(state: Path, command: str, type_keys: int = 0) -> tuple[float, float]:
    """Bytes of the index for each byte of what a command prints, and the part of that whose time is known."""
    async with Broker.open(BrokerSettings(state_dir=state, program="bash"), keeps_times=True) as broker:
        await broker.create_session(name="a")
        if command:
            await broker.run(command, "a", timeout_ms=50_000)
        for _ in range(type_keys):
            await broker.send("x", session_id="a", read="none")
            await anyio.sleep(0.15)
        await anyio.sleep(0.5)
        directory = SessionDirectory.of(state, "a")
        size = directory.log.stat().st_size
        steps = list(Times(directory).steps(0, size))
        offsets = [0, *(step.offset for step in steps)]
        known = sum(step.offset - before for step, before in zip(steps, offsets, strict=False) if step.known)
        index = directory.timing.stat().st_size
        return index / size, known / size


def timing(quick: bool) -> list[Row]:
    """`run` with and without the writer of the index; how large the index is for what was printed."""
    with workshop() as (state, _):
        runs, floods = anyio.run(_measure, state, quick)
        end(state)
    rows = []
    for name, (ours, without), unit, factor in (
        ("run true, with the index", runs, "ms", 1000),
        ("flood, with the index", floods, "s", 1),
    ):
        note = f"ratio {ours / without:.3f}"
        rows.append(Row(name, ours * factor, unit, without * factor, "<= 1.05 x without", ours <= 1.05 * without, note))
    lines = 100 if quick else 1000
    for name, command, keys in (
        ("a flood", FLOOD.format(bytes=20_000_000), 0),
        ("a line each 20 ms", f"for i in $(seq {lines}); do echo {LINE}; sleep 0.018; done", 0),
        ("single keys", "", 20 if quick else 200),
    ):
        with workshop() as (state, _):
            state.mkdir(mode=0o700)
            ratio, known = anyio.run(_size, state, command, keys)
        rows.append(Row(f"index of {name}", 100 * ratio, "% of output", None, "", True, f"{known:.0%} of it dated"))
    return rows
