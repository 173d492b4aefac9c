"""The demo, as a person or a script starts it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.conftest import SLOW
from tests.kit import forks

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.slow


@pytest.fixture
def place():
    """A directory that everything of one demo lies in; what it left running is ended."""
    with tempfile.TemporaryDirectory(prefix="tm-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)
        for process in left_running(directory):
            with suppress(psutil.Error):
                process.kill()


def start(place, *words):
    """The demo, with a home and a temporary directory of its own."""
    home, temporary = place / "home", place / "tmp"
    home.mkdir()
    temporary.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    env |= {"LANG": "C.UTF-8", "TMUXMCP_STATE_DIR": "/nowhere"}  # not the demo's concern
    return forks.PipedFork(["demo", *words], env, ROOT, stdin=False)


def end_of(demo):
    """What it wrote and nobody has read yet."""
    text, errors = demo.communicate(60 * SLOW)
    return text.decode(), errors.decode()


def left_running(directory):
    """Processes that name a directory in their words."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(directory) + "/" in word for word in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_demo_holds_and_leaves_nothing(place):
    demo = start(place)
    text, errors = end_of(demo)
    assert (demo.returncode, errors) == (0, ""), text
    assert re.search(r"^all \d+ checks held, in \d+\.\d s$", text, re.MULTILINE)
    assert "\x1b" not in text
    assert "✓ 40 of 40 lines are there, in order" in text
    assert "✗" not in text
    servers = json.loads(text[text.index("{\n") : text.index("\n}\n") + 2])["mcpServers"]
    command = [servers["tmuxmcp"]["command"], *servers["tmuxmcp"]["args"]]
    assert Path(command[0]).is_absolute()
    assert command[-1] == "serve"
    assert f"claude mcp add tmuxmcp -- {' '.join(command)}" in text
    assert left_running(place) == []
    assert list((place / "tmp").iterdir()) == []
    assert list((place / "home").iterdir()) == []


def test_demo_keeps_its_session_when_asked(place):
    demo = start(place, "--keep", "--json", "--cols", "100")
    result = json.loads(end_of(demo)[0])
    assert (demo.returncode, result["ok"]) == (0, True), result
    assert all(check["ok"] for check in result["checks"])
    tmux, *words = shlex.split(result["attach_command"])
    assert words[-4:] == ["attach", "-r", "-t", "=demo"]
    socket = words[words.index("-S") + 1]
    assert socket.startswith(result["state_dir"])
    told = subprocess.run(
        [tmux, "-S", socket, "display-message", "-p", "-t", "=demo:", "#{pane_width}"], capture_output=True, text=True
    )
    assert told.stdout == "100\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_demo_that_is_interrupted_leaves_nothing(place, number):
    demo = start(place)
    line = b""
    while b"kill -9 in the middle" not in line:
        line = demo.stdout.readline()
        assert line
    demo.send_signal(number)
    _, errors = end_of(demo)
    assert (demo.returncode, errors) == (128 + number, "")
    deadline = time.monotonic() + 10 * SLOW
    while left_running(place):
        assert time.monotonic() < deadline, [process.cmdline() for process in left_running(place)]
        time.sleep(0.02)
    assert list((place / "tmp").iterdir()) == []


def test_demo_that_fails_says_so(place):
    demo = start(place, "--program-args", "x", "--tools", "human")  # offers none of what it wants to show
    text, _ = end_of(demo)
    assert demo.returncode == 1
    assert "✗ the server answers" in text
    assert "checks failed" in text
    assert left_running(place) == []
    assert list((place / "tmp").iterdir()) == []


def test_wrong_setting_is_said_before_anything_starts(place):
    demo = start(place, "--cols", "0")
    text, errors = end_of(demo)
    assert (demo.returncode, text) == (2, "")
    assert errors.startswith("tmuxmcp: INVALID_ARGUMENT: Setting cols (from flag): ")


def test_a_tmux_that_stands_still_is_ended_all_the_same(place):
    (state := place / "s").mkdir()
    words = f"tmux -S{state}/tmux.sock -f/dev/null new-session -d ; display-message -p #{{pid}}"
    server = psutil.Process(int(subprocess.run(words.split(), capture_output=True, check=True).stdout))
    server.suspend()  # whoever began it has not written its number down
    code = "import pathlib, sys; from tmuxmcp.faces.cli.demo import clean_up; clean_up(pathlib.Path(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, state], env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False)
    assert done.returncode == 0
    assert not left_running(state)
    assert not state.exists()
