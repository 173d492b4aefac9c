"""A person does what agents ask for, at a terminal: `tmuxmcp answer`, with real programs that ask."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.conftest import SLOW
from tests.kit.agent import (
    ANEW,
    Agent,
    ToolFailed,
    an_agent,
    audit_lines,
    command_line,
    eventually,
    refused,
    run_command_line,
)
from tests.kit.asking import Asked, Person, read_line, run
from tests.kit.fixtures import of_file
from tmuxmcp.gate.confirmations import Confirmations

SECRET = "hunter2-correct-horse"


server = of_file(an_agent, "bash")


@pytest.fixture
def agent(server: Agent) -> Iterator[Agent]:
    server.call("create_session", program="bash", name="a")
    yield server
    server.call("destroy_session", session_id="a", force=True)


def test_text_is_typed_with_enter(agent: Agent, threads: ThreadPoolExecutor):
    read_line(agent, "read -r x")
    asked = Asked(agent, threads)
    assert "done" in run(agent, asked.id, "--text", "it's $HOME; `x`")
    told = asked.result()
    assert (told["outcome"], told["request_id"]) == ("done", asked.id)
    assert agent.run('echo "$x"', session_id="a")["output"] == "it's $HOME; `x`\n"
    assert run(agent, asked.id, "--text", "again", status=3)
    lines = [each for each in audit_lines(agent.state_dir) if each["tool"] == "answer"]
    [line] = [each for each in lines if each["request_id"] == asked.id]
    assert (line["answer"], bool(line["by"])) == ("done", True)


def test_a_command_that_a_person_types_is_theirs(agent: Agent, threads: ThreadPoolExecutor):
    agent.run("true", session_id="a")
    asked = Asked(agent, threads, "Run it.")
    run(agent, asked.id, "--text", "echo typed by a person")
    eventually(lambda: agent.call("list_commands", session_id="a")["count"] == 2)
    eventually(lambda: agent.call("list_commands", session_id="a")["commands"][-1]["exit_code"] == 0)
    told = [(each["text"], each["by"]) for each in agent.call("list_commands", session_id="a")["commands"]]
    assert told == [("true", "agent"), ("echo typed by a person", "person")]
    assert agent.run("echo on", session_id="a")["output"] == "on\n"


def test_two_requests_of_a_session_queue(agent: Agent, threads: ThreadPoolExecutor):
    first, second = Asked(agent, threads, "First."), Asked(agent, threads, "Second.")
    listed = json.loads(run(agent, "--json"))
    assert [each["request_id"] for each in listed["requests"]] == [first.id, second.id]
    assert "First." in run(agent, "a", "--decline")
    assert (first.result()["outcome"], second.waits) == ("declined", True)
    assert "Second." in run(agent, "a", "--decline")
    assert second.result()["outcome"] == "declined"
    assert "nothing waits" in run(agent)


def test_one_person_answers_at_a_time(agent: Agent, threads: ThreadPoolExecutor):
    read_line(agent, "read -r x")
    asked = Asked(agent, threads)
    with (agent.state_dir / f"sessions/a/requests/{asked.id}.json").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as long as another person's line is typed
        for words in (["--text", "second"], ["--decline"]):
            assert "SESSION_BUSY" in run(agent, asked.id, *words, status=1)
    assert asked.waits
    run(agent, asked.id, "--text", "first")
    assert asked.result()["outcome"] == "done"
    assert agent.run('echo "$x"', session_id="a")["output"] == "first\n"


ASKS = ["read -rs x", f'x=$({sys.executable} -c "import getpass; print(getpass.getpass())")']


@pytest.mark.parametrize("asks", ASKS, ids=["read", "getpass"])
def test_a_secret_is_read_without_echo_and_typed(agent: Agent, threads: ThreadPoolExecutor, asks: str):
    read_line(agent, asks)
    asked = Asked(agent, threads, "The password of the database.", secret=True)
    with Person(agent, asked.id) as person:
        person.until("| The password of the database.")
        person.until("not shown")
        person.type(f"{SECRET}\r")
        assert person.end() == 0
        assert SECRET not in person.seen
    assert asked.result()["outcome"] == "done"
    assert agent.run(f'test "$x" = {SECRET}; echo $?', session_id="a")["output"] == "0\n"
    kept = [each for each in agent.state_dir.rglob("*") if each.is_file() and each.name != "out.raw"]
    ran = ("commands.jsonl", "audit.jsonl", "history")  # the line above has it
    assert not [each for each in kept if each.name not in ran and SECRET.encode() in each.read_bytes()]


def test_no_secret_is_typed_where_it_would_be_seen(agent: Agent, threads: ThreadPoolExecutor):
    """It prints what a program that asks for a password would print."""
    read_line(agent, "printf 'Password: '; read -r x")
    asked = Asked(agent, threads, secret=True)
    assert "WRONG_MODE" in run(agent, asked.id, stdin=f"{SECRET}\n", status=1)
    assert "command line" in run(agent, asked.id, "--text", SECRET, status=2)
    assert asked.waits
    assert SECRET not in agent.call("read", session_id="a", view="screen")["content"]
    agent.call("send", session_id="a", key="C-c")
    read_line(agent, "read -rs x")
    run(agent, asked.id, stdin=f"{SECRET}\n")
    assert asked.result()["outcome"] == "done"


def test_a_secret_is_for_the_program_for_which_the_agent_asked(agent: Agent, threads: ThreadPoolExecutor):
    read_line(agent, "read -rs x")
    asked = Asked(agent, threads, secret=True)
    with Person(agent, asked.id) as person:
        person.until("not shown")
        agent.call("send", session_id="a", key="C-c")
        read_line(agent, ASKS[1])
        person.type(f"{SECRET}\r")
        assert person.end() == 1
        assert "another program" in person.seen
    assert asked.waits
    agent.call("send", session_id="a", key="C-c")
    assert agent.run('echo "$x"', session_id="a")["output"] == "\n"
    read_line(agent, "read -rs x")  # the same once more
    run(agent, asked.id, stdin=f"{SECRET}\n")
    assert asked.result()["outcome"] == "done"


@pytest.mark.parametrize("secret", [True, False])
def test_ctrl_c_leaves_it_open_at_once(agent: Agent, threads: ThreadPoolExecutor, secret: bool):
    read_line(agent, "read -rs x")
    asked = Asked(agent, threads, secret=secret)
    with Person(agent, asked.id) as person:
        person.until("not shown" if secret else "C-b a: done")
        person.type(SECRET[:7])
        person.type("\x03")
        assert person.end() == 130
    assert asked.waits
    assert agent.call("get_session", session_id="a")["mode"] == "password"
    run(agent, asked.id, "--decline")


@pytest.fixture
def real_server(state_dir: Path) -> Iterator[Agent]:
    """A server whose words /proc tells: by them a command line knows that a server has started it."""
    with Agent(state_dir, "bash", start=ANEW) as agent:
        agent.call("create_session", program="bash", name="a")
        yield agent


def test_no_agent_answers_itself(real_server: Agent, threads: ThreadPoolExecutor):
    agent = real_server
    agent.call("create_session", program="bash", name="other")
    asked = Asked(agent, threads)
    argv, _ = command_line(agent.state_dir, "answer", asked.id, "--text", "x")
    ran = agent.run(f"cd {Path.cwd()}; {' '.join(argv)}", session_id="other")
    assert (ran["exit_code"], "PERMISSION_DENIED" in ran["output"]) == (4, True), ran
    did = agent.call("run_process", argv=argv, cwd=str(Path.cwd()))
    assert (did["rc"], "PERMISSION_DENIED" in did["stderr"]) == (4, True), did
    assert asked.waits
    run(agent, asked.id, "--decline")


def test_agents_words_do_nothing_to_the_terminal(agent: Agent, threads: ThreadPoolExecutor):
    asked = Asked(agent, threads, "a\x1b]0;owned\x07\x1b[2Jb\r#(touch x)\u202e\nask_0: an agent asks for input")
    said = run(agent, asked.id, "--decline")
    assert "\x1b" not in said
    assert "    | a<U+001B>]0;owned<U+0007><U+001B>[2Jb<U+000D>#(touch x)<U+202E>\n    | ask_0: an agent" in said


@pytest.mark.parametrize("term", ["xterm-256color", "of-nobody"])
def test_a_person_types_until_the_key(agent: Agent, threads: ThreadPoolExecutor, term: str):
    read_line(agent, "IFS= read -r x")
    asked = Asked(agent, threads, "Choose.")
    with Person(agent, asked.id, TERM=term) as person:
        person.until("C-b a: done")
        person.type("\r")
        person.until("read -r x")  # the session's screen
        eventually(lambda: agent.call("get_session", session_id="a")["taken_over"])
        refused("SESSION_TAKEN", agent.call, "send", session_id="a", text="no")
        person.type("by hand\r")
        eventually(lambda: agent.call("get_session", session_id="a")["mode"] == "shell_prompt")
        assert asked.waits
        person.type("\x02a")
        assert person.end() == 0
        assert "done" in person.seen
    assert asked.result()["outcome"] == "done"
    assert agent.call("get_session", session_id="a")["taken_over"] is None
    assert agent.run('echo "$x"', session_id="a")["output"] == "by hand\n"


def test_another_key_is_a_setting(agent: Agent, threads: ThreadPoolExecutor):
    read_line(agent, "IFS= read -r x")
    asked = Asked(agent, threads, "Choose.")
    with Person(agent, asked.id, TMUXMCP_ANSWER_KEY="F9") as person:
        person.until("F9: done")
        person.type("\r")
        person.until("read -r x")
        eventually(lambda: agent.call("get_session", session_id="a")["taken_over"])
        person.type("by hand\r")
        eventually(lambda: agent.call("get_session", session_id="a")["mode"] == "shell_prompt")
        person.type("\x1b[20~")
        assert person.end() == 0
    assert asked.result()["outcome"] == "done"


@pytest.mark.parametrize("how", ["detach", "hang up"])
def test_who_leaves_leaves_it_open(agent: Agent, threads: ThreadPoolExecutor, how: str):
    asked = Asked(agent, threads)
    with Person(agent, asked.id) as person:
        person.until("C-b a: done")
        person.type("\r")
        eventually(lambda: agent.call("get_session", session_id="a")["taken_over"])
        if how == "detach":
            person.until("\x1b[?1049h")
            person.type("\x02d")
            assert person.end() == 0
            assert "waits on" in person.seen
        else:
            os.close(person.fd)
            person.fd = -1
            person.process.wait(20 * SLOW)
    eventually(lambda: agent.call("get_session", session_id="a")["taken_over"] is None)
    assert asked.waits
    run(agent, asked.id, "--decline")
    assert asked.result()["outcome"] == "declined"


def test_a_request_that_is_over_lets_its_person_go(agent: Agent, threads: ThreadPoolExecutor):
    asked = Asked(agent, threads)
    with Person(agent, asked.id) as person:
        person.until("C-b a: done")
        person.type("\r")
        person.until("\x1b[?1049h")
        run(agent, asked.id, "--decline")
        assert person.end() == 0
        person.until("over: declined")
    assert asked.result()["outcome"] == "declined"


# ---- how the person learns of it ---------------------------------------------------------------------


def test_lists_and_a_wait_tell_that_a_person_is_needed(agent: Agent, threads: ThreadPoolExecutor):
    waits = {"session_ids": ["a"], "wait_for": "needs_you"}
    assert agent.call("wait", **waits, timeout_ms=0)["outcome"] == "immediate"
    needed = threads.submit(agent.call, "wait", **waits, timeout_ms=int(20_000 * SLOW))
    asked = Asked(agent, threads)
    told = needed.result(20 * SLOW)
    assert (told["outcome"], told["session_id"]) == ("needs_you", "a")
    assert agent.call("wait", **waits, timeout_ms=300)["outcome"] == "timeout", "it is no news any more"
    assert agent.call("wait", **waits, timeout_ms=0)["outcome"] == "needs_you", "but so it stands"
    assert agent.call("get_session", session_id="a")["asks"] == 1
    assert ", asks" in run_command_line(agent.state_dir, "list").stdout
    run(agent, asked.id, "--decline")
    assert agent.call("get_session", session_id="a")["asks"] == 0


def test_who_looks_at_the_session_is_told_the_command_and_no_words(agent: Agent, threads: ThreadPoolExecutor):
    words = ["tmux", "-S", str(agent.state_dir / "tmux.sock"), "attach", "-r", "-t", "=a"]
    with Person(agent, argv=words) as person:
        person.until("\x1b[?1049h")
        asked = Asked(agent, threads, "#(touch /tmp/x) the agent's words")
        person.until(f"a asks: tmuxmcp answer {asked.id}")
        assert "words" not in person.seen
        run(agent, asked.id, "--decline")


def test_own_command_is_run_with_id_and_kind(state_dir: Path, threads: ThreadPoolExecutor):
    told = state_dir / "told"
    own = f"sh -c 'echo \"$0 $TMUXMCP_KIND $TMUXMCP_SESSION_ID $TMUXMCP_ID\" >>{told}' $(x)"
    with Agent(state_dir, "--notify-command", own, "bash") as agent:
        agent.call("create_session", program="bash", name="a")
        asked = Asked(agent, threads, "words", secret=True)
        eventually(lambda: told.exists() and told.read_text() == f"$(x) secret a {asked.id}\n")
        run(agent, asked.id, "--decline")
        assert asked.result()["outcome"] == "declined"


# ---- one queue ---------------------------------------------------------------------------------------

POLICY = '[{"program": "touch", "action": "confirm", "reason": "it makes a file"}]'


def question(agent: Agent) -> str:
    """The id of the question that waits."""
    files = agent.state_dir / "confirmations"
    eventually(lambda: list(files.glob("c_*.json")))
    [file] = files.glob("c_*.json")
    return file.stem


@pytest.mark.parametrize(("typed", "outcome"), [("y", "agreed"), ("n", "declined")])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_who_answers_first_counts(state_dir: Path, threads: ThreadPoolExecutor, mode: str, typed: str, outcome: str):
    """The client's form is there, and the person answers at the command line."""
    answered = Event()

    def later(message: str) -> str:
        assert answered.wait(20 * SLOW)
        return "accept"

    with Agent(state_dir, "bash", mode=mode, person=later, TMUXMCP_POLICY=POLICY) as agent:
        agent.call("create_session", program="bash", name="a")
        ran = threads.submit(agent.run, "touch x", session_id="a")
        asked = question(agent)
        with Person(agent, asked) as person:
            person.until("| An agent wants to run in session a")
            person.until("Allow it once?")
            person.type(f"{typed}\r")
            assert person.end() == 0
            assert outcome in person.seen
        if mode == "auto":
            answered.set()
        if typed == "y":
            assert ran.result(20 * SLOW)["exit_code"] == 0
        else:
            refused("CONFIRMATION_DECLINED", ran.result, 20 * SLOW)
        answered.set()
        assert "nothing waits" in run(agent)


def test_wait_needs_you_comes_for_a_question_of_the_policy(state_dir: Path, threads: ThreadPoolExecutor):
    with Agent(state_dir, "bash", TMUXMCP_POLICY=POLICY) as agent:
        agent.call("create_session", program="bash", name="a")
        waits: dict[str, Any] = {"session_ids": ["a"], "wait_for": "needs_you"}
        waiting = threads.submit(agent.call, "wait", **waits, timeout_ms=20_000)
        with pytest.raises(ToolFailed) as denied:
            agent.run("touch x", session_id="a")
        assert waiting.result(20 * SLOW)["outcome"] == "needs_you"
        assert agent.call("wait", **waits, timeout_ms=200)["outcome"] == "timeout", "it was told"
        assert agent.call("wait", **waits, timeout_ms=0)["outcome"] == "needs_you", "but so it stands"
        run(agent, denied.value.error["details"]["confirmation"], "--decline")
        assert agent.call("wait", **waits, timeout_ms=0)["outcome"] == "immediate"


def test_an_answer_is_void_in_another_session_of_that_name(state_dir: Path):
    with Agent(state_dir, "bash", TMUXMCP_POLICY=POLICY) as agent:
        for _ in range(2):
            agent.call("create_session", program="bash", name="a")
            denied = refused("POLICY_DENIED", agent.run, "touch x", session_id="a")
            Confirmations(state_dir).grant(denied.error["details"]["confirmation"])
            agent.call("destroy_session", session_id="a", force=True)


def test_nobody_is_asked_about_a_session_that_is_taken(state_dir: Path):
    with Agent(state_dir, "bash", TMUXMCP_POLICY=POLICY) as agent:
        agent.call("create_session", program="bash", name="a")
        run_command_line(state_dir, "take", "a")
        refused("SESSION_TAKEN", agent.run, "touch x", session_id="a")
        assert not list(Confirmations(state_dir).all())


def test_the_queue_has_requests_questions_and_what_the_person_holds(state_dir: Path, threads: ThreadPoolExecutor):
    with Agent(state_dir, "bash", TMUXMCP_POLICY=POLICY) as agent:
        agent.call("create_session", program="bash", name="a")
        with pytest.raises(ToolFailed):
            agent.run("touch x", session_id="a")
        asked = Asked(agent, threads)
        run_command_line(state_dir, "take", "a")
        listed = json.loads(run(agent, "--json"))["requests"]
        assert [each["kind"] for each in listed] == ["input", "policy", "lease"]
        assert "Only a person agrees" in run(agent, listed[1]["request_id"], status=4)
        with Person(agent) as person:
            for sees, types in [("Answer it now?", "n"), ("Allow it once?", "y"), ("Give it back?", "y")]:
                person.until(sees)
                person.type(f"{types}\r")
            assert person.end() == 0
        assert agent.run("touch x", session_id="a")["exit_code"] == 0
        run(agent, asked.id, "--decline")


def test_agreed_for_a_session_is_for_one_rule_and_caller_there(state_dir: Path):
    rules = [
        {"program": "touch", "action": "confirm", "reason": "it makes a file"},
        {"program": "mkdir", "action": "confirm", "reason": "it makes a directory"},
    ]
    own = {"TMUXMCP_POLICY": json.dumps(rules)}

    def denied(command: str, session: str = "a") -> ToolFailed:
        return refused("POLICY_DENIED", agent.run, command, session_id=session)

    with Agent(state_dir, "bash", **own) as agent:
        for name in ("a", "b"):
            agent.call("create_session", program="bash", name=name)
        assert denied("touch x")
        with Person(agent, question(agent)) as person:
            person.until("s: allow for this session")
            person.type("s\r")
            assert person.end() == 0
        for command in ("touch x", "touch y; touch z"):
            assert agent.run(command, session_id="a")["exit_code"] == 0
        assert denied("touch y && mkdir d"), "another rule asks"
        assert denied("touch x", "b")
        agent.call("destroy_session", session_id="a", force=True)
        agent.call("create_session", program="bash", name="a")
        assert denied("touch x"), "another session of that name"
