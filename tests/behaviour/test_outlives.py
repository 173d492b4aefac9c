"""Kill the broker, start it again: every session, its history, its cursors and its exit codes are there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tmuxmcp
from tests.conftest import SLOW, no_first_run, until_exists
from tests.kit.agent import Agent, eventually, refused
from tests.kit.tmux import plain_tmux, typed_by_script


def test_a_killed_broker_loses_nothing(state_dir: Path, tmp_path: Path):
    with Agent(state_dir, "bash") as first:
        name = first.call("create_session", program="bash", name="work")["session_id"]
        first.run("cd /usr; export KEPT=yes", session_id=name)
        first.call("read", session_id=name)
        gate = tmp_path / "gate"
        first.run(f"gate={gate}", session_id=name)
        loop = "i=0; until [ -e $gate ]; do echo line $((++i)); sleep 0.05; done; echo end; (exit 7)"
        first.portal.start_task_soon(lambda: first.client.call_tool("run", {"command": loop, "session_id": name}))
        eventually(lambda: "line 3" in first.call("read", session_id=name, view="screen")["content"])
        first.kill()
    with Agent(state_dir, "bash") as second:
        listed = second.call("list_sessions")["sessions"]
        assert [session["session_id"] for session in listed] == [name]
        assert listed[0]["mode"] == "running"
        refused("SESSION_BUSY", second.run, "echo no", session_id=name)
        gate.touch()
        rest = second.call("read", session_id=name, wait_for="ready", max_bytes=1_000_000)
        assert rest["outcome"] == "ready"
        lines = rest["content"].splitlines()
        lines = lines[lines.index("line 1") : lines.index("end")]
        assert lines == [f"line {i}" for i in range(1, len(lines) + 1)]
        assert second.run("echo $? $KEPT $PWD", session_id=name)["output"] == "7 yes /usr\n"


def test_what_was_printed_while_no_broker_ran(state_dir: Path):
    with Agent(state_dir) as first:
        first.call("create_session", program="bash", name="a")
        first.call("send", session_id="a", text="for i in {1..2000}; do echo n$i; done", enter=True, read="none")
        first.kill()
    eventually(lambda: b"n2000\r\n" in (state_dir / "sessions/a/out.raw").read_bytes())
    with Agent(state_dir) as second:
        content = second.call("read", session_id="a", max_bytes=100_000)["content"]
        assert [line for line in content.splitlines() if line[1:].isdecimal()] == [f"n{i}" for i in range(1, 2001)]


def test_exit_status_of_what_ended_meanwhile(state_dir: Path):
    with Agent(state_dir) as first:
        first.call("create_session", program="sh", args=["-c", "read x; exit 5"], name="five", wait_ready=True)
        first.call("create_session", program="sleep", args=["1000"], name="killed", wait_ready=False)
        pid = first.call("get_session", session_id="killed")["pid"]
        first.kill()
    typed_by_script(state_dir, "go", "Enter", session_id="five")
    subprocess.run(["kill", "-TERM", str(pid)], check=True)
    with Agent(state_dir) as second:
        eventually(lambda: all(session["exited"] for session in second.call("list_sessions")["sessions"]))
        five, killed = (second.call("get_session", session_id=name) for name in ("five", "killed"))
        assert (five["mode"], five["exit_code"], five["exit_signal"]) == ("exited", 5, None)
        assert (killed["mode"], killed["exit_code"], killed["exit_signal"]) == ("exited", None, "TERM")
        assert second.call("list_sessions", include_exited=False)["count"] == 0


def test_cursors_are_kept_for_the_same_client(state_dir: Path):
    with Agent(state_dir) as first:
        first.call("create_session", program="bash", name="a")
        first.run("echo one", session_id="a")
        first.call("read", session_id="a", wait_for="ready")
        assert not first.call("read", session_id="a")["has_new_content"]
        first.kill()
    with Agent(state_dir) as second:
        assert not second.call("read", session_id="a")["has_new_content"]


def test_the_default_session_goes_on_after_a_restart(state_dir: Path):
    with Agent(state_dir, "bash") as first:
        name = first.run("X=kept")["session_id"]
        first.kill()
    with Agent(state_dir, "bash") as second:
        again = second.run("echo $X")
        assert (again["session_id"], again["output"]) == (name, "kept\n")


def test_two_servers_never_share_a_default_session_or_a_cursor(state_dir: Path):
    with Agent(state_dir, "bash") as one, Agent(state_dir, "bash") as two:
        assert one.run("X=one")["session_id"] != two.run("X=two")["session_id"]
        assert one.run("echo $X")["output"] == "one\n"
        one.call("create_session", program="bash", name="both")
        one.run("echo seen", session_id="both")
        # The prompt behind it belongs to what was read.
        assert "seen" in two.call("read", session_id="both", wait_for="ready")["content"]
        assert "seen" not in one.call("read", session_id="both", wait_for="ready")["content"]
        assert not two.call("read", session_id="both")["has_new_content"]


def test_a_default_session_that_ended_is_made_anew_and_said_so(state_dir: Path):
    with Agent(state_dir, "bash") as agent:
        first = agent.run("exit 3")
        second = agent.run("echo anew")
        assert second["session_id"] != first["session_id"]
        assert first["session_id"] in second["note"]
        assert agent.run("echo again")["note"] is None


def test_two_brokers_work_side_by_side(state_dir: Path, tmp_path: Path):
    go = tmp_path / "go"
    with Agent(state_dir) as one, Agent(state_dir) as two:
        one.call("create_session", program="bash", name="a")
        assert two.run("echo from two", session_id="a")["output"] == "from two\n"
        assert one.run("echo from one", session_id="a")["output"] == "from one\n"
        refused("SESSION_EXISTS", two.call, "create_session", program="bash", name="a")
        call = {"command": f"{until_exists(go)}; echo slow", "session_id": "a"}
        slow = one.portal.start_task_soon(lambda: one.client.call_tool("run", call))
        eventually(lambda: two.in_front("a").startswith("sh -c until"))
        refused("SESSION_BUSY", two.run, "echo no", session_id="a")
        go.touch()
        assert slow.result(10 * SLOW).structured_content["output"] == "slow\n"
        two.call("destroy_session", session_id="a")
        refused("SESSION_EXITED", one.run, "echo gone", session_id="a")


def test_two_brokers_run_at_the_same_prompt_never_mix(state_dir: Path):
    with Agent(state_dir) as one, Agent(state_dir) as two:
        one.call("create_session", program="bash", name="a")
        two.run("true", session_id="a")
        done = refused = 0
        for number in range(30):
            calls = [
                agent.portal.start_task_soon(
                    lambda agent=agent, word=word: agent.client.call_tool(
                        "run", {"command": f"echo {word}", "session_id": "a"}
                    )
                )
                for agent, word in ((one, f"one{number}"), (two, f"two{number}"))
            ]
            for call, word in zip(calls, ("one", "two"), strict=True):
                answer = call.result(20 * SLOW)
                if answer.is_error:
                    assert answer.meta["tmuxmcp/error"]["code"] == "SESSION_BUSY"
                    refused += 1
                else:
                    assert answer.structured_content["output"] == f"{word}{number}\n"
                    done += 1
        assert done + refused == 60
        assert done >= 30


def test_a_name_may_be_used_again_and_the_old_log_is_kept(state_dir: Path):
    with Agent(state_dir) as agent:
        agent.call("create_session", program="bash", name="a")
        agent.run("echo first life", session_id="a")
        agent.call("destroy_session", session_id="a")
        agent.call("create_session", program="bash", name="a")
        assert "first life" not in agent.call("read", session_id="a")["content"]
        assert b"first life" in (state_dir / "sessions/a.1/out.raw").read_bytes()


def test_a_killed_tmux_server_leaves_lost_sessions_with_their_logs(state_dir: Path):
    with Agent(state_dir) as agent:
        agent.call("create_session", program="bash", name="a")
        agent.run("echo kept for ever", session_id="a")
        plain_tmux(state_dir, "kill-server")
        facts = agent.call("get_session", session_id="a")
        assert (facts["mode"], facts["exited"], facts["exit_code"]) == ("lost", True, None)
        assert "kept for ever" in agent.call("read", session_id="a", since=0)["content"]
        refused("SESSION_EXITED", agent.run, "echo no", session_id="a")
        assert agent.call("create_session", program="bash", name="b")["ready"]
        assert {row["session_id"]: row["mode"] for row in agent.call("list_sessions")["sessions"]} == {
            "a": "lost",
            "b": "shell_prompt",
        }


def test_on_exit_destroy(state_dir: Path):
    with Agent(state_dir, TMUXMCP_ON_EXIT="destroy") as agent:
        agent.call("create_session", program="bash", name="a")
    with Agent(state_dir) as agent:
        (row,) = agent.call("list_sessions")["sessions"]
        assert row["ended"]["reason"] == "destroyed"


def test_on_exit_keep(state_dir: Path):
    with Agent(state_dir) as agent:
        agent.call("create_session", program="bash", name="a")
    with Agent(state_dir) as agent:
        assert agent.call("list_sessions")["sessions"][0]["mode"] == "shell_prompt"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_session_goes_on_when_the_package_that_made_it_is_removed(state_dir: Path, tmp_path: Path, shell: str):
    """An upgrade replaces all files of the package while sessions run."""
    if not shutil.which(shell):
        pytest.skip("not installed")
    old = tmp_path / "old"
    shutil.copytree(Path(tmuxmcp.__file__).parent, old / "tmuxmcp", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(tmuxmcp.__file__).parent.parent / "tmux.conf", old)  # in a checkout it stands beside the package
    environment = {"HOME": str(home := tmp_path / "home"), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    home.mkdir()
    no_first_run(home)
    words = [sys.executable, "-m", "tmuxmcp", "new", "--state-dir", str(state_dir), "--name", "kept", shell]
    subprocess.run(words, env=environment | {"PYTHONPATH": str(old)}, cwd="/", check=True, timeout=60 * SLOW)
    with Agent(state_dir) as first:
        first.run("cd /usr", session_id="kept")
    panes = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True).stdout
    assert f"{old}/tmuxmcp/machine/launch/sink.sh {state_dir}/sessions/kept" in panes
    shutil.rmtree(old)
    with Agent(state_dir) as second:
        ran = second.run("pwd; seq 20000; (exit 3)" if shell != "fish" else "pwd; seq 20000; false", session_id="kept")
        assert (ran["exit_code"], ran["output"].startswith("/usr\n1\n2\n")) == (1 if shell == "fish" else 3, True)
        assert ran["output_bytes"] > 100_000
        assert second.run("echo after", session_id="kept")["output"] == "after\n"
