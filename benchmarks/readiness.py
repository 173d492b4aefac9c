"""How soon and how rightly `send` says that a program is ready: `scripts/bench readiness`.

Each step through many programs is sent and waited for by readiness, on an idle machine and beside two busy loops, and
a few times by 300 ms and 500 ms of silence. The table says how long the answers took at the median and at worst, how
often an answer was wrong (the awaited output was not there yet, or none came), and how many bytes came late: within
500 ms after it. Programs that repaint by a timer are named, and their bytes are not counted as late.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from unittest.mock import patch

import anyio

from benchmarks.common import Row, workshop
from benchmarks.load import busy_loops
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.sessions.session import Session

LATE_S = 0.5
AT_ONCE = 3
"""Sessions measured at a time: they rest most of it, and the machine is not to be busy with them."""

STEPS, QUICK_STEPS = 1000, 60


@dataclass(frozen=True)
class Program:
    """What is started, what must be in its log when it is ready, and the steps through it."""

    argv: list[str]
    shows: str
    steps: list[tuple[str, bool, str]]
    """Text, whether Enter follows, and what must be in the log then."""
    timer: bool = False
    """It repaints by itself."""


IPYTHON = [sys.executable, "-m", "IPython", "--no-banner", "--no-confirm-exit", "--colors=nocolor"]
SLEEP = ("sleep 0.7; echo do''ne", True, "done")
PROMPT = "\x1b]133;B"
"""Our mark at its end."""
PROGRAMS: dict[str, Program] = {
    "bash": Program(
        ["bash"],
        PROMPT,
        [("echo $((6*7))", True, "42"), SLEEP, ("read -rs x", True, ""), ("y", True, PROMPT)],
    ),
    "zsh": Program(["zsh", "-f"], "", [("echo $((6*7))", True, "42"), SLEEP]),
    "fish": Program(["fish", "-N"], "", [("echo (math 6 x 7)", True, "42"), SLEEP]),
    "dash": Program(["dash", "-i"], "", [("echo $((6*7))", True, "42"), SLEEP]),
    "python3": Program(
        ["python3", "-q"],
        ">>> ",
        [
            ("6 * 7", True, "42"),
            ("import time; time.sleep(0.7); 'do' 'ne'", True, "done"),
            ("sum(range(10**7))", True, "49999995000000"),
            ("input('n' 'ame? ')", True, "name?"),
            ("bob", True, ">>> "),
        ],
    ),
    "ipython": Program(IPYTHON, "In [", [("6 * 7", True, "42"), ("import time; time.sleep(0.7)", True, "In [")]),
    "node": Program(["node"], "> ", [("6 * 7", True, "42"), ("'do' + 'ne'", True, "done")]),
    "sqlite3": Program(["sqlite3"], "sqlite> ", [("select 6 * 7;", True, "42"), ("select", True, "...>")]),
    "gdb": Program(["gdb", "-q", "-nx"], "(gdb) ", [("print 6 * 7", True, "42"), ("shell " + SLEEP[0], True, "done")]),
    "vim": Program(["vim", "-n", "-u", "NONE", "-N"], "~", [("ihello", False, "hello"), (" you", False, "you")]),
    "nano": Program(["nano"], "^X", [("hello", False, "hello")]),
    "emacs": Program(["emacs", "-nw", "-Q"], "*scratch*", [("hello", False, "hello")]),
    "less": Program(["less", "/etc/services"], "", [(" ", False, ""), ("G", False, "END")]),
    "cat": Program(["cat"], "", [("hello", True, "hello\r\nhello"), ("again", True, "again\r\nagain")]),
    "mc": Program(["mc", "-d", "-u"], "Name", [("echo", False, "echo")]),
    "top": Program(["top"], "PID", [("h", False, "Help")], timer=True),
    "htop": Program(["htop"], "PID", [("h", False, "")], timer=True),
}


@dataclass
class Score:
    """What steps gave."""

    steps: int = 0
    took_ms: list[float] = field(default_factory=list)
    """Of each `send`; a program's start takes as long as it takes."""
    wrong: list[str] = field(default_factory=list)
    """What was sent, each time that the answer was wrong."""
    late: int = 0
    """Answers after which bytes came."""
    late_bytes: int = 0

    def add(self, other: Score) -> None:
        """Take in those of another."""
        self.steps += other.steps
        self.took_ms += other.took_ms
        self.wrong += other.wrong
        self.late += other.late
        self.late_bytes += other.late_bytes


@dataclass
class Answered:
    """One step: where the log was before, and what to hold the answer against."""

    sent: str
    wanted: str
    before: int
    begun: float


async def judge(session: Session, program: Program, step: Answered, outcome: str, score: Score) -> None:
    """Write down how one answer, which has just come, was."""
    score.steps += 1
    if step.sent:
        score.took_ms.append((anyio.current_time() - step.begun) * 1000)
    size = session.log.size()
    there = step.wanted.encode() in session.log.read(step.before, size - step.before)
    if not there or outcome not in ("ready", "idle"):
        score.wrong.append(step.sent or "(start)")
    await anyio.sleep(LATE_S)
    if not program.timer and session.log.size() != size:
        score.late += 1
        score.late_bytes += session.log.size() - size


async def once(broker: Broker, program: Program, want: Literal["ready", "idle"], idle_ms: int) -> Score:
    """Go through a program's steps in a fresh session; its start is one when readiness is asked for."""
    score = Score()
    begun = anyio.current_time()
    made = await broker.create_session(
        program=program.argv[0], args=program.argv[1:], wait_ready=True, ready_timeout_ms=20_000
    )
    session = broker.registry.sessions[made.session_id]
    if want == "ready":
        outcome = "ready" if made.ready else "timeout"
        await judge(session, program, Answered("", program.shows, 0, begun), outcome, score)
    for text, enter, wanted in program.steps:
        step = Answered(text, wanted, session.log.size(), anyio.current_time())
        answer = await broker.send(
            text=text, enter=enter, session_id=session.id, wait_for=want, idle_ms=idle_ms, timeout_ms=20_000
        )
        await judge(session, program, step, answer.result.outcome if answer.result else "", score)
    await broker.destroy_session(session.id, force=True)
    return score


async def measure(state: Path, want: Literal["ready", "idle"], idle_ms: int, rounds: int) -> dict[str, Score]:
    """All programs, several times, a few at once."""
    scores = {name: Score() for name, program in PROGRAMS.items() if shutil.which(program.argv[0])}
    jobs = iter([name for _ in range(rounds) for name in scores])

    async def work(broker: Broker) -> None:
        for name in jobs:
            scores[name].add(await once(broker, PROGRAMS[name], want, idle_ms))

    async with (
        Broker.open(BrokerSettings(state_dir=state, program="bash")) as broker,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(AT_ONCE):
            tasks.start_soon(work, broker)
    return scores


def in_all(scores: dict[str, Score]) -> Score:
    whole = Score()
    for score in scores.values():
        whole.add(score)
    return whole


def table(title: str, scores: dict[str, Score]) -> None:
    """Print a line for each program, and what was wrong."""
    print(f"  {title:24}{'steps':>6}{'median ms':>11}{'worst ms':>10}{'wrong':>7}{'late':>6}{'bytes':>7}")
    for name, score in {**scores, "in all": in_all(scores)}.items():
        took = score.took_ms
        late = "timer" if name in PROGRAMS and PROGRAMS[name].timer else str(score.late)
        print(
            f"    {name:22}{score.steps:6}{statistics.median(took):11.1f}{max(took):10.0f}{len(score.wrong):7}"
            f"{late:>6}{score.late_bytes:7}",
            flush=True,
        )
        if name in PROGRAMS and score.wrong:
            print(f"      wrong after: {score.wrong}")


def readiness(quick: bool) -> list[Row]:
    """Readiness against silence of fixed length, on an idle machine and on a busy one."""
    there = [program for program in PROGRAMS.values() if shutil.which(program.argv[0])]
    rounds = math.ceil((QUICK_STEPS if quick else STEPS) / sum(len(program.steps) + 1 for program in there))
    rows = []
    for loops, where in ((0, ""), (2, ", two busy loops")):
        found: dict[str, Score] = {}
        for name, want, idle_ms in (
            ("300 ms quiet", "idle", 300),
            ("500 ms quiet", "idle", 500),
            ("ready", "ready", 300),
        ):
            with workshop() as (state, env), patch.dict(os.environ, env), busy_loops(loops):
                scores = anyio.run(measure, state, want, idle_ms, rounds if want == "ready" else min(rounds, 2))
            table(f"{name}{where}", scores)
            found[name] = in_all(scores)
        rows += _rows(found, where)
    return rows


def _rows(found: dict[str, Score], where: str) -> list[Row]:
    ready, quiet, longer = found["ready"], found["300 ms quiet"], found["500 ms quiet"]
    count = ready.steps
    median, floor = statistics.median(ready.took_ms), statistics.median(quiet.took_ms)
    note = f"wrong: {len(quiet.wrong)} of {quiet.steps} at 300, {len(longer.wrong)} at 500 ms"
    return [
        Row(f"ready{where}", median, "ms", floor, "< 300 ms quiet", median < floor, note),
        Row(f"wrong of {count}{where}", len(ready.wrong), "answers", None, "none", not ready.wrong),
        Row(
            f"late of {count}{where}", ready.late, "answers", None, "none", not ready.late, f"{ready.late_bytes} bytes"
        ),
    ]
