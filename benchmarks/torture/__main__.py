"""`scripts/bench torture`: measure, and print a table by class."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.load import busy_loops
from benchmarks.torture.run import Judged, torture
from benchmarks.torture.server import adapter
from benchmarks.torture.table import PROGRAMS, Program, programs

LONG_WORK_MS = 300


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench torture", description=__doc__)
    parser.add_argument("--programs", default="*", metavar="NAMES", help="patterns of names or classes, with commas")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="take all programs N times")
    parser.add_argument("--steps", type=int, default=0, metavar="N", help="repeat until there are N steps")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="busy loops beside it")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="programs at a time")
    parser.add_argument("--server", default="tmuxmcp", metavar="NAME", help="name of an adapter, or its JSON file")
    parser.add_argument("--table", type=Path, default=PROGRAMS, metavar="FILE", help="another table of programs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every step there")
    parser.add_argument("--list", action="store_true", help="print the programs and what is missing, and stop")
    return parser.parse_args()


def chosen(names: str, table: Iterable[Program]) -> list[Program]:
    """Programs whose name or class fits one of the patterns."""
    patterns = names.split(",")
    return [
        program
        for program in table
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns for name in (program.name, program.group))
    ]


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share lies; NaN of none."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else float("nan")


def figures(steps: Sequence[Judged]) -> dict[str, float]:
    """What a class of steps gave."""
    verdicts = [step.verdict for step in steps]
    late = [step.late_ms for step in steps if step.late_ms is not None]
    # What silence and a prompt would have said can be told where the program's end is known.
    return {
        "steps": len(steps),
        **{name: verdicts.count(name) for name in ("false", "missed", "unknown", "broken")},
        "wrong_mode": sum(step.wrong_mode for step in steps),
        "late_median_ms": statistics.median(late) if late else float("nan"),
        "late_p95_ms": percentile(late, 0.95),
        "quiet_false": sum(step.too_early(step.quiet_ms) for step in steps),
        "prompt_false": sum(step.too_early(step.prompt_ms) for step in steps),
        "prompt_never": sum(step.prompt_ms is None and step.true_ms is not None for step in steps),
    }


def show(steps: Sequence[Judged]) -> None:
    """Print a line for each class, and each answer that was not right."""
    long = [step for step in steps if step.works_ms >= LONG_WORK_MS]
    groups = {step.group: [other for other in steps if other.group == step.group] for step in steps}
    print(f"{'':26}{'steps':>6}{'false':>6}{'missed':>7}{'unknown':>8}{'broken':>7}{'mode':>5}", end="")
    print(f"{'late ms':>9}{'p95':>7} | {'quiet: false':>12} | {'prompt: false':>13}{'never':>6}")
    for name, some in (groups | {f"work of {LONG_WORK_MS} ms or more": long, "in all": list(steps)}).items():
        row = figures(some)
        print(f"{name:26}{row['steps']:6}{row['false']:6}{row['missed']:7}{row['unknown']:8}{row['broken']:7}", end="")
        print(f"{row['wrong_mode']:5}{row['late_median_ms']:9.0f}{row['late_p95_ms']:7.0f}", end="")
        print(f" | {row['quiet_false']:12} | {row['prompt_false']:13}{row['prompt_never']:6}")


def tell(step: Judged) -> None:
    """Print a step that was not right."""
    if step.verdict == "right" and not step.wrong_mode:
        return
    true = "never" if step.true_ms is None else f"{step.true_ms:.0f} ms"
    what = step.verdict if step.verdict != "right" else "wrong mode"
    print(f"  {what}: {step.program}: {step.sent!r}: {step.outcome} ({step.evidence}, {step.mode})", end="")
    print(f" at {step.said_ms:.0f} ms, truly at {true}; {step.seen[-70:]!r}", flush=True)


def machine() -> dict[str, object]:
    """What it was measured on."""
    tmux = subprocess.run(["tmux", "-V"], capture_output=True, text=True, check=False).stdout.strip()
    return {"cpus": os.cpu_count(), "kernel": platform.release(), "tmux": tmux, "python": platform.python_version()}


def main() -> None:
    """Measure what the command line asks for."""
    asked = _arguments()
    table = chosen(asked.programs, programs(asked.table))
    missing = {program.name: program.missing() for program in table if program.missing()}
    there = [program for program in table if program.name not in missing]
    count = sum(len(program.steps) for program in there)
    print(f"{len(there)} programs, {count} steps; left out: " + (", ".join(missing) or "none"))
    if asked.list or not there:
        for program in there:
            print(f"  {program.group}: {program.name}: {len(program.steps)}")
        sys.exit(not there)
    rounds = max(asked.repeat, -(-asked.steps // count))
    before = os.getloadavg()
    with busy_loops(asked.busy):
        steps = torture(adapter(asked.server), there * rounds, asked.at_once, tell)
    load = [before[0], *os.getloadavg()[:2]]
    show(steps)
    print(f"{machine()}, load before {load[0]:.1f}, at the end {load[1]:.1f}, {asked.busy} busy loops")
    if asked.json:
        facts = {"server": asked.server, "machine": machine(), "load": load, "busy": asked.busy, "left_out": missing}
        asked.json.write_text(json.dumps(facts | {"steps": [asdict(step) for step in steps]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
