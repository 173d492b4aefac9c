"""Fifty clients of one HTTP service at once: each answer is compared with what its client asked for."""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any

import psutil

from benchmarks.common import Row, workshop
from benchmarks.service import Rpc, serving

CLIENTS = 50


def clients(quick: bool) -> list[Row]:
    """`run` in a session of its own from each client: how long it takes, and how many answers are wrong."""
    calls = 20 if quick else 200
    with workshop() as (_, env), serving(env | {"TMUXMCP_AUDIT": "off"}) as (_, port):
        first = Rpc(port)
        for number in range(CLIENTS):
            first.call("create_session", name=f"c{number}")
            first.call("run", session_id=f"c{number}", command="true")
        alone = first.median_ms(50, "run", session_id="c0", command="true")
        took: list[float] = []
        wrong: list[Any] = []

        def client(number: int) -> None:
            rpc = Rpc(port)
            for call in range(calls):
                begun = time.perf_counter()
                answer = rpc.call("run", session_id=f"c{number}", command=f"echo {number}-{call}; (exit {call % 7})")
                took.append((time.perf_counter() - begun) * 1000)
                result = answer.get("result", {})
                if (result.get("output"), result.get("exit_code")) != (f"{number}-{call}\n", call % 7):
                    wrong.append(answer)

        threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    for answer in wrong[:3]:
        print(answer)
    at_once = statistics.quantiles(took, n=20)[-1]
    cores = psutil.cpu_count() or 1
    share = at_once * cores / CLIENTS
    return [
        Row(f"wrong of {len(took)} answers", len(wrong), "", None, "0", not wrong),
        Row(f"{CLIENTS} HTTP clients, p95 of run", at_once, "ms", alone, "", True),
        Row("the same, of one client's part of a core", share, "ms", alone, "5 x alone", share <= 5 * alone),
    ]
