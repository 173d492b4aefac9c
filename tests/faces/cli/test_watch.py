"""What the command line draws on a terminal while something goes on: watch, list --watch, attach --take, progress."""

from __future__ import annotations

import json
import os
import re
import signal
import termios
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import until_exists
from tests.kit.cli import COMMAND, CommandLine, CommandTerminal, a_command_line
from tests.kit.terminal import SOON_S
from tmuxmcp.faces.cli.watch import WATCH_FRAME_S
from tmuxmcp.terminal.emulator.capture import clip
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.stream import Stream


@pytest.fixture(scope="module")
def shared():
    """A command line with a session `x` that prints back what it is told."""
    with a_command_line() as command_line:
        command_line("new", "--name", "x", "cat")
        yield command_line


class Viewer(CommandTerminal):
    """A terminal of a size, and what it shows."""

    def __init__(
        self, cli: CommandLine, *words: str, size: tuple[int, int] = (80, 24), command: Sequence[str] = COMMAND
    ):
        self.size = size
        super().__init__(cli, *words, size=size, command=command)

    def resize(self, cols: int, lines: int) -> None:
        self.size, self.seen = (cols, lines), ""
        termios.tcsetwinsize(self.fd, (lines, cols))
        os.killpg(self.process.pid, signal.SIGWINCH)

    @property
    def rows(self) -> list[str]:
        screen = Screen(*self.size)
        Stream(screen).feed(self.seen.encode())
        return [row.rstrip() for row in screen.display]

    def shows(self, probe, what: str = "") -> list[str]:
        deadline = time.monotonic() + SOON_S
        while not probe(rows := self.rows):
            assert time.monotonic() < deadline, (what, rows)
            assert self.read(0.1), (what, self.seen)
        return rows


def pane_size(cli: CommandLine, name: str = "x") -> str:
    facts = cli.json("list")["sessions"]
    return next(f"{each['cols']}x{each['rows']}" for each in facts if each["session_id"] == name)


# ---- watch ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["q", "\x03"], ids=["q", "C-c"])
def test_watch_follows_in_place_until_a_key(shared, key):
    shared("send", "x", f"first {key!r}", "--enter", "--wait", "idle", "--idle-ms", "50")
    with Viewer(shared, "watch", "x") as viewer:
        viewer.shows(lambda rows: any(f"first {key!r}" in row for row in rows))
        viewer.shows(lambda rows: "x  80x24  " in rows[-1] and rows[-1].endswith("q ends"))
        assert "\x1b[?1049h" in viewer.seen
        shared("send", "x", f"second {key!r}", "--enter", "--wait", "none")
        viewer.shows(lambda rows: any(f"second {key!r}" in row for row in rows))
        assert termios.tcgetattr(viewer.fd)[3] & (termios.ECHO | termios.ICANON) == 0
        viewer.type(key)
        assert viewer.end() == 0
        assert viewer.seen.endswith("\x1b[?1049l")
        assert termios.tcgetattr(viewer.fd)[3] & termios.ECHO
    assert key not in shared.out("read", "x", "--since", "0").replace("'q'", "")


def test_watch_in_a_smaller_terminal_leaves_the_pane_its_size(cli):
    cli("new", "--name", "x", "env", "sh", "-c", r"seq 30; printf '%090d|\n\033[31mred' 7; sleep 600")
    with Viewer(cli, "watch", "x", size=(30, 8)) as viewer:
        # What is drawn may come in pieces, the last row last.
        rows = viewer.shows(lambda rows: rows[6] == "red" and rows[7].startswith(" x  80x24  running"))
        assert rows[3:6] == ["30", "0" * 30, "0000000007|"]
        assert pane_size(cli) == "80x24"
        viewer.resize(50, 12)
        viewer.shows(lambda rows: rows[10:11] == ["red"] and rows[11].startswith(" x  80x24"))
        cli.tmux("resize-window", "-t", "=x:", "-x", "40", "-y", "10")
        viewer.shows(lambda rows: " x  40x10" in rows[11])
        viewer.type("q")
        assert viewer.end() == 0


def test_watch_tells_the_end_and_leaves_the_last_screen(cli):
    cli("new", "--name", "x", "env", "sh", "-c", "echo begun; read -r _; echo last words; exit 3")
    with Viewer(cli, "watch", "x") as viewer:
        viewer.shows(lambda rows: rows[0] == "begun")
        cli("send", "x", "--enter", "--wait", "none")
        assert viewer.end() == 0
        assert "\x1b[?1049lbegun" in viewer.seen
        assert "last words" in viewer.seen.rsplit("\x1b[?1049l")[-1]
        assert viewer.seen.endswith("tmuxmcp: session x has ended with exit code 3\r\n")
    with Viewer(cli, "watch", "x") as viewer:
        assert viewer.end() == 0
        assert "has ended with exit code 3" in viewer.seen


def test_watch_tells_that_somebody_killed_it(cli):
    cli("new", "--name", "x", "cat")
    with Viewer(cli, "watch", "x") as viewer:
        viewer.shows(lambda rows: "x  80x24" in rows[-1])
        cli("kill", "x", "--force")
        assert viewer.end() == 0
        assert re.search(r"session x (has ended|is gone)", viewer.seen)


def test_watch_that_is_terminated_leaves_the_terminal_as_it_was(shared):
    with Viewer(shared, "watch", "x") as viewer:
        viewer.shows(lambda rows: "x  80x24" in rows[-1])
        viewer.process.send_signal(signal.SIGTERM)
        assert viewer.end() == 128 + signal.SIGTERM
        assert viewer.seen.endswith("\x1b[?1049l")


def test_watch_of_a_flood_draws_now_and_then(cli):
    cli("new", "--name", "x", "env", "sh", "-c", "read -r _; while :; do seq 1000; done")
    with Viewer(cli, "watch", "x") as viewer:
        viewer.shows(lambda rows: "x  80x24" in rows[-1])
        first_row = "\x1b[1;1H\x1b[0m\x1b[K"
        begun, before = time.monotonic(), viewer.seen.count(first_row)
        cli("send", "x", "--enter", "--wait", "none")
        viewer.shows(lambda rows: viewer.seen.count(first_row) >= before + 20)
        drawn = viewer.seen.count(first_row) - before
        assert drawn <= (time.monotonic() - begun) / WATCH_FRAME_S + 3
        viewer.type("q")
        assert viewer.end() == 0


def test_watch_without_a_terminal_prints_each_screen(cli):
    cli("new", "--name", "x", "cat")
    watching = cli.start("watch", "x")
    line = watching.stdout.readline().decode()
    assert re.fullmatch(r"--- \d\d:\d\d:\d\d  x  80x24  \w+(  .*)?\n", line)
    cli("send", "x", "told", "--enter", "--wait", "pattern", "--pattern", r"^told\n")
    output = b""
    while b"told\ntold\n" not in output:  # what it has not shown by then is gone with the session
        line = watching.stdout.readline()
        assert line, output
        output += line
    cli("kill", "x", "--force")
    rest, errors = watching.communicate(timeout=SOON_S)
    assert watching.returncode == 0
    output += rest
    assert b"\x1b" not in output
    assert re.fullmatch(rb"tmuxmcp: session x (has ended.*|is gone.*)\n", errors)


def test_watch_once(shared):
    shared("send", "x", "once", "--enter", "--wait", "pattern", "--pattern", r"^once\n")
    text = shared.out("watch", "x", "--once")
    assert text.endswith("once\nonce\n")
    assert json.loads(shared.out("watch", "x", "--once", "--json"))["content"] + "\n" == text
    with Viewer(shared, "watch", "x", "--once") as viewer:
        assert viewer.end() == 0
        assert "\x1b" not in viewer.seen
    assert shared.error("watch", "no", status=3).startswith("SESSION_NOT_FOUND: ")


def test_several_are_watched_side_by_side_at_any_width(cli):
    for name in ("a", "b"):
        cli("new", "--name", name, "env", "sh", "-c", f"printf 'this is {name}\\n'; read -r _; exit 3")
    with Viewer(cli, "watch", "a", "b", size=(161, 24)) as viewer:
        rows = viewer.shows(lambda rows: rows[1] == "this is a" + " " * 71 + "│this is b")
        assert re.fullmatch(r" a  80x24  line_input +│ b  80x24  line_input", rows[0])
        viewer.shows(lambda rows: rows[-1].strip() == "2 sessions  q ends")
        viewer.resize(30, 9)
        viewer.shows(lambda rows: rows[1] == "this is a" and rows[5] == "this is b")
        viewer.resize(10, 4)
        viewer.shows(lambda rows: rows[0].startswith(" a") and rows[1].startswith("this is a"))
        assert pane_size(cli, "a") == "80x24"
        viewer.resize(161, 24)
        cli("send", "a", "--enter", "--wait", "none")
        viewer.shows(
            lambda rows: rows[0].startswith(" session a has ended with exit code 3") and "│ b  80x24" in rows[0]
        )
        assert termios.tcgetattr(viewer.fd)[3] & (termios.ECHO | termios.ICANON) == 0
        cli("send", "b", "--enter", "--wait", "none")
        assert viewer.end() == 0
        assert "session b has ended with exit code 3\r\n" in viewer.seen.split("\x1b[?1049l")[-1]
        assert termios.tcgetattr(viewer.fd)[3] & termios.ECHO


@pytest.mark.parametrize("key", ["q", "\x03"], ids=["q", "C-c"])
def test_watching_several_ends_with_a_key(shared, key):
    shared("new", "--name", f"y{ord(key)}", "cat")
    with Viewer(shared, "watch", "x", f"y{ord(key)}", "x") as viewer:
        viewer.shows(lambda rows: rows[-1].strip() == "2 sessions  q ends")
        viewer.type(key)
        assert viewer.end() == 0
        assert viewer.seen.endswith("\x1b[?1049l")


def test_several_without_a_terminal(shared):
    assert shared.error("watch", "x", "x", status=2).startswith(
        "INVALID_ARGUMENT: Several sessions are watched in a ter"
    )
    assert shared.error("watch", "x", "no", "--once", status=3).startswith("SESSION_NOT_FOUND: ")
    assert shared.out("watch", "x", "x", "--once").startswith("--- x  80x24  ")


def test_clip_keeps_attributes_and_width():
    rows = clip(["\x1b[31;1mab\x1b[4mcd", "ef\x1b[0mg", "\x0elqk\x0f x", "日本語"], 3)
    assert rows == ["\x1b[31;1mab\x1b[4mc", "\x1b[31;1m\x1b[4mef\x1b[0mg", "┌─┐", "日"]


# ---- list --watch --------------------------------------------------------------------------------


def test_list_watch_shows_what_comes_and_goes(cli):
    cli("new", "--name", "x", "cat")
    with Viewer(cli, "list", "--watch", size=(60, 10)) as viewer:
        rows = viewer.shows(lambda rows: rows[1].startswith("x ") and rows[-1].startswith(" 1 sessions"))
        assert rows[0].startswith("ID ")
        cli("new", "--name", "y", "cat")
        viewer.shows(lambda rows: rows[2].startswith("y "))
        cli("kill", "x", "--force")
        viewer.shows(lambda rows: rows[1].startswith("y ") and not rows[2])
        viewer.type("q")
        assert viewer.end() == 0
        assert viewer.seen.endswith("\x1b[?1049l")


def test_list_watch_says_what_runs_and_what_needs_a_person(cli):
    cli("new", "--name", "asks", "env", "sh", "-c", "stty -echo; read -r _")
    cli("new", "--name", "works", "sleep", "600")
    cli("take", "works")
    cli("read", "asks", "--wait", "ready")
    with Viewer(cli, "list", "--watch", size=(120, 10)) as viewer:
        rows = viewer.shows(lambda rows: "a secret" in rows[1] and "sleep 600" in rows[2])
        assert rows[0].split()[:4] == ["ID", "MODE", "NEEDS", "COMMAND"]
        assert re.match(r"asks +password +a secret +sh -c", rows[1])
        assert re.match(r"works +running, taken by \w+ +- +sleep 600", rows[2])
        assert "\x1b[1;33masks" in viewer.seen
        for size in ((10, 4), (1, 1), (200, 60)):
            viewer.resize(*size)
            viewer.shows(lambda rows, cols=size[0]: rows[0].startswith("ID"[:cols]) or cols == 1)
        viewer.type("\x03")
        assert viewer.end() == 0
        assert termios.tcgetattr(viewer.fd)[3] & termios.ECHO
    cli.env["NO_COLOR"] = "1"
    with Viewer(cli, "list", "--watch", size=(120, 10)) as viewer:
        viewer.shows(lambda rows: "a secret" in rows[1] and " 2 sessions" in rows[-1])
        assert not re.search(r"\x1b\[[0-9;]*3[0-9]m|\x1b\[1m", viewer.seen)
        viewer.type("q")
        assert viewer.end() == 0


def test_list_watch_without_a_terminal(shared):
    listing = shared.start("list", "--watch")
    lines = iter(listing.stdout.readline, b"\n")
    heading, *rows = lines  # the first table, up to the empty line
    assert heading.startswith(b"ID ")
    assert rows
    assert listing.stdout.readline().split() == heading.split()  # how wide a column is depends on the sessions
    listing.send_signal(signal.SIGINT)
    assert (listing.communicate(timeout=SOON_S)[1], listing.returncode) == (b"", 130)


# ---- attach --take -------------------------------------------------------------------------------


def test_take_types_scrolls_and_leaves_the_size(cli):
    cli("new", "--name", "x", "env", "sh", "-c", "stty -echo; seq 90; exec cat -v")
    cli("read", "x", "--pattern", "^90$", "--since", "0")
    # A test types faster than people do: tmux takes keys within this time of each other for a paste.
    cli.tmux("set-option", "-g", "assume-paste-time", "0")
    with Viewer(cli, "attach", "x", "--take", size=(40, 10)) as viewer:
        viewer.until(" x ")
        viewer.type("typed\r")
        cli.eventually(lambda: "typed\n" in cli.out("log", "x"), "it was not typed")
        viewer.type("\x02\x02\r")
        cli.eventually(lambda: "^B\n" in cli.out("log", "x"), "C-b C-b types no C-b")
        mode = ["display-message", "-p", "-t", "=x:", "#{pane_in_mode}"]
        for key in ("[", "\x1b[5~"):
            viewer.type(f"\x02{key}")
            cli.eventually(lambda: cli.tmux(*mode).stdout == b"1\n", f"C-b {key!r} does not scroll")
            viewer.type("q")
            cli.eventually(lambda: cli.tmux(*mode).stdout == b"0\n", "q does not end scrolling")
        assert pane_size(cli) == "80x24"
        viewer.type("after\r")
        cli.eventually(lambda: "after\n" in cli.out("log", "x"), "it was not typed")
        viewer.type("\x02d")
        assert viewer.end() == 0
        assert "q" not in Path(cli.state, "sessions/x/out.raw").read_text().split("typed")[1]
    assert pane_size(cli) == "80x24"


# ---- progress ------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["run", "send", "read"])
def test_long_wait_shows_how_it_goes_and_erases_it(cli, verb):
    cli("new", "--name", "x")
    go = cli.work / "go"
    command = f"echo working; {until_exists(go)}"
    words = {"run": [command], "send": [command, "--enter", "--timeout", "60"], "read": ["--wait", "command"]}[verb]
    if verb == "read":
        cli("send", "x", command, "--enter", "--wait", "none")
    line = r"\d+ s  working\x1b\[0m" if verb == "run" else r"\d+ s"
    with Viewer(cli, verb, "x", *words) as viewer:
        viewer.shows(lambda rows: re.search(rf"\r\x1b\[2m{line}", viewer.seen))
        go.touch()
        viewer.to_the_end()
        assert viewer.process.wait(SOON_S) == 0
        assert not any(re.search(r"\d s  ", row) for row in viewer.rows)
        if verb == "run":
            assert viewer.rows[0] == "working"


def test_short_wait_shows_nothing_and_no_terminal_neither(cli):
    cli("new", "--name", "x")
    with Viewer(cli, "run", "x", "echo short") as viewer:
        # On a busy machine a second may go by, and then it is a long wait.
        shown = re.sub(r"\r(\x1b\[2m[1-9]\d* s[^\r]*)?\x1b\[K", "", viewer.to_the_end())
        assert shown == "short\r\n"
    assert cli("run", "x", "sleep 1.3").stderr == b""
