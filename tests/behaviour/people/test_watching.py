"""A person watches with `attach -r`: nothing of theirs reaches the agent's pane, whatever their terminal's size."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.agent import Agent, eventually
from tests.kit.person import press
from tests.kit.programs import need
from tests.kit.terminal import drain, watching
from tests.kit.tmux import plain_tmux

KEYSTROKES = [
    *(b"x", b"echo no\r", b"\x03", b"\x04", b"\x1a", b"\x1b", b"\x1b[A", b"\x1bOP", b"\x1b[200~no\x1b[201~"),
    *(b"\x02c", b"\x02%", b'\x02"', b"\x02&", b"\x02x", b"\x02y", b"\x02:", b"kill-server\r", b"\x02[", b"\x02]"),
    *(b"\x02s", b"\x02w", b"\x02(", b"\x02)", b"\x02$", b"\x02,", b"\x02z", b"\x02!", b"\x02L", b"\x02\x02", b"\x02?"),
    *(b"\x1b[<0;5;5M", b"\x1b[<64;5;5M", b"\x1b[M !!", b"q", b"\r"),
]


@pytest.fixture
def agent(state_dir: Path) -> Iterator[Agent]:
    with Agent(state_dir, "bash") as agent:
        yield agent


@pytest.mark.parametrize(("rows", "cols"), [(24, 80), (10, 40), (60, 200), (3, 10)])
def test_attach_of_any_size_never_resizes_the_pane(agent: Agent, rows: int, cols: int):
    made = agent.call("create_session", program="bash", rows=30, cols=120)
    session = made["session_id"]
    with watching(made["attach_command"], rows, cols):
        clients = ("list-clients", "-t", f"={session}", "-F", "#{client_width}x#{client_height}")
        eventually(lambda: plain_tmux(agent.state_dir, *clients) == f"{cols}x{rows}\n")
        assert agent.run("stty size", session_id=session)["output"] == "30 120\n"
    assert agent.run("stty size", session_id=session)["output"] == "30 120\n"
    facts = agent.call("get_session", session_id=session)
    assert (facts["rows"], facts["cols"]) == (30, 120)


def test_no_key_of_a_watcher_has_an_effect(agent: Agent):
    made = agent.call("create_session", program="bash", name="watched")
    agent.call("create_session", program="bash", name="other")
    agent.run("clear; echo ready to watch", session_id="watched")
    agent.call("read", session_id="watched", wait_for="ready")
    before = {row["session_id"]: row["output_bytes"] for row in agent.call("list_sessions")["sessions"]}
    screen = agent.call("read", session_id="watched", view="screen")
    seen = b""
    with watching(made["attach_command"], 24, 80) as (pid, master):

        def shown() -> bool:
            nonlocal seen
            seen += drain(master)
            return b"ready to watch" in seen

        eventually(shown)
        for keys in KEYSTROKES:
            os.write(master, keys)
            time.sleep(0.01)  # as a person types: two strokes at once would be another key
        drain(master)
        os.kill(pid, 0)  # still attached
        after = {row["session_id"]: row["output_bytes"] for row in agent.call("list_sessions")["sessions"]}
        assert after == before
        now = agent.call("read", session_id="watched", view="screen")
        assert (now["content"], now["cursor"]) == (screen["content"], screen["cursor"])
        assert agent.run("echo undisturbed", session_id="watched")["output"] == "undisturbed\n"
        seen = b""

        def gone() -> bool:
            nonlocal seen
            seen += drain(master)
            return b"detached" in seen

        press(master, b"\x02d")  # the one key that works: go away
        eventually(gone)


@pytest.mark.parametrize("shell", [("bash", "--norc"), ("zsh", "-f"), ("fish", "-N")], ids=lambda shell: shell[0])
def test_the_attach_line_can_be_pasted_into_a_shell(agent: Agent, shell: tuple[str, ...]):
    """zsh takes a bare `=word` for the path of a command."""
    need(shell[0])
    made = agent.call("create_session", program="cat", name="pasted")
    clients = ("list-clients", "-F", "#{session_name} #{client_readonly}")
    with watching(made["attach_command"], 24, 80, shell):
        eventually(lambda: "pasted 1" in plain_tmux(agent.state_dir, *clients).splitlines())


def test_the_attach_line_is_quoted_for_a_shell(agent: Agent):
    made = agent.call("create_session", program="bash")
    words = shlex.split(made["attach_command"])
    assert words == ["tmux", "-S", str(agent.state_dir / "tmux.sock"), "attach", "-r", "-t", f"={made['session_id']}"]
