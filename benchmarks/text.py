"""Clean text and searching it, each against the least that any program could do for it."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio

from benchmarks.budgets import Row
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.log import LOG_READ_BYTES, RawLog
from tmuxmcp.record.search import search
from tmuxmcp.terminal.snapshot import PLAIN_STYLE
from tmuxmcp.terminal.text.plain import plain

LINE = b"2026-01-01 INFO some module: request 12345 took 17 ms\r\n"
COLOURED = b"\x1b[1;32m2026-01-01\x1b[0m INFO \x1b[36msome module\x1b[0m: request 12345 took 17 ms\r\n"
BAR = b"".join(b"\r[%-50s] %3d%%" % (b"#" * (percent // 2), percent) for percent in range(101)) + b"\r\n"

MOVED = b"2026-01-01 INFO request 12345 took 17 ms\r\n[####      ] 40%\x1b[A\r"
COLOURED_MOVED = COLOURED + b"\x1b[A\x1b[3C\x1b[31m-\x1b[0m\r\n"
KINDS = [
    ("plain", LINE, 50),
    ("coloured", COLOURED, 0),
    ("progress bar", BAR, 0),
    ("bar below a log", MOVED, 5),
    ("coloured, moving up", COLOURED_MOVED, 5),
]
"""Name, what is printed over and over, and the MB/s it is to have, 0 for none."""


def seconds(call: Callable[[], object], count: int) -> float:
    """Processor time of a call, its processes' too: what else runs on the machine does not count."""
    found = []
    for _ in range(count):
        begun = sum(os.times()[:4])
        call()
        found.append(sum(os.times()[:4]) - begun)
    return max(statistics.median(found), 0.01)


def cleaning(quick: bool) -> list[Row]:
    """MB/s of clean text, against decoding and splitting the same bytes into lines."""
    rows = []
    for name, unit, budget in KINDS:
        size = (8 if quick else 32) * 1_000_000 // (8 if b"\x1b[A" in unit else 1)
        data = unit * (size // len(unit))
        pieces = [data[at : at + LOG_READ_BYTES] for at in range(0, len(data), LOG_READ_BYTES)]
        ours = len(data) / 1e6 / seconds(lambda pieces=pieces: [plain(piece, 80, 24) for piece in pieces], 5)
        floor = len(data) / 1e6 / seconds(lambda pieces=pieces: [piece.decode().splitlines() for piece in pieces], 5)
        note = f"{floor / ours:.1f} times the floor's time: bytes.decode and splitlines"
        rows.append(
            Row(
                f"clean text, {name}", ours, "MB/CPU-s", floor, f">= {budget} MB/s" * bool(budget), ours >= budget, note
            )
        )
    return rows


def colouring(quick: bool) -> list[Row]:
    """MB/s of clean text with its colours, against clean text without."""
    rows = []
    for name, unit, _ in KINDS:
        size = (2 if quick else 8) * 1_000_000 // (8 if b"\x1b[A" in unit else 1)
        data = unit * (size // len(unit))
        pieces = [data[at : at + LOG_READ_BYTES] for at in range(0, len(data), LOG_READ_BYTES)]
        ours, floor = (
            len(data) / 1e6 / seconds(lambda clean=clean, pieces=pieces: [clean(piece, 80, 24) for piece in pieces], 5)
            for clean in (partial(plain, style=PLAIN_STYLE), plain)
        )
        note = f"{floor / ours:.1f} times the time of plain text"
        rows.append(Row(f"text in colours, {name}", ours, "MB/CPU-s", floor, "", True, note))
    return rows


def searching(quick: bool) -> list[Row]:
    """Seconds of a search over 100 MB, against grep over the same file."""
    rows = []
    size = 20_000_000 if quick else 100_000_000
    with tempfile.TemporaryDirectory() as directory:
        log = RawLog(SessionDirectory(Path(directory)))
        block = LINE * 100 + b"\x1b[31mWARN\x1b[0m disk is full\r\n"
        log.path.write_bytes(block * (size // len(block)))
        for name, pattern in (("1 line in 100", "WARN"), ("nearly every line", r"took\s+\d+ ms$"), ("none", "needle")):
            ours = seconds(lambda pattern=pattern: anyio.run(search, log, 80, 24, "a", pattern, 100, 0), 3)
            grep = ["grep", "-acE", pattern.replace("$", "")]
            floor = seconds(lambda grep=grep: subprocess.run([*grep, log.path], capture_output=True, check=False), 3)
            rows.append(
                Row(
                    f"search {size // 1_000_000} MB, {name}", ours, "s of CPU", floor, "< 3 s", ours < 3, "against grep"
                )
            )
    return rows
