"""A person who is attached answers in a popup over their session, which they open by a key."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conftest import TMUX
from tests.kit.agent import Agent, an_agent, eventually, refused
from tests.kit.asking import Asked, Person, read_line, run
from tests.kit.fixtures import of_file
from tests.kit.tmux import plain_tmux

SECRET = "hunter2-battery-staple"
KEY = "\x02a"
"""C-b a."""
POLICY = '[{"program": "touch", "action": "confirm", "reason": "it makes a file"}]'
CLOSED = "\x1b[K\r\n\x1b[K\r\n"
"""Rows that tmux draws from edge to edge: no popup is before them."""


server = of_file(an_agent, "bash", TMUXMCP_POLICY=POLICY)


@pytest.fixture
def agent(server: Agent) -> Iterator[Agent]:
    server.call("create_session", program="bash", name="a")
    yield server
    server.call("destroy_session", session_id="a", force=True)


@pytest.fixture
def person(agent: Agent) -> Iterator[Person]:
    """Somebody attached to the session who may type."""
    with attached(agent) as person:
        yield person


def attached(agent: Agent, *words: str) -> Person:
    person = Person(agent, argv=[TMUX, "-S", str(agent.state_dir / "tmux.sock"), "attach", *words, "-t", "=a"])
    person.until("\x1b[?1049h")
    return person


def opens(person: Person) -> None:
    """Press the key, once the line says so. tmux takes three keys within a millisecond for a paste."""
    person.until("a asks: C-b a")
    person.type(KEY)


def leaves(person: Person) -> bool:
    """Whether they have left, by a key that a popup would have taken."""
    person.type("\x02d")
    person.read()
    return person.process.poll() is not None


def is_back(person: Person) -> None:
    """What they type goes to the session again."""
    person.until(CLOSED)
    person.type("echo $((6*7))-typed\r")
    person.until("42-typed")


def test_a_secret_typed_in_the_popup_goes_to_the_program_alone(
    agent: Agent, threads: ThreadPoolExecutor, person: Person
):
    read_line(agent, "read -rs x")
    asked = Asked(agent, threads, "#(touch /tmp/x) the $PATH of it", secret=True)
    person.until(f"a asks: C-b a, or tmuxmcp answer {asked.id}")
    assert "the $PATH" not in person.seen
    person.type(KEY)
    person.until("| #(touch /tmp/x) the $PATH of it")
    person.until("not shown")
    person.type(f"{SECRET}\r")
    assert asked.result()["outcome"] == "done"
    assert agent.run(f'test "$x" = {SECRET}; echo $?', session_id="a")["output"] == "0\n"
    kept = [each for each in agent.state_dir.rglob("*") if each.is_file()]
    ran = ("commands.jsonl", "audit.jsonl", "history", "out.raw")  # the line above has it
    assert not [each for each in kept if each.name not in ran and SECRET.encode() in each.read_bytes()]


def test_a_person_types_what_is_asked_where_they_are(agent: Agent, threads: ThreadPoolExecutor, person: Person):
    read_line(agent, "IFS= read -r x")
    asked = Asked(agent, threads, "Choose.", request_id="--decline")  # an agent's word, too
    opens(person)
    person.until("| Choose.")
    person.until("leaves it open")
    person.seen = ""
    person.type("\r")
    person.until(CLOSED)
    assert agent.call("get_session", session_id="a")["taken_over"]
    refused("SESSION_TAKEN", agent.call, "send", session_id="a", text="no")
    person.type("by hand\r")
    eventually(lambda: agent.call("get_session", session_id="a")["mode"] == "shell_prompt")
    assert asked.waits
    person.type(KEY)
    assert asked.result()["outcome"] == "done"
    eventually(lambda: agent.call("get_session", session_id="a")["taken_over"] is None)
    assert agent.run('echo "$x"', session_id="a")["output"] == "by hand\n"
    assert [each["may_type"] for each in agent.call("get_session", session_id="a")["viewers"]] == [True]


def test_who_types_for_a_request_that_is_over_is_told_and_gives_the_session_back(
    agent: Agent, threads: ThreadPoolExecutor, person: Person
):
    asked = Asked(agent, threads, "Choose.")
    opens(person)
    person.until("leaves it open")
    person.seen = ""
    person.type("\r")
    person.until(CLOSED)
    run(agent, asked.id, "--decline")
    assert asked.result()["outcome"] == "declined"
    assert agent.call("get_session", session_id="a")["taken_over"]
    person.type(KEY)
    person.until("was over: declined")
    assert agent.call("get_session", session_id="a")["taken_over"] is None
    person.seen = ""
    person.type("\r")
    is_back(person)


def test_a_popup_closes_when_it_is_answered_elsewhere(agent: Agent, threads: ThreadPoolExecutor, person: Person):
    asked = Asked(agent, threads, "Type the thing.")
    opens(person)
    person.until("leaves it open")
    person.seen = ""
    run(agent, asked.id, "--decline")
    assert asked.result()["outcome"] == "declined"
    is_back(person)


@pytest.mark.parametrize("leaves", ["\x03", "\x04"], ids=["C-c", "C-d"])
def test_a_popup_that_is_closed_leaves_it_open(agent: Agent, threads: ThreadPoolExecutor, person: Person, leaves: str):
    asked = Asked(agent, threads, "Type the thing.")
    opens(person)
    person.until("leaves it open")
    person.seen = ""
    person.type(leaves)
    is_back(person)
    assert asked.waits
    run(agent, asked.id, "--decline")


def test_no_popup_types_a_secret_where_it_would_be_seen(agent: Agent, threads: ThreadPoolExecutor, person: Person):
    read_line(agent, "printf 'Password: '; read -r x")
    asked = Asked(agent, threads, secret=True)
    opens(person)
    person.until("not shown")
    person.type(f"{SECRET}\r")
    person.until("WRONG_MODE")
    person.type("\r")
    assert asked.waits
    assert SECRET not in person.seen
    assert SECRET not in agent.call("read", session_id="a", view="screen")["content"]
    run(agent, asked.id, "--decline")


def test_who_only_watches_gets_no_popup(agent: Agent, threads: ThreadPoolExecutor):
    with attached(agent, "-r") as watcher, attached(agent) as person:
        asked = Asked(agent, threads, "Type the thing.")
        watcher.until(f"a asks: tmuxmcp answer {asked.id}")
        opens(person)
        person.until("| Type the thing.")
        person.until("leaves it open")
        watcher.type(KEY)
        eventually(lambda: leaves(watcher))
        assert "Type the thing" not in watcher.seen
        person.type("n\r")
        assert asked.result()["outcome"] == "declined"


def offered(agent: Agent) -> str:
    """What the key is for."""
    return plain_tmux(agent.state_dir, "show-options", "-pqv", "-t", "=a:", "@tmuxmcp_asks").strip()


def becomes_offered(agent: Agent, asked: str) -> None:
    eventually(lambda: offered(agent) == asked)


def question_of(agent: Agent, command: str) -> str:
    """The id of the question, which stays where no call waits for its answer."""
    return str(refused("POLICY_DENIED", agent.run, command, session_id="a").error["details"]["confirmation"])


def test_what_an_agent_may_do_is_settled_in_the_popup(agent: Agent, person: Person):
    asked = question_of(agent, "touch x '#(id)'")
    person.until(f"a asks: C-b a, or tmuxmcp answer {asked}")
    for said, still_asks in [("", True), ("n", False), ("y", False), ("s", False)]:
        asked = question_of(agent, "touch x '#(id)'")
        becomes_offered(agent, asked)
        person.seen = ""
        person.type(KEY)
        person.until("| An agent wants to run in session a")
        person.until("touch x '#(id)'")
        person.until("s: allow for this session")
        person.until("leaves it open")
        person.seen = ""
        person.type(f"{said}\r")
        person.until(CLOSED)
        becomes_offered(agent, asked if still_asks else "")
        if said == "y":
            assert agent.run("touch x '#(id)'", session_id="a")["exit_code"] == 0
    for name in "xyz":
        assert agent.run(f"touch {name}", session_id="a")["exit_code"] == 0


def test_a_popup_closes_when_its_question_is_answered_elsewhere(agent: Agent, person: Person):
    asked = question_of(agent, "touch x")
    opens(person)
    person.until("leaves it open")
    person.seen = ""
    run(agent, asked, "--decline")
    person.until(CLOSED)
    assert offered(agent) == ""


def test_no_program_in_a_session_opens_one(agent: Agent, threads: ThreadPoolExecutor, person: Person):
    asked = Asked(agent, threads, "Type the thing.")
    person.until("a asks:")
    agent.call("create_session", program="bash", name="other")
    said = agent.run(f'echo "[$TMUX]"; {TMUX} display-popup -E true', session_id="other")
    assert (said["exit_code"], said["output"].startswith("[]\n")) == (1, True), said
    agent.call("destroy_session", session_id="other", force=True)
    assert asked.waits
    run(agent, asked.id, "--decline")
