"""What a line editor showed of a command, compared with what was typed; and commands where it takes no pastes."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmuxmcp.broker.typed import Echo, compared
from tmuxmcp.tmux.shells.bash import BASH

LONG = "echo " + " ".join(f"w{number}" for number in range(900))


@pytest.mark.parametrize(
    ("typed", "shown", "echo"),
    [
        ("ls -l", "ls -l\n", Echo.OURS),
        ("ls -l", "ls\n-l\n", Echo.OURS),
        ("ls -l", "half typedls -l\n", Echo.OURS),
        ("ls", "ls /home; rm x\n", Echo.WITHIN),
        ("ls", "rm x; ls\n", Echo.OURS),  # as behind a half-typed line that is not drawn away
        ("ls -l", "make\n", Echo.OTHER),
        ("ls -l", "\n", Echo.BLANK),
        ("ls -l", "", Echo.BLANK),
        ("", "\n", Echo.OURS),
        ("", "make\n", Echo.OTHER),
        ("äöü", "äöü\n", Echo.OURS),
        ("echo a\necho b", "echo a^Jecho b\n", Echo.OURS),
        ("echo '^J'", "echo '^J'\n", Echo.OURS),
        ("cat file && make everything", "<ke everything\n", Echo.OURS),
        ("cat file && make everything", "< everything\n", Echo.OTHER),
        ("cat file && make everything", "cat x; make everything\n", Echo.OTHER),
        (LONG, LONG + "\n", Echo.OURS),
        (LONG, LONG[:600], Echo.WITHIN),
        (LONG, "make\n", Echo.OTHER),
    ],
)
def test_echo_is_compared(typed: str, shown: str, echo: Echo) -> None:
    assert compared(typed, shown, shown) is echo


def test_the_end_of_a_long_echo_is_compared_as_well() -> None:
    assert compared(LONG, "\r<lots of redrawing", "\r<w897 w898 w899\n") is Echo.OURS
    assert compared(LONG, "\r<lots of redrawing", "\r<w897 w898 w890\n") is Echo.OTHER


@given(st.binary(min_size=1, max_size=60).filter(lambda text: b"\0" not in text))
def test_a_command_on_one_line_is_the_same_command(text: bytes) -> None:
    line = BASH.one_line(text)
    assert not any(byte < 0x20 or byte == 0x7F for byte in line)
    said = subprocess.run(
        ["bash", "-c", b'eval() { printf %s "$1"; }; ' + line], capture_output=True, check=True, env={"LC_ALL": "C"}
    )
    assert said.stdout == text
