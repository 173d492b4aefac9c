"""Sessions on another machine: made, asked how they stand, cut."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import SLOW
from tests.kit.agent import Agent, ToolFailed, eventually, refused
from tests.kit.sshd import LINUX, PASSWORD, Box, an_agent_near

pytestmark = pytest.mark.skipif(not LINUX, reason="only Linux has this witness")

LONG = int(20_000 * SLOW)


def make(agent: Agent, host: str, **more: Any) -> dict[str, Any]:
    return agent.call("create_session", host=host, **{"ready_timeout_ms": LONG, **more})


def send(agent: Agent, made: dict[str, Any], text: str, **more: Any) -> dict[str, Any]:
    """Type a line; without words on how to wait, go on where the far end was too late to say how it stands."""
    given = {"enter": True, "timeout_ms": LONG, **more}
    got = agent.call("send", session_id=made["session_id"], text=text, **given)["result"]
    until = time.monotonic() + 20 * SLOW
    while not more and (got["outcome"], got["mode"]) == ("idle", "unknown") and time.monotonic() < until:
        later = agent.call("read", session_id=made["session_id"], wait_for="ready", timeout_ms=LONG)
        got = {**later, "content": got["content"] + later["content"]}
    return got


def end(agent: Agent, made: dict[str, Any]) -> None:
    agent.call("destroy_session", session_id=made["session_id"], force=True)


def test_it_is_ready_at_the_first_prompt_there(agent: Agent, box: Box):
    made = make(agent, f"{box.user()}box")
    try:
        assert made["ready"], made
        facts = agent.call("get_session", session_id=made["session_id"])
        assert (facts["host"], facts["program"], facts["cwd"]) == (f"{box.user()}box", "ssh", None)
        assert "42" in send(agent, made, "echo $((6*7))")["content"].splitlines()
    finally:
        end(agent, made)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"host": "-oProxyCommand=touch /tmp/x"}, "INVALID_ARGUMENT"),
        ({"host": "docker:web"}, "UNSUPPORTED"),
        ({"host": "box", "cwd": "/tmp"}, "UNSUPPORTED"),
        ({"host": "box", "env": {"A": "b"}}, "UNSUPPORTED"),
        ({"host": "box", "limits": {"memory_mb": 100}}, "UNSUPPORTED"),
        ({"host": "box", "sandbox": "required"}, "POLICY_DENIED"),
    ],
)
def test_what_cannot_be_done_there_is_refused(agent: Agent, wrong: dict[str, Any], code: str):
    before = agent.call("list_sessions")["count"]
    refused(code, agent.call, "create_session", **wrong)
    assert agent.call("list_sessions")["count"] == before


def test_no_word_of_a_command_is_read_by_a_shell(agent: Agent, box: Box):
    words = ["it's", "a\\b", "$HOME `id`", 'say "no"', "two\nlines", "", "*"]
    made = make(agent, f"{box.user()}box", program="printf", args=["<%s>", *words], wait_ready=False)
    try:
        got = agent.call("read", session_id=made["session_id"], wait_for="exit", timeout_ms=LONG)
        assert "".join(f"<{word}>" for word in words) in got["content"], got
        assert (got["exit_code"], got["exited"]) == (0, True)
    finally:
        end(agent, made)


def test_a_line_may_begin_with_the_escape_character(agent: Agent, box: Box):
    made = make(agent, f"{box.user()}box")
    try:
        send(agent, made, "cat")
        assert "~.\n~.\n" in send(agent, made, "~.")["content"]
        assert send(agent, made, "~?")["mode"] == "line_input"
    finally:
        end(agent, made)


def test_where_nobody_answers_there_is_no_session(agent: Agent, box: Box):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # nobody else may listen there, and nobody does
        host = f"box:{held.getsockname()[1]}"
        with pytest.raises(ToolFailed) as refused:
            make(agent, host, name="unreachable")
    assert refused.value.code == "HOST_UNREACHABLE"
    assert "Connection refused" in str(refused.value)
    assert "unreachable" not in [each["session_id"] for each in agent.call("list_sessions")["sessions"]]


def test_a_changed_host_key_is_the_person_s_business(agent: Agent, box: Box):
    other = " ".join((box.directory / "other.pub").read_text().split()[:2])
    (box.directory / "known").write_text(f"box {other}\n")
    try:
        with pytest.raises(ToolFailed) as refused:
            make(agent, f"{box.user()}box")
    finally:
        box.known("box")
    assert refused.value.code == "HOST_UNREACHABLE"
    assert "Host key verification failed" in str(refused.value)
    assert "Only the person" in refused.value.error["hint"]


def test_an_unknown_host_key_is_asked_of_the_person(agent: Agent, box: Box):
    box.known()
    made: dict[str, Any] = {}
    try:
        made = make(agent, f"{box.user()}box")
        assert (made["ready"], made["mode"]) == (False, "line_input"), made
        assert "(yes/no/[fingerprint])?" in made["note"]
        assert "attach -t" in made["note"]
        assert (box.directory / "known").read_text() == ""
        assert "$" in send(agent, made, "yes")["content"].splitlines()[-1]  # as the person would
    finally:
        box.known("box")
        if made:
            end(agent, made)


def test_the_second_channel_ends_with_a_killed_broker(box: Box):
    with an_agent_near(box, "--integration", "false") as first:
        made = make(first, f"{box.user()}box", name="far")
        send(first, made, "echo word")
        channels = [each for each in first.server.children(recursive=True) if each.name() == "ssh"]
        assert channels
        first.kill()
        eventually(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in channels))
        with Agent(first.state_dir, "bash", PATH=box.path) as second:
            assert send(second, made, "echo again")["evidence"] == "kernel"
            end(second, made)


def test_a_password_is_asked_of_the_person(bare: Agent, box: Box):
    if not box.as_root:
        pytest.skip("only root can make accounts")
    made = make(bare, f"{box.user()}asks")
    try:
        assert (made["ready"], made["mode"]) == (False, "password"), made
        assert "asks for a secret" in made["note"]
        got = send(bare, made, PASSWORD)
        assert (got["outcome"], got["evidence"], got["mode"]) == ("ready", "kernel", "line_input"), got
        assert PASSWORD not in got["content"]
    finally:
        end(bare, made)


def test_the_far_kernel_is_the_witness(bare: Agent, box: Box):
    made = make(bare, f"{box.user()}box")
    asks = "stty -echo; printf 'Word? '; IFS= read -r x; stty echo; echo"
    many = 4 if os.environ.get("TMUXMCP_TEST_MANY") else 1
    try:
        for turn in range(many):
            for command, mode, shows in (
                (f"sleep 0.4; echo slept{turn}", "line_input", f"slept{turn}\n"),
                ("for i in 1 2 3; do echo part $i; sleep 0.2; done", "line_input", "part 3\n"),
                ("sh -c 'sleep 0.3; echo >/dev/tty Password:; sleep 0.3; echo over'", "line_input", "over\n"),
            ):
                got = send(bare, made, command)
                assert (got["outcome"], got["evidence"], got["mode"]) == ("ready", "kernel", mode), got
                assert shows in got["content"], got
            for command, mode in (
                (asks, "password"),
                ("IFS= read -rs x", "password"),
                ("python3 -c 'import getpass; getpass.getpass(\"who? \")'", "password"),
                ("IFS= read -r x", "line_input"),
            ):
                got = send(bare, made, command)
                assert (got["outcome"], got["evidence"], got["mode"]) == ("ready", "kernel", mode), (command, got)
                assert send(bare, made, "x")["mode"] == "line_input"
    finally:
        end(bare, made)


def test_an_exit_code_comes_back(agent: Agent, box: Box):
    for code in (3, 255):
        made = make(agent, f"{box.user()}box")
        got = send(agent, made, f"exit {code}", wait_for="exit")
        assert (got["exit_code"], got["ended"]["reason"], got["mode"]) == (code, "exit", "exited"), got
        end(agent, made)


def test_a_session_ends_though_nobody_looks(agent: Agent, box: Box):
    made = make(agent, f"{box.user()}box")
    agent.call("send", session_id=made["session_id"], text="sleep 0.5; exit", enter=True, read="none")
    log = agent.state_dir / "sessions" / made["session_id"] / "events.jsonl"
    eventually(lambda: '"exit"' in log.read_text())
    eventually(lambda: agent.call("list_sessions") and not list((agent.state_dir / "ssh").iterdir()))
    end(agent, made)


def test_a_cut_connection_is_told_and_the_log_kept(agent: Agent, box: Box):
    relay = box.relay(0)
    made = make(agent, f"{box.user()}box:{relay.port}", name="cut")
    send(agent, made, "echo before; sleep 100", wait_for="pattern", pattern="before\n")
    relay.cut()
    got = agent.call("read", session_id="cut", wait_for="exit", view="screen", timeout_ms=LONG)
    assert (got["outcome"], got["mode"], got["exit_code"], got["ended"]["reason"]) == ("exited", "lost", 255, "lost")
    assert "before" in got["content"]
    failed = refused("SESSION_EXITED", send, agent, made, "x")
    assert "connection" in str(failed)
    again = make(agent, f"{box.user()}box", name="cut")
    try:
        assert agent.call("get_session", session_id="cut")["generation"] == 2
        assert "before" in agent.call("read", session_id="cut", generation=1, since=0)["content"]
    finally:
        end(agent, again)


def test_a_hung_link_holds_no_look_up(bare: Agent, box: Box):
    relay = box.relay(0)
    made = make(bare, f"{box.user()}box:{relay.port}")
    try:
        relay.stopped.set()
        got = send(bare, made, "echo hello", timeout_ms=1500)
        assert (got["outcome"], got["mode"]) in (("timeout", "unknown"), ("idle", "unknown")), got
        for _ in range(20):  # were each of them to wait, this would take 10 s
            facts = bare.call("get_session", session_id=made["session_id"])
            assert (facts["mode"], facts["ready"]) == ("unknown", False)
        relay.stopped.clear()
        got = bare.call("read", session_id=made["session_id"], wait_for="ready", timeout_ms=LONG)
        assert got["outcome"] in ("ready", "idle"), got
        eventually(lambda: bare.call("get_session", session_id=made["session_id"])["ready"])
    finally:
        end(bare, made)


def test_a_slow_link_gives_no_false_answer(bare: Agent, box: Box):
    delays = (0.025, 0.1) if os.environ.get("TMUXMCP_TEST_MANY") else (0.025,)
    for delay_s in delays:
        relay = box.relay(delay_s)
        made = make(bare, f"{box.user()}box:{relay.port}")
        try:
            assert made["ready"], made
            for number in range(3):
                got = send(bare, made, f"sleep 0.{number}; echo got{number}")
                assert (got["outcome"], got["evidence"]) == ("ready", "kernel"), got
                assert f"got{number}\n" in got["content"], got
            assert send(bare, made, "read -rs x")["mode"] == "password"
            assert send(bare, made, "x")["mode"] == "line_input"
        finally:
            end(bare, made)


def test_a_forced_command_gets_no_byte_of_ours(agent: Agent, box: Box):
    forced = box.directory / "forced.log"
    made = make(agent, f"{box.user()}forced", ready_timeout_ms=int(1000 * SLOW))
    try:
        assert not made["ready"], made
        shown = {"wait_for": "pattern", "pattern": "menu>", "timeout_ms": LONG}
        assert agent.call("read", session_id=made["session_id"], view="screen", **shown)["outcome"] == "matched"
        facts = agent.call("get_session", session_id=made["session_id"])
        assert (facts["mode"], facts["ready"]) == ("unknown", False)
        assert set(forced.read_text().split()) == {"run"}
    finally:
        end(agent, made)


def test_a_person_makes_one_at_the_command_line(box: Box, state_dir: Path):
    words = [sys.executable, "-m", "tmuxmcp"]
    env = {"PATH": box.path, "HOME": str(state_dir), "LANG": "C.UTF-8", "TMUXMCP_STATE_DIR": str(state_dir)}

    def line(*more: str) -> str:
        return subprocess.run([*words, *more], env=env, check=True, capture_output=True, text=True).stdout

    assert line("new", "--name", "far", "--host", f"{box.user()}box") == "far\n"
    shown = ["--wait", "pattern", "--pattern", r"^42\n", "--timeout-ms", str(LONG)]  # silence may last until it comes
    assert "42" in line("send", "far", "echo $((6*7))", "--enter", *shown).split()
