"""How fast the screen engine is, as ratios to stock pyte in the same run, on the same bytes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pyte

from benchmarks.common import Row
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.stream import Stream

CORPORA = Path(__file__).parent.parent / "tests" / "corpora"
COLS, ROWS = 120, 40
PIECE = 64 * 1024
SHARE = 8
"""Stock pyte is given this part of the bytes: it is the slow one."""


def plain() -> bytes:
    return b"".join(b"%d\r\n" % number for number in range(200_000))


def coloured() -> bytes:
    line = b"\x1b[0m\x1b[01;34mdir%d\x1b[0m  \x1b[01;32mscript%d.sh\x1b[0m  file%d.txt  \x1b[01;31ma.tar.gz\x1b[0m\r\n"
    return b"".join(line % (number, number, number) for number in range(16_000))


def compiled() -> bytes:
    line = (
        b"\x1b[01m\x1b[Ksrc/file%d.c:12:5:\x1b[m\x1b[K \x1b[01;35m\x1b[Kwarning: \x1b[m\x1b[Kunused variable "
        b"'\x1b[01m\x1b[Kx\x1b[m\x1b[K' [\x1b[01;35m\x1b[K-Wunused\x1b[m\x1b[K]\r\n   12 |     int x = 0;\r\n"
        b"      |         \x1b[01;35m\x1b[K^\x1b[m\x1b[K\r\ngcc -O2 -Wall -c -o file%d.o src/file%d.c\r\n"
    )
    return b"".join(line % (number, number, number) for number in range(5_000))


def recorded(name: str) -> Callable[[], bytes]:
    """A recorded program over and over: it goes on drawing."""

    def data() -> bytes:
        raw = (CORPORA / f"{name}.raw").read_bytes().replace(b"\x1b[?4m", b"")  # stock pyte raises on it
        return raw * (400_000 // len(raw) + 1)

    return data


STREAMS: dict[str, tuple[Callable[[], bytes], float]] = {
    "plain": (plain, 15),
    "coloured": (coloured, 15),
    "compile": (compiled, 15),
    "vim": (recorded("vim"), 3),
    "htop": (recorded("htop"), 3),
}
"""What is printed, and how many times as fast as stock pyte it is to be."""


def ours(data: bytes) -> None:
    stream = Stream(Screen(COLS, ROWS))
    for start in range(0, len(data), PIECE):
        stream.feed(data[start : start + PIECE])


def stock(data: bytes) -> None:
    stream = pyte.ByteStream(pyte.Screen(COLS, ROWS))
    for start in range(0, len(data), PIECE):
        stream.feed(data[start : start + PIECE])


def speed(feed: Callable[[bytes], None], data: bytes, rounds: int) -> float:
    """MB a second of processor time, the median of some rounds."""

    def once() -> float:
        begun = time.process_time()
        feed(data)
        return len(data) / (time.process_time() - begun) / 1e6

    return statistics.median(once() for _ in range(rounds))


def screens(quick: bool) -> list[Row]:
    """The screen engine against stock pyte, on the same bytes."""
    rounds = 1 if quick else 3
    rows = []
    for name, (make, asked) in STREAMS.items():
        data = make()
        theirs = speed(stock, data[: len(data) // SHARE], rounds)
        mine = speed(ours, data, rounds)
        ratio = mine / theirs
        rows.append(
            Row(f"screen, {name}", mine, "MB/s", theirs, f">= {asked:g} x pyte", ratio >= asked, f"{ratio:.1f} x")
        )
    return rows
