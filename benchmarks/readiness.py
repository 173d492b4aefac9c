"""How soon and how rightly `send` says that a program is ready: `python -m benchmarks.readiness`.

Each step of a dozen programs is sent three ways: waiting for readiness, and for 300 ms and 500 ms of silence. The
table says how long the answer took at the median and at worst, in how many steps bytes came within 500 ms after it, and
in how many the awaited output was not there yet. Programs that repaint by a timer are named, not counted as late.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio

from tmuxmcp.broker.broker import Broker
from tmuxmcp.broker.settings import BrokerSettings

LATE_S = 0.5

Steps = list[tuple[str, bool, str]]
"""Text, whether Enter follows, and what must be in the log then."""

PROGRAMS: dict[str, tuple[list[str], Steps]] = {
    "bash": (["bash"], [("echo $((6*7))", True, "42"), ("sleep 0.7; echo do''ne", True, "done")]),
    "zsh": (["zsh", "-f"], [("echo $((6*7))", True, "42"), ("sleep 0.7; echo do''ne", True, "done")]),
    "fish": (["fish", "-N"], [("echo (math 6 x 7)", True, "42"), ("sleep 0.7; echo do''ne", True, "done")]),
    "python3": (
        ["python3", "-q"],
        [
            ("6 * 7", True, "42"),
            ("import time; time.sleep(0.7); 'do' 'ne'", True, "done"),
            ("input('n' 'ame? ')", True, "name?"),
        ],
    ),
    "node": (["node"], [("6 * 7", True, "42")]),
    "sqlite3": (["sqlite3"], [("select 6 * 7;", True, "42")]),
    "gdb": (["gdb", "-q", "-nx"], [("print 6 * 7", True, "42"), ("shell sleep 0.7; echo do''ne", True, "done")]),
    "vim": (["vim", "-n", "-u", "NONE", "-N"], [("ihello", False, "hello")]),
    "nano": (["nano"], [("hello", False, "hello")]),
    "less": (["less", "/etc/services"], [(" ", False, "")]),
    "cat": (["cat"], [("hello", True, "hello")]),
    "mc": (["mc", "-d", "-u"], [("echo", False, "echo")]),
    "top": (["top"], [("h", False, "Help")]),
    "htop": (["htop"], [("h", False, "")]),
}
TIMERS = {"top", "htop"}
WAYS: list[tuple[str, Literal["ready", "idle"], int]] = [
    ("ready", "ready", 300),
    ("300 ms quiet", "idle", 300),
    ("500 ms quiet", "idle", 500),
]


@dataclass
class Score:
    """What one program's steps gave, one way."""

    took_ms: list[float] = field(default_factory=list)
    late: int = 0
    wrong: int = 0


async def measure(broker: Broker, name: str, want: Literal["ready", "idle"], idle_ms: int, rounds: int) -> Score:
    """Go through a program's steps in fresh sessions."""
    argv, steps = PROGRAMS[name]
    score = Score()
    for _ in range(rounds):
        made = await broker.create_session(program=argv[0], args=argv[1:], wait_ready=True)
        session = broker.registry.sessions[made.session_id]
        for text, enter, wanted in steps:
            await anyio.sleep(LATE_S)  # the step before is over for certain
            begun, before = anyio.current_time(), session.log.size()
            await broker.send(
                text=text, enter=enter, session_id=session.id, wait_for=want, idle_ms=idle_ms, timeout_ms=10_000
            )
            score.took_ms.append((anyio.current_time() - begun) * 1000)
            size = session.log.size()
            score.wrong += wanted.encode() not in session.log.read(before, size - before)
            await anyio.sleep(LATE_S)
            score.late += session.log.size() != size
        await broker.destroy_session(session.id, force=True)
    return score


async def main(state: Path, rounds: int = 2) -> None:
    """Measure and print the table."""
    print(f"{'program':9}" + "".join(f"{way[0]:>14}: median   worst late wrong" for way in WAYS))
    async with Broker.open(BrokerSettings(state_dir=state, program="bash")) as broker:
        for name, (argv, _) in PROGRAMS.items():
            if shutil.which(argv[0]) is None:
                print(f"{name:9} is not installed")
                continue
            row = f"{name:9}"
            for _, want, idle_ms in WAYS:
                score = await measure(broker, name, want, idle_ms, rounds)
                took = score.took_ms
                late = "timer" if name in TIMERS else f"{score.late}/{len(took)}"
                row += f"{statistics.median(took):19.1f} ms {max(took):4.0f} {late:>5} {score.wrong}/{len(took)}"
            print(row, flush=True)


if __name__ == "__main__":
    state = Path(tempfile.mkdtemp(prefix="tm-"))
    os.environ["HOME"] = str(state)
    try:
        anyio.run(main, state)
    finally:
        subprocess.run(["tmux", "-S", str(state / "tmux.sock"), "kill-server"], check=False, capture_output=True)
        shutil.rmtree(state, ignore_errors=True)
