"""`run` by the size of what the command prints: 1 kB, 1 MB and 100 MB, over stdio and over JSON-RPC.

The floor of each is `bash -c` of the same, its output read through a pipe. 100 MB are printed and cut: that much is for
no model.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.common import Row, workshop
from benchmarks.interleave import in_turn
from benchmarks.service import Rpc, serving
from benchmarks.wire import Wire

LINE = "0123456789" * 6 + "abc"
SIZES = [("1 kB", 16, 16 << 20), ("1 MB", 16_384, 16 << 20), ("100 MB", 1_638_400, 8192)]
"""What it is called, so many lines of 64 bytes, and `max_bytes`."""


def sizes(quick: bool) -> list[Row]:
    """`run` of commands that print little and much."""
    rows = []
    with workshop() as (_, env):
        wire = Wire([sys.executable, "-m", "tmuxmcp", "serve"], env | {"TMUXMCP_MAX_WAIT_MS": "600000"})
        with serving(env | {"TMUXMCP_MAX_WAIT_MS": "600000"}) as (_, port):
            rpc = Rpc(port)
            for name, lines, max_bytes in SIZES:
                # A program of its own prints, so that the shell's own way to print is not what is measured.
                command = f"yes {LINE} | head -n {lines}"
                asked = {"command": command, "max_bytes": max_bytes, "timeout_ms": 600_000}

                def by_stdio(asked: dict[str, object] = asked, lines: int = lines) -> None:
                    told = wire.call("run", **asked)["structuredContent"]
                    assert (told["exit_code"], told["output_bytes"]) == (0, lines * (len(LINE) + 2)), told

                def by_rpc(asked: dict[str, object] = asked, lines: int = lines) -> None:
                    told = rpc.call("run", **asked)["result"]
                    assert (told["exit_code"], told["output_bytes"]) == (0, lines * (len(LINE) + 2)), told

                def bare(command: str = command) -> None:
                    subprocess.run(["bash", "-c", command], env=env, stdout=subprocess.PIPE, check=True)

                count = {"1 kB": 100, "1 MB": 20, "100 MB": 1}[name] // (5 if quick and name != "100 MB" else 1)
                stdio, http, floor = in_turn([by_stdio, by_rpc, bare], max(count, 2))
                rows += [
                    Row(f"run, {name} printed, {way}", took.median, "ms", floor.median, "", True, "", *took.spread)
                    for way, took in (("stdio", stdio), ("JSON-RPC", http))
                ]
        wire.close()
    return rows
