"""The command line: processor time of its verbs, and much output through `run`."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

from benchmarks.common import Row, bare_pipe, workshop
from benchmarks.wire import Wire

PRINT_10_MB = "seq -w 1 1250000 | head -c 10000000"
PRINTED_BYTES = 11_250_000
"""The terminal puts a CR before each of its newlines."""

LIST_S = 0.15
"""Seconds of processor time that `tmuxmcp list` may take."""

LIBRARIES = "import argparse, pydantic_settings, anyio._backends._asyncio"
"""What most verbs import of others. Measured on 2 cores, Python 3.11, not quiet: 0.16 s, where a list took 0.25."""

VERBS = {
    "list": ["list"],
    "view": ["view", "a"],
    "log": ["log", "a"],
    "send": ["send", "-s", "a", " "],
    "read": ["read", "a"],
    "run true": ["run", "-s", "a", "true"],
    "history": ["history", "a"],
    "completion bash": ["completion", "bash"],
}


def cpu_s(words: list[str], env: Mapping[str, str]) -> float:
    """Seconds of processor time of a program and what it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def verbs(quick: bool) -> list[Row]:
    """Processor time of verbs of the command line, against a Python that does nothing."""
    count = 3 if quick else 9
    found: dict[str, list[float]] = {name: [] for name in ["", "libraries", *VERBS, "kill"]}
    tmuxmcp = [sys.executable, "-m", "tmuxmcp"]
    with workshop() as (_, env):
        for _ in range(count):
            cpu_s([*tmuxmcp, "new", "--name", "a", "bash"], env)
            found[""].append(cpu_s([sys.executable, "-c", "pass"], env))
            found["libraries"].append(cpu_s([sys.executable, "-c", LIBRARIES], env))
            for name, words in VERBS.items():
                found[name].append(cpu_s([*tmuxmcp, *words], env))
            found["kill"].append(cpu_s([*tmuxmcp, "kill", "--force", "a"], env))
    floor = statistics.median(found.pop(""))
    rows = []
    for name, seconds in found.items():
        budget = f"<= {LIST_S} s" if name == "list" else ""
        took = statistics.median(seconds)
        what = "its libraries alone" if name == "libraries" else f"tmuxmcp {name}"
        rows.append(Row(f"{what}, processor time", took, "s", floor, budget, not budget or took <= LIST_S))
    return rows


def ten_megabytes(serve: Callable[[dict[str, str]], Wire], quick: bool) -> list[Row]:
    """10 MB through `run`, told in part and whole, and by the command line, against `bash -c`.

    What tmux alone takes is told as well: nothing that goes through a pane is faster. Measured on 2 cores, Python 3.11,
    tmux 3.3a, not quiet, medians of six: `bash -c` 0.28 s, bash in a bare terminal 1.2, bare tmux with pipe-pane 1.5,
    `run` 1.8 told in part and 2.5 whole. So a terminal alone takes more than three times what a pipe takes there.
    """
    count = 2 if quick else 5
    ours_words = [sys.executable, "-m", "tmuxmcp", "run", "-s", "a", PRINT_10_MB]
    found: dict[str, list[float]] = {"bash": [], "bare tmux": [], "part": [], "whole": [], "command line": []}
    with workshop() as (state, env):
        ours = serve(env)
        ours.call("create_session", name="a", program="bash")

        def run(max_bytes: int) -> None:
            asked = {"session_id": "a", "command": PRINT_10_MB, "timeout_ms": 50_000, "max_bytes": max_bytes}
            answer = ours.call("run", **asked)["structuredContent"]
            assert answer["completed"], answer
            assert answer["output_bytes"] >= 10_000_000, answer

        calls: dict[str, Callable[[], object]] = {
            "bash": lambda: subprocess.run(["bash", "-c", PRINT_10_MB], env=env, capture_output=True, check=True),
            "bare tmux": lambda: bare_pipe(state, PRINT_10_MB, PRINTED_BYTES),
            "part": lambda: run(8192),
            "whole": lambda: run(16 * 1024 * 1024),
            "command line": lambda: subprocess.run(ours_words, env=env, capture_output=True, check=True),
        }
        for _ in range(count):
            for name, call in calls.items():
                begun = time.perf_counter()
                call()
                found[name].append(time.perf_counter() - begun)
        ours.close()
    floor = statistics.median(found.pop("bash"))
    rows = []
    for name, seconds in found.items():
        took, budget = statistics.median(seconds), "< 3 x bash -c" if name in ("part", "whole") else ""
        what = "10 MB through bare tmux" if name == "bare tmux" else f"10 MB through run, {name}"
        rows.append(Row(what, took, "s", floor, budget, not budget or took < 3 * floor))
    return rows
