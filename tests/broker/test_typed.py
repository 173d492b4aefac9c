"""Commands for a line editor that takes no pastes."""

from __future__ import annotations

import subprocess

from hypothesis import given
from hypothesis import strategies as st

from tmuxmcp.tmux.shells.bash import BASH


@given(st.binary(min_size=1, max_size=60).filter(lambda text: b"\0" not in text))
def test_a_command_on_one_line_is_the_same_command(text: bytes) -> None:
    line = BASH.one_line(text)
    assert not any(byte < 0x20 or byte == 0x7F for byte in line)
    said = subprocess.run(
        ["bash", "-c", b'eval() { printf %s "$1"; }; ' + line], capture_output=True, check=True, env={"LC_ALL": "C"}
    )
    assert said.stdout == text
