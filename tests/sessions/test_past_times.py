"""Screens of past times, through a server that notes when what was printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.agent import Agent, ToolFailed, eventually
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.log import RawLog
from tmuxmcp.record.timing import Times


def at_rest(agent: Agent, command: str) -> int:
    """Run a command; the time by the session's clock once the prompt behind it is drawn."""
    agent.run(command, session_id="a")
    agent.call("read", session_id="a", wait_for="ready")
    return int(agent.call("read", session_id="a")["time"])


def screen(agent: Agent, at_ms: int) -> dict[str, Any]:
    """The screen of a time, as soon as the server has noted what was printed then."""
    found: list[dict[str, Any]] = []

    def read() -> bool:
        try:
            found.append(agent.call("read", session_id="a", view="screen", at_ms=at_ms))
        except ToolFailed as error:
            if error.code != "NOT_RETAINED":
                raise
        return bool(found)

    eventually(read, 20)
    return found[0]


def known_times(agent: Agent) -> tuple[int, int]:
    """A time at which the screen shows `one`, and one at which it shows `two`, both of them known.

    Where the server was held up as it saw what was printed, times are not known: then it is all printed again.
    """
    directory = SessionDirectory.of(agent.state_dir, "a")
    for _ in range(40):
        first = at_rest(agent, "clear; echo one")
        second = at_rest(agent, "clear; echo two")
        size = RawLog(directory).size()
        eventually(lambda size=size: [*Times(directory).steps(size - 1, size)][-1:])  # it is written down
        if Times(directory).offset_at(first) is not None:
            return first, second
    raise AssertionError("the server was held up each time")


def test_the_screen_of_a_time(state_dir: Path) -> None:
    with Agent(state_dir, "bash") as agent:
        agent.call("create_session", name="a")
        first, second = known_times(agent)
        then = screen(agent, first)
        assert "\none\n" in f"\n{then['content']}\n"
        assert "two" not in then["content"]
        assert (then["time"], then["approximate"], then["mode"]) == (first, False, None)
        assert "two" in screen(agent, second)["content"]
        assert "two" in screen(agent, -1)["content"]
        before = agent.call("screenshot", session_id="a", format="svg", at_ms=first)
        assert before["approximate"] is False

        with pytest.raises(ToolFailed, match="no time of session") as refused:
            agent.call("read", session_id="a", view="screen", at_ms=10**9)
        assert refused.value.code == "INVALID_ARGUMENT"
        with pytest.raises(ToolFailed, match="at_ms does not go with view=new"):
            agent.call("read", session_id="a", at_ms=first)


def test_a_later_size_makes_a_screen_approximate(state_dir: Path) -> None:
    with Agent(state_dir, "bash") as agent:
        agent.call("create_session", program="cat", name="a", wait_ready=False)
        agent.call("send", session_id="a", text="line", enter=True, wait_for="changed")
        agent.call("read", session_id="a", wait_for="ready")
        before = int(agent.call("read", session_id="a")["time"])
        assert not screen(agent, before)["approximate"]
        agent.call("resize", session_id="a", cols=50)
        then = screen(agent, before)
        assert (then["approximate"], then["cols"]) == (True, 50)
        assert "size changed" in then["note"]
