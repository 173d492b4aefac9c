"""What a fleet on Ray costs: `run` through a door beside the same in this process, on one Ray node of this machine.

Skipped where Ray is not installed.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio

import tmuxmcp
from benchmarks.common import Row

RUNS, QUICK_RUNS = 200, 40
AT_ONCE = 50
MORE_MS, MOST = 10.0, 2.0

Run = Callable[[str], Awaitable[Any]]


async def _measure(local: Run, door: Run, names: list[str], runs: int) -> tuple[float, float, float, float]:
    """Medians of `run true` in ms, one after the other; and seconds for all at once. Local first, each turn about."""
    times: dict[Run, list[float]] = {local: [], door: []}
    for number in range(runs):
        for run in (local, door):
            began = time.perf_counter()
            await run(names[0])
            if number >= 5:
                times[run].append((time.perf_counter() - began) * 1000)
    rounds: dict[Run, list[float]] = {local: [], door: []}
    for _ in range(3):
        for run in (local, door):
            began = time.perf_counter()
            async with anyio.create_task_group() as tasks:
                for name in names:
                    tasks.start_soon(run, name)
            rounds[run].append(time.perf_counter() - began)
    one = [statistics.median(times[run]) for run in (local, door)]
    return one[0], one[1], min(rounds[local]), min(rounds[door])


async def _rows(directory: Path, fleet: str, secret_file: Path, runs: int) -> list[Row]:
    names = [f"b{number}" for number in range(AT_ONCE)]
    settings = tmuxmcp.Settings(
        state_dir=directory / "local", program="bash", max_sessions=100, fleet=fleet, fleet_secret=secret_file
    )
    async with tmuxmcp.open_broker(settings) as broker, tmuxmcp.open_fleet(fleet, settings) as doors:
        for name in names:
            await broker.create_session(name=name)
            await doors.create_session(name=name)
        one, through, local_s, door_s = await _measure(
            lambda name: broker.run("true", name), lambda name: doors.run("true", f"{name}@n1"), names, runs
        )
    return [
        Row("run true by a door on Ray", through, "ms", one, f"+ {MORE_MS:g} ms", through <= one + MORE_MS),
        Row(f"{AT_ONCE} run true at once by a door", door_s, "s", local_s, f"{MOST:g} x", door_s <= MOST * local_s),
    ]


def fleet_ray(quick: bool) -> list[Row]:
    """The rows; none without Ray."""
    if find_spec("ray") is None:
        return []
    from tests.conftest import end_server
    from tests.nodes.raynodes import cluster, make_doors

    runs = QUICK_RUNS if quick else RUNS
    with cluster() as nodes:
        nodes.start("n1", head=True, TMUXMCP_MAX_SESSIONS="100")
        nodes.up("n1")
        make_doors(nodes)
        os.environ.update({name: value for name, value in nodes.env().items() if name.startswith("RAY_")})
        with tempfile.TemporaryDirectory(prefix="tm-") as directory:
            try:
                return anyio.run(_rows, Path(directory), f"ray://{nodes.address}", nodes.secret_file, runs)
            finally:
                end_server(Path(directory) / "local")
