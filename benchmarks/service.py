"""The HTTP service: a call against one that does nothing, and what it costs that somebody listens."""

from __future__ import annotations

import http.client
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from benchmarks.common import Row, workshop

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
MODERN = "2026-07-28"


@contextmanager
def serving(env: dict[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A service without tokens, and its port."""
    words = ["serve", "--http", "127.0.0.1:0", "--no-token", "--log-level", "info"]
    process = subprocess.Popen([sys.executable, "-m", "tmuxmcp", *words], env=env, stderr=subprocess.PIPE)
    assert process.stderr
    try:
        for line in process.stderr:
            found = re.search(rb" on http://127\.0\.0\.1:(\d+)", line)
            if found:
                yield process, int(found[1])
                break
    finally:
        process.terminate()
        process.communicate()


class Rpc:
    """JSON-RPC over one connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)

    def call(self, method: str, **params: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        self._connection.request("POST", "/rpc", body, HEADERS)
        return json.loads(self._connection.getresponse().read())

    def median_ms(self, count: int, method: str, **params: Any) -> float:
        found = []
        for number in range(count + 5):
            time.sleep(0.01)  # a client thinks between two calls
            begun = time.perf_counter()
            self.call(method, **params)
            if number >= 5:
                found.append((time.perf_counter() - begun) * 1000)
        return statistics.median(found)


@contextmanager
def listening(port: int) -> Iterator[None]:
    """A client of the newer era that is told about all sessions."""
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in LISTENER.items()}
    asked = {"_meta": meta, "notifications": {"resourceSubscriptions": ["tmux://sessions"]}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": asked})
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request(
        "POST", "/mcp", body, HEADERS | {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}
    )
    assert b"acknowledged" in connection.getresponse().read1()
    yield
    connection.close()


LISTENER = {"protocolVersion": MODERN, "clientCapabilities": {}}


def share(process: psutil.Process, seconds: float) -> float:
    """Per cent of a core that a process uses."""
    begun, before = time.perf_counter(), sum(process.cpu_times()[:2])
    time.sleep(seconds)
    return (sum(process.cpu_times()[:2]) - before) / (time.perf_counter() - begun) * 100


def service(quick: bool) -> list[Row]:
    """`run true` over JSON-RPC; idle sessions without a listener and with one."""
    calls, sessions, seconds = (50, 30, 3.0) if quick else (300, 200, 10.0)
    with workshop() as (_, env), serving(env) as (process, port):
        rpc = Rpc(port)
        rpc.call("run", command="true")
        nothing = rpc.median_ms(calls, "nothing")
        run = rpc.median_ms(calls, "run", command="true")
        for _number in range(sessions):
            rpc.call("create_session", program="sleep", args=["100000"], wait_ready=False)
        time.sleep(1)
        ours = psutil.Process(process.pid)
        alone = share(ours, seconds)
        with listening(port):
            time.sleep(8)  # what never changes is looked at more and more seldom
            watched = share(ours, seconds)
    return [
        Row("run true over JSON-RPC", run, "ms", nothing, "no-op + 2 ms", run <= nothing + 2),
        Row(f"{sessions} sessions idle, HTTP", alone, "% of a core", None, "< 1 %", alone < 1),
        Row(f"{sessions} sessions idle, one listens", watched, "% of a core", alone, "", True),
    ]
