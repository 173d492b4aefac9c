"""Helpers for editors and pagers with the real programs: they act in theirs, and type nothing into any other."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.agent import Agent, an_agent, eventually, refused
from tests.kit.fixtures import of_file

HOSTILE = "tab\there :q! \"'|<CR><Esc>dG\nif x:\n    \\<C-c> \N{LATIN SMALL LETTER U WITH DIAERESIS}\n  !sh # $(id)"
"""Text that would be keys, commands or a string's end."""


server = of_file(an_agent, "--tools", "core,helpers", "bash")


@pytest.fixture
def agent(server: Agent) -> Iterator[Agent]:
    """With a default session of the test's own."""
    session_id = server.run("true")["session_id"]
    yield server
    server.call("destroy_session", session_id=session_id, force=True)


def opened(agent: Agent, command: str, mode: str) -> None:
    """Start a program in the session's shell, and see it wait."""
    seen = agent.call("send", text=command, enter=True, wait_for="ready")
    assert seen["result"]["mode"] == mode, seen


def test_nothing_is_typed_into_another_program(agent: Agent):
    agent.run("true")
    for start, mode in (("true", "shell_prompt"), ("cat", "line_input"), ("read -s x", "password")):
        opened(agent, start, mode)
        before = agent.call("read", view="screen")["content"]
        refused("WRONG_MODE", agent.call, "editor_action", action="save_quit")
        refused("WRONG_MODE", agent.call, "pager_action", action="search", text="rm -r")
        assert agent.call("read", view="screen")["content"] == before
        agent.call("send", key="C-c", wait_for="ready")
    opened(agent, "less /etc/services", "pager")
    refused("WRONG_MODE", agent.call, "editor_action", action="quit")
    assert agent.call("pager_action", action="quit")["mode"] == "shell_prompt"


@pytest.mark.parametrize("start", ["vim -u NONE", "vim -u RC", "nano"])
def test_an_editor_inserts_goes_saves_and_quits(agent: Agent, tmp_path: Path, start: str):
    path, rc = tmp_path / "file", tmp_path / "rc"
    path.write_text("one\ntwo\nthree\n")
    rc.write_text("set autoindent expandtab textwidth=20\ninoremap a zz\niabbrev if wrong\n")
    opened(agent, f"{start.replace('RC', str(rc))} {path}", "editor")
    act = lambda action, **more: agent.call("editor_action", action=action, **more)  # noqa: E731  # short
    if start.startswith("vim"):
        agent.call("send", text="A", wait_for="none", read="none")  # in insert mode it is obeyed as well
    assert act("goto", line=2)["mode"] == "editor"
    if start.startswith("vim"):
        agent.call("send", key="0", read="none")
    assert "tab" in act("insert", text=HOSTILE)["content"]
    for wrong in ("\x1b:q!", "\x03", "\x9b1A"):
        refused("INVALID_ARGUMENT", agent.call, "editor_action", action="insert", text=wrong)
    assert path.read_text() == "one\ntwo\nthree\n"
    kept = act("quit")
    assert kept["mode"] == "editor"  # there are changes
    assert kept["note"] if start == "nano" else "E37" in kept["content"]
    act("save")
    assert path.read_text() == f"one\n{HOSTILE}two\nthree\n"
    act("insert", text="x")
    assert act("save_quit")["mode"] == "shell_prompt"
    assert path.read_text() != f"one\n{HOSTILE}two\nthree\n"


def test_text_goes_into_nothing_but_an_open_command_line(agent: Agent, tmp_path: Path):
    path = tmp_path / "file"
    path.write_text("one\n")
    opened(agent, f"nano {path}", "editor")
    agent.call("send", key="C-w", wait_for="ready")  # nano asks what to search
    refused("WRONG_MODE", agent.call, "editor_action", action="insert", text="no")
    agent.call("send", key="C-c", wait_for="ready")
    assert agent.call("editor_action", action="quit")["mode"] == "shell_prompt"
    opened(agent, f"vim -u NONE -M {path}", "editor")
    assert "E21" in agent.call("editor_action", action="insert", text="dd:wq\n")["content"]  # it cannot be changed
    assert agent.call("editor_action", action="quit")["mode"] == "shell_prompt"
    assert path.read_text() == "one\n"


@pytest.mark.parametrize("start", ["less FILE", "more FILE", "git -C REPO log", "man -P less -l PAGE"])
def test_a_pager_turns_searches_and_quits(agent: Agent, tmp_path: Path, start: str):
    file, page, repository = tmp_path / "file", tmp_path / "page.1", tmp_path / "repository"
    lines = [f"line {number}" + (" !mark" if number == 70 else "") for number in range(100)]
    file.write_text("\n".join(lines))
    page.write_text(".TH X 1\n.nf\n" + "\n".join(lines))
    if "REPO" in start:
        who = ("-c", "user.name=a", "-c", "user.email=b")
        subprocess.run(["git", "init", "-q", str(repository)], check=True)
        commit = ["git", "-C", str(repository), *who, "commit", "-q", "--allow-empty", "-F", str(file)]
        subprocess.run(commit, check=True)
    for name, path in (("FILE", file), ("PAGE", page), ("REPO", repository)):
        start = start.replace(name, str(path))
    opened(agent, start, "pager")
    first = agent.call("pager_action", action="next")
    assert first["mode"] == "pager"
    assert "line 30\n" in first["content"]
    assert "line 10\n" in agent.call("pager_action", action="prev")["content"]
    if start.startswith("more"):
        refused("UNSUPPORTED", agent.call, "pager_action", action="search", text="mark")
        assert agent.call("pager_action", action="quit")["mode"] == "shell_prompt"
        return
    assert "line 70 !mark" in agent.call("pager_action", action="search", text="!mark")["content"]
    agent.call("send", text="/half", wait_for="ready")
    refused("WRONG_MODE", agent.call, "pager_action", action="next")  # it asks what to search
    agent.call("send", keys=["C-u", "C-u"], wait_for="ready")
    refused("INVALID_ARGUMENT", agent.call, "pager_action", action="search", text="a\n!sh")
    assert agent.call("pager_action", action="quit")["mode"] == "shell_prompt"
    eventually(lambda: agent.run("echo ok")["output"] == "ok\n")


def test_a_shell_that_comes_to_the_front_meanwhile_gets_nothing(agent: Agent, tmp_path: Path):
    """The first key ends vim, and the prompt of the shell behind it looks like vim's command line."""
    (tmp_path / "rc").write_text("set nocompatible\nnnoremap : :q!<CR>\n")
    agent.run("PS1=:")
    opened(agent, f"vim -u {tmp_path}/rc {tmp_path}/file", "editor")
    refused("TMUX_ERROR", agent.call, "editor_action", action="save_quit")
    assert agent.call("read", view="screen")["content"].splitlines()[-1] == ":"
    assert not (tmp_path / "file").exists()
