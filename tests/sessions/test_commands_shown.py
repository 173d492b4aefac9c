"""What was typed is written down once the terminal has shown it, and never else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import Events, ShownEvent
from tmuxmcp.record.log import RawLog
from tmuxmcp.sessions.commands import INPUT_CHARS, MOST_WAITING, ShownInput, is_in, one_line
from tmuxmcp.terminal.text.echo import ECHO_LIMIT


@pytest.fixture
def directory(tmp_path: Path) -> SessionDirectory:
    made = SessionDirectory(tmp_path)
    made.log.touch()
    return made


def printed(directory: SessionDirectory, data: bytes) -> None:
    with directory.log.open("ab") as log:
        log.write(data)


def texts(directory: SessionDirectory) -> list[tuple[int, str]]:
    return [(each.offset, each.text) for each in Events(directory).read() if isinstance(each, ShownEvent)]


def test_it_waits_for_the_terminal_to_show_it(directory: SessionDirectory) -> None:
    printed(directory, b"$ ")
    shown = ShownInput(RawLog(directory), Events(directory))
    shown.note_typed(2, "ls /usr\r")
    for data in (b"l", b"s /u", b"s"):
        printed(directory, data)
        shown.write_shown(80, 24)
        assert texts(directory) == []
    printed(directory, b"r\r\n")
    for _ in range(2):
        shown.write_shown(80, 24)
        assert texts(directory) == [(2, "ls /usr\r")]


def test_what_is_not_shown_is_never_written_down(directory: SessionDirectory) -> None:
    shown = ShownInput(RawLog(directory), Events(directory))
    shown.note_typed(0, "hunter2\r")
    printed(directory, b"\r\nwelcome\r\n" + b"x" * ECHO_LIMIT)
    shown.write_shown(80, 24)
    printed(directory, b"hunter2")  # much later, by something else
    shown.write_shown(80, 24)
    shown.note_typed(0, "a" * (INPUT_CHARS + 1))
    for _ in range(MOST_WAITING + 1):
        shown.note_typed(0, "?")
    assert texts(directory) == []
    assert len(shown._waiting) == MOST_WAITING


@pytest.mark.parametrize(
    ("text", "keys", "sent"),
    [
        ("ls", ["Enter"], "ls\r"),
        ("ls\n", [], "ls\r"),
        ("cd /us", ["Tab"], "cd /us\t"),
        ("", ["C-c"], "\x03"),
        ("sudo ls\nhunter2\n", [], None),  # what follows Enter may be read where nothing is shown
        ("sudo ls", ["Enter", "Enter"], None),
        ("", ["Up"], None),  # what that sends, the terminal's mode says
        ("", ["h", "Enter"], None),
    ],
)
def test_one_line_is_what_a_text_and_keys_send(text: str, keys: list[str], sent: str | None) -> None:
    assert one_line(text, keys) == sent


@pytest.mark.parametrize(
    ("typed", "shown", "is_shown"),
    [
        ("echo 'a  b'\r", "$ echo 'a\n  b'\na b\n", True),
        ("for x in 1\rdo echo $x\rdone\r", "$ for x in 1\n> do echo $x\n> done\n1", True),
        ("ls\r", "$ sl\n", False),
        ("été\r", "t", False),
        ("\x03", "", True),
    ],
)
def test_wrapping_and_blanks_do_not_count(typed: str, shown: str, is_shown: bool) -> None:
    assert is_in(typed, shown) is is_shown
