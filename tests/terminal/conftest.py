from __future__ import annotations

import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

DEADLINE_S = 20.0


@dataclass(frozen=True)
class Shown:
    """What a real tmux shows, without trailing blanks and empty rows."""

    screen: list[str]
    history: list[str]
    """Scrollback and screen, as logical lines."""
    cursor: tuple[int, int]


class RealTmux:
    """A tmux server of one test file's own."""

    def __init__(self, home: Path) -> None:
        self._home = home
        environment = ["env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TERM=xterm-256color"]
        self._argv = [*environment, "tmux", "-u", "-f", "/dev/null", "-S", str(home / "s")]
        self._shown = 0
        self.run("start-server", ";", "set", "-s", "exit-empty", "off", ";", "set", "-g", "history-limit", "20000")

    def run(self, *args: str) -> str:
        return subprocess.run([*self._argv, *args], check=True, capture_output=True, timeout=DEADLINE_S).stdout.decode()

    def show(self, data: bytes, cols: int, rows: int) -> Shown:
        """Let a pane print these bytes, unchanged by the line discipline, and look at it."""
        self._shown += 1
        name = f"shown{self._shown}"
        file = self._home / name
        file.write_bytes(data + f"\x1b]2;{name}\x07".encode())  # the title says that tmux has read it all
        script = f"stty raw -echo; cat {shlex.quote(str(file))}; exec cat"
        self.run("new-session", "-d", "-s", name, "-x", str(cols), "-y", str(rows), script)
        deadline = time.monotonic() + DEADLINE_S
        while self.run("display", "-p", "-t", name, "#{pane_title}").strip() != name:
            assert time.monotonic() < deadline, "tmux did not read everything"
        screen = self.run("capture-pane", "-p", "-t", name)
        history = self.run("capture-pane", "-p", "-J", "-S", "-", "-t", name)
        row, col = self.run("display", "-p", "-t", name, "#{cursor_y} #{cursor_x}").split()
        self.run("kill-session", "-t", f"={name}")
        return Shown(trimmed(screen.split("\n")), trimmed(history.split("\n")), (int(row), int(col)))


def trimmed(lines: list[str]) -> list[str]:
    """Without trailing blanks and trailing empty lines."""
    lines = [line.rstrip(" ") for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    return lines


@pytest.fixture(scope="module")
def real_tmux() -> Iterator[RealTmux]:
    """A real tmux server of these tests' own; nothing of it is left afterwards."""
    with tempfile.TemporaryDirectory(prefix="tm-") as home:  # short: socket paths are
        server = RealTmux(Path(home))
        yield server
        server.run("kill-server")
