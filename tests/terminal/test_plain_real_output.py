"""Clean text of what real programs print in a real pane: line by line what tmux keeps in its history."""

from __future__ import annotations

import itertools
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal.conftest import DEADLINE_S, RealTmux, trimmed
from tmuxmcp.terminal.text.plain import plain

COLS, ROWS = 80, 24
NUMBERS = itertools.count()

DOCKER = r"""
import sys
w, n = sys.stdout.write, 5
w("Using default tag: latest\n" + "".join(f"layer{i}: Pulling fs layer\n" for i in range(n)))
for percent in range(0, 101, 4):
    for i in range(n):
        state = f"Downloading [{'=' * (percent // 4):<25}] {percent}%" if percent < 100 else "Pull complete"
        w(f"\x1b[{n - i}A\x1b[2K\rlayer{i}: {state}\r\x1b[{n - i}B")
        sys.stdout.flush()
w("Digest: sha256:abc\nStatus: Downloaded\n")
"""
BUILDKIT = r"""
import sys
for step in range(1, 30):
    if step > 1:
        sys.stdout.write(f"\x1b[{min(step, 8)}A\r\x1b[J")
    rows = [f" => [{n}/30] RUN step {n}" for n in range(max(1, step - 6), step + 1)]
    sys.stdout.write(f"[+] Building {step}.0s\n" + "\n".join(rows) + "\n")
    sys.stdout.flush()
print("done")
"""
RICH = r"""
import time
from rich.console import Console
from rich.progress import Progress
console = Console(force_terminal=True, width=%d)
with Progress(console=console, refresh_per_second=200) as progress:
    tasks = [progress.add_task(f"[red]task {n}", total=20) for n in range(3)]
    for step in range(20):
        for task in tasks:
            progress.advance(task)
        if step %% 7 == 0:
            progress.console.print(f"step {step}")
        time.sleep(0.005)
print("after")
"""
APT = r"""
import sys
w = sys.stdout.write
w("".join(f"\rReading package lists... {n}%%" for n in range(101)) + "\rReading package lists... Done\n")
w("\n\x1b7\x1b[0;23r\x1b8\x1b[1A")
for n in range(40):
    w(f"Setting up package{n} (1.{n}) ...\n\x1b7\x1b[24;0f\x1b[42m\x1b[30m")
    w(f"Progress: [{n * 2:3}%%]\x1b[49m\x1b[39m [{'#' * n:.<40}]\x1b8")
    sys.stdout.flush()
w("\x1b7\x1b[0;24r\x1b8\x1b[1A\x1b[J")
print("done")
""".replace("%%", "%")
BAR = r"""
import sys
for n in range(%d + 1):
    sys.stdout.write("\r" + "#" * n + "." * (%d - n))
    sys.stdout.flush()
print("\nnext")
"""


@pytest.fixture
def work() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tm-") as directory:
        yield Path(directory)


def printed(tmux: RealTmux, command: str, work: Path) -> tuple[bytes, list[str]]:
    """What a command printed in a pane: its bytes, and the lines of tmux's history."""
    name = f"live{next(NUMBERS)}"
    log = work / f"{name}.raw"
    end = f"\x1b]2;{name}\x07".encode()
    script = f"cd {shlex.quote(str(work))}; {command}; printf '\\033]2;{name}\\007'; exec cat"
    start = ["new-session", "-d", "-s", name, "-x", str(COLS), "-y", str(ROWS), "sh", "-c", script]
    tmux.run(*start, ";", "pipe-pane", "-O", "-t", name, f"exec cat >> {shlex.quote(str(log))}")
    deadline = time.monotonic() + DEADLINE_S
    while not log.exists() or not log.read_bytes().endswith(end):
        assert time.monotonic() < deadline, tmux.run("capture-pane", "-p", "-t", name)
        time.sleep(0.01)
    while tmux.run("display", "-p", "-t", name, "#{pane_title}").strip() != name:
        assert time.monotonic() < deadline
    history = tmux.run("capture-pane", "-p", "-J", "-S", "-", "-t", name)
    tmux.run("kill-session", "-t", f"={name}")
    return log.read_bytes(), trimmed(history.split("\n"))


def same(tmux: RealTmux, command: str, work: Path) -> list[str]:
    """The lines of clean text, which are those of tmux."""
    data, history = printed(tmux, command, work)
    lines = trimmed(plain(data, COLS, ROWS).text.split("\n"))
    assert [line.expandtabs() for line in lines] == history  # tmux keeps no tabs
    return lines


def script(work: Path, text: str) -> str:
    (work / "script.py").write_text(text)
    return f"{shlex.quote(sys.executable)} script.py"


def test_layers_of_docker(real_tmux: RealTmux, work: Path):
    lines = same(real_tmux, script(work, DOCKER), work)
    assert lines[1:6] == [f"layer{n}: Pull complete" for n in range(5)]
    assert len(lines) == 8


def test_steps_of_a_build(real_tmux: RealTmux, work: Path):
    lines = same(real_tmux, script(work, BUILDKIT), work)
    assert lines.count("[+] Building 29.0s") == 1


@pytest.mark.parametrize("width", [79, 80])
def test_bars_of_rich(real_tmux: RealTmux, work: Path, width: int):
    lines = same(real_tmux, script(work, RICH % width), work)
    bars = [line for line in lines if line.startswith("task")]
    assert [line.split()[1] for line in bars] == ["0", "1", "2"]
    assert all("100%" in line for line in bars)
    assert [line for line in lines if line.startswith(("step", "after"))] == ["step 0", "step 7", "step 14", "after"]


def test_bar_of_apt_in_the_last_row(real_tmux: RealTmux, work: Path):
    lines = same(real_tmux, script(work, APT), work)
    assert lines[0] == "Reading package lists... Done"
    assert [line.split()[2] for line in lines if line.startswith("Setting")] == [f"package{n}" for n in range(39)]
    assert not any("Progress" in line for line in lines)


@pytest.mark.parametrize("width", [20, 79, 80, 81, 100, 160, 200])
def test_bars_of_any_width(real_tmux: RealTmux, work: Path, width: int):
    lines = same(real_tmux, script(work, BAR % (width, width)), work)
    assert lines[-1] == "next"
    if width <= COLS:
        assert lines == ["#" * width, "next"]


def test_box_of_dialog_where_lines_are_drawn_by_repeating(real_tmux: RealTmux, work: Path):
    command = "LC_ALL=C TERM=xterm-256color dialog --infobox Working 5 40"
    data, _ = printed(real_tmux, command, work)
    assert b"lq\x1b[37b" in data
    lines = [line.strip() for line in plain(data, cols=COLS, rows=ROWS).text.split("\n")]
    first = lines.index(f"┌{'─' * 38}┐")
    assert lines[first + 1] == f"│ Working{' ' * 30}│"
    assert f"└{'─' * 38}┘" in lines


def test_progress_of_git_and_curl(real_tmux: RealTmux, work: Path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q", work / "from"], check=True)
    for number in range(300):
        (work / "from" / f"file{number}").write_text(f"{number}\n" * number)
    subprocess.run([*git, "-C", work / "from", "add", "."], check=True)
    subprocess.run([*git, "-C", work / "from", "commit", "-qm", "all"], check=True)
    lines = same(real_tmux, f"git clone --progress file://{work}/from to", work)
    assert sum(line.startswith("Receiving objects: ") for line in lines) == 1
    (work / "large").write_bytes(b"x" * 20_000_000)
    lines = same(real_tmux, f"curl -o /dev/null file://{work}/large", work)
    assert lines[-1].startswith("100 ")
    same(real_tmux, f"curl -# -o /dev/null file://{work}/large", work)


@pytest.mark.parametrize(
    "command",
    [
        "seq 3000",
        "seq -s ' ' 2000",
        "ls -lR --color=always /usr/share/doc | head -n 3000",
        "git --no-pager -c color.ui=always log -3 --stat 2>&1; git --no-pager help -a",
        "python3 -c 'import this; help(str)' | cat",
        "for n in $(seq 300); do printf '%s%b' \"$n\" '\\t日本語 é\\n'; done",
    ],
)
def test_plain_output(real_tmux: RealTmux, work: Path, command: str):
    same(real_tmux, command, work)
