"""`tmuxmcp replay`: a scripted person at a real terminal, which is as it was afterwards, whatever happens."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faces.cli.test_watch import Viewer
from tests.kit.cli import COMMAND, CommandLine, a_command_line
from tests.kit.terminal import SOON_S

RIGHT, LEFT, HOME, END = "\x1b[C", "\x1b[D", "\x1b[H", "\x1b[F"
LEFT_AS_IT_WAS = "\x1b[0m\x1b[?25h\x1b[?7h\x1b[?1049l"

EVENTS = [
    (0, "o", "$ make\r\n"),
    (10, "o", "one\r\n"),
    (10, "m", "make: exit 0"),
    (20, "o", "$ make test\r\ntwo\r\n"),
    (20, "m", "make test: exit 2"),
    (600, "o", "three\r\n"),
    (600, "m", "ls: exit 0"),
]
"""Seconds, what it is, and what."""


def cast(path: Path, *events: tuple[float, str, str], cols: int = 40, rows: int = 6) -> str:
    """A cast of version 2 with these lines."""
    lines = [{"version": 2, "width": cols, "height": rows}, *events]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


@pytest.fixture(scope="module")
def shared():
    with a_command_line() as command_line:
        cast(command_line.work / "a.cast", *EVENTS)
        yield command_line


class Watcher(Viewer):
    """A person who watches a replay."""

    def __init__(
        self, cli: CommandLine, *words: str, size: tuple[int, int] = (80, 24), command: Sequence[str] = COMMAND
    ):
        super().__init__(cli, "replay", *words, size=size, command=command)

    def bar(self, pattern: str) -> list[str]:
        return self.shows(lambda rows: re.search(pattern, rows[-1]), pattern)

    def press(self, key: str, pattern: str) -> list[str]:
        """Press a key; the screen, once the status line says this."""
        self.type(key)
        return self.bar(pattern)

    def is_as_before(self) -> None:
        assert termios.tcgetattr(self.fd) == self.before
        assert self.seen.count("\x1b[?1049h") == self.seen.count("\x1b[?1049l")


def test_a_person_goes_to_and_fro(shared):
    with Watcher(shared, "a.cast", "--idle-limit", "0") as watcher:
        watcher.press(" ", r"paused  0:00 / 10:00  1/3 make: exit 0")
        assert watcher.press(".", r"paused  0:10")[:2] == ["$ make", "one"]
        assert watcher.press("n", r"paused  0:20 / 10:00  2/3 make test")[3] == "two"
        assert watcher.press("f", "no command fails after this")[4] == ""
        assert watcher.press(RIGHT, r"paused  0:25 .* 3/3 ls: exit 0")[4] == ""
        assert watcher.press(LEFT + LEFT, r"paused  0:15")[2] == ""
        assert watcher.press("f", r"paused  0:20")[3] == "two"
        assert watcher.press(END, r"at the end  10:00")[4] == "three"
        assert watcher.press("p", r"paused  0:20")[4] == ""
        assert watcher.press(HOME, r"paused  0:00")[:2] == ["$ make", ""]
        watcher.press("+", r"x1\.5")
        watcher.press("--", r"x0\.5")
        watcher.press("i", r"idle 2 s")
        watcher.type("q")
        assert watcher.end() == 0
        watcher.is_as_before()


def test_it_plays_by_itself_and_cuts_silence(shared):
    with Watcher(shared, "a.cast", "--idle-limit", "0.1", "--speed", "2") as watcher:
        assert watcher.bar(r"at the end  10:00 / 10:00  x2  idle 0.1 s")[4] == "three"
        watcher.press(" ", "playing")
        watcher.bar("at the end")
        watcher.type("\x03")
        assert watcher.end() == 0
        watcher.is_as_before()


@pytest.mark.parametrize(
    ("words", "at"),
    [
        (["--from", "12"], "0:12"),
        (["--from", "-10"], "9:50"),
        (["--command", "2"], "0:10"),
        (["--command", "-1"], "0:20"),
    ],
    ids=str,
)
def test_it_begins_where_it_is_told_to(shared, words, at):
    with Watcher(shared, "a.cast", "--idle-limit", "0", *words) as watcher:
        watcher.bar(rf"playing  {at} / 10:00")
        watcher.type("q")
        assert watcher.end() == 0


def test_hostile_output_does_nothing_to_the_terminal(shared):
    asks = "\x1b[c\x1b[6n\x1bP+q544e\x1b\\"
    hostile = "\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b[?1000h\x1b[?2004h\x1b(0q\x1b(B\x1b[2;3r" + asks
    path = cast(shared.work / "hostile.cast", (0, "o", hostile + "\x1b[2J\x1b[Hplain \x9d0;c1\x9c"))
    with Watcher(shared, path) as watcher:
        watcher.shows(lambda rows: "plain" in "".join(rows))
        watcher.type("q")
        assert watcher.end() == 0
    drawn = re.sub(r"\x1b\[(\?(25|7|1049)[hl]|[0-9;]*[HKmJ])", "", watcher.seen)
    assert not set(drawn) & {"\x1b", "\x07", "\x9d", "\x9b", "\x0e"}, drawn
    assert "owned" not in drawn


def test_a_smaller_terminal_shows_a_part_and_says_so(shared):
    path = cast(shared.work / "large.cast", (0, "o", "".join(f"\r\n{n:030}" for n in range(20))), cols=100, rows=30)
    with Watcher(shared, path, size=(31, 6)) as watcher:
        rows = watcher.bar("100x30")
        assert rows[4] == f"{19:030}"
        watcher.resize(120, 40)
        watcher.shows(lambda rows: rows[20:21] == [f"{19:030}"] and "cut" not in rows[-1] and "q" in rows[-1])
        watcher.resize(20, 3)
        watcher.shows(lambda rows: rows[1:2] == ["0" * 20])
        watcher.type("q")
        assert watcher.end() == 0


def test_a_terminal_of_the_same_size_shows_the_status_while_it_stands(shared):
    path = cast(shared.work / "same.cast", (0, "o", "a\r\n" * 5 + "last"), (600, "o", ""), cols=40, rows=6)
    with Watcher(shared, path, "--idle-limit", "0", size=(40, 6)) as watcher:
        watcher.shows(lambda rows: rows[5] == "last")
        watcher.press(" ", "paused")
        watcher.type(" ")
        watcher.shows(lambda rows: rows[5] == "last")
        watcher.type("q")
        assert watcher.end() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT], ids=lambda n: n.name)
def test_signals_leave_the_terminal_as_it_was(shared, number):
    with Watcher(shared, "a.cast") as watcher:
        watcher.bar("playing|at the end")
        watcher.process.send_signal(number)
        assert watcher.end() == (0 if number == signal.SIGINT else 128 + number)
        assert watcher.seen.endswith(LEFT_AS_IT_WAS)
        watcher.is_as_before()


def test_a_defect_leaves_the_terminal_as_it_was(shared):
    broken = "import sys\nfrom tmuxmcp.faces.cli import main, replay\nreplay.Playback.paint = lambda self: 1 / 0\n"
    (shared.work / "broken.py").write_text(broken + "sys.exit(main())\n")
    words = [sys.executable, str(shared.work / "broken.py")]
    with Watcher(shared, "a.cast", command=words) as watcher:
        assert watcher.end() == 1
        assert "ZeroDivisionError" in watcher.seen.rpartition(LEFT_AS_IT_WAS)[2]
        watcher.is_as_before()


def test_a_terminal_that_goes_away_ends_it(shared):
    with Watcher(shared, "a.cast", command=[*COMMAND]) as watcher:  # a terminal that sends no SIGHUP when it goes
        watcher.bar("playing|at the end")
        os.close(watcher.fd)
        status = watcher.process.wait(SOON_S)
        watcher.fd = os.open(os.devnull, os.O_RDONLY)  # there is something to close
    assert status == 128 + signal.SIGHUP


def test_the_controlling_terminal_that_goes_away_ends_it(shared):
    """With SIGHUP the kernel sends SIGCONT, upon which the terminal is taken anew."""
    with Watcher(shared, "a.cast", command=[sys.executable, "-c", JOBS, *COMMAND]) as watcher:
        watcher.bar("playing|at the end")
        os.close(watcher.fd)
        status = watcher.process.wait(SOON_S)
        watcher.fd = os.open(os.devnull, os.O_RDONLY)  # there is something to close
    assert status == 128 + signal.SIGHUP


JOBS = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
"""Runs a program with its terminal as the controlling one, so that a shell has jobs."""


def test_it_can_be_suspended_as_a_job(shared):
    """By its key and by a signal; the shell has its terminal meanwhile."""
    shell = [shutil.which("bash"), "--norc", "--noprofile", "--noediting", "-i"]
    with Viewer(shared, command=[sys.executable, "-c", JOBS, *shell]) as viewer:
        viewer.type("PS1='read''y> '\n")
        viewer.shows(lambda rows: "ready>" in rows[1])
        before = termios.tcgetattr(viewer.fd)
        viewer.type(f"{sys.executable} -m tmuxmcp replay a.cast --idle-limit 0\n")
        viewer.shows(lambda rows: "playing" in rows[-1])
        playing = termios.tcgetattr(viewer.fd)
        assert playing != before
        for number, suspend in enumerate((lambda: viewer.type("\x1a"), lambda: os.kill(group(viewer), signal.SIGTSTP))):
            suspend()
            viewer.until("\x1b[?1049l")
            viewer.shows(lambda rows, times=number + 1: "".join(viewer.seen).count("Stopped") == times)
            viewer.shows(lambda rows: "ready>" in [row for row in rows if row][-1])
            assert viewer.seen.count("\x1b[?1049h") == viewer.seen.count("\x1b[?1049l")
            assert termios.tcgetattr(viewer.fd) == before
            viewer.type("fg\n")
            viewer.shows(lambda rows: "playing" in rows[-1] and rows[0] == "$ make")
            assert termios.tcgetattr(viewer.fd) == playing
        viewer.type("q")
        viewer.shows(lambda rows: "ready>" in [row for row in rows if row][-1])
        assert termios.tcgetattr(viewer.fd) == before


def group(viewer: Viewer) -> int:
    """The process group in the foreground: of which the shell has made the replay's process the leader."""
    return os.tcgetpgrp(viewer.fd)


# ---- sessions ------------------------------------------------------------------------------------


def test_a_session_is_played_also_after_its_end(shared):
    shared("new", "--name", "x", "bash")
    shared("run", "-s", "x", "echo first")
    shared("run", "-s", "x", "echo second; false", status=1)
    shared("run", "-s", "x", "echo third")
    shared("kill", "x", "--force")
    facts = json.loads(shared.out("replay", "x", "--json"))
    assert [each["exit_code"] for each in facts["commands"]] == [0, 1, 0]
    assert facts["cols"] == 80
    with Watcher(shared, "x", size=(100, 30)) as watcher:
        watcher.bar("at the end")
        rows = watcher.press("p" * 9 + "f", r"paused|playing|at the end")
        watcher.shows(lambda rows: "second" in rows and "third" not in rows)
        watcher.type("q")
        assert watcher.end() == 0
        assert rows


# ---- what cannot be played -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("no.cast", None, "FILE_NOT_FOUND: no.cast cannot be read"),
        ("empty.cast", "", "first line is not JSON"),
        ("v1.cast", '{"version": 1, "stdout": []}\n', "no asciicast of version 2 or 3"),
        ("bad.cast", '{"version": 2, "width": 9, "height": 9}\n[0, "o", "a"]\n[1, "o"]\n', "line 3"),
        ("size.cast", '{"version": 2, "width": 0, "height": 9}\n', "size"),
        ("nobody", None, "SESSION_NOT_FOUND"),
    ],
    ids=str,
)
def test_what_is_no_recording_is_told(shared, name, text, says):
    if text is not None:
        (shared.work / name).write_text(text)
    status = 2 if text is not None else 3
    assert says in shared.error("replay", name, "--json", status=status)


def test_without_a_terminal_it_says_what_to_do_instead(shared):
    assert shared.error("replay", "a.cast", status=1).startswith("UNSUPPORTED: A replay needs a terminal")
    facts = json.loads(shared.out("replay", "a.cast", "--json"))
    assert facts["duration_ms"] == 600_000
    assert facts["commands"][1] == {"at_ms": 20_000, "text": "make test: exit 2", "exit_code": 2}


def test_without_keys_it_ends_at_the_end(shared):
    without = ["/bin/sh", "-c", 'exec "$@" </dev/null', "sh", *COMMAND]
    with Watcher(shared, "a.cast", "--idle-limit", "0.1", command=without) as watcher:
        assert watcher.end() == 0
        assert "three" in watcher.seen
        watcher.is_as_before()
