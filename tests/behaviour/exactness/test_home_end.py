"""Home and End as the program's own TERM names them, in real curses programs and in a line editor."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tmuxmcp.broker.broker import Broker
from tmuxmcp.machine.environment import home_and_end

KEYS = """\
import curses

def main(screen):
    screen.addstr(0, 0, "here")
    row = 1
    while True:
        screen.move(row, 0)
        key = screen.getch()
        screen.addstr(row, 0, curses.keyname(key).decode() + ".")
        row += 1

curses.wrapper(main)
"""


async def shown(broker: Broker, **arguments: Any) -> list[str]:
    return (await broker.read("screen", "a", **arguments)).content.split("\n")


@pytest.mark.parametrize("term", ["tmux-256color", "screen-256color", "xterm-256color"])
async def test_a_curses_program_gets_the_keys_of_its_own_term(broker: Broker, tmp_path: Path, term: str):
    (tmp_path / "keys.py").write_text(KEYS)
    await broker.create_session("bash", ["--norc"], name="a", wait_ready=True)
    await broker.send(f"TERM={term} {sys.executable} {tmp_path}/keys.py", session_id="a", enter=True, read="none")
    await shown(broker, wait_for="pattern", pattern="here")
    await broker.send(keys=["Home", "Up", "End*2", {"text": "x"}, "Home"], session_id="a", read="none")
    await broker.send("z", session_id="a", read="none")
    rows = await shown(broker, wait_for="pattern", pattern=r"z\.", since=0)
    wanted = ["KEY_HOME.", "KEY_UP.", "KEY_END.", "KEY_END.", "x.", "KEY_HOME.", "z."]
    assert rows[1 : len(wanted) + 1] == wanted


async def test_a_program_without_application_cursor_mode_gets_the_normal_sequences(broker: Broker):
    words = ["TERM=xterm-256color", "sh", "-c", "stty raw -echo; echo here; exec cat -v"]
    await broker.create_session("env", words, name="a", wait_ready=True)
    await shown(broker, wait_for="pattern", pattern="here")
    await broker.send(keys=["Home", "End", "C-Home"], session_id="a", read="none")
    assert "^[[H^[[F^[[1;5H" in "".join(await shown(broker, wait_for="pattern", pattern="1;5H"))


async def test_a_type_that_nobody_knows_changes_nothing():
    assert await home_and_end(b"no-such-type") == {}
    assert await home_and_end(b"../tmux") == {}
    assert await home_and_end(b"") == {}
    assert await home_and_end(b"vt100") == {}
    assert await home_and_end(b"xterm") == {"Home": b"\x1bOH", "End": b"\x1bOF"}
