"""The policy from end to end: a real client of each protocol era, a real server, real shells."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import random
import re
import subprocess
import sys
import termios
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from mcp import MCPError
from mcp.types import ElicitResult

from tests.conftest import SLOW
from tests.kit import forks
from tests.kit.agent import Agent, an_agent, eventually, refused
from tests.kit.agent import audit_lines as audit
from tests.kit.service import Service
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.call import Call
from tmuxmcp.contract.requests import RunProcess
from tmuxmcp.contract.settings import BrokerSettings

ERAS = ["auto", "legacy"]


def policy(*entries: Any) -> dict[str, str]:
    return {"TMUXMCP_POLICY": json.dumps(entries), "TMUXMCP_PROGRAM": "bash"}


def denied(agent: Agent, tool: str, **arguments: Any) -> str:
    return str(refused("POLICY_DENIED", agent.call, tool, **arguments))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """A server whose rules deny `touch`, /etc, Ctrl-C, and more."""
    rules = policy(
        {"program": "touch", "action": "deny", "reason": "no new files"},
        {"path": "/etc/*", "action": "deny"},
        {"tool": "send", "keys": "C-c", "action": "deny"},
        {"tool": "signal", "action": "deny"},
    )
    with an_agent(**rules) as agent:
        agent.run("true")
        yield agent


def test_first_call_in_a_default_session_is_judged_by_that_session(state_dir: Path):
    rules = policy(
        {"program": "touch", "action": "deny"}, {"tool": "send", "mode": "line_input", "keys": "F5", "action": "deny"}
    )
    with Agent(state_dir, **rules) as agent:
        default = agent.call("send", text="touc")["session_id"]
        denied(agent, "send", text="h x", enter=True)
        agent.call("destroy_session", session_id=default)
    with Agent(state_dir, "cat", **rules) as agent:
        denied(agent, "send", key="F5")


def test_arguments_for_the_program_of_the_settings_are_judged(guarded: Agent):
    denied(guarded, "create_session", args=["-c", "touch x"])


def parser_of(agent: Agent) -> psutil.Process:
    """The process that parses for a server."""
    found = []
    for each in agent.server.children():
        with suppress(psutil.Error):  # one that was killed may still be there as a zombie
            found += [each] if "/gate/policy/parser.py" in " ".join(each.cmdline()) else []
    (parser,) = found
    return parser


def has_tree_sitter(process: psutil.Process) -> bool:
    return any("tree_sitter" in each.path for each in process.memory_maps())


def test_text_that_crashes_its_parser_is_denied_and_the_server_lives(guarded: Agent):
    """On the plane of U+E0D2E, tree-sitter-bash reads behind the end of a table."""
    rng = random.Random(2)
    for text in ["{\U000e0d2e", *(f"{{{chr(rng.randrange(0xE0000, 0xE1000))} a" for _ in range(20))]:
        denied(guarded, "run", command=text)
        denied(guarded, "run", command="true; touch x")
        assert guarded.run("true")["exit_code"] == 0
    denied(guarded, "run_process", argv=["bash", "-c", "{\U000e0d2e"])
    assert not has_tree_sitter(guarded.server)
    assert has_tree_sitter(parser_of(guarded))


def test_killed_or_stopped_parser_is_replaced(guarded: Agent):
    guarded.run("true")
    for end in (psutil.Process.kill, psutil.Process.terminate):
        end(parser_of(guarded))
        assert guarded.run("true")["exit_code"] == 0
    parser_of(guarded).suspend()
    assert "cannot be told" in denied(guarded, "run", command="true")
    assert guarded.run("true")["exit_code"] == 0
    denied(guarded, "run", command="touch x")


@pytest.mark.parametrize("how", ["stops", "is killed", "is killed, the parser is at work", "is killed, it is stopped"])
def test_parser_ends_with_its_server(state_dir: Path, how: str):
    with Agent(state_dir, **policy({"program": "touch", "action": "deny"})) as agent:
        agent.run("true")
        parser = parser_of(agent)
        if how.endswith("work"):
            agent.portal.start_task_soon(agent.client.call_tool, "run", {"command": "<<a\n" * 16_000})
            begun_s = parser.cpu_times().user
            eventually(lambda: parser.cpu_times().user > begun_s + 0.1)
        if how.endswith("stopped"):
            parser.suspend()
        if how != "stops":
            agent.kill()
    eventually(lambda: not parser.is_running() or parser.status() == psutil.STATUS_ZOMBIE)


async def test_broker_that_is_closed_keeps_no_parser(state_dir: Path):
    settings = BrokerSettings(state_dir=state_dir, policy=({"program": "touch", "action": "deny"},))
    async with Broker.open(settings) as broker:
        before = psutil.Process().children()
        await broker.do(RunProcess(["ls"]), Call())
        helpers = {*psutil.Process().children()} - {*before}
        assert [each for each in helpers if "/gate/policy/parser.py" in " ".join(each.cmdline())]
    assert not [each for each in helpers if each.is_running()]


def test_what_one_call_leaves_typed_counts_for_the_next_one_that_is_under_way(guarded: Agent):
    guarded.run("true")
    parser = parser_of(guarded)
    parser.suspend()
    eventually(lambda: parser.status() == psutil.STATUS_STOPPED)  # until then it may still read
    first = guarded.portal.start_task_soon(guarded.client.call_tool, "send", {"text": "true\nto"})
    eventually(lambda: waiting_bytes(parser))
    second = guarded.portal.start_task_soon(guarded.client.call_tool, "send", {"text": "uch x", "enter": True})
    guarded.call("list_sessions")
    parser.resume()
    assert not first.result(20 * SLOW).is_error
    assert second.result(20 * SLOW).meta["tmuxmcp/error"]["code"] == "POLICY_DENIED"
    guarded.call("send", key="C-u")


def waiting_bytes(process: psutil.Process) -> int:
    """So many has its standard input that it has not read."""
    found = array("i", [0])
    with open(f"/proc/{process.pid}/fd/0", "rb") as pipe:
        fcntl.ioctl(pipe, termios.FIONREAD, found)
    return found[0]


def test_the_agent_sees_the_reason_and_nothing_runs(guarded: Agent):
    said = denied(guarded, "run", command="echo a; sudo -n touch x")
    assert said.startswith("POLICY_DENIED: run was not done: no new files.")
    assert guarded.run("ls x")["exit_code"] != 0


def test_text_with_enter_is_judged_like_a_command(guarded: Agent):
    denied(guarded, "send", text="touch x", enter=True)
    denied(guarded, "send", text="touch x\n")
    denied(guarded, "send", text="touch x", keys=["Enter"])
    denied(guarded, "send", keys=["C-c"])
    denied(guarded, "send", text="\x03")
    guarded.call("send", text="tou")
    denied(guarded, "send", text="ch x", enter=True)
    guarded.call("send", key="C-u")
    guarded.call("send", key="Up")
    denied(guarded, "send", key="Enter")  # a line of the history: nobody can tell
    guarded.call("send", key="C-u")
    assert "hi" in guarded.call("send", text="echo hi", enter=True)["result"]["content"]


def test_text_to_another_program_is_no_command(guarded: Agent):
    guarded.call("create_session", program="cat", name="c")
    assert "touch x" in guarded.call("send", session_id="c", text="touch x", enter=True)["result"]["content"]


def test_sessions_start_under_the_same_rules(guarded: Agent):
    denied(guarded, "create_session", program="touch", args=["x"])
    denied(guarded, "create_session", program="bash", args=["-c", "touch x"])
    denied(guarded, "create_session", program="bash", cwd="/etc")
    denied(guarded, "signal", signal="INT")


def test_variables_of_a_caller_run_nothing_that_is_denied(guarded: Agent):
    for env in ({"PROMPT_COMMAND": "touch x"}, {"BASH_ENV": "/tmp/rc"}, {"PS1": "$(touch x)"}):
        denied(guarded, "create_session", program="bash", env=env)
        denied(guarded, "run_process", argv=["bash", "-c", "true"], env=env)
    made = guarded.call("create_session", program="bash", env={"GREETING": "hi", "EDITOR": "vim -f"})["session_id"]
    assert guarded.run("echo $GREETING", session_id=made)["output"] == "hi\n"
    guarded.call("destroy_session", session_id=made)
    assert guarded.call("run_process", argv=["printenv", "A"], env={"A": "1", "PATH": "/usr/bin:/bin"})["rc"] == 0


def test_relative_paths_are_where_the_shell_is(guarded: Agent):
    guarded.run("cd /usr")
    denied(guarded, "run", command="cat ../etc/passwd")
    assert guarded.run("ls ../etcetera")["exit_code"] != 0
    guarded.run("cd")


def test_programs_without_a_session_are_judged_where_they_run(guarded: Agent):
    guarded.run("cd /usr")
    assert guarded.call("run_process", argv=["ls", "../etc"])["rc"] != 0  # in the home directory, not in /usr
    denied(guarded, "run_process", argv=["ls", "../etc"], cwd="/usr")
    denied(guarded, "run_process", argv=["env", "touch", "x"])
    guarded.run("cd")


def test_audit_has_the_verdict(guarded: Agent):
    said = guarded.raw("run", command="touch y")
    line = audit(guarded.state_dir)[-1]
    assert line["call_id"] == said.meta["tmuxmcp/call"]
    assert (line["outcome"], line["error_code"]) == ("denied", "POLICY_DENIED")
    assert line["policy"] == {"verdict": "deny", "rule": "1", "reason": "no new files"}
    assert line["command"] == "touch y"


CONFIRM = policy({"program": "touch", "action": "confirm", "reason": "it makes a file"})


def person(*answers: str | Callable[[], str]) -> tuple[list[str], Callable[[str], str]]:
    """Somebody who answers in this order; and what they were asked."""
    asked: list[str] = []
    left = list(answers)

    def answer(message: str) -> str:
        asked.append(message)
        given = left.pop(0)
        return given if isinstance(given, str) else given()

    return asked, answer


@pytest.mark.parametrize("mode", ERAS)
def test_confirmation_is_asked_by_elicitation(state_dir: Path, mode: str):
    asked, answer = person("accept", "decline", "cancel", "accept")
    with Agent(state_dir, mode=mode, person=answer, **CONFIRM) as agent:
        assert agent.run("touch a && ls")["output"] == "a\n"
        for _ in range(2):
            refused("CONFIRMATION_DECLINED", agent.run, "touch b")
        assert agent.run("touch a && ls")["output"] == "a\n"
        assert len(asked) == 4  # an answer is for one call
        assert "touch a && ls" in asked[0]
        assert "It makes a file" in asked[0]
    outcomes = [line["outcome"] for line in audit(state_dir) if line["tool"] == "run"]
    assert [each for each in outcomes if each != "asked"] == ["ok", "denied", "denied", "ok"]


@pytest.mark.parametrize("mode", ERAS)
def test_answer_is_void_when_the_session_has_changed(state_dir: Path, mode: str):
    def meanwhile() -> str:
        other.run("cd /", session_id="a")
        return "accept"

    _, answer = person(meanwhile, "accept")
    with Agent(state_dir, mode=mode, person=answer, **CONFIRM) as agent, Agent(state_dir) as other:
        agent.call("create_session", name="a")
        caught = refused("CONFIRMATION_DECLINED", agent.run, "touch x", session_id="a")
        assert "void" in str(caught)
        assert agent.run("cd; ls x", session_id="a")["exit_code"] != 0
        assert agent.run("touch x; ls x", session_id="a")["exit_code"] == 0


def test_an_answer_counts_once_and_for_its_own_call(state_dir: Path):
    """By hand, what a client of the new era does by itself."""
    _, answer = person()
    with Agent(state_dir, person=answer, **CONFIRM) as agent:
        agent.run("true")

        def ask(**arguments: Any) -> Any:
            session = agent.client.session
            return agent.portal.call(lambda: session.call_tool("run", allow_input_required=True, **arguments))

        def accept(first: Any, command: str) -> Any:
            answers = {next(iter(first.input_requests)): ElicitResult(action="accept")}
            return ask(arguments={"command": command}, input_responses=answers, request_state=first.request_state)

        first = ask(arguments={"command": "touch a"})
        assert first.result_type == "input_required"
        other = accept(first, "touch b")
        assert "void" in other.content[0].text
        with pytest.raises(MCPError, match="was used"):
            accept(first, "touch a")
        first = ask(arguments={"command": "touch a"})
        assert accept(first, "touch a").structured_content["exit_code"] == 0
        assert agent.run("ls")["output"] == "a\n"


@pytest.mark.parametrize("mode", ERAS)
def test_without_anybody_to_ask_it_is_denied(state_dir: Path, mode: str):
    with Agent(state_dir, mode=mode, **CONFIRM) as agent:
        said = denied(agent, "run", command="touch x")
        assert "tmuxmcp policy confirm c_" in said
        assert agent.run("ls")["output"] == ""


def test_wrong_rules_keep_the_server_from_starting(state_dir: Path):
    argv = [
        sys.executable,
        "-m",
        "tmuxmcp",
        "serve",
        "--policy",
        '[{"action": "refuse"}]',
        "--state-dir",
        str(state_dir),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert "Setting policy (from flag): Value error, Rule 1 of the policy: action must be" in done.stderr


# ---- the command line ------------------------------------------------------------------------------


def tmuxmcp(*words: str, state_dir: Path | None = None, status: int = 0, **kwargs: Any) -> str:
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": "/nonexistent", **kwargs.pop("env", {})}
    if state_dir:
        env["TMUXMCP_STATE_DIR"] = str(state_dir)
    if kwargs:
        argv = [sys.executable, "-m", "tmuxmcp", "policy", *words]
        done = subprocess.run(argv, capture_output=True, check=False, env=env, **kwargs)
    else:
        done = forks.run(["policy", *words], env, Path.cwd(), 60 * SLOW)
    assert done.returncode == status, done
    return (done.stdout + done.stderr).decode()


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["test", "ls -l"], 0),
        (["test", "ls && sudo x"], 4),
        (["test", "rm", "-rf", "/"], 4),
        (["test", "rm -rf /", "--tool", "send"], 4),
        (["test", "--tool", "run_process", "--", "rm", "-rf", "/"], 4),
        (["test", "--tool", "create_session", "bash", "-c", "sudo x"], 4),
        (["test", "--tool", "create_session"], 0),
        (["test", "--cwd", "/", "rm -rf etc"], 4),
        (["test", "ls )"], 4),
        (["test"], 2),
        (["test", "--tool", "runn", "x"], 2),
        (["frob"], 2),
        (["pending", "x"], 2),
        (["confirm"], 2),
        (["decline", "c_00000000"], 3),
    ],
    ids=str,
)
def test_policy_test_judges_without_running(state_dir: Path, words: list[str], status: int):
    said = tmuxmcp("--policy", "standard", *words, state_dir=state_dir, status=status)
    assert said.startswith({0: "allow", 2: "tmuxmcp: INVALID_ARGUMENT", 3: "tmuxmcp: ", 4: "deny: "}[status])


def test_policy_test_takes_the_settings_file(tmp_path: Path):
    file = tmp_path / "config.toml"
    file.write_text(
        '[[policy]]\nprogram = "make"\naction = "confirm"\nreason = "slow"\n\n[[policy]]\ntier = "read-only"\n'
    )
    said = json.loads(tmuxmcp("test", "make", "--json", "--config", str(file), status=4))
    assert said == {"verdict": "confirm", "reason": "slow", "rule": "1"}
    assert tmuxmcp("test", "ls", "--config", str(file), status=4).endswith("[rule read-only]\n")
    assert tmuxmcp("test", "--tool", "get_session", "--config", str(file)).startswith("allow")


def at_a_terminal(*words: str, state_dir: Path, env: dict[str, str] | None = None, status: int = 0) -> str:
    ours, theirs = pty.openpty()
    try:
        return tmuxmcp(*words, state_dir=state_dir, stdin=theirs, status=status, env=env or {})
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_person_confirms_at_a_terminal(state_dir: Path):
    with Agent(state_dir, **CONFIRM) as agent:
        agent.run("true")
        question = re.search(r"c_[a-f0-9]{8}", denied(agent, "run", command="touch x"))[0]  # type: ignore[index]
        assert question in denied(agent, "run", command="touch x")  # still the same question
        assert "touch x" in tmuxmcp("pending", state_dir=state_dir)
        assert json.loads(tmuxmcp("pending", "--json", state_dir=state_dir))["count"] == 1
        tmuxmcp("confirm", question, state_dir=state_dir, status=4)  # nobody sits there
        at_a_terminal("confirm", question, state_dir=state_dir, env={"TMUXMCP_KEY": "x"}, status=4)
        assert agent.run("[ -e x ]; echo $?")["output"] == "1\n"
        at_a_terminal("confirm", question, state_dir=state_dir)
        denied(agent, "run", command="touch y")
        agent.run("cd /")
        denied(agent, "run", command="touch x")  # elsewhere it is another action
        agent.run("cd")
        assert agent.run("touch x")["exit_code"] == 0
        denied(agent, "run", command="touch x")  # once


def test_an_agent_cannot_confirm_by_its_own_session(state_dir: Path):
    with Agent(state_dir, **CONFIRM) as agent:
        question = re.search(r"c_[a-f0-9]{8}", denied(agent, "run", command="touch x"))[0]  # type: ignore[index]
        command = f"env -u TMUXMCP_KEY {sys.executable} -m tmuxmcp policy confirm {question} --state-dir {state_dir}"
        assert "Only a person confirms" in agent.run(command)["output"]


def test_declined_question_is_gone(state_dir: Path):
    with Agent(state_dir, **CONFIRM) as agent:
        question = re.search(r"c_[a-f0-9]{8}", denied(agent, "run", command="touch x"))[0]  # type: ignore[index]
        tmuxmcp("decline", question, state_dir=state_dir)
        assert "nothing waits" in tmuxmcp("pending", state_dir=state_dir)


def test_without_rules_no_parser_is_imported():
    code = "import sys, tmuxmcp.broker.broker, tmuxmcp.faces.mcp; print(*sys.modules)"
    modules = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert not {"tree_sitter", "tmuxmcp.gate.policy.judge", "tmuxmcp.gate.actions"} & set(modules)


# ---- over HTTP -------------------------------------------------------------------------------------


def test_over_http_the_same_holds(state_dir: Path):
    with Service(state_dir, TMUXMCP_POLICY=CONFIRM["TMUXMCP_POLICY"]) as service:
        for mode in ERAS:
            anyio.run(confirm_over_http, service, mode)
        error = service.rpc("run", command="touch d")["error"]  # JSON-RPC has no way to ask
        assert error["data"]["code"] == "POLICY_DENIED"
        assert "tmuxmcp policy confirm" in error["data"]["hint"]
        assert service.result("run", command="ls; rm -f a")["output"] == "a\n"
    clients = {line["client"] for line in audit(state_dir)}
    assert len(clients) == 1


async def confirm_over_http(service: Service, mode: str) -> None:
    asked: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept" if "touch a" in params.message else "decline")

    async with service.mcp(mode, elicitation_callback=answer) as client:
        assert (await client.call_tool("run", {"command": "touch a"})).structured_content["exit_code"] == 0
        declined = await client.call_tool("run", {"command": "touch b"})
    assert declined.content[0].text.startswith("CONFIRMATION_DECLINED: ")
    assert len(asked) == 2
