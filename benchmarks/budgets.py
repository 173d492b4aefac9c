"""Measure each budget against its floor, in one run; a table for people, JSON for programs.

    scripts/bench [--quick] [--json FILE] [NAME ...]

Figures are medians. A budget that does not hold is marked; the exit status is 0 all the same, because machines are
noisy: whoever reads the table decides. `--strict` makes it 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import anyio
import psutil

from benchmarks import (
    clients,
    crowds,
    exports,
    fleet,
    fleet_ray,
    page,
    past,
    pausing,
    peers,
    readiness,
    service,
    sizes,
    terminal,
    timing,
    verbs,
    watched,
)
from benchmarks.common import Row, bare_pipe, workshop
from benchmarks.crowds import wake_ups
from benchmarks.interleave import Times, in_turn
from benchmarks.plot import as_svg
from benchmarks.wire import Wire
from tmuxmcp import __version__
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux.panes import keys

HERE = Path(__file__).parent
PRINT_100_MB = "yes 0123456789012345678901234567890123456789012345678 | head -c 100000000"


def serve(env: dict[str, str]) -> Wire:
    return Wire([sys.executable, "-m", "tmuxmcp", "serve"], env)


def noop(env: dict[str, str]) -> Wire:
    return Wire([sys.executable, str(HERE / "noop_server.py")], env)


def times(call: Callable[[], object], count: int, pause_s: float = 0.0) -> list[float]:
    """Milliseconds of `count` calls, after a tenth as many that are not counted."""
    found = []
    for number in range(count + count // 10):
        time.sleep(pause_s)
        begun = time.perf_counter()
        call()
        if number >= count // 10:
            found.append((time.perf_counter() - begun) * 1000)
    return found


def calls(quick: bool) -> list[Row]:
    """`run true` and `read view=screen` over stdio, in turn with a tool that does nothing."""
    count = 50 if quick else 300
    with workshop() as (_, env):
        floor, ours = noop(env), serve(env)
        ours.call("run", command="true")
        # A client thinks between two calls; without the pause the shell's own next prompt would be measured.
        rested, run = in_turn([lambda: floor.call("noop"), lambda: ours.call("run", command="true")], count, 0.01)
        at_once = Times(times(lambda: ours.call("run", command="true"), count))
        # A key in between, so that the screen is another one each time.
        nothing, _, screen = in_turn(
            [
                lambda: floor.call("noop"),
                lambda: ours.call("send", text="x", read="none"),
                lambda: ours.call("read", view="screen"),
            ],
            count,
        )
        floor.close()
        ours.close()
    wanted, seen = rested.median + 2, nothing.median + 0.5
    return [
        Row(
            "run true over stdio",
            run.median,
            "ms",
            rested.median,
            "no-op + 2 ms",
            run.median <= wanted,
            "",
            *run.spread,
        ),
        Row(
            "run true, back to back", at_once.median, "ms", nothing.median, "", True, "with the shell's own next prompt"
        ),
        Row(
            "read view=screen",
            screen.median,
            "ms",
            nothing.median,
            "no-op + 0.5 ms",
            screen.median <= seen,
            "",
            *screen.spread,
        ),
    ]


async def bare_run(broker: Broker, session: Session) -> None:
    """What any `run` must do at least: type, and see the closing mark in the log."""
    before = await session.scan()
    assert session.pane
    with session.watcher.waiting(session.log.path):
        await broker.tmux.request(keys(session.pane, ["true", "Enter"]))
        async for scan in session.scans(1):
            if scan.shell.output_end > before.size:
                return


def own_share(quick: bool) -> list[Row]:
    """`Broker.run` without MCP against bare control mode with the same shell."""
    count = 50 if quick else 300

    async def measure(state: Path) -> tuple[float, float]:
        async with Broker.open(BrokerSettings(state_dir=state, program="bash")) as broker:
            await broker.create_session(name="a")
            session = await broker.registry.existing("a")
            ours, bare = [], []
            for number in range(count + 20):
                for found, run in ((bare, lambda: bare_run(broker, session)), (ours, lambda: broker.run("true", "a"))):
                    await anyio.sleep(0.008)
                    await session.scan()
                    begun = time.perf_counter()
                    await run()
                    if number >= 20:
                        found.append((time.perf_counter() - begun) * 1000)
            return statistics.median(ours), statistics.median(bare)

    with workshop() as (state, _):
        ours, bare = anyio.run(measure, state)
    return [Row("broker's own share of run", ours - bare, "ms", bare, "<= 1 ms", ours - bare <= 1)]


def creating(quick: bool) -> list[Row]:
    """`create_session` bash until it is ready, against bash's own start until its prompt, both over a pty."""
    count = 10 if quick else 40
    with workshop() as (_, env):
        ours = serve(env)
        ours.call("health")
        names: list[str] = []

        def create() -> None:
            answer = ours.call("create_session", program="bash")["structuredContent"]
            assert answer["ready"]
            names.append(answer["session_id"])

        made = statistics.median(times(create, count))
        for name in names:
            ours.call("destroy_session", session_id=name, force=True)
        ours.close()
        bare = statistics.median(times(lambda: start_bash(env), count))
    return [Row("create_session bash, ready", made, "ms", bare, "<= 25 ms", made <= 25)]


def first_run(quick: bool) -> list[Row]:
    """The first `run` a second after `initialize`, which finds a pane made ahead, against the first call of a no-op."""
    count = 3 if quick else 8
    with workshop() as (_, env):
        serve(env).close()

        def bare() -> None:
            bare_server.call("noop")

        def run() -> None:
            names.append(ours.call("run", command="true")["structuredContent"]["session_id"])

        found: dict[Callable[[], None], list[float]] = {bare: [], run: []}
        names: list[str] = []
        for _ in range(count):
            bare_server, ours = noop(env), serve(env)
            time.sleep(1)
            for call, taken in found.items():
                begun = time.perf_counter()
                call()
                taken.append((time.perf_counter() - begun) * 1000)
            # Else the next server of this client would get this session back.
            ours.call("destroy_session", session_id=names[-1], force=True)
            bare_server.close()
            ours.close()
    took, floor = Times(found[run]), statistics.median(found[bare])
    return [
        Row(
            "first run, 1 s after initialize",
            took.median,
            "ms",
            floor,
            "<= 25 ms",
            took.median <= 25,
            "",
            *took.spread,
        )
    ]


def crowd(quick: bool) -> list[Row]:
    """Sessions that many callers make at once, and a second broker that takes all of them up."""
    count = 40 if quick else 200

    async def measure(state: Path) -> tuple[float, float]:
        home = {"HOME": str(state.parent)}  # without start-up files, as for bash alone
        settings = BrokerSettings(state_dir=state, program="bash", max_sessions=count, env=home)
        async with Broker.open(settings) as broker:
            begun = time.perf_counter()
            async with anyio.create_task_group() as task_group:
                for _ in range(count):
                    task_group.start_soon(broker.create_session)
            made, begun = time.perf_counter() - begun, time.perf_counter()
            async with Broker.open(settings) as other:
                adopted = time.perf_counter() - begun
                assert len(other.registry.sessions) == count
            return made, adopted

    with workshop() as (state, env):
        bare = count * statistics.median(times(lambda: start_bash(env), 10)) / 1000
        made, adopted = anyio.run(measure, state)
    return [
        Row(f"{count} sessions made at once", made, "s", bare, f"<= {count / 20:g} s", made <= count / 20),
        Row(f"{count} sessions adopted", adopted, "s", None, f"< {count / 200:g} s", adopted < count / 200),
    ]


def spawn(program: str) -> None:
    """Run a program by posix_spawn(3) until it has ended."""
    os.waitpid(os.posix_spawn(program, [program], {}), 0)


def processes(quick: bool) -> list[Row]:
    """`run_process` of `true` without MCP, against the same by posix_spawn(3)."""
    count = 20 if quick else 100
    true = shutil.which("true") or "/bin/true"

    async def measure(state: Path) -> tuple[float, float]:
        async with Broker.open(BrokerSettings(state_dir=state, program="bash")) as broker:
            ours, bare = [], []
            for number in range(count + 5):
                await anyio.sleep(0.02)  # a client thinks between two calls
                begun = time.perf_counter()
                await broker.run_process(argv=["true"])
                between = time.perf_counter()
                spawn(true)
                if number >= 5:
                    ours.append((between - begun) * 1000)
                    bare.append((time.perf_counter() - between) * 1000)
            return statistics.median(ours), statistics.median(bare)

    with workshop() as (state, _):
        ours, bare = anyio.run(measure, state)
    return [Row("run_process of true", ours, "ms", bare, "bare posix_spawn + 12 ms", ours <= bare + 12)]


def start_bash(env: dict[str, str]) -> None:
    """bash in a pty until its prompt is there."""
    import pty

    pid, master = pty.fork()
    if pid == 0:
        os.execvpe("bash", ["bash"], {**env, "PS1": "prompt> ", "TERM": "xterm"})
    seen = b""
    while b"$ " not in seen and b"# " not in seen and b"prompt> " not in seen:
        seen += os.read(master, 4096)
    os.close(master)
    os.waitpid(pid, 0)


def hundred_megabytes(quick: bool) -> list[Row]:
    """100 MB through `run`, against the same through a bare `pipe-pane`; and what the broker's memory does."""
    with workshop() as (state, env):
        ours = serve(env | {"TMUXMCP_MAX_WAIT_MS": "600000"})
        ours.call("run", command="seq 1000")
        process = psutil.Process(ours.process.pid)
        before, peak = process.memory_info().rss, 0
        bare = statistics.median(bare_pipe(state, PRINT_100_MB, 100_000_000) for _ in range(1 if quick else 3))
        found = []
        for _ in range(1 if quick else 3):
            begun = time.perf_counter()
            answer = ours.call("run", command=PRINT_100_MB, timeout_ms=600_000)["structuredContent"]
            found.append(time.perf_counter() - begun)
            assert answer["completed"], answer
            assert answer["output_bytes"] >= 100_000_000, answer
            peak = max(peak, process.memory_info().rss)
        ours.close()
    took, grown = statistics.median(found), (peak - before) / 1e6
    return [
        Row("100 MB printed, run returns", took, "s", bare, "<= 1.15 x bare pipe-pane", took <= 1.15 * bare),
        Row("broker's memory grows by", grown, "MB", None, "< 32 MB", grown < 32),
    ]


def idle(quick: bool) -> list[Row]:
    """Many sessions that do nothing: what the broker uses."""
    count, seconds = (30, 3) if quick else (200, 10)
    with workshop() as (_, env):
        ours = serve(env)
        for _ in range(count):
            ours.call("create_session", program="sleep", args=["100000"], wait_ready=False)
        process = psutil.Process(ours.process.pid)
        time.sleep(1)
        begun, before, slept = time.perf_counter(), sum(process.cpu_times()[:2]), wake_ups(process.pid)
        time.sleep(seconds)
        took = time.perf_counter() - begun
        used = (sum(process.cpu_times()[:2]) - before) / took * 100
        woken = (wake_ups(process.pid) - slept) / took
        memory = process.memory_info().rss / 1e6
        ours.close()
    return [
        Row(f"{count} sessions idle", used, "% of a core", None, "< 1 %", used < 1),
        Row(f"{count} sessions idle, wake-ups", woken, "a second", None, "< 2", woken < 2),
        Row(f"{count} sessions idle, memory", memory, "MB", None, "< 100 MB", memory < 100),
    ]


def busy(quick: bool) -> list[Row]:
    """Many sessions that work at once: the slow ones against one alone."""
    sessions, rounds = (10, 5) if quick else (50, 10)

    async def measure(state: Path) -> tuple[float, float]:
        settings = BrokerSettings(state_dir=state, program="bash", max_sessions=100)
        async with Broker.open(settings) as broker:
            names = [(await broker.create_session()).session_id for _ in range(sessions)]
            alone, together = [], []

            async def run(name: str, found: list[float]) -> None:
                begun = time.perf_counter()
                await broker.run("true", name)
                found.append((time.perf_counter() - begun) * 1000)

            for _ in range(100):
                await run(names[0], alone)

            async def worker(name: str) -> None:
                for _ in range(rounds):
                    await run(name, together)
                    await anyio.sleep(0.5)

            async with anyio.create_task_group() as task_group:
                for number, name in enumerate(names):
                    await anyio.sleep(0.5 / sessions * (number > 0))
                    task_group.start_soon(worker, name)
            return statistics.median(alone), statistics.quantiles(together, n=20)[-1]

    with workshop() as (state, _):
        alone, slow = anyio.run(measure, state)
    return [Row(f"{sessions} sessions busy, p95 of run", slow, "ms", alone, "<= 5 x median alone", slow <= 5 * alone)]


def fairness(quick: bool) -> list[Row]:
    """`run true` beside sessions in which `yes` prints all it can, against the same alone."""
    count, loud = 20 if quick else 100, 4
    with workshop() as (_, env):
        ours = serve(env)
        ours.call("run", command="true")
        alone = Times(times(lambda: ours.call("run", command="true"), count, 0.01))
        for number in range(loud):
            ours.call("create_session", name=f"y{number}", program="yes", wait_ready=False)
        beside = Times(times(lambda: ours.call("run", command="true"), count, 0.01))
        printed = [ours.call("read", session_id=f"y{number}")["structuredContent"] for number in range(loud)]
        assert all("y" in each["content"] for each in printed), printed
        ours.close()
    name = f"run true beside {loud} yes"
    return [
        Row(name, beside.median, "ms", alone.median, "", True, "", *beside.spread),
        Row(f"{name}, the slowest", max(beside.taken), "ms", alone.median, "", True),
    ]


def starting(quick: bool) -> list[Row]:
    """Process start to the first answer, against a bare server of the same SDK."""
    count = 3 if quick else 9
    ours, bare = [], []
    with workshop() as (_, env):
        serve(env).close()
        for _ in range(count):
            for found, start in ((bare, noop), (ours, serve)):
                wire = start(env)
                found.append(wire.first_answer_ms)
                wire.close()
    mine, theirs = statistics.median(ours), statistics.median(bare)
    return [Row("import and first answer", mine, "ms", theirs, "<= 1.3 x bare", mine <= 1.3 * theirs)]


def charged(quick: bool) -> list[Row]:
    """What a model is charged for the default tools."""
    with workshop() as (_, env):
        ours = serve(env)
        tools = ours.request("tools/list", {})["tools"]
        ours.close()
    size = sum(
        len(json.dumps({key: tool[key] for key in ("name", "description", "inputSchema")}, separators=(",", ":")))
        for tool in tools
    )
    return [Row("default tools, as JSON", size / 1024, "KB", None, "<= 12 KB", size <= 12 * 1024)]


def text(quick: bool) -> list[Row]:
    """Clean text, and searching it."""
    from benchmarks.text import cleaning, colouring, searching  # it imports `Row` from here

    return [*cleaning(quick), *colouring(quick), *searching(quick)]


MEASURES: dict[str, Callable[[bool], list[Row]]] = {
    "calls": calls,
    "own-share": own_share,
    "creating": creating,
    "first-run": first_run,
    "crowd": crowd,
    "processes": processes,
    "hundred-megabytes": hundred_megabytes,
    "idle": idle,
    "busy": busy,
    "fairness": fairness,
    "starting": starting,
    "charged": charged,
    "command-line": verbs.verbs,
    "ten-megabytes": partial(verbs.ten_megabytes, serve),
    "text": text,
    "readiness": readiness.readiness,
    "screens": terminal.screens,
    "service": service.service,
    "timing": timing.timing,
    "past": past.past,
    "exports": exports.exports,
    "page": page.page,
    "watched": partial(watched.watched, serve),
    "pausing": partial(pausing.pausing, serve),
    "sizes": sizes.sizes,
    "crowds": crowds.crowds,
    "clients": clients.clients,
    "peers": peers.peers,
    "fleet": fleet.fleet,
    "fleet-ray": fleet_ray.fleet_ray,
}


LONG = frozenset({"text", "readiness", "screens", "timing", "past", "exports", "page", "watched"})
"""What `benchmarks/run` leaves out, so that it ends within ten minutes: each is told on a page of its own."""


def main() -> int:
    parser = argparse.ArgumentParser("scripts/bench", description="Measure the budgets against their floors.")
    parser.add_argument("names", nargs="*", choices=[*MEASURES, []], help="what to measure; all")
    parser.add_argument("--quick", action="store_true", help="few repetitions")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the rows there as well")
    parser.add_argument("--short", action="store_true", help="leave out what takes long or has a page of its own")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a budget does not hold")
    options = parser.parse_args()
    rows: list[Row] = []
    for name in options.names or [each for each in MEASURES if not options.short or each not in LONG]:
        for row in MEASURES[name](options.quick):
            rows.append(row)
            floor = f"{row.floor:10.2f}" if row.floor is not None else " " * 10
            verdict = "" if not row.budget else "holds" if row.holds else "OVER"
            spread = f"{row.low:.2f}-{row.high:.2f}" if row.low is not None else ""
            print(
                f"{row.name:34} {row.value:10.2f} {row.unit:12} {spread:>17} {floor}  {row.budget:26} {verdict}",
                row.note,
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if options.svg:
        options.svg.write_text(as_svg(rows, f"tmuxmcp {__version__}, multiples of each floor"))
    return int(options.strict and not all(row.holds for row in rows))


if __name__ == "__main__":
    sys.exit(main())
