"""What `run` gives of programs that draw the screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import SLOW
from tests.kit.programs import need
from tmuxmcp.broker.broker import Broker

LONG_MS = int(20_000 * SLOW)

CURSES = "import curses; s = curses.initscr(); s.addstr(2, 2, 'drawn'); s.refresh(); "
ASKS = {
    "vim": ("vim -u NONE lines", "line 7", "editor"),
    "less": ("less lines", "line 7", "pager"),
    "curses": (f'python3 -c "{CURSES} s.getch(); curses.endwin()"', "  drawn", "fullscreen"),
    "nano": ("nano lines", "line 7", "editor"),
    "fzf": ("fzf < lines", "line 7", "fullscreen"),
}


@pytest.fixture
async def shell(broker: Broker, home: Path) -> str:
    (home / "lines").write_text("".join(f"line {number}\n" for number in range(100)))
    return (await broker.create_session("bash", cwd=str(home))).session_id


@pytest.mark.parametrize(("command", "shows", "mode"), ASKS.values(), ids=ASKS.keys())
async def test_a_program_that_draws_is_shown(broker: Broker, shell: str, command: str, shows: str, mode: str):
    need(command.split()[0])
    ran = await broker.run(f"echo before; {command}", shell, timeout_ms=LONG_MS)
    assert (ran.outcome, ran.completed, ran.mode) == ("ready", False, mode), ran
    assert shows in ran.output
    assert "left out" not in ran.output
    assert "Its screen is in output. Not finished. " in (ran.note or "")
    if mode != "fullscreen":
        assert ran.output.startswith("before\n")
    screen = await broker.read("diff", shell)
    assert screen.changed_rows == []  # the caller has seen it


async def test_a_screen_is_cut_to_its_limit(broker: Broker, shell: str):
    ran = await broker.run("echo before; vim -u NONE lines", shell, max_bytes=40, timeout_ms=LONG_MS)
    assert len(ran.output) <= 40
    assert "line 0" in ran.output
    assert ran.truncated


async def test_a_program_that_crashed_on_its_screen_is_shown_as_it_left_it(broker: Broker, shell: str):
    ran = await broker.run(f"echo before; python3 -c \"{CURSES} raise SystemExit('boom')\"", shell, timeout_ms=LONG_MS)
    assert (ran.completed, ran.exit_code) == (True, 1)
    assert ran.output.startswith("before\n")
    assert "  drawn" in ran.output
    assert "boom" in ran.output
    assert "left out" not in ran.output
    assert "without leaving its screen" in (ran.note or "")


async def test_commands_on_a_screen_that_was_not_left_are_as_exact_as_ever(broker: Broker, shell: str):
    await broker.run(r"printf '\033[?1049hdrawn'", shell)
    after = await broker.run("echo after; seq 3", shell)
    assert after.output == "after\n1\n2\n3\n"
    assert "the alternate screen is on" in (after.note or "")
    long = await broker.run("seq 100000", shell)
    assert long.output.startswith("1\n2\n")
    assert long.output.endswith("99999\n100000\n")
    left = await broker.run("tput rmcup; echo left", shell)
    assert left.output.endswith("left\n")
