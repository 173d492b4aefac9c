"""What `run` does alike in bash, zsh and fish, through MCP, from a real client over stdio."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import SLOW, until_exists
from tests.kit.agent import Agent, an_agent, eventually, refused, refused_for_good
from tests.kit.exactness import OTHER_SHELLS, Run, answered, begin, in_shell, session_of
from tests.kit.fixtures import of_file
from tests.kit.tmux import typed_by_script

agent = of_file(an_agent, "sh")


@pytest.fixture(scope="module", params=["bash", *OTHER_SHELLS])
def program(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("count", [40, 5000, 200_000])
def test_many_lines(shared: Run, count: int):
    result = shared(f"seq 1 {count}", max_bytes=16 * 1024 * 1024)
    assert result["output"] == "".join(f"{i}\n" for i in range(1, count + 1))
    assert (result["exit_code"], result["omitted_bytes"]) == (0, 0)


@pytest.mark.parametrize("size", [5_000, 20_000, 100_000])
def test_long_commands(shared: Run, program: str, size: int):
    text = ("0123456789" * (size // 10 + 1))[:size]
    count = in_shell(program, zsh=f"x='{text}'\necho ${{#x}}", fish=f"set x '{text}'\nstring length $x")
    result = shared(count)
    assert (result["output"], result["exit_code"]) == (f"{size}\n", 0)


def test_clear_and_reset(shared: Run):
    for command in ("echo before; clear; echo after", "echo before; tput reset; echo after"):
        result = shared(command)
        assert (result["output"].count("before"), result["output"].count("after")) == (1, 1)
        assert result["exit_code"] == 0
    assert shared("echo still exact")["output"] == "still exact\n"


@pytest.mark.parametrize("front", ["python3 -q", "cat", "vim -u NONE -N"])
def test_another_program_in_front(agent: Agent, shell: Run, front: str):
    more = {"text": front, "enter": True, "timeout_ms": int(20_000 * SLOW)}
    assert agent.call("send", session_id=session_of(shell), **more)["result"]["outcome"] == "ready"
    failed = refused_for_good(lambda: shell("echo no"))
    assert re.search(rf"`(\S*/)?{front}`, which was started there", str(failed))  # `python3` may start another
    assert "gives no exit code" in str(failed)


def test_exit_in_the_shell(agent: Agent, program: str):
    session = agent.call("create_session", program=program)["session_id"]
    result = agent.run("printf bye; exit 9", session_id=session)
    said = "byeexit\n" if program == "bash" else "bye"  # bash says so itself
    assert (result["outcome"], result["exit_code"], result["output"]) == ("exited", 9, said)
    facts = agent.call("get_session", session_id=session)
    assert (facts["exited"], facts["exit_code"], facts["mode"]) == (True, 9, "exited")
    refused("SESSION_EXITED", agent.run, "echo no", session_id=session)


def test_ctrl_c_while_run_waits(agent: Agent, shell: Run):
    session = session_of(shell)
    running = begin(agent, session, "echo begun; sleep 60", "sleep 60")
    agent.call("send", session_id=session, key="C-c", read="none")
    result = running.result(10 * SLOW).structured_content
    assert (result["exit_code"], result["completed"]) == (130, True)
    assert result["output"].startswith("begun\n")
    assert shell("echo next")["output"] == "next\n"


def test_a_person_typed_a_command_just_before(agent: Agent, shell: Run):
    session = session_of(shell)
    for i in range(20):
        typed_by_script(agent.state_dir, f"echo theirs{i}", "Enter", session_id=session)
        result = answered(lambda i=i: shell(f"echo mine{i}"))
        assert result == "SESSION_BUSY" or (result["output"], result["exit_code"]) == (f"mine{i}\n", 0)


def test_a_person_types_while_a_command_runs(agent: Agent, shell: Run, tmp_path: Path):
    session, go = session_of(shell), tmp_path / "go"
    running = begin(agent, session, f"{until_exists(go)}; echo mine", "sh -c until")
    typed_by_script(agent.state_dir, "echo theirs", "Enter", session_id=session)
    go.touch()
    result = running.result(10 * SLOW).structured_content
    assert result["exit_code"] == 0
    assert "mine\n" in result["output"]
    eventually(lambda: "theirs" in agent.call("read", session_id=session, view="screen")["content"].splitlines())
    agent.call("read", session_id=session, wait_for="ready")
    assert shell("echo next")["output"] == "next\n"
