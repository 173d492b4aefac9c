"""Servers killed at random moments of calls with a `request_id`, which are then made again: `scripts/bench again`.

Each round: a server is given a command that appends a line to a file, and is killed with `kill -9` after a random time.
Another server is given the same call. It counts when the file has one line of that command, and the answer is the
command's output and exit code.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import workshop
from benchmarks.wire import Wire

LATEST = 1.5
"""The last moment at which a server is killed: so many times as long as a call takes."""

KINDS = {
    "short": "echo {n} >>{side}; echo out {n}; sh -c 'exit {code}'",
    "long": "echo {n} >>{side}; seq 20000; echo out {n}; sh -c 'exit {code}'",
    "slow": "echo {n} >>{side}; sleep 0.03; echo out {n}; sh -c 'exit {code}'",
    "lines": "echo {n} >>{side}\nsleep 0.03\n\necho out {n}\nsh -c 'exit {code}'",
}
"""In words that all shells understand."""

INSIDE = "inside"
"""The session in which another shell is in front."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench again", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000, metavar="N", help="servers that are killed (1000)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the moments (1)")
    parser.add_argument("--shell", default="bash", metavar="NAME", help="bash, zsh, fish or dash (bash)")
    parser.add_argument("--inside", default="", metavar="COMMAND", help="starts another shell there, which is adopted")
    return parser.parse_args()


def stage(state_dir: Path, request_id: str) -> str:
    """How far a call had come, by its file."""
    file = state_dir / "request_ids" / "person" / request_id
    try:
        lines = file.read_text().splitlines()
    except FileNotFoundError:
        return "before its note"
    whole = [json.loads(line) for line in lines if line.endswith("}")]
    if any("result" in each for each in whole):
        return "after its result"
    return "between note and result" if whole else "before its note"


def wrong(result: Mapping[str, Any], kind: str, number: int, code: int) -> str:
    """What is wrong with an answer; empty: nothing."""
    lines = str(result["output"]).splitlines()
    if not result["completed"] or result["exit_code"] != code:
        return f"completed={result['completed']} exit_code={result['exit_code']} note={result['note']}"
    if not lines or lines[-1] != f"out {number}":
        return f"its output ends with {lines[-1:]}"
    if kind == "long" and (lines[0] != "1" or not result["truncated"]):
        return f"its output begins with {lines[:1]}"
    return "" if kind == "long" or len(lines) == 1 else f"its output is {lines}"


def timed(wire: Wire, number: int, where: Mapping[str, str]) -> float:
    """How long a call takes that nobody kills."""
    begun = time.monotonic()
    wire.call("run", command="sleep 0.01; true", request_id=f"unhurt-{number}", **where)
    return time.monotonic() - begun


def main() -> int:
    """Kill servers, and say what became of their calls."""
    options, begun = arguments(), time.monotonic()
    rng, moments, failed, replayed = random.Random(options.seed), Counter[str](), 0, 0
    with workshop() as (state_dir, env):
        side = state_dir.parent / "side"
        env |= {"TMUXMCP_PROGRAM": options.shell}
        argv = [sys.executable, "-m", "tmuxmcp", "serve"]
        wire = Wire(argv, env)
        where = {"session_id": INSIDE} if options.inside else {}
        if options.inside:
            wire.call("create_session", name=INSIDE)
            wire.call("send", text=options.inside, enter=True, session_id=INSIDE)
        wire.call("run", command="true", **(where | {"adopt": "yes"} if where else {}))
        times = [timed(wire, number, where) for number in range(9)]
        longest_s = statistics.median(times) * LATEST
        for number in range(options.rounds):
            kind, code = rng.choice(list(KINDS)), number % 7
            command = KINDS[kind].format(n=number, side=side, code=code)
            request_id = f"round-{number:06}"
            if number % 2:
                params: dict[str, Any] = {"name": "run", "arguments": {"command": command} | where}
                params["_meta"] = {"tmuxmcp/request_id": request_id}
            else:
                params = {"name": "run", "arguments": {"command": command, "request_id": request_id} | where}
            wire.send("tools/call", params)
            time.sleep(rng.uniform(0, longest_s))
            wire.process.kill()
            wire.process.wait()
            moments[stage(state_dir, request_id)] += 1
            wire = Wire(argv, env)
            answer = wire.request("tools/call", params)
            result = answer.get("structuredContent")
            problem = wrong(result, kind, number, code) if result else answer["content"][0]["text"]
            count = side.read_text().splitlines().count(str(number)) if side.exists() else 0
            if problem or count != 1:
                failed += 1
                print(f"round {number} ({kind}): run {count} times; {problem}", flush=True)
            replayed += bool(result and result["replayed"])
        wire.close()
    took_s = time.monotonic() - begun
    print(f"{options.rounds - failed} of {options.rounds} calls done once with the right answer, in {took_s:.0f} s")
    print(f"killed {', '.join(f'{what}: {count}' for what, count in sorted(moments.items()))}")
    print(f"answers that were the first server's: {replayed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
