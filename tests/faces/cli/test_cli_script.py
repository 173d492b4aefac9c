"""`tmuxmcp history` and `script`: what a session's shell ran, whatever became of the session."""

from __future__ import annotations

import subprocess

import psutil
import pytest

from tests.conftest import end_server
from tests.kit.cli import a_command_line


@pytest.fixture(scope="module")
def cli():
    """With the sessions `x.1`, which ended, and `x`, which is lost; no tmux server runs."""
    with a_command_line() as cli:
        cli("new", "--name", "x", "bash")
        cli("run", "-s", "x", "echo first; touch made")
        cli("send", "x", "exit", "--enter", "--wait", "exit")
        cli("new", "--name", "x", "bash")
        cli("run", "-s", "x", "cd /usr; (exit 3)", status=3)
        cli("run", "-s", "x", "echo 'two\nlines'\npwd")
        server = psutil.Process(int(cli.tmux("display-message", "-p", "#{pid}").stdout))
        end_server(cli.state)
        server.wait(20)
        yield cli


def test_history_of_what_is_gone(cli):
    told = cli.json("history", "x")
    assert [each["exit_code"] for each in told["commands"]] == [3, 0]
    (failed,) = cli.json("history", "x", "--failed")["commands"]
    assert (failed["text"], failed["cwd"]) == ("cd /usr; (exit 3)", "/usr")
    told = cli.json("history", "x.1")
    assert (told["session_id"], told["commands"][0]["text"]) == ("x.1", "echo first; touch made")
    assert "echo first" in cli.out("history", "x.1")
    cli.error("history", "nobody", status=3)
    cli.error("history", "x", "-n", "9999", status=2)
    assert cli.tmux("list-sessions").returncode != 0


def test_script_of_what_is_gone(cli):
    text = cli.out("script", "x")
    assert "exit code 3: cd /usr; (exit 3)\ncd /usr\necho 'two\nlines'\npwd\n" in text
    done = subprocess.run(["bash", "-s"], input=text.encode(), capture_output=True, check=True)
    assert done.stdout == b"two\nlines\n/usr\n"
    assert cli.json("script", "x") == {"session_id": "x", "shell": "bash", "whole": True, "script": text}
    lines = cli.out("script", "x.1").splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert lines[3:5] == [f"cd {cli.work}", "echo first; touch made"]
    assert cli.tmux("list-sessions").returncode != 0
