"""Sessions in which nothing happens cost no wake-ups: neither the server's nor tmux's."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kit.agent import Agent, eventually

WINDOW_S = 3.0
PER_SECOND = 2


def wake_ups(pid: int) -> int:
    """How often the threads of a process have gone to sleep."""
    count = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            status = (thread / "status").read_text()
            count += int(status.split("\nvoluntary_ctxt_switches:", 1)[1].split()[0])
    return count


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_idle_server_wakes_up_less_than_twice_a_second(state_dir: Path):
    count = 200 if os.environ.get("TMUXMCP_TEST_MANY") else 40
    with Agent(state_dir, "cat", TMUXMCP_MAX_SESSIONS=str(count)) as agent:
        for _ in range(count):
            agent.call("create_session", wait_ready=False)
        processes = [agent.server.pid, int((state_dir / "tmux.pid").read_text())]

        def rests() -> bool:
            before = [wake_ups(pid) for pid in processes]
            time.sleep(WINDOW_S)  # what is measured: a time in which nothing happens
            return all(wake_ups(pid) - was < PER_SECOND * WINDOW_S for pid, was in zip(processes, before, strict=True))

        eventually(rests, 30)
