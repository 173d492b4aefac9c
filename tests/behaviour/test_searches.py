"""`search` as an agent and a person use it: over stdio and at the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.agent import Agent, refused
from tests.kit.cli import a_command_line


@pytest.fixture
def agent(state_dir: Path) -> Iterator[Agent]:
    with Agent(state_dir, TMUXMCP_PROGRAM="bash") as opened:
        yield opened


def test_agent_finds_what_scrolled_away_and_reads_on_from_there(agent: Agent):
    agent.run("for i in $(seq 20000); do echo line $i; done; printf '\\e[31mdone\\e[0m\\n'")
    result = agent.call("search", pattern=r"^line 1\d{2}99$")
    assert (result["total"], result["truncated"], result["note"]) == (100, False, None)
    assert [set(match) for match in result["matches"]] == [{"line", "offset", "text"}] * 100
    first = result["matches"][0]
    assert first["text"] == "line 10099"
    assert agent.call("read", since=first["offset"], max_bytes=30)["content"].startswith("line 10099\nline 10100\n")
    around = agent.call("search", pattern="^line 777$", context=1)["matches"][0]
    assert around["text"] == "line 776\nline 777\nline 778"
    assert agent.call("search", pattern="line", limit=2)["total"] == 20_001  # and the command's echo
    assert agent.raw("search", pattern="^done$").content[0].text.split(": ")[1].startswith("done\n[total=1 ")
    assert agent.call("read", max_bytes=100)["has_new_content"] is True  # it moved no cursor


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_what_was_typed_is_told_from_what_was_printed(agent: Agent, shell: str):
    agent.call("create_session", name="s", program=shell)
    for command in (r"printf 'a NEEDLE\nhay\n' >f; seq 9", "cat f", "grep NEEDLE f", "echo true NEEDLE", "true NEEDLE"):
        agent.run(command, session_id="s")
    for context in (0, 1):
        found = agent.call("search", pattern="NEEDLE", context=context, session_id="s")
        lines = {each["line"]: each["text"].split("\n")[min(context, each["line"])] for each in found["matches"]}
        typed = [str(number) for number, line in lines.items() if re.match(r"\S+[#$%] ", line)]
        assert (found["total"], len(lines), len(typed)) == (7, 7, 4)
        assert found["note"] == (
            f"Lines that look like commands as typed, not like output: {', '.join(typed)} (4 of 7 shown)."
        )
    assert agent.call("search", pattern="^(a|true) NEEDLE", session_id="s")["note"] is None


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_last_line_without_its_end_is_found(agent: Agent, shell: str):
    agent.call("create_session", name="s", program=shell)
    for command in ("printf NEE%s DLE", "printf '\\033[32mNEE%s\\033[0m' DLE", "printf '\\nNEE%s\\134' DLE", "echo"):
        agent.run(command, session_id="s")
    found = agent.call("search", pattern="NEEDLE", session_id="s")
    assert found["total"] == 3
    assert all(each["text"].startswith("NEEDLE") for each in found["matches"])
    assert agent.call("read", session_id="s", since=found["matches"][0]["offset"], max_bytes=6)["content"] == "NEEDLE"


def test_wrong_searches_are_refused(agent: Agent):
    for arguments, code in [
        ({"pattern": "("}, "INVALID_PATTERN"),
        ({}, "INVALID_ARGUMENT"),
        ({"pattern": "x", "case": "i"}, "INVALID_ARGUMENT"),
        ({"pattern": "x", "session_id": "nobody"}, "SESSION_NOT_FOUND"),
    ]:
        refused(code, agent.call, "search", **arguments)


def test_session_that_ended_is_searched(agent: Agent):
    agent.call("create_session", program="echo", args=["needle"], name="over", wait_ready=False)
    agent.call("read", session_id="over", wait_for="exit")
    assert agent.call("search", pattern="needle", session_id="over")["matches"] == [
        {"line": 0, "offset": 0, "text": "needle"}
    ]


def test_command_line():
    with a_command_line() as cli:
        cli("new", "--name", "x", "env", "sh", "-c", "seq 300; sleep 600")
        cli("read", "x", "--pattern", r"^300\n", "--since", "0")
        assert cli.out("search", "x", "^[12]50$") == "149 @637: 150\n249 @1137: 250\n"
        assert cli.out("search", "-s", "x", "-C", "1", "^7$") == "6 @18:\n  6\n> 7\n  8\n"
        assert cli.out("search", "x", "-n", "1", "1") == "0 @0: 1\n"
        assert cli.json("search", "x", "^2")["total"] == 111
        done = cli("search", "x", "nothing")
        assert (done.stdout, done.stderr) == (b"", b"tmuxmcp: nothing matches\n")
        assert cli.error("search", "x", "(", status=2).startswith("INVALID_PATTERN")
        cli.error("search", "x", "a", "b", status=2)
        cli.error("search", "nobody", "a", status=3)
