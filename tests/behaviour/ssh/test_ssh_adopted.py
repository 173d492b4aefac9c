"""The shell at the far end, adopted at its first prompt: `run` is exact there, and nothing is typed into a question."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

import pytest

from tests.behaviour.ssh.test_ssh_sessions import LONG, end, make, send
from tests.conftest import SLOW
from tests.kit.agent import Agent, ToolFailed, eventually, refused, refused_for_good
from tests.kit.sshd import LINUX, PASSWORD, Box, an_agent_near
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.value import replace
from tmuxmcp.machine.witness.kernel import InputWait, Verdict
from tmuxmcp.readiness.wait import Answer, WaitCondition, wait_for
from tmuxmcp.sessions.levels import RemoteEnd
from tmuxmcp.sessions.session import Session
from tmuxmcp.shell import adopting

pytestmark = pytest.mark.skipif(not LINUX, reason="only Linux has this witness")

FAR = ["bash", "zsh", "fish", "dash"] if os.environ.get("TMUXMCP_TEST_MANY") else ["bash"]


def run(agent: Agent, made: dict[str, Any], command: str, **more: Any) -> dict[str, Any]:
    return agent.run(command, session_id=made["session_id"], **{"timeout_ms": LONG, **more})


@pytest.mark.parametrize("shell", FAR)
def test_run_is_exact_there(agent: Agent, box: Box, shell: str):
    made = make(agent, f"{box.user(shell)}box")
    try:
        assert (made["ready"], made["mode"], made["note"]) == (True, "shell_prompt", None), made
        for command, output, code in (
            ("echo $((6*7))" if shell != "fish" else "math 6 x 7", "42\n", 0),
            ("cd /usr", "", 0),
            ("pwd; false", "/usr\n", 1),
            ("printf 'no newline'", "no newline", 0),
            ("echo 'two\nlines'", "two\nlines\n", 0),
            ("seq 20000 | tail -n 1", "20000\n", 0),
            ("sh -c 'exit 7'", "", 7),
        ):
            got = run(agent, made, command)
            found = (got["output"], got["exit_code"], got["outcome"], got["evidence"])
            assert found == (output, code, "ready", "marks"), (command, got)
        assert got["cwd"] == "/usr"
        assert (got["shell"]["where"], got["shell"]["host"]) == ("remote", f"{box.user(shell)}box")
        assert (got["shell"]["level"], got["shell"]["adopted"], got["note"]) == (1, True, None)
        facts = agent.call("get_session", session_id=made["session_id"])
        assert (facts["shell"], facts["cwd"], facts["mode"]) == (got["shell"], "/usr", "shell_prompt")
    finally:
        end(agent, made)


def test_what_runs_there_asks_and_is_answered(agent: Agent, box: Box):
    made = make(agent, f"{box.user()}box")
    try:
        got = run(agent, made, "read -rs -p 'Word? ' x; echo got $x")
        assert (got["outcome"], got["mode"], got["completed"]) == ("ready", "password", False), got
        assert "asks for a secret" in got["note"]
        refused(("SESSION_BUSY", "NOT_A_SHELL"), run, agent, made, "echo no")
        got = send(agent, made, "apple", wait_for="command")
        assert (got["outcome"], got["command"]["exit_code"]) == ("command", 0), got
        assert "got apple\n" in agent.call("read", session_id=made["session_id"], command=-1)["content"]
    finally:
        end(agent, made)


def test_the_end_of_the_shell_is_the_session_s(agent: Agent, box: Box):
    made = make(agent, f"{box.user()}box")
    got = run(agent, made, "exit 3")
    assert (got["outcome"], got["exit_code"]) == ("exited", 3), got
    end(agent, made)


@pytest.mark.parametrize("command", ["echo begun; sleep 100", "echo begun; kill -HUP $$"])
def test_a_connection_or_a_shell_that_is_cut_off_gives_the_command_no_exit_code(agent: Agent, box: Box, command: str):
    relay = box.relay(0)
    made = make(agent, f"{box.user()}box:{relay.port}")
    given = {"command": command, "session_id": made["session_id"]}
    running = agent.portal.start_task_soon(lambda: agent.client.call_tool("run", given))
    eventually(lambda: "\nbegun\n" in agent.call("read", session_id=made["session_id"], since=0)["content"])
    if "sleep" in command:
        relay.cut()
    got = running.result(30 * SLOW).structured_content
    assert (got["outcome"], got["completed"], got["exit_code"]) == ("exited", False, None), got
    end(agent, made)


async def test_one_late_answer_hinders_no_adoption(broker: Broker, box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """The far end was ready, and is not heard for a moment before its shell is adopted."""
    monkeypatch.setenv("PATH", box.path)
    late = 0

    async def comes(session: Session, wait: WaitCondition) -> Answer:
        nonlocal late
        answer = await wait_for(session, wait)
        late = 4
        return answer

    async def look(self: RemoteEnd, facts: Any, verdict: Verdict) -> Any:
        nonlocal late
        if not late:
            return await heard(self, facts, verdict)
        late -= 1
        return None, replace(verdict, waiting=InputWait.UNKNOWN, hidden=True)

    heard = RemoteEnd.look
    monkeypatch.setattr(RemoteEnd, "look", look)
    monkeypatch.setattr(adopting, "wait_for", comes)
    made = await broker.create_session(host=f"{box.user()}box", ready_timeout_ms=LONG)
    assert (made.ready, made.note, late) == (True, None, 0)
    ran = await broker.run("exit 3", session_id=made.session_id)
    assert ran.exit_code == 3


def test_after_the_person_answered_the_shell_is_adopted(agent: Agent, box: Box):
    if not box.as_root:
        pytest.skip("only root can make accounts")
    made = make(agent, f"{box.user()}asks")
    try:
        assert made["mode"] == "password", made
        refused_for_good(lambda: run(agent, made, "echo no"))
        send(agent, made, PASSWORD)
        assert run(agent, made, "echo $((6*7))")["output"] == "42\n"
        log = agent.state_dir / "sessions" / made["session_id"] / "out.raw"
        assert b"no" not in log.read_bytes().partition(b"password:")[2].partition(b"$ ")[0]
    finally:
        end(agent, made)


@pytest.mark.parametrize(
    ("shell", "file", "asks"),
    [
        ("bash", ".bashrc", "read -p 'Which one> ' one; echo is:$one"),
        ("bash", ".bashrc", "read -e -p 'Overwrite? ' one; echo is:$one"),
        ("dash", ".profile", "printf 'Which one$ '; read one; echo is:$one"),
    ],
)
def test_a_start_up_file_that_asks_is_no_prompt(agent: Agent, box: Box, shell: str, file: str, asks: str):
    if not box.as_root:
        pytest.skip("only root can make accounts")
    path = box.directory / f"home-{shell}" / file
    # Only for a terminal: the shell that starts the witness reads the file, too.
    path.write_text(f"if [ -t 0 ]; then {asks}; fi\n")
    if file == ".bashrc":
        (path.parent / ".bash_profile").write_text(". ~/.bashrc\n")
    try:
        made = make(agent, f"{box.user(shell)}box")
        try:
            assert made["mode"] == "line_input", made
            assert "run does not work in it yet" in made["note"]
            refused_for_good(lambda: run(agent, made, "echo no"))
            assert "is:this\n" in send(agent, made, "this")["content"].replace("this\nis", "is")
            assert run(agent, made, "echo $((6*7))")["output"] == "42\n"
        finally:
            end(agent, made)
    finally:
        path.unlink()
        (path.parent / ".bash_profile").unlink(missing_ok=True)


def test_half_a_line_is_no_prompt(agent: Agent, box: Box):
    made = make(agent, f"{box.user()}box", wait_ready=False)
    try:
        agent.call("read", session_id=made["session_id"], wait_for="pattern", pattern=r"[$#] $", timeout_ms=LONG)
        agent.call("send", session_id=made["session_id"], text="echo half >", read="none")
        agent.call("read", session_id=made["session_id"], wait_for="pattern", pattern="half >", timeout_ms=LONG)
        with pytest.raises(ToolFailed) as refused:
            run(agent, made, "echo no")
        assert refused.value.code in ("NOT_A_SHELL", "SESSION_BUSY")  # the latter: bash is not back from its echo
        send(agent, made, " /dev/null")
        assert run(agent, made, "echo $((6*7))")["output"] == "42\n"
    finally:
        end(agent, made)


def test_another_broker_goes_on_with_it(box: Box):
    with an_agent_near(box) as first:
        made = make(first, f"{box.user()}box", name="far")
        run(first, made, "cd /usr; word=kept")
        first.kill()
        with Agent(first.state_dir, "bash", PATH=box.path) as second:
            got = run(second, made, "pwd; echo $word")
            assert (got["output"], got["shell"]["where"]) == ("/usr\nkept\n", "remote"), got
            got = run(second, made, "read -rs x")
            assert (got["outcome"], got["mode"]) == ("ready", "password"), got
            send(second, made, "x")
            assert run(second, made, "exit 2")["exit_code"] == 2
            end(second, made)


def test_nothing_of_ours_is_in_the_far_list_of_processes(agent: Agent, box: Box):
    if not box.as_root:
        pytest.skip("only root can make accounts")
    made = make(agent, f"{box.user()}box")
    try:
        run(agent, made, "true")
        listed = subprocess.run(
            ["ps", "-u", "far-bash,65430", "-o", "args="], capture_output=True, text=True, check=False
        )
        meta = (agent.state_dir / "sessions" / made["session_id"] / "levels.json").read_text()
        nonces = [each["nonce"] for each in __import__("json").loads(meta)["levels"]]
        assert nonces
        assert not [nonce for nonce in nonces if nonce in listed.stdout]
    finally:
        end(agent, made)


def test_a_hung_link_is_not_typed_into(agent: Agent, box: Box):
    relay = box.relay(0)
    made = make(agent, f"{box.user()}box:{relay.port}")
    try:
        relay.stopped.set()
        got = send(agent, made, "read x", timeout_ms=1500)
        assert got["outcome"] in ("idle", "timeout"), got
        assert agent.call("get_session", session_id=made["session_id"])["mode"] == "unknown"
        with pytest.raises(ToolFailed):
            run(agent, made, "echo no", timeout_ms=1000)
        relay.stopped.clear()
        eventually(lambda: agent.call("get_session", session_id=made["session_id"])["mode"] == "line_input")
        got = send(agent, made, "yes", wait_for="command")
        assert (got["outcome"], got["command"]["exit_code"]) == ("command", 0), got
        assert run(agent, made, "echo $x")["output"] == "yes\n"
    finally:
        end(agent, made)


def test_a_slow_link_gives_exact_answers(agent: Agent, box: Box):
    delays = (0.025, 0.1) if os.environ.get("TMUXMCP_TEST_MANY") else (0.025,)
    for delay_s in delays:
        relay = box.relay(delay_s)
        made = make(agent, f"{box.user()}box:{relay.port}")
        try:
            assert made["mode"] == "shell_prompt", made
            for number in range(3):
                assert run(agent, made, f"sleep 0.{number}; echo got{number}")["output"] == f"got{number}\n"
            agent.call("send", session_id=made["session_id"], text="sleep 0.3; read x", enter=True, read="none")
            with pytest.raises(ToolFailed):
                run(agent, made, "echo no", timeout_ms=100)
            got = agent.call("read", session_id=made["session_id"], wait_for="ready", timeout_ms=LONG)
            assert (got["outcome"], got["mode"]) == ("ready", "line_input"), got
            send(agent, made, "yes")
            assert run(agent, made, "echo $x")["output"] == "yes\n"
        finally:
            end(agent, made)


def test_ssh_from_there_is_adopted_only_when_asked(agent: Agent, box: Box):
    made = make(agent, f"{box.user()}box")
    try:
        words = f"ssh -F {box.directory}/ssh_config -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
        if box.as_root:
            (box.directory / "key").chmod(0o600)
            subprocess.run(["cp", box.directory / "key", box.directory / "home-bash/key"], check=True)
            subprocess.run(["chown", "65430", box.directory / "home-bash/key"], check=True)
            words += " -i ~/key"
        agent.call("read", session_id=made["session_id"], wait_for="ready", timeout_ms=LONG)  # the prompt here
        got = send(agent, made, f"{words} {box.user()}box", wait_for="pattern", pattern=r"\$ $")
        assert got["content"].rstrip().endswith("$"), got
        agent.call("read", session_id=made["session_id"], wait_for="idle", idle_ms=700, timeout_ms=LONG)
        refused(("NOT_A_SHELL", "SESSION_BUSY"), run, agent, made, "echo no")
        got = run(agent, made, "echo $((6*7))", adopt="yes")
        assert (got["output"], got["shell"]["level"], got["shell"]["host"]) == ("42\n", 2, None), got
        got = run(agent, made, "exit 5")
        assert (got["outcome"], got["exit_code"]) == ("left", 5), got
        assert run(agent, made, "echo back")["shell"]["level"] == 1
    finally:
        end(agent, made)


def test_ssh_in_a_local_session_is_adopted_only_when_asked(agent: Agent, box: Box):
    made = agent.call("create_session", program="bash")
    try:
        agent.call("read", session_id=made["session_id"], wait_for="ready", timeout_ms=LONG)  # the prompt here
        send(agent, made, f"ssh {box.user()}box", wait_for="pattern", pattern=r"\$ $")
        agent.call("read", session_id=made["session_id"], wait_for="idle", idle_ms=700, timeout_ms=LONG)
        refused = refused_for_good(lambda: run(agent, made, "echo no"))
        assert "adopt=yes" in refused.error["hint"]
        got = run(agent, made, "echo $((6*7))", adopt="yes")
        assert (got["output"], got["shell"]["where"], got["shell"]["level"]) == ("42\n", "remote", 1), got
        assert run(agent, made, "exit 4")["exit_code"] == 4
        assert run(agent, made, "echo back")["shell"]["where"] == "own"
    finally:
        end(agent, made)


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_nothing_is_typed_into_what_took_the_shell_s_place_there(agent: Agent, box: Box):
    """Nothing tells that it is another program: fish is not asked whether its command is over."""
    made = make(agent, f"{box.user('fish')}box")
    try:
        assert run(agent, made, "echo one")["output"] == "one\n"
        send(agent, made, "exec sh -c 'stty -icanon -echo; echo reads; exec cat -v'", read="none")
        agent.call("read", session_id=made["session_id"], wait_for="pattern", pattern="^reads", timeout_ms=LONG)

        def printed() -> int:
            return agent.call("read", session_id=made["session_id"], view="raw", since=0)["next_offset"]

        before = printed()
        for adopt in ("auto", "no"):
            refused(("NOT_A_SHELL", "SESSION_BUSY"), run, agent, made, "echo typed", adopt=adopt)
        assert printed() == before  # it would show what it reads
    finally:
        end(agent, made)
