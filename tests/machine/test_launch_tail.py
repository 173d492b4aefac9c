"""Not a byte is lost, neither at the end of a program nor in a flood: measured, not argued."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from tests.kit.panes import SENTINEL, launch_pane
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.server import Tmux

pytestmark = pytest.mark.slow

SESSIONS = 1000 if os.environ.get("TMUXMCP_TEST_MANY") else 100
AT_A_TIME = 20


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """Two loops that never rest; nor do they outlive for long tests that are killed."""
    loops = [subprocess.Popen(["sh", "-c", "ulimit -t 600; while :; do :; done"]) for _ in range(2)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


def lines(size: int) -> bytes:
    """So many bytes of lines of all lengths, the same in every run."""
    rng = random.Random(size)
    words = b"".join(b"%x%s" % (rng.getrandbits(rng.randrange(1, 900)), b"\n") for _ in range(size // 100 + 1))
    return words[:size]


@pytest.mark.usefixtures("busy_machine")
async def test_every_short_program_is_recorded_whole(tmux: Tmux, tmp_path: Path) -> None:
    text = lines(1 << 20)
    file = tmp_path / "text"
    file.write_bytes(text)
    rng = random.Random(4)
    wrong: list[str] = []
    slots = anyio.Semaphore(AT_A_TIME)

    async def one(number: int, size: int) -> None:
        async with slots:
            code = number % 256
            launched = await launch_pane(tmux, ["sh", "-c", f"head -c {size} {file}; exit {code}"])
            pane = await launched.ended(60)
            if (pane.exit_code, pane.exit_signal) != (code, None):
                wrong.append(f"{number}: exit {pane.exit_code} {pane.exit_signal} instead of {code}")
            expected = text[:size].replace(b"\n", b"\r\n")
            log = launched.log()
            if SENTINEL.sub(b"", log) != expected:
                wrong.append(f"{number}: {len(log)} bytes logged of {len(expected)}")
            await panes.kill_session(tmux, pane)

    async with anyio.create_task_group() as task_group:
        for number in range(SESSIONS):
            size = 1 << 20 if number % 10 == 0 else 0 if number % 10 == 1 else int(2 ** rng.uniform(0, 20))
            task_group.start_soon(one, number, size)
    assert wrong == []


async def test_flood_is_recorded_whole(tmux: Tmux, tmp_path: Path) -> None:
    size = 64 << 20
    code = f"""import sys, random, hashlib
block = random.Random(1).randbytes(300_000).hex("\\n", 37).encode() + b"\\n"
whole = hashlib.sha256()
left = {size}
while left:
    piece = block[:left]
    sys.stdout.buffer.write(piece)
    whole.update(piece.replace(b"\\n", b"\\r\\n"))
    left -= len(piece)
open({str(tmp_path / "sum")!r}, "w").write(whole.hexdigest())"""
    launched = await launch_pane(tmux, [sys.executable, "-IS", "-c", code], log_max_bytes=1 << 30)
    assert (await launched.ended(120)).exit_code == 0
    log = SENTINEL.sub(b"", launched.log())
    assert hashlib.sha256(log).hexdigest() == (tmp_path / "sum").read_text()
