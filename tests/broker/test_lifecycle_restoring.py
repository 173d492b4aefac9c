"""Sessions whose tmux server was killed are made again, from an agent's call and at the command line."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.kit.agent import Agent, ToolFailed, audit_lines, eventually
from tests.kit.cli import a_command_line
from tmuxmcp.record.directory import SessionDirectory


@pytest.fixture
def cli():
    with a_command_line() as cli:
        yield cli


@pytest.fixture
def agent(state_dir: Path) -> Iterator[Agent]:
    with Agent(state_dir, "bash") as agent:
        yield agent


def end_tmux(state_dir: Path) -> None:
    """As a crash or a reboot does it: the server is gone, and nobody was told."""
    server = psutil.Process(int((state_dir / "tmux.pid").read_text()))
    server.send_signal(signal.SIGKILL)
    eventually(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)


def lost(agent: Agent, state_dir: Path, *names: str) -> None:
    end_tmux(state_dir)
    eventually(lambda: all(agent.call("get_session", session_id=name)["mode"] == "lost" for name in names))


def test_a_lost_session_is_made_again_by_its_name(agent: Agent, state_dir: Path, tmp_path: Path):
    ran = tmp_path / "ran"
    agent.call(
        "create_session", name="x", program="bash", args=["--norc"], cwd="/usr", limits={"open_files": 100},
        env={"NO_SUCH_NAME": "1", "LANG": "C"},
    )  # fmt: skip
    agent.run(f"echo once >>{ran}; cd share", session_id="x")
    agent.call("resize", session_id="x", rows=33, cols=111)
    lost(agent, state_dir, "x")
    made = agent.call("create_session", name="x")
    assert (made["program"], made["args"], made["cwd"]) == ("bash", ["--norc"], "/usr/share")
    assert (made["rows"], made["cols"]) == (33, 111)
    assert "whose log is generation 1: program, args, cwd, rows, cols, scrollback_lines, limits are" in made["note"]
    assert "have no value now: NO_SUCH_NAME." in made["note"]
    assert "not the one given: LANG." in made["note"]
    assert agent.run("ulimit -n", session_id="x")["output"] == "100\n"
    assert ran.read_text() == "once\n"
    assert "echo once" in agent.call("read", session_id="x", generation=1, since=0)["content"]
    line = [each for each in audit_lines(state_dir) if each["tool"] == "create_session"][-1]
    assert (line["argv"], line["cwd"]) == (["bash", "--norc"], "/usr/share")


def test_what_is_given_wins(agent: Agent, state_dir: Path):
    agent.call("create_session", name="x", program="cat", args=["-u"], cwd="/usr", cols=90)
    lost(agent, state_dir, "x")
    made = agent.call("create_session", name="x", program="bash", cols=100)
    assert (made["program"], made["args"], made["cwd"], made["cols"]) == ("bash", [], "/usr", 100)


def test_a_command_is_never_run_again(agent: Agent, state_dir: Path, tmp_path: Path):
    ran = tmp_path / "ran"
    agent.call("create_session", name="x", program="sh", args=["-c", f"echo once >>{ran}; sleep 600"])
    eventually(lambda: ran.read_text() == "once\n")
    lost(agent, state_dir, "x")
    made = agent.call("create_session", name="x")
    assert made["program"] == "bash"
    assert "Nothing was taken from the lost session of this name: Session x was sh -c" in made["note"]
    assert ran.read_text() == "once\n"


def test_nothing_is_taken_from_what_ended(agent: Agent):
    agent.call("create_session", name="x", program="true", cols=90)
    agent.call("read", session_id="x", wait_for="exit")
    made = agent.call("create_session", name="x")
    assert (made["program"], made["cols"], made["note"]) == ("bash", 80, None)


def test_policy_judges_what_is_taken(state_dir: Path):
    with Agent(state_dir, "bash") as agent:
        agent.call("create_session", name="x", program="cat")
    end_tmux(state_dir)
    rules = json.dumps([{"action": "deny", "program": "cat"}])
    with Agent(state_dir, "bash", TMUXMCP_POLICY=rules) as agent, pytest.raises(ToolFailed) as failed:
        agent.call("create_session", name="x")
    assert failed.value.code == "POLICY_DENIED"


def test_an_older_file_does_not_tell_which_variables_there_were(agent: Agent, state_dir: Path):
    agent.call("create_session", name="x", program="cat", env={"A": "1"})
    lost(agent, state_dir, "x")
    meta = SessionDirectory.of(state_dir, "x").meta
    values = json.loads(meta.read_text())
    assert values.pop("env_names") == ["A"]
    meta.write_text(json.dumps(values))
    assert "Which variables it was given is not known." in agent.call("create_session", name="x")["note"]


def test_the_default_session_of_a_caller_is_its_default_again(agent: Agent, state_dir: Path, tmp_path: Path):
    name = agent.run(f"cd {tmp_path}")["session_id"]
    lost(agent, state_dir, name)
    assert agent.call("create_session", name=name)["cwd"] == str(tmp_path)
    ran = agent.run("pwd")
    assert (ran["session_id"], ran["output"]) == (name, f"{tmp_path}\n")


# ---- the command line ----------------------------------------------------------------------------


def test_restore_all_that_is_lost(cli):
    cli("new", "--name", "x", "--env", "NO_SUCH_NAME=1", "bash")
    cli("new", "--name", "y", "sh", "-c", "sleep 600")
    cli("new", "--name", "ended", "true")
    cli("read", "ended", "--wait", "exit")
    cli("new", "--name", "killed", "cat")
    cli("kill", "killed", "--force")
    end_tmux(cli.state)
    assert cli.out("restore").split() == ["x", "y"]
    told = cli.json("restore", "--all", status=1)
    (row,) = told["restored"]
    assert (row["session_id"], row["generation"], row["env_missing"]) == ("x", 1, ["NO_SUCH_NAME"])
    (left,) = told["left"]
    assert (left["session_id"], left["error"]["code"]) == ("y", "INVALID_ARGUMENT")
    assert [each["session_id"] for each in cli.json("list")["sessions"]] == ["x"]
    done = cli("restore", "killed", "x", "nobody", status=1)
    assert done.stdout.split() == [b"killed", b"cat"]
    assert b"x was not restored: SESSION_EXISTS" in done.stderr
    assert b"nobody was not restored: SESSION_NOT_FOUND" in done.stderr
    assert b"session that was over" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/self/ns/user").exists(), reason="no namespaces")
def test_a_session_in_a_sandbox_stays_in_one(cli):
    made = cli.json("new", "--name", "x", "--sandbox", "auto", "bash")
    before = cli.json("prune", "--dry-run") and json.loads((cli.state / "sessions/x/meta.json").read_text())
    end_tmux(cli.state)
    (row,) = cli.json("restore", "x")["restored"]
    after = json.loads((cli.state / "sessions/x/meta.json").read_text())
    assert after["bounds"]["sandbox"] == before["bounds"]["sandbox"] != "none"
    assert row["cwd"] == made["cwd"]
