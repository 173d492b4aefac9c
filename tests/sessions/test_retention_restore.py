"""What is taken from a session that is over, and which shells ran a command that is not run again."""

from __future__ import annotations

import pytest

from tmuxmcp.sessions.retention import ran_a_command


@pytest.mark.parametrize(
    ("program", "args", "why"),
    [
        ("/bin/bash", ["-c", "make"], "-c"),
        ("sh", ["-ec", "make"], "-ec"),
        ("fish", ["--command=make"], "--command=make"),
        ("bash", ["deploy.sh", "-i"], "deploy.sh"),
        ("dash", ["-", "deploy.sh"], "-"),
        ("bash", ["-O", "extglob", "--rcfile", "x", "deploy.sh"], "deploy.sh"),
        ("bash", ["--rcfile", "x", "-i"], ""),
        ("dash", ["-i"], ""),
        ("bash", ["-s", "word"], ""),
        ("bash", [], ""),
        ("make", ["-c", "x"], ""),
    ],
)
def test_which_shells_ran_a_command(program: str, args: list[str], why: str):
    assert ran_a_command(program, args) == why
