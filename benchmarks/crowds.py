"""What many sessions cost: calls beside 1, 10, 50 and 200 of them, and what they use when nothing happens.

The floor of each figure is the same with one session, in the same server.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from benchmarks.common import Row, workshop
from benchmarks.interleave import in_turn
from benchmarks.service import Rpc, serving
from benchmarks.wire import Wire

COUNTS = (1, 10, 50, 200)
AT_ONCE = 8
"""Clients that make sessions at the same time."""


def wake_ups(pid: int) -> int:
    """How often the threads of a process have gone to sleep."""
    statuses = [thread / "status" for thread in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int(status.read_text().split("\nvoluntary_ctxt_switches:", 1)[1].split()[0]) for status in statuses)


def crowds(quick: bool) -> list[Row]:
    """`run true` and `list_sessions` beside many sessions of bash; memory, processes and wake-ups when idle."""
    counts = COUNTS[:3] if quick else COUNTS
    seconds = 3 if quick else 10
    rows: list[Row] = []
    first: dict[str, float] = {}

    def row(what: str, count: int, value: float, unit: str, spread: tuple[float, float] | None = None) -> None:
        floor = first.setdefault(what, value)
        low, high = spread or (None, None)
        rows.append(Row(f"{what}, {count} sessions", value, unit, floor, "", True, "", low, high))

    with workshop() as (_, env), serving(env) as (process, port):
        wire = Wire([sys.executable, "-m", "tmuxmcp", "serve"], env)
        server = psutil.Process(process.pid)

        def make(number: int) -> None:
            told = Rpc(port).call("create_session", name=f"s{number}")
            assert told["result"]["ready"], told

        made = 0
        for count in counts:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                begun = time.perf_counter()
                list(pool.map(make, range(made, count)))
                took = time.perf_counter() - begun
            row("create_session, at once", count, took / (count - made) * 1000, "ms each")
            made = count
            run, listed = in_turn(
                [
                    lambda: wire.call("run", command="true", session_id="s0"),
                    lambda: wire.call("list_sessions"),
                ],
                20 if quick else 60,
                pause_s=0.01,
            )
            row("run true", count, run.median, "ms", run.spread)
            row("list_sessions", count, listed.median, "ms", listed.spread)
            time.sleep(2)  # until the last of it has been seen to rest
            begun, used, woken = time.perf_counter(), sum(server.cpu_times()[:2]), wake_ups(server.pid)
            time.sleep(seconds)
            took = time.perf_counter() - begun
            row("idle", count, (sum(server.cpu_times()[:2]) - used) / took * 100, "% of a core")
            row("idle, wake-ups", count, (wake_ups(server.pid) - woken) / took, "a second")
            row("server's memory", count, server.memory_full_info().pss / 1e6, "MB")
            home = env["TMUXMCP_STATE_DIR"]
            row("processes of sessions", count, sum(home in " ".join(p) for p in _arguments()) / count, "each")
        wire.close()
    return rows


def _arguments() -> list[list[str]]:
    """The arguments of all processes of this machine."""
    return [each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"])]
