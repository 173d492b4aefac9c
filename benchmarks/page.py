"""What a person's page costs: idle sessions with the list open, and `run` and a flood beside a page that shows them.

The page that is open is a program that takes all that it is sent, as fast as it comes: no browser's time is measured.
With and without it are measured in turn, and each round gives a ratio: what the machine does besides meets both.
Figures stand in docs/explanation/architecture.md.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import psutil

from benchmarks.common import Row, workshop
from benchmarks.service import Rpc, serving, share
from tmuxmcp.faces.page.codes import make_code

FLOOD = "yes 0123456789012345678901234567890123456789012345678 | head -c 10000000"


class Visitor:
    """Somebody who is let in."""

    def __init__(self, state_dir: Path, port: int) -> None:
        self._port = port
        self._headers = {"Content-Type": "application/json"}
        answer = json.loads(self._ask("enter", {"code": make_code(state_dir, port)}).read())
        self._headers["Authorization"] = f"Bearer {answer['token']}"

    def _ask(self, path: str, value: dict[str, Any]) -> http.client.HTTPResponse:
        self._connection = http.client.HTTPConnection("127.0.0.1", self._port)
        self._connection.request("POST", f"/page/{path}", json.dumps(value), self._headers)
        return self._connection.getresponse()

    @contextmanager
    def looking(self, session: str = "") -> Iterator[list[float]]:
        """Have a page open; gives when something came."""
        answer = self._ask("stream", {"session": session})
        assert answer.status == 200, answer.read()
        fd, came = os.dup(answer.fileno()), [time.perf_counter()]

        def take() -> None:
            while os.read(fd, 1 << 20):
                came.append(time.perf_counter())

        taker = Thread(target=take, daemon=True)
        taker.start()
        try:
            yield came
        finally:
            self._connection.sock.shutdown(2)
            taker.join(10)
            os.close(fd)
            answer.close()
            self._connection.close()
            time.sleep(0.2)  # the server is done with it


def page(quick: bool) -> list[Row]:
    """Idle sessions with the list open; `run true` and a flood with a page that shows the session, and without."""
    sessions, seconds, rounds, calls = (20, 5.0, 5, 10) if quick else (20, 20.0, 25, 10)
    with workshop() as (state_dir, env), serving(env) as (process, port):
        rpc, server = Rpc(port), psutil.Process(process.pid)
        for name in ("seen", "other"):
            rpc.call("create_session", name=name)
            rpc.call("run", session_id=name, command="true")
        visitor = Visitor(state_dir, port)

        def run_ms(name: str) -> float:
            return rpc.median_ms(calls, "run", session_id=name, command="true")

        def flood_s() -> float:
            begun = time.perf_counter()
            answer = rpc.call("run", session_id="seen", command=FLOOD, timeout_ms=600_000)
            assert answer["result"]["completed"], answer
            return time.perf_counter() - begun

        run = Paired.of(visitor, partial(run_ms, "seen"), rounds)
        flood = Paired.of(visitor, flood_s, rounds)
        rpc.call("send", session_id="seen", text="yes", enter=True)
        beside = Paired.of(visitor, partial(run_ms, "other"), rounds)
        rpc.call("destroy_session", session_id="seen", force=True)
        for _ in range(sessions - 1):
            rpc.call("create_session", program="bash")
        time.sleep(1)
        alone = share(server, seconds)
        with visitor.looking() as came:
            time.sleep(8)  # what never changes is looked at more and more seldom
            before = len(came)
            watched = share(server, seconds)
            lines = (len(came) - before) / seconds
    return [
        Row(f"{sessions} sessions idle, a page open", watched, "% of a core", alone, "< 10 %", watched < 10),
        Row("the same, what it is sent", lines, "a second", None, "< 1", lines < 1),
        run.row("run true, shown on a page", "ms", 1.3),
        flood.row("10 MB through run, shown", "s", 1.1),
        beside.row("run true beside a shown flood", "ms", 1.3),
    ]


@dataclass
class Paired:
    """One thing measured without a page and with one, round by round."""

    without: list[float]
    shown: list[float]

    @classmethod
    def of(cls, visitor: Visitor, measure: Callable[[], float], rounds: int) -> Paired:
        found: dict[bool, list[float]] = {False: [], True: []}
        for number in range(rounds):
            for shown in (False, True) if number % 2 else (True, False):
                with visitor.looking("seen") if shown else nullcontext():
                    found[shown].append(measure())
        return cls(found[False], found[True])

    def row(self, name: str, unit: str, most: float) -> Row:
        """Holds by the median of the rounds' ratios: what is slow for a while is slow in both of a round."""
        ratio = statistics.median(shown / without for without, shown in zip(self.without, self.shown, strict=True))
        value, floor = statistics.median(self.shown), statistics.median(self.without)
        return Row(name, value, unit, floor, f"<= {most:g} x not shown", ratio <= most, f"{ratio:.2f} x")
