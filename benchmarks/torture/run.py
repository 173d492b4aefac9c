"""Take programs through their steps on a server under test, and judge each of its answers."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.torture.server import Said, Server, fill
from benchmarks.torture.table import Program, Step
from benchmarks.torture.truth import Watch

END_S = 6.0
"""How long after a wrong answer the true end is waited for, so that the next step begins where it should."""
GRACE_S = 0.5
"""A wait that ended within this time after the true end was not long enough to tell."""


@dataclass
class Judged:
    """One step: what the server said, and what was true. Times are milliseconds after it was sent."""

    program: str
    group: str
    sent: str
    verdict: str
    """`right`, `false`, `missed` (a time-out though it was ready), `unknown` (the server said that it cannot know),
    `broken` (the program itself never came to the end that the table says)."""
    outcome: str
    evidence: str | None
    mode: str | None
    wrong_mode: bool
    said_ms: float
    true_ms: float | None
    """None: it was not ready as long as it was watched."""
    visible: bool
    """Its readiness shows in what it prints; else only a false answer can be told, not how late one is."""
    quiet_ms: float
    """When 300 ms of silence would have been over."""
    prompt_ms: float | None
    """When the last line first looked like a prompt; None: never."""
    works_ms: int
    seen: str
    """The end of what was printed."""

    @property
    def late_ms(self) -> float | None:
        """How long after the true end the server said ready, where it did."""
        if self.verdict != "right" or self.outcome != "ready" or self.true_ms is None or not self.visible:
            return None
        return max(self.said_ms - self.true_ms, 0.0)

    def too_early(self, ms: float | None) -> bool:
        """An answer at that time would have been false."""
        return ms is not None and (self.true_ms is None or ms < self.true_ms)


def verdict(step: Step, said: Said, said_at: float, true_at: float | None) -> str:
    """What an answer was worth."""
    ready = true_at is not None and true_at <= said_at
    match said.outcome:
        case "ready" | "exited" if ready:
            return "right"
        case "ready":
            return "false"
        case "unknown":
            return "unknown"
        case "timeout" if step.busy or (true_at is not None and said_at < true_at + GRACE_S):
            return "right"
        case "timeout" if true_at is not None:
            return "missed"
        case _:
            return "broken"


def judge(program: Program, step: Step, watch: Watch, ask: Callable[[], Said]) -> Judged:
    """Send one step, wait with the server, and compare."""
    said = ask()
    said_at = watch.look()
    if said.outcome == "timeout" and said_at - watch.begun < step.timeout_ms * 0.9 / 1000:
        said.outcome = "unknown"  # It gave up before the time was up.
    done = program.done(step)
    true_at = None if step.busy else _true_end(watch, done, said_at)
    watch.stop()
    works = true_at is None or (true_at - watch.begun) * 1000 >= step.works_ms - 20
    mode = said.outcome == "ready" and bool(step.mode) and said.mode not in (None, "unknown", *step.mode)
    prompt_at = watch.prompt_at()
    return Judged(
        program=program.name,
        group=program.group,
        sent=step.name,
        verdict=verdict(step, said, said_at, true_at) if works else "broken",
        outcome=said.outcome if said.outcome != "error" else said.note,
        evidence=said.evidence,
        mode=said.mode,
        wrong_mode=mode,
        said_ms=(said_at - watch.begun) * 1000,
        true_ms=None if true_at is None else (true_at - watch.begun) * 1000,
        visible=not done.search(""),
        quiet_ms=(watch.quiet_at() - watch.begun) * 1000,
        prompt_ms=None if prompt_at is None else (prompt_at - watch.begun) * 1000,
        works_ms=step.works_ms,
        seen=watch.text()[-160:],
    )


def _true_end(watch: Watch, done: Any, said_at: float) -> float | None:
    """When the program was truly ready; waited for where it is still to come."""
    while (at := watch.ready_at(done)) is None and time.time() < said_at + END_S:
        time.sleep(0.02)
        watch.look()
    return at


def through(program: Program, server: Server, session: str, work: Path) -> Iterator[Judged]:
    """Start a program, and send each of its steps as soon as the one before has ended."""
    cwd = work / session
    cwd.mkdir()
    for name, text in program.files.items():
        (cwd / name).write_text(text)
    argv = fill(list(program.argv), {"dir": str(cwd), "python": sys.executable})
    log, probe = server.log(session), cwd / "probe"
    try:
        for step in program.steps:
            watch = Watch(log, probe if step.probe else None)
            if step is program.steps[0]:
                found = judge(program, step, watch, lambda: server.start(session, argv, cwd, step.timeout_ms))  # noqa: B023
            else:
                found = judge(program, step, watch, lambda: server.send(step))  # noqa: B023
            yield found
            if found.verdict == "broken" or found.outcome == "exited":
                return
    finally:
        server.end(session)
        shutil.rmtree(cwd, ignore_errors=True)


def environment(home: Path) -> dict[str, str]:
    """What the server and its programs see of the environment."""
    keep = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return keep | {"HOME": str(home), "LANG": "C.UTF-8", "PS1": "$ "}


def torture(
    adapter: Mapping[str, Any], programs: Iterable[Program], at_once: int, tell: Callable[[Judged], None]
) -> list[Judged]:
    """All programs, a few at a time, each worker with a process of the server; `tell` hears of each step at once."""
    left: queue.SimpleQueue[tuple[int, Program]] = queue.SimpleQueue()
    for job in enumerate(programs):
        left.put(job)
    found: list[Judged] = []
    work = Path(tempfile.mkdtemp(prefix="tm-"))
    (work / "home").mkdir()
    env = environment(work / "home")

    def take() -> None:
        server = Server(adapter, work, env)
        with suppress(queue.Empty):
            while True:
                number, program = left.get_nowait()
                for judged in through(program, server, f"t{number}", work):
                    found.append(judged)
                    tell(judged)
        server.close()

    try:
        with ThreadPoolExecutor(at_once) as pool:
            for worker in [pool.submit(take) for _ in range(at_once)]:
                worker.result()
    finally:
        if "kill" in adapter:
            values = {"work": str(work)}
            own = {name: str(fill(value, values)) for name, value in adapter.get("env", {}).items()}
            subprocess.run(fill(adapter["kill"], values), env={**env, **own}, capture_output=True, check=False)
        shutil.rmtree(work, ignore_errors=True)
    return found
