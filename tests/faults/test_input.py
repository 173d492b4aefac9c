"""Input into panes that die at random moments: exact bytes or an error, and the tmux server lives.

A paste into a pane whose program has exited ends the whole of tmux 3.3a, with all its sessions.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import anyio

from tests.conftest import eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.contract.settings import BrokerSettings

DEATHS = 1000 if os.environ.get("TMUXMCP_TEST_MANY") else 24
AT_A_TIME = 10

READER = """import os, sys, tty
tty.setraw(0)
out, left = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), int(sys.argv[2])
os.write(1, b"here")
while left > 0 and (data := os.read(0, min(left, 4096))):
    left -= os.write(out, data)
if sys.argv[3] == "kill":
    os.kill(os.getpid(), 9)"""


def pieces(rng: random.Random) -> list[str]:
    """Texts of all sizes, short ones in the command line of tmux and long ones by a file."""
    alphabet = "abc;\\'\"$#{}~\n\t日é -=%"
    return ["".join(rng.choices(alphabet, k=int(2 ** rng.uniform(0, 13)))) for _ in range(30)]


async def test_panes_that_die_while_they_are_typed_into(state_dir: Path, home: Path, tmp_path: Path) -> None:
    told: set[str] = set()
    slots = anyio.Semaphore(AT_A_TIME)
    settings = BrokerSettings(state_dir=state_dir, max_sessions=AT_A_TIME + 2)
    async with Broker.open(settings) as broker:
        await broker.create_session("cat", name="bystander", wait_ready=False)
        server = broker.tmux.pid

        async def one(number: int) -> None:
            rng, file, session_id = random.Random(number), tmp_path / str(number), f"d{number}"
            lives, how = int(2 ** rng.uniform(0, 14)), rng.choice(["exit", "kill"])
            words = ["-IS", "-c", READER, str(file), str(lives), how]
            await broker.create_session(sys.executable, words, name=session_id, wait_ready=False)
            await broker.read(session_id=session_id, wait_for="pattern", pattern="here")
            sent = ""
            try:
                for text in pieces(rng) * 20:
                    sent += text
                    await broker.send(text, session_id=session_id, read="none", bracketed_paste="never")
            except TmuxMcpError as error:
                told.add(error.code)
            data = sent.replace("\n", "\r").encode()[:lives]
            await eventually(lambda: file.stat().st_size >= len(data), 20)
            assert file.read_bytes() == data
            await broker.destroy_session(session_id, force=True)

        async def in_turn(number: int) -> None:
            async with slots:
                await one(number)

        async with anyio.create_task_group() as task_group:
            for number in range(DEATHS):
                task_group.start_soon(in_turn, number)
        assert told <= {"SESSION_EXITED", "RESOURCE_LIMIT", "TMUX_ERROR"}, told
        assert broker.tmux.pid == server
        await broker.send("alive", session_id="bystander", wait_for="pattern", pattern="alive")
