"""What a line editor showed of a command, compared with what was typed."""

from __future__ import annotations

from tests.kit.cases import for_each
from tmuxmcp.terminal.text.echo import EditorEcho, compared, on_one_line, shows_nothing
from tmuxmcp.terminal.text.plain import plain

LONG = "echo " + " ".join(f"w{number}" for number in range(900))


@for_each(
    ("typed", "shown", "echo"),
    [
        ("ls -l", "ls -l\n", EditorEcho.OURS),
        ("ls -l", "ls\n-l\n", EditorEcho.OURS),
        ("ls -l", "half typedls -l\n", EditorEcho.OURS),
        ("ls", "ls /home; rm x\n", EditorEcho.WITHIN),
        ("ls", "rm x; ls\n", EditorEcho.OURS),  # as behind a half-typed line that is not drawn away
        ("ls -l", "make\n", EditorEcho.OTHER),
        ("ls -l", "\n", EditorEcho.BLANK),
        ("ls -l", "", EditorEcho.BLANK),
        ("", "\n", EditorEcho.OURS),
        ("", "make\n", EditorEcho.OTHER),
        ("äöü", "äöü\n", EditorEcho.OURS),
        ("echo a\necho b", "echo a^Jecho b\n", EditorEcho.OURS),
        ("echo '^J'", "echo '^J'\n", EditorEcho.OURS),
        ("cat file && make everything", "<ke everything\n", EditorEcho.OURS),
        ("cat file && make everything", "< everything\n", EditorEcho.OTHER),
        ("cat file && make everything", "cat x; make everything\n", EditorEcho.OTHER),
        (LONG, LONG + "\n", EditorEcho.OURS),
        (LONG, LONG[:600], EditorEcho.WITHIN),
        (LONG, "make\n", EditorEcho.OTHER),
    ],
)
def test_echo_is_compared(typed: str, shown: str, echo: EditorEcho) -> None:
    assert compared(typed, shown, shown) is echo


def test_what_a_line_editor_shows_for_a_moment_was_shown() -> None:
    for shown in (b"true\r\n\x1b[?2004l\r", b"true\r\x1b[K\r\n", b"\x1b[1mtrue\x1b[m \r\x1b[K", b"\xc3\xbc"):
        assert not shows_nothing(shown)
    for shown in (b"", b"\r\n", b"  \r\n", b"\x1b[?2004h\x1b]0;title\x07\x1b]133;B;n=1\x1b\\\x1b(B\r\x1b[K"):
        assert shows_nothing(shown)


def test_the_end_of_a_long_echo_is_compared_as_well() -> None:
    assert compared(LONG, "\r<lots of redrawing", "\r<w897 w898 w899\n") is EditorEcho.OURS
    assert compared(LONG, "\r<lots of redrawing", "\r<w897 w898 w890\n") is EditorEcho.OTHER


def test_line_that_goes_on_in_the_next_row_is_one_line() -> None:
    shown = b"x" * 20 + b" \r\x1b[Kabc\r\n"
    assert plain(on_one_line(shown), cols=20).text == "x" * 20 + "abc\n"


def test_a_line_editor_that_showed_a_character_showed_something():
    for shown in (b"", b"\r\n", b"   \r\n", b"\x1b[K\r\n", b"\x1b[?2004l\r", b"\x1b]0;title\x07\r\n", b"\x1b(B\x1b[m"):
        assert shows_nothing(shown), shown
    for shown in (b"true\r\n", b"true\r\x1b[K\r\n", b"a\x08 \x08\r\n", b"\x1b[1mx\x1b[m"):
        assert not shows_nothing(shown), shown
