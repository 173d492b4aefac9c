from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
import tty
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import SLOW
from tmuxmcp.terminal.emulator.capture import SCREEN_STATE_FORMAT, Capture, KnownRows, Styled
from tmuxmcp.terminal.emulator.sheet import LINE_DRAWING
from tmuxmcp.terminal.snapshot import Cells, Style

DEADLINE_S = 20 * SLOW
END = "end-of-an-answer"
PANES = 40
"""Panes open at one time."""


def styled_rows(lines: Iterable[str]) -> list[Styled]:
    """The rows of one capture, none of them known before."""
    return KnownRows().styled(lines)


def parse_capture(lines: Iterable[str]) -> Capture:
    """The same as text, with what stands in reverse video."""
    return KnownRows().capture(lines)


@dataclass(frozen=True)
class Shown:
    """What a real tmux shows, without trailing blanks and empty rows."""

    screen: list[str]
    history: list[str]
    """Scrollback and screen, as logical lines."""
    cursor: tuple[int, int]
    seed: Seed


@dataclass(frozen=True)
class Seed:
    """What `seed` takes of a pane."""

    facts: str
    rows: list[str]
    under: list[str]


class RealTmux:
    """A tmux server of one test file's own."""

    def __init__(self, home: Path, binary: str = "tmux") -> None:
        self._home = home
        environment = ["env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TERM=xterm-256color"]
        self._argv = [*environment, binary, "-u", "-f", "/dev/null", "-S", str(home / "s")]
        self._shown = 0
        self._terminals: dict[str, str] = {}
        self.run("start-server", ";", "set", "-s", "exit-empty", "off", ";", "set", "-g", "history-limit", "20000")

    def run(self, *args: str) -> str:
        return subprocess.run([*self._argv, *args], check=True, capture_output=True, timeout=DEADLINE_S).stdout.decode()

    def start(self, streams: Sequence[bytes], cols: int, rows: int) -> list[str]:
        """Let panes print a stream each, unchanged by the line discipline; give their names when tmux has read all."""
        names = [f"shown{self._shown + number}" for number in range(len(streams))]
        self._shown += len(streams)
        lines = []
        for name in names:
            lines.append(f"new-session -d -s {name} -x {cols} -y {rows} sleep 2147483647")
            lines.append(f"pipe-pane -t {name} 'exec cat > {self._home / name}.copy'")
        self.script(lines)
        deadline = time.monotonic() + DEADLINE_S
        self._terminals |= self._terminals_of(names, deadline)
        for name, data in zip(names, streams, strict=True):
            give(self._terminals[name], data)
        for name, data in zip(names, streams, strict=True):
            copy = self._home / f"{name}.copy"
            while not copy.exists() or copy.stat().st_size < len(data):
                assert time.monotonic() < deadline, "tmux did not read everything"
                time.sleep(0.002)
        return names

    def _terminals_of(self, names: Sequence[str], deadline: float) -> dict[str, str]:
        """The terminals of panes which run their program: before, tmux sets them up."""
        while True:
            asked = [f"display-message -p -t ={name}: '#{{pane_current_command}} #{{pane_tty}}'" for name in names]
            told = [line.split(" ") for line in self.script(asked).splitlines()]
            if all(command == "sleep" for command, _ in told):
                return dict(zip(names, (terminal for _, terminal in told), strict=True))
            assert time.monotonic() < deadline, "a pane does not start"
            time.sleep(0.005)

    def print_more(self, name: str, data: bytes, before: int) -> None:
        """Let a pane print more, once, after so many bytes; come back when tmux has read it."""
        deadline, copy = time.monotonic() + DEADLINE_S, self._home / f"{name}.copy"
        give(self._terminals[name], data)
        while copy.stat().st_size < before + len(data):
            assert time.monotonic() < deadline, "tmux did not read everything"
            time.sleep(0.002)

    def script(self, lines: Sequence[str]) -> str:
        """Run many commands at once and give what they print."""
        file = self._home / "script"
        file.write_text("".join(f"{line}\n" for line in lines))
        return self.run("source-file", str(file))

    def show(self, data: bytes, cols: int, rows: int) -> Shown:
        """Let a pane print these bytes and look at it."""
        return self.show_all([data], cols, rows)[0]

    def show_all(self, streams: Sequence[bytes], cols: int, rows: int) -> list[Shown]:
        """Let panes print these streams, one each, and look at them."""
        shown: list[Shown] = []
        for start in range(0, len(streams), PANES):
            names = self.start(streams[start : start + PANES], cols, rows)
            shown += self.look(names)
            self.script([f"kill-session -t ={name}" for name in names])
        return shown

    def look(self, names: Sequence[str]) -> list[Shown]:
        """Look at panes, all at once."""
        answers = self.script([command for name in names for command in look_commands(name)]).split(f"{END}\n")
        shown = []
        for first in range(0, len(answers) - 1, 5):
            facts, screen, history, rows, under = [answer.split("\n")[:-1] for answer in answers[first : first + 5]]
            numbers = facts[0].split(" ")
            cursor = (int(numbers[3]), int(numbers[2]))
            shown.append(Shown(trimmed(screen), trimmed(history), cursor, Seed(facts[0], rows, under)))
        return shown


class Panes:
    """Panes of one size that show stream after stream: a pane of its own for each would take much longer."""

    BEGIN = b"\x18\x1b\\\x1b[?1049l\x1bc\x1b[?6l\x1b7\x1b[3J"
    """Makes a pane as good as new, whatever was printed on it."""

    def __init__(self, tmux: RealTmux, cols: int, rows: int) -> None:
        self._tmux, self.count = tmux, PANES
        self._names = tmux.start([b""] * PANES, cols, rows)
        self._printed = dict.fromkeys(self._names, 0)

    def shown(self, streams: Sequence[tuple[int, bytes]]) -> list[list[str]]:
        """Print a stream in each pane, below so many rows, and give the lines from there on, rows joined as by `-J`."""
        names = self._names[: len(streams)]
        for name, (above, data) in zip(names, streams, strict=True):
            whole = self.BEGIN + b"above\r\n" * above + data
            self._tmux.print_more(name, whole, self._printed[name])
            self._printed[name] += len(whole)
        sizes = self._tmux.script([f"display-message -p -t ={name}: '#{{history_size}}'" for name in names]).split()
        begins = [above - int(size) for size, (above, _) in zip(sizes, streams, strict=True)]
        asked = [f"capture-pane -p -e -J -S {begin} -t ={name}:" for name, begin in zip(names, begins, strict=True)]
        answers = self._tmux.script([f"{each} ; display-message -p {END}" for each in asked]).split(f"{END}\n")
        return [trimmed(_without_styles(answer).split("\n")) for answer in answers[:-1]]

    def close(self) -> None:
        self._tmux.script([f"kill-session -t ={name}" for name in self._names])


def _without_styles(captured: str) -> str:
    """What `capture-pane -e` tells of, and lines drawn as lines: without `-e` it gives the letters for them."""
    bare = re.sub(r"\x1b\[[0-9;:]*m", "", captured)
    return re.sub(r"\x0e([^\x0f]*)\x0f?", lambda drawn: drawn[1].translate(LINE_DRAWING), bare)


def give(terminal: str, data: bytes) -> None:
    """Print on a pane's terminal, as a program in it would."""
    with open(os.open(terminal, os.O_RDWR | os.O_NOCTTY), "wb", buffering=0) as file:
        tty.setraw(file)
        while data:
            data = data[file.write(data) :]


def look_commands(name: str) -> list[str]:
    """Commands that show all there is of a pane."""
    asked = [
        f"display-message -p -t {name} '{SCREEN_STATE_FORMAT}'",
        f"capture-pane -p -t {name}",
        f"capture-pane -p -J -S - -t {name}",
        f"capture-pane -p -e -N -t {name}",
        f"capture-pane -p -e -N -a -q -t {name}",
    ]
    return [f"{command} ; display-message -p {END}" for command in asked]


def looks(rows: Sequence[Cells]) -> list[list[tuple[str, Style]]]:
    """Text and style of the cells; without links, which tmux 3.3 drops, and without the blanks after a row's text, of
    which tmux does not tell the colours."""
    found = []
    for row in rows:
        used = max((col + 1 for col, cell in enumerate(row) if cell.text != " "), default=0)
        found.append([(cell.text, cell.style._replace(link="")) for cell in row[:used]])
    return found


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
