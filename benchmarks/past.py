"""What a look at past screens costs, in 100 MB of full-screen output; and what it costs the live to keep some.

The output goes through a real session. Then the maker of checkpoints is waited for, and screens at random offsets are
looked at: each time by a new process that has nothing, and again near by. What is paired is measured in turns with the
maker's process at work and stopped (SIGSTOP). Figures stand in docs/explanation/architecture.md.
"""

from __future__ import annotations

import math
import os
import random
import resource
import signal
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from benchmarks.common import Row, workshop
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import NotRetained
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.record.past.checkpoints import Checkpoints
from tmuxmcp.record.past.replaying import Past
from tmuxmcp.sessions.session import Session

CORPORA = Path(__file__).parent.parent / "tests" / "corpora"
RECORDED = ("vim", "htop", "less", "mc-colour")
LOOKS = 20
NEAR_BYTES = 20_000
"""How far the second look is from the first, before or behind it."""

COLS, ROWS = 80, 24


def torrent(size: int) -> bytes:
    """A program that draws the whole screen again and again, each cell in a colour of its own, without clearing it."""
    chosen, made, length = random.Random(1), [b"\x1b[?1049h"], 0
    while length < size:
        frame = bytearray()
        for row in range(1, ROWS + 1):
            frame += b"\x1b[%d;1H" % row
            for _ in range(COLS):
                code = chosen.getrandbits(32)
                frame += b"\x1b[38;5;%d;48;5;%dm%c" % (code & 255, code >> 8 & 255, 33 + (code >> 16) % 94)
        made.append(bytes(frame))
        length += len(frame)
    return b"".join([*made, b"\x1b[?1049l"])


def output(size: int) -> bytes:
    """Full-screen programs, one after another, in equal parts."""
    share = size // (len(RECORDED) + 1)
    parts = []
    for name in RECORDED:
        raw = (CORPORA / f"{name}.raw").read_bytes()
        parts.append(raw * (share // len(raw) + 1))
    return b"".join([*parts, torrent(share)])


@dataclass
class Found:
    """What was measured."""

    size: int = 0
    printing_s: float = 0.0
    making_s: float = 0.0
    making_cpu_s: float = 0.0
    memory_mb: float = 0.0
    screens: int = 0
    share: float = 0.0
    disk: float = 0.0
    first_s: list[float] = field(default_factory=list)
    second_s: list[float] = field(default_factory=list)
    by_time_s: list[float] = field(default_factory=list)
    runs_ms: list[float] = field(default_factory=list)
    floods_s: list[float] = field(default_factory=list)


def used_s() -> float:
    """Processor time of this process and of its children that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


async def until(probe: Callable[[], bool], limit_s: float) -> None:
    with anyio.fail_after(limit_s):
        while not probe():
            await anyio.sleep(0.05)


async def printed(broker: Broker, session: Session, file: Path, size: int) -> None:
    """Have a session print a file of so many bytes."""
    end = session.log.size() + size
    await broker.send(f"cat {file}", enter=True, session_id=session.id, read="none")
    await until(lambda: session.log.size() >= end, 600)


def peak_mb(pid: int) -> float:
    """The most memory that a process had; 0 once it has ended."""
    try:
        return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        return 0.0


def child_s(past: Past) -> float:
    """Processor time of the process that replays, from its start on."""
    process = past._replaying.process
    return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9 if process else 0.0


async def cost_s(past: Past, look: Awaitable[object]) -> float:
    """Processor time of a look."""
    before = time.process_time() + child_s(past)
    await look
    return time.process_time() + child_s(past) - before


async def looks(session: Session, found: Found) -> None:
    """First looks at random offsets, each by a process of its own, and second ones near by."""
    chosen = random.Random(2)
    for number in range(LOOKS):
        offset = chosen.randrange(NEAR_BYTES, found.size - NEAR_BYTES)
        past = Past()
        found.first_s.append(await cost_s(past, past.screen_at(session, offset)))
        near = offset + (NEAR_BYTES if number % 2 else -NEAR_BYTES)
        found.second_s.append(await cost_s(past, past.screen_at(session, near)))
        past.close()


async def looks_by_time(broker: Broker, session: Session, found: Found) -> None:
    """First looks at times at which something was printed."""
    first, last = [session.times.ms_at(offset) or 0 for offset in (found.size // 10, found.size - NEAR_BYTES)]
    for number in range(LOOKS // 2):
        session.past = Past()
        at_ms = first + (last - first) * number // (LOOKS // 2)
        look = broker.read(session_id=session.id, view="screen", at_ms=at_ms)
        with suppress(NotRetained):  # the writer of times was held up then
            found.by_time_s.append(await cost_s(session.past, look))
        session.past.close()


async def paired(call: Callable[[], Awaitable[object]], pid: int, count: int, pause_s: float) -> list[float]:
    """Medians of seconds of a call while a process works, and while it is stopped; not known once it has ended."""
    times: list[list[float]] = [[], []]
    with suppress(ProcessLookupError):
        try:
            for number in range(count):
                for which in (0, 1) if number % 2 else (1, 0):
                    os.kill(pid, signal.SIGSTOP if which else signal.SIGCONT)
                    await anyio.sleep(pause_s)
                    begun = time.perf_counter()
                    await call()
                    times[which].append(time.perf_counter() - begun)
        finally:
            os.kill(pid, signal.SIGCONT)
    return [statistics.median(each) if each else math.nan for each in times]


async def measure(state: Path, quick: bool) -> Found:
    """All of it."""
    file, found = state.parent / "screens", Found()
    size = file.write_bytes(output(20_000_000 if quick else 100_000_000))
    settings = BrokerSettings(state_dir=state, program="bash", max_wait_ms=600_000)
    async with Broker.open(settings, keeps_times=True) as broker:
        for name in ("a", "b"):
            await broker.create_session(name=name, cols=COLS, rows=ROWS)
            await broker.run("true", name)
        session, making = broker.registry.sessions["a"], broker.services.making
        assert making
        begun, cpu = time.perf_counter(), used_s()
        await printed(broker, session, file, size)
        found.printing_s, found.size = time.perf_counter() - begun, session.log.size()

        making.find_work()
        await until(lambda: making._replaying.process is not None, 60)
        assert making._replaying.process
        pid = making._replaying.process.pid
        found.runs_ms = await paired(lambda: broker.run("true", "b"), pid, 50 if quick else 300, 0.02)
        flood = f"yes 0123456789012345678901234567890123456789 | head -c {5_000_000 if quick else 20_000_000}"
        found.floods_s = await paired(lambda: broker.run(flood, "b", timeout_ms=60_000), pid, 2 if quick else 4, 0.05)

        def made() -> bool:
            making.find_work()
            found.memory_mb = max(found.memory_mb, peak_mb(pid))
            return making._replaying.process is None

        await until(made, 1800)
        found.making_s, found.making_cpu_s = time.perf_counter() - begun, used_s() - cpu
        directory = session.directory
        found.screens, kept = len(Checkpoints(directory).records()), directory.screens.stat().st_size
        found.share = kept / found.size
        files = [each for each in directory.path.rglob("*") if each.is_file()]
        found.disk = (sum(each.stat().st_blocks * 512 for each in files) - kept) / found.size
        await looks(session, found)
        await looks_by_time(broker, session, found)
    return found


def past(quick: bool) -> list[Row]:
    """Looks at past screens; their checkpoints; `run` and floods beside the making of those."""
    with workshop() as (state, _):
        state.mkdir(mode=0o700)
        found = anyio.run(measure, state, quick)
    rows = [
        Row("printed, all full-screen", found.size / 1e6, "MB", None, "", True, f"in {found.printing_s:.1f} s"),
        Row("processor time of the maker", found.making_cpu_s, "s", None, "", True, f"done in {found.making_s:.0f} s"),
        Row("memory of its process, at most", found.memory_mb, "MB", None, "", True),
        Row("checkpoints", 100 * found.share, "% of the log", None, "<= 5 %", found.share <= 0.05, f"{found.screens}"),
        Row("files without those", found.disk, "x output", None, "<= 1.1 x", found.disk <= 1.1),
    ]
    for name, times, most, unit, factor in (
        ("first look, processor time", found.first_s, 2.0, "s", 1),
        ("second look near by, the same", found.second_s, 0.1, "ms", 1000),
        ("look by time, processor time", found.by_time_s, 2.0, "s", 1),
    ):
        middle, worst = statistics.median(times or [math.nan]), max(times, default=math.nan)
        rows.append(
            Row(
                name,
                worst * factor,
                f"{unit}, worst",
                None,
                f"<= {most * factor:g} {unit}",
                worst <= most,
                f"median {middle * factor:.2f}",
            )
        )
    for name, (on, off), unit, factor in (
        ("run true beside the maker", found.runs_ms, "ms", 1000),
        ("flood beside the maker", found.floods_s, "s", 1),
    ):
        note = f"ratio {on / off:.3f}"
        rows.append(Row(name, on * factor, unit, off * factor, "<= 1.05 x without", on <= 1.05 * off, note))
    return rows
