"""What people who are attached cost the agent: `run` with nobody there, with one, and with a hundred.

tmux draws for each of them in its one thread: rows where a line is added, and the whole pane where the terminal is
wider than it, or has no room for its last row beside the status line. Whoever has a larger terminal is also drawn what
surrounds the pane, whenever a program sets a title or tells its directory.
"""

from __future__ import annotations

import shlex
import statistics
import time
from collections.abc import Callable

from benchmarks.common import Row, workshop
from benchmarks.wire import Wire
from tests.kit.crowd import crowd

CROWD = 100

LARGE = 200, 60
"""Columns and rows of a terminal that shows more than the session."""


def _median_ms(call: Callable[[], object], count: int) -> float:
    found = []
    for _ in range(count):
        time.sleep(0.01)  # a client thinks between two calls
        begun = time.perf_counter()
        call()
        found.append((time.perf_counter() - begun) * 1000)
    return statistics.median(found)


def watched(serve: Callable[[dict[str, str]], Wire], quick: bool) -> list[Row]:
    """`run true` in a session, and in another one, while people are attached to the first."""
    count = 30 if quick else 200
    with workshop() as (_, env):
        ours = serve(env)
        made = ours.call("create_session", name="seen")["structuredContent"]
        ours.call("create_session", name="other")
        argv = shlex.split(made["attach_command"])

        def run(session: str) -> float:
            return _median_ms(lambda: ours.call("run", command="true", session_id=session), count)

        run("seen"), run("other")
        alone = run("seen")
        with crowd(argv, 1):
            one = run("seen")
        with crowd(argv, CROWD):
            many, beside = run("seen"), run("other")
        with crowd(argv, CROWD, *LARGE):
            large = run("seen")
        ours.close()
    return [
        Row("run true, one person attached", one, "ms", alone, "<= 1.2 x alone", one <= 1.2 * alone),
        Row(f"run true, {CROWD} attached", many, "ms", alone, "<= 2 x alone", many <= 2 * alone),
        Row(f"run true, {CROWD} in large terminals", large, "ms", alone, "<= 2 x alone", large <= 2 * alone),
        Row(f"run true, {CROWD} at another session", beside, "ms", alone, "<= 2 x alone", beside <= 2 * alone),
    ]
