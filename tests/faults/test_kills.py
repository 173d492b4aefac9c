"""kill -9 of each of our processes in the middle of everything, and what takes it up again."""

from __future__ import annotations

import base64
import json
import os
import random
import signal
import statistics
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.conftest import SLOW
from tests.faults.flood import BEGIN, is_prefix, is_whole, write_program
from tests.kit.agent import Agent, eventually, refused
from tests.kit.tmux import plain_tmux

KILLS = 20 if os.environ.get("TMUXMCP_TEST_MANY") else 7
ADOPTED_S = 2.0


def raw_since(agent: Agent, session_id: str, offset: int, most: int) -> bytes:
    answer = agent.call("read", session_id=session_id, view="raw", since=offset, max_bytes=most)
    data = base64.b64decode(answer["content"])
    assert answer["next_offset"] - offset == len(data)
    return data


@pytest.mark.slow
def test_broker_killed_again_and_again_in_one_flood(state_dir: Path, tmp_path: Path):
    """A client that reads on from its offset in each life gets every byte once; the command's status is there too."""
    rng, gate, program = random.Random(1), tmp_path / "gate", write_program(tmp_path)
    adopted_s: list[float] = []
    seen = b""
    with Agent(state_dir, "bash") as agent:
        agent.call("create_session", program="bash", name="flood")
        command = {"command": f"python3 {program} 1 {gate}; (exit 9)", "session_id": "flood"}
        agent.portal.start_task_soon(lambda: agent.client.call_tool("run", command))
        log = state_dir / "sessions/flood/out.raw"
        eventually(lambda: BEGIN in log.read_bytes())
        agent.kill()
    for _ in range(KILLS - 1):
        with Agent(state_dir, "bash") as agent:
            begun = time.monotonic()
            (row,) = agent.call("list_sessions")["sessions"]
            adopted_s.append(time.monotonic() - begun)
            assert (row["session_id"], row["mode"]) == ("flood", "running")
            seen += raw_since(agent, "flood", len(seen), rng.randrange(1, 2 << 20))
            for tool in ("read", "run"):  # killed in the middle of these
                arguments = {"session_id": "flood"} | ({"command": "true"} if tool == "run" else {"wait_for": "idle"})
                agent.portal.start_task_soon(lambda a=agent, t=tool, w=arguments: a.client.call_tool(t, w))
            time.sleep(rng.uniform(0, 0.02))  # a random moment
            agent.kill()
    with Agent(state_dir, "bash") as agent:
        gate.touch()
        assert agent.call("read", session_id="flood", wait_for="ready", timeout_ms=50_000)["outcome"] == "ready"
        assert agent.run("echo $?", session_id="flood")["output"] == "9\n"
        while piece := raw_since(agent, "flood", len(seen), 4 << 20):
            seen += piece
    assert is_whole(seen)
    assert log.read_bytes().startswith(seen)
    assert statistics.median(adopted_s) < ADOPTED_S * SLOW


HELPERS = {"parser.py", "searcher.py", "replayer.py", "supervisor.py"}


def test_no_helper_of_a_killed_broker_is_left(state_dir: Path):
    """Parser, searcher, replayer, a supervisor with its program, the control client."""
    deny = json.dumps([{"program": "touch", "action": "deny"}])
    with Agent(state_dir, "bash", TMUXMCP_POLICY=deny) as agent:
        agent.run("echo word")
        agent.call("search", pattern="wo.d")
        agent.call("read", view="screen", at_offset=5)
        agent.portal.start_task_soon(agent.client.call_tool, "run_process", {"argv": ["sleep", "61"]})

        def helpers() -> list[psutil.Process]:
            children = agent.server.children(recursive=True)
            scripts = {Path(word).name for each in children for word in each.cmdline()}
            return children if {*HELPERS, "sleep"} <= scripts else []

        left = eventually(helpers)
        agent.kill()
    eventually(lambda: not [each for each in left if each.is_running() and each.status() != psutil.STATUS_ZOMBIE])


def tmux_pid(state_dir: Path) -> int:
    return int((state_dir / "tmux.pid").read_text())


def named_in(words: list[str]) -> list[psutil.Process]:
    """Processes that name one of these in their arguments."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            line = " ".join(process.cmdline())
            if process.status() != psutil.STATUS_ZOMBIE and any(word in line for word in words):
                found.append(process)
    return found


def test_killed_tmux_leaves_lost_sessions_with_exact_prefixes(state_dir: Path, tmp_path: Path):
    program = write_program(tmp_path)
    names = [f"flood{number}" for number in range(4)]
    with Agent(state_dir, "bash") as agent:
        for seed, name in enumerate(names):
            words = [str(program), str(seed), str(tmp_path / "never")]
            agent.call("create_session", program="python3", args=words, name=name, wait_ready=False)
        agent.call("create_session", program="cat", name="idle", wait_ready=False)
        logs = [state_dir / "sessions" / name / "out.raw" for name in names]
        eventually(lambda: all(log.stat().st_size > 300_000 for log in logs))
        waiting = {"session_id": "idle", "wait_for": "exit", "timeout_ms": 50_000}
        wait = agent.portal.start_task_soon(lambda: agent.client.call_tool("read", waiting))
        old = tmux_pid(state_dir)
        os.kill(old, signal.SIGKILL)
        begun = time.monotonic()
        rows = agent.call("list_sessions")["sessions"]
        assert time.monotonic() - begun < 2 * SLOW
        assert {row["session_id"]: row["mode"] for row in rows} == dict.fromkeys([*names, "idle"], "lost")
        assert wait.result(20 * SLOW).structured_content["exited"], "it waited for what cannot come"
        for seed, log in enumerate(logs):
            assert is_prefix(log.read_bytes(), seed)
        refused("SESSION_EXITED", agent.call, "send", session_id="idle", text="x")
        eventually(lambda: not named_in([str(program)]))
        eventually(lambda: not [p for p in named_in([f"{state_dir}/sessions"]) if p.pid != agent.server.pid])
        made = agent.call("create_session", program="bash", ready_timeout_ms=int(10_000 * SLOW))
        assert made["ready"]
        assert made["session_id"] not in [*names, "idle"]
        assert agent.call("create_session", program="bash", name="idle")["ready"]
        assert tmux_pid(state_dir) != old
        assert (state_dir / "sessions/idle.1/out.raw").exists()


def test_tmux_killed_while_calls_go_on(state_dir: Path):
    """Every call has an answer, soon; the next one works."""
    with Agent(state_dir, "bash") as agent:
        for number in range(5):
            agent.call("create_session", program="bash", name=f"a{number}")
            calls = [
                agent.portal.start_task_soon(lambda t=tool, w=arguments: agent.client.call_tool(t, w))
                for tool, arguments in (
                    ("run", {"command": "sleep 20; echo no", "session_id": f"a{number}"}),
                    ("read", {"session_id": f"a{number}", "wait_for": "pattern", "pattern": "never"}),
                    ("create_session", {"program": "bash"}),
                    ("list_sessions", {}),
                )
            ]
            time.sleep(0.01 * number)  # at different moments of these
            os.kill(tmux_pid(state_dir), signal.SIGKILL)
            for call in calls:
                answer = call.result(20 * SLOW)
                if answer.is_error:
                    assert answer.meta["tmuxmcp/error"]["code"] != "INTERNAL", answer.content[0].text
            assert agent.call("create_session", program="bash", name=f"b{number}")["ready"]


def test_deleted_socket_is_back_for_the_next_broker_and_the_first_goes_on(state_dir: Path):
    with Agent(state_dir, "bash") as agent:
        agent.call("create_session", program="bash", name="a")
        agent.run("x=kept", session_id="a")
        pid = tmux_pid(state_dir)
        (state_dir / "tmux.sock").unlink()
        assert agent.run("echo $x", session_id="a")["output"] == "kept\n"
        with Agent(state_dir, "bash") as other:
            assert other.run("echo $x", session_id="a")["output"] == "kept\n"
        assert int(plain_tmux(state_dir, "display-message", "-p", "#{pid}")) == pid
