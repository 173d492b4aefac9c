"""`tmuxmcp pin` and what else keeps or removes the files of sessions, at the command line."""

from __future__ import annotations

import pytest

from tests.test_cli import own_command_line


@pytest.fixture
def cli():
    yield from own_command_line()


def test_pinned_sessions_are_shown(cli):
    cli("new", "--name", "x", "cat")
    assert cli.json("pin", "x") == {"session_id": "x", "pinned": True}
    (row,) = cli.json("list")["sessions"]
    assert row["pinned"]
    assert ", pinned " in cli.out("list")
    cli("kill", "x", "--force")
    assert "exited KILL (destroyed), pinned " in cli.out("list", "--all")
    cli("pin", "x", "--remove")
    assert "pinned" not in cli.out("list", "--all")


def test_an_earlier_session_is_pinned_without_a_server(cli):
    for _ in range(2):
        cli("new", "--name", "x", "true")
        cli("read", "x", "--wait", "exit")
    cli.tmux("kill-server")
    cli("pin", "x.1")
    assert [(cli.state / "sessions" / name / "pinned").exists() for name in ("x", "x.1")] == [False, True]
    assert cli.tmux("list-sessions").returncode != 0
    assert "There are: x, x.1." in cli.error("pin", "y", status=3)
    cli.error("pin", "../sessions/x", status=3)
