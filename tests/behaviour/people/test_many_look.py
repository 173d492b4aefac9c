"""People look at a session: an agent is told who, and neither their terminals nor their number change anything."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SLOW
from tests.kit.agent import Agent, an_agent, eventually
from tests.kit.crowd import crowd, person
from tests.kit.fixtures import of_file
from tests.kit.terminal import drawn_until, watching

SIZES = [(10, 4), (200, 60), (500, 200)]
"""Columns and rows of people's terminals."""

LEAVES = ["detaches", "killed", "hangs up", "stuck"]
"""How people go; who is stuck reads nothing, and is killed."""

DRAWS = """
import itertools, os, sys

def frame(number):
    rows = [f"\\x1b[{row};1H\\x1b[4{row % 8}m{number:6} {row:3} " + "#" * ((number + row) % 80) + "\\x1b[0m\\x1b[K"
            for row in range(1, 30)]
    sys.stdout.write("".join(rows))
    sys.stdout.flush()

sys.stdout.write("\\x1b[?1049h")
for number in itertools.count():
    if os.path.exists(sys.argv[1]):
        break
    frame(number % 1000)
frame(12345)
input("\\x1b[30;1Hdone")
sys.stdout.write("\\x1b[?1049l")
"""


agent = of_file(an_agent, "bash")


def viewers(agent: Agent, session: str) -> list[dict[str, Any]]:
    return agent.call("get_session", session_id=session)["viewers"]


def test_who_looks_at_a_session_is_told_and_whether_they_may_type(agent: Agent):
    made, other = (agent.call("create_session", program="cat") for _ in range(2))
    seen = made["session_id"]
    assert viewers(agent, seen) == []
    only_looks = made["attach_command"]
    with watching(only_looks, 24, 80) as (first, _), watching(other["attach_command"], 24, 80):
        eventually(lambda: len(viewers(agent, seen)) == 1)
        tty = os.readlink(f"/proc/{first}/fd/0")
        (viewer,) = viewers(agent, seen)
        name = f"{pwd.getpwuid(os.geteuid()).pw_name} {tty}"
        assert viewer.items() >= {"kind": "tmux", "name": name, "may_type": False}.items()
        assert datetime.fromisoformat(viewer["since"]).tzinfo
        with watching(only_looks.replace(" -r ", " "), 24, 80) as (second, _):
            eventually(lambda: [each["may_type"] for each in viewers(agent, seen)] == [False, True])
            os.kill(second, signal.SIGTERM)
            eventually(lambda: len(viewers(agent, seen)) == 1)
    eventually(lambda: viewers(agent, seen) == [])


def test_who_looks_by_another_tmux_session_is_told_too(agent: Agent):
    """A script groups a tmux session of its own with ours: same window, another name."""
    made = agent.call("create_session", program="cat")
    grouped = made["attach_command"].replace("attach -r -t", "new-session -s theirs -t")
    with watching(grouped, 24, 80):
        eventually(lambda: [each["may_type"] for each in viewers(agent, made["session_id"])] == [True])


# ---- nothing of them changes anything ------------------------------------------------------------


def visit(argv: list[str], size: tuple[int, int], leaves: str) -> None:
    """Look at a session in a terminal, change its size, and go."""
    pid, master = person(argv, *size)
    try:
        if leaves != "stuck":
            drawn_until(master, b"\x1b[")
            termios.tcsetwinsize(master, (size[1] // 2, size[0] // 2))
            drawn_until(master, b"\x1b[")
        if leaves == "detaches":
            for key in (b"\x02", b"d"):
                time.sleep(0.01)  # as a person types: tmux takes keys that follow each other faster for a paste
                os.write(master, key)
            drawn_until(master, b"[detached")
    finally:
        if leaves in ("killed", "stuck"):
            os.kill(pid, signal.SIGKILL)
        os.close(master)
        os.waitpid(pid, 0)


@contextmanager
def settled(agent: Agent, made: dict[str, Any], cols: int, rows: int) -> Iterator[int]:
    """A person's terminal that looks at a session, once tmux has drawn all that it draws for one that comes.

    That is twice: as it attaches, and once its client tells the size of its terminal, which may be much later.
    """
    argv = shlex.split(made["attach_command"])
    tmux = argv[: argv.index("attach")]
    told = f"told-{made['session_id']}"  # the server remembers that it was signalled
    subprocess.run([*tmux, "set-hook", "-g", "client-resized[90]", f"wait-for -S {told}"], check=True)
    pid, master = person(argv, cols, rows)
    try:
        drawn_until(master, b"\x1b[")
        subprocess.run([*tmux, "wait-for", told], check=True, timeout=10 * SLOW)
        for word in ("first", "second"):  # the rows above the second word are drawn before it is
            agent.run(f"echo the ''{word}", session_id=made["session_id"])
            drawn_until(master, f"the {word}".encode())
        yield master
    finally:
        os.kill(pid, signal.SIGKILL)
        os.close(master)
        os.waitpid(pid, 0)


def test_a_command_draws_nobody_the_whole_screen_again(agent: Agent):
    """tmux does that whenever an option is set, for everybody who is attached anywhere."""
    made = agent.call("create_session", program="bash")
    session = made["session_id"]
    agent.run(r"printf '\e[2J\e[20;1H%s%s\e[H' far below", session_id=session)
    with settled(agent, made, 80, 26) as master:
        for number in range(5):
            assert agent.run(f"(exit {number})", session_id=session)["exit_code"] == number
        agent.run("echo at the e''nd", session_id=session)
        seen = drawn_until(master, b"at the end")
        assert b"exit 4" in seen
        assert b"farbelow" not in seen


@pytest.mark.parametrize("shell", ["bash", "zsh"])  # fish sets the title with every command, which draws it too
def test_a_command_draws_nothing_around_the_session_again(agent: Agent, shell: str):
    """tmux fills what a larger terminal has left, a dot a cell; anew whenever a shell tells its directory."""
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not here")
    made = agent.call("create_session", program=shell)
    session = made["session_id"]
    with settled(agent, made, 100, 30) as master:
        for number in range(3):
            assert agent.run(f"sh -c 'exit {number}'", session_id=session)["exit_code"] == number
        agent.run("echo at the e''nd", session_id=session)
        assert "·".encode() not in drawn_until(master, b"at the end")
        agent.run("cd /", session_id=session)
        drawn_until(master, "·".encode())  # it is told when it is another


def test_people_who_come_and_go_lose_no_byte_of_a_flood(agent: Agent, tmp_path: Path):
    made, stop = agent.call("create_session", program="bash", rows=30, cols=100), tmp_path / "stop"
    session, argv = made["session_id"], shlex.split(made["attach_command"])
    flood = f"i=0; until test -e {stop}; do for _ in {{1..500}}; do echo $((++i)); done; done; (exit 7)"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(agent.run, flood, session_id=session, timeout_ms=50_000, max_bytes=16 << 20)
        try:
            for size, leaves in product(SIZES, LEAVES):
                visit(argv, size, leaves)
        finally:
            stop.touch()
        ran = running.result()
    lines = ran["output"].splitlines()
    assert lines == [str(number) for number in range(1, len(lines) + 1)]
    assert (ran["exit_code"], ran["completed"], ran["truncated"]) == (7, True, False)
    assert agent.run("stty size", session_id=session)["output"] == "30 100\n"


def test_people_who_come_and_go_garble_no_screen(agent: Agent, tmp_path: Path):
    program, stop = tmp_path / "draws.py", tmp_path / "stop"
    program.write_text(DRAWS)
    args = ["-c", f"exec {sys.executable} {program} {stop}"]
    made, alone = (agent.call("create_session", program="sh", args=args, rows=30, cols=100) for _ in range(2))
    argv = shlex.split(made["attach_command"])
    for size, leaves in product(SIZES, LEAVES):
        visit(argv, size, leaves)
    stop.touch()
    watched, expected = (
        agent.call(
            "read", session_id=each["session_id"], view="screen", format="ansi", wait_for="pattern", pattern="done"
        )
        for each in (made, alone)
    )
    assert watched["content"] == expected["content"]
    assert (watched["rows"], watched["cols"], watched["cursor"]) == (30, 100, expected["cursor"])


def test_a_hundred_people_look_and_every_answer_is_exact(agent: Agent):
    made = agent.call("create_session", program="bash", name="hundred")
    with crowd(shlex.split(made["attach_command"]), 100):
        assert len(viewers(agent, "hundred")) == 100
        for number in range(5):
            ran = agent.run(f"echo {number}; (exit {number})", session_id="hundred", timeout_ms=50_000)
            assert (ran["output"], ran["exit_code"], ran["completed"]) == (f"{number}\n", number, True)
        ran = agent.run("seq 20000", session_id="hundred", timeout_ms=50_000, max_bytes=1 << 20)
        assert ran["output"].splitlines() == [str(number) for number in range(1, 20001)]
    eventually(lambda: viewers(agent, "hundred") == [])
