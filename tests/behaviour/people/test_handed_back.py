"""A person gives a session back, or vanishes: agents are told once, with what was run meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.behaviour.people.test_takeover import HELD_OFF, commands, events, refused_as_taken, tmuxmcp, type_as_person
from tests.kit.agent import Agent, ToolFailed, audit_lines, eventually
from tests.kit.person import PREFIX, Person
from tests.kit.tmux import plain_tmux


@pytest.fixture
def attach(state_dir: Path) -> Iterator[Callable[..., Person]]:
    people: list[Person] = []

    def attached(*words: str) -> Person:
        people.append(Person(state_dir, *words))
        return people[-1]

    yield attached
    for person in people:
        person.leave()


def option(state_dir: Path, name: str) -> str:
    return plain_tmux(state_dir, "show-options", "-pqv", "-t", "=held:", f"@tmuxmcp_{name}").strip()


def free(agent: Agent) -> None:
    """Wait until nobody holds it, as tmux says."""
    eventually(lambda: not option(agent.state_dir, "taken"))


def told(agent: Agent, tool: str = "get_session", **arguments: Any) -> dict[str, Any]:
    handed = agent.call(tool, session_id="held", **arguments)["handed_back"]
    assert handed is not None
    return handed


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("run", {"command": "echo agent"}),
    ("send", {"text": "", "key": "C-l"}),
    ("read", {}),
    ("list_commands", {}),
    ("search", {"pattern": "x"}),
    ("resize", {"rows": 30}),
    ("screenshot", {"format": "svg"}),
]


def test_the_first_result_afterwards_tells_of_it_once(agent: Agent):
    for tool, arguments in CALLS:
        before = len(agent.call("list_commands", session_id="held")["commands"])
        taken = tmuxmcp(agent, "take", "held")["taken_over"]
        type_as_person(agent, "echo person; false", "Enter")
        commands(agent, before + 1)
        tmuxmcp(agent, "release", "held")
        handed = told(agent, tool, **arguments)
        assert (handed["by"], handed["since"], handed["reason"]) == (taken["by"], taken["since"], "release"), tool
        assert handed["until"] > taken["since"], tool
        (ran,) = handed["commands"]
        assert (ran["text"], ran["exit_code"], ran["by"]) == ("echo person; false", 1, "person"), tool
        assert agent.call(tool, session_id="held", **arguments)["handed_back"] is None, tool


def test_each_caller_is_told(agent: Agent):
    tmuxmcp(agent, "take", "held")
    tmuxmcp(agent, "release", "held")
    told(agent)
    with Agent(agent.state_dir, "bash") as other:
        assert told(other, "read")["commands"] == []


def test_of_several_times_the_last_is_told_with_all_commands(agent: Agent):
    agent.run("true", session_id="held")
    for number in range(2):
        tmuxmcp(agent, "take", "held")
        type_as_person(agent, f"echo {number}", "Enter")
        eventually(lambda: len(tmuxmcp(agent, "history", "held")["commands"]) == 2 + number)  # noqa: B023
        tmuxmcp(agent, "release", "held")
    handed = told(agent)
    assert [each["text"] for each in handed["commands"]] == ["echo 0", "echo 1"]
    assert handed["since"] == events(agent, "given_back")[-1]["since"]


def test_killed_servers_forget_nothing(agent: Agent, state_dir: Path):
    agent.run("true", session_id="held")
    tmuxmcp(agent, "take", "held")
    agent.kill()
    type_as_person(agent, "echo person", "Enter")
    tmuxmcp(agent, "release", "held")
    for again in (True, False):
        with Agent(state_dir, "bash") as later:
            handed = later.call("get_session", session_id="held")["handed_back"]
            assert bool(handed) is again
            assert not again or [each["text"] for each in handed["commands"]] == ["echo person"]


# ---- a person at a terminal --------------------------------------------------------------------------


def test_who_attaches_to_take_holds_it_and_gives_it_back_by_a_key(agent: Agent, attach: Callable[..., Person]):
    person = attach("--take", "held")
    assert refused_as_taken(agent, "send", text="x")["via"] == "attach"
    person.type(b"echo by hand\r")
    commands(agent, 1)
    person.type(PREFIX + b"g")
    free(agent)
    handed = told(agent)
    assert (handed["reason"], [each["text"] for each in handed["commands"]]) == ("key", ["echo by hand"])
    assert released(agent.state_dir) == ["key"]
    assert agent.run("echo free", session_id="held")["output"] == "free\n"
    assert person.attached
    person.type(b"echo no more\r")
    assert not person.may_type
    assert [text for text, _ in commands(agent, 2)] == ["echo by hand", "echo free"], "the key reached no program"


def released(state_dir: Path) -> list[str]:
    """Why the session was given back, as the audit has it."""
    return [line["reason"] for line in audit_lines(state_dir) if line["tool"] == "release"]


GOING = {"detach": lambda person: person.type(PREFIX + b"d"), "hang-up": Person.hang_up, "kill": Person.kill}


@pytest.mark.parametrize("how", GOING)
def test_who_leaves_gives_it_back_where_no_server_runs(
    agent: Agent, state_dir: Path, attach: Callable[..., Person], how: str
):
    person = attach("--take", "held")
    agent.kill()
    GOING[how](person)
    free(agent)
    assert not events(agent, "given_back")
    with Agent(state_dir, "bash") as later:
        assert told(later)["reason"] == "detach"
        assert option(state_dir, "given") == ""
    assert len(events(agent, "given_back")) == 1
    assert released(state_dir) == ["detach"]


def test_without_tmux_own_word_a_server_notices_who_is_gone(
    agent: Agent, state_dir: Path, attach: Callable[..., Person], monkeypatch: pytest.MonkeyPatch
):
    person = attach("--take", "held")
    plain_tmux(state_dir, "set-hook", "-gu", "client-detached")
    plain_tmux(state_dir, "set-option", "-p", "-t", "=held:", "@tmuxmcp_held_at", "1")
    taken, text = option(state_dir, "taken"), option(state_dir, "taken").split("-", 1)[1]
    plain_tmux(state_dir, "set-option", "-p", "-t", "=held:", "@tmuxmcp_taken", f"1000-{text}")
    assert refused_as_taken(agent, "send", text="x"), f"who took it ({taken}) is there, and has just typed"
    person.kill()
    agent.call("send", session_id="held", text="x", wait_for="none")
    assert events(agent, "given_back")[-1]["reason"] == "detach"


def test_the_key_gives_back_what_was_taken_elsewhere(agent: Agent, attach: Callable[..., Person]):
    tmuxmcp(agent, "take", "held")
    person = attach("--take", "held")
    tmuxmcp(agent, "take", "held")  # not bound to the terminal any more
    person.type(PREFIX + b"g")
    free(agent)
    assert told(agent)["reason"] == "key"


def test_who_only_watches_gives_nothing_back(agent: Agent, attach: Callable[..., Person]):
    tmuxmcp(agent, "take", "held")
    watcher = attach("held")
    watcher.type(PREFIX + b"g")

    def left() -> bool:
        watcher.type(PREFIX + b"d")  # while tmux shows why the key did nothing, it takes no other
        return not watcher.attached

    eventually(left)
    assert refused_as_taken(agent, "send", text="x")


def test_another_key_is_a_setting(state_dir: Path, attach: Callable[..., Person]):
    config = state_dir / "home/.config/tmuxmcp"
    with Agent(state_dir, "bash") as agent:
        config.mkdir(parents=True, mode=0o700)
        (config / "config.toml").write_text('take_key = "F9"\n')
        agent.call("create_session", program="bash", name="held")
        person = attach("--take", "held")
        person.type(b"\x1b[20~")
        free(agent)
        assert told(agent)["reason"] == "key"


def test_who_does_nothing_for_long_has_given_it_back(state_dir: Path, attach: Callable[..., Person]):
    with Agent(state_dir, "bash", TMUXMCP_TAKE_TIMEOUT_S="2") as agent:
        agent.call("create_session", program="bash", name="held")
        person = attach("--take", "held")
        agent.run("true")
        answer = agent.call("wait", session_ids=["held"], wait_for="needs_you", timeout_ms=20000)
        assert (answer["outcome"], answer["handed_back"]["reason"]) == ("needs_you", "timeout")
        assert not person.may_type
        assert agent.run("echo free", session_id="held")["output"] == "free\n"


def test_wait_needs_you_comes_when_it_is_given_back(agent: Agent, attach: Callable[..., Person]):
    person = attach("--take", "held")
    how_things_stand: dict[str, Any] = {"session_ids": ["held"], "wait_for": "needs_you", "timeout_ms": 0}
    assert agent.call("wait", **how_things_stand)["outcome"] == "immediate"
    person.type(PREFIX + b"g")
    answer = agent.call("wait", session_ids=["held"], wait_for="needs_you", timeout_ms=20000)
    assert (answer["outcome"], answer["handed_back"]["reason"]) == ("needs_you", "key")
    assert agent.call("wait", **how_things_stand)["outcome"] == "immediate"


# ---- cases of the wild -------------------------------------------------------------------------------


def test_no_key_of_an_agent_lands_between_a_persons(agent: Agent, attach: Callable[..., Person]):
    """Two agents type as fast as they can, before, while and after a person takes the session."""
    over = Event()

    def types(agent: Agent) -> int:
        typed = 0
        while not over.is_set():
            with suppress(ToolFailed):  # taken
                agent.call("send", session_id="held", text="x", key="BSpace", read="none")
                typed += 1
        return typed

    with Agent(agent.state_dir, "bash") as other, ThreadPoolExecutor(2) as threads:
        counts = [threads.submit(types, each) for each in (agent, other)]
        try:
            person = attach("--take", "held")
            person.type(b"\x15")  # a line half typed
            for key in b"echo 0123456789\r":
                person.type(bytes([key]))
            log = agent.state_dir / "sessions/held/out.raw"
            eventually(lambda: re.search(rb"[^ ]0123456789\r\n", log.read_bytes()))
            person.type(PREFIX + b"g")
            free(agent)
        finally:
            over.set()
        assert sum(count.result(10) for count in counts)
    assert commands(agent, 1) == [("echo 0123456789", "person")]


@pytest.mark.parametrize("command", ["sleep 60", "yes"])
def test_killed_servers_type_nothing_into_what_a_person_took_in_the_middle(
    agent: Agent, state_dir: Path, attach: Callable[..., Person], command: str
):
    with Agent(state_dir, "bash") as other, ThreadPoolExecutor(2) as threads:
        ran = threads.submit(agent.run, command, session_id="held", timeout_ms=30000, max_bytes=100)
        eventually(lambda: other.call("get_session", session_id="held")["mode"] == "running")
        waits = threads.submit(other.call, "read", session_id="held", wait_for="exit", timeout_ms=30000)
        person = attach("--take", "held")
        assert [ran.result(30)["outcome"], waits.result(30)["outcome"]] == ["taken", "taken"]
        agent.kill()
        other.kill()
    person.type(b"\x03")
    person.type(b"echo by hand\r")
    with Agent(state_dir, "bash") as later:
        for tool, arguments in HELD_OFF:
            refused_as_taken(later, tool, **arguments)
        person.kill()
        free(later)
        handed = told(later, "list_commands")
        assert (handed["reason"], [each["text"] for each in handed["commands"]]) == ("detach", ["echo by hand"])
        assert later.run("echo free", session_id="held")["output"] == "free\n"


def test_what_a_person_holds_is_neither_adopted_nor_ended_for_being_idle(agent: Agent, state_dir: Path):
    agent.call("create_session", program="bash", name="idle")
    tmuxmcp(agent, "take", "held")
    type_as_person(agent, "dash", "Enter")
    with Agent(state_dir, "bash", TMUXMCP_IDLE_TIMEOUT_S="0.5") as other:
        refused_as_taken(other, "run", command="echo no")
        facts = other.call("get_session", session_id="held")
        assert (facts["ended"], [each["kind"] for each in facts["levels"]]) == (None, ["bash"])
        eventually(lambda: other.call("get_session", session_id="idle")["ended"])
