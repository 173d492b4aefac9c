"""How soon `tmuxmcp pause --all` stops an agent: from the start of the command until a `send` is refused."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from benchmarks.common import Row, workshop
from benchmarks.wire import Wire

COMMAND = [sys.executable, "-m", "tmuxmcp"]


def pausing(serve: Callable[[dict[str, str]], Wire], quick: bool) -> list[Row]:
    """Against a command that does nothing but start, `tmuxmcp --version`, by turns."""
    count = 5 if quick else 20
    stopped, whole, nothing = [], [], []
    with workshop() as (_, env):
        agent = serve(env)
        agent.call("create_session", program="cat", name="a")
        for _ in range(count):
            begun = time.perf_counter()
            subprocess.run([*COMMAND, "--version"], env=env, check=True, capture_output=True)
            nothing.append((time.perf_counter() - begun) * 1000)
            for found, took in zip((stopped, whole), _pause(agent, env), strict=True):
                found.append(took)
            subprocess.run([*COMMAND, "resume", "--all"], env=env, check=True, capture_output=True)
        agent.close()
    floor = statistics.median(nothing)
    return [
        Row("pause --all until refused", statistics.median(stopped), "ms", floor, "", True),
        Row("pause --all until it ends", statistics.median(whole), "ms", floor, "", True),
    ]


def _pause(agent: Wire, env: Mapping[str, str]) -> tuple[float, float]:
    """Milliseconds until an agent that types all the time is refused, and until the command has ended."""
    begun = time.perf_counter()
    with subprocess.Popen([*COMMAND, "pause", "--all"], env=env, stderr=subprocess.DEVNULL) as command:
        with suppress(RuntimeError):  # refused
            while True:
                agent.call("send", session_id="a", text="x", read="none")
                time.sleep(0.005)
        refused = time.perf_counter()
        command.wait()
        ended = time.perf_counter()
    return (refused - begun) * 1000, (ended - begun) * 1000
