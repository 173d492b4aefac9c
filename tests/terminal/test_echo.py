"""What a line editor showed of a command, compared with what was typed."""

from __future__ import annotations

from tests.cases import for_each
from tmuxmcp.terminal.text.plain import plain
from tmuxmcp.terminal.text.unechoed import EditorEcho as Echo
from tmuxmcp.terminal.text.unechoed import compared, on_one_line, shows_nothing

LONG = "echo " + " ".join(f"w{number}" for number in range(900))


@for_each(
    ("typed", "shown", "echo"),
    [
        ("ls -l", "ls -l\n", Echo.OURS),
        ("ls -l", "ls\n-l\n", Echo.OURS),
        ("ls -l", "half typedls -l\n", Echo.OURS),
        ("ls", "ls /home; rm x\n", Echo.WITHIN),
        ("ls", "rm x; ls\n", Echo.OURS),  # as behind a half-typed line that is not drawn away
        ("ls -l", "make\n", Echo.OTHER),
        ("ls -l", "\n", Echo.BLANK),
        ("ls -l", "", Echo.BLANK),
        ("", "\n", Echo.OURS),
        ("", "make\n", Echo.OTHER),
        ("äöü", "äöü\n", Echo.OURS),
        ("echo a\necho b", "echo a^Jecho b\n", Echo.OURS),
        ("echo '^J'", "echo '^J'\n", Echo.OURS),
        ("cat file && make everything", "<ke everything\n", Echo.OURS),
        ("cat file && make everything", "< everything\n", Echo.OTHER),
        ("cat file && make everything", "cat x; make everything\n", Echo.OTHER),
        (LONG, LONG + "\n", Echo.OURS),
        (LONG, LONG[:600], Echo.WITHIN),
        (LONG, "make\n", Echo.OTHER),
    ],
)
def test_echo_is_compared(typed: str, shown: str, echo: Echo) -> None:
    assert compared(typed, shown, shown) is echo


def test_what_a_line_editor_shows_for_a_moment_was_shown() -> None:
    for shown in (b"true\r\n\x1b[?2004l\r", b"true\r\x1b[K\r\n", b"\x1b[1mtrue\x1b[m \r\x1b[K", b"\xc3\xbc"):
        assert not shows_nothing(shown)
    for shown in (b"", b"\r\n", b"  \r\n", b"\x1b[?2004h\x1b]0;title\x07\x1b]133;B;n=1\x1b\\\x1b(B\r\x1b[K"):
        assert shows_nothing(shown)


def test_the_end_of_a_long_echo_is_compared_as_well() -> None:
    assert compared(LONG, "\r<lots of redrawing", "\r<w897 w898 w899\n") is Echo.OURS
    assert compared(LONG, "\r<lots of redrawing", "\r<w897 w898 w890\n") is Echo.OTHER


def test_line_that_goes_on_in_the_next_row_is_one_line() -> None:
    shown = b"x" * 20 + b" \r\x1b[Kabc\r\n"
    assert plain(on_one_line(shown), cols=20).text == "x" * 20 + "abc\n"


def test_a_line_editor_that_showed_a_character_showed_something():
    for shown in (b"", b"\r\n", b"   \r\n", b"\x1b[K\r\n", b"\x1b[?2004l\r", b"\x1b]0;title\x07\r\n", b"\x1b(B\x1b[m"):
        assert shows_nothing(shown), shown
    for shown in (b"true\r\n", b"true\r\x1b[K\r\n", b"a\x08 \x08\r\n", b"\x1b[1mx\x1b[m"):
        assert not shows_nothing(shown), shown
