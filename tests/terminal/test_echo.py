"""The echo of what was typed, in what was printed since."""

from __future__ import annotations

import pytest

from tests.kit.cases import for_each
from tmuxmcp.terminal.text.echo import Echo, Printed, edited_in, unechoed, with_blanks, without_echo
from tmuxmcp.terminal.text.plain import plain


@for_each(
    ("text", "typed", "left"),
    [
        ("echo hi\nhi\n", "echo hi", "\nhi\n"),
        ("$ echo hi\nhi\n", "echo hi", "$ \nhi\n"),
        ("echo verylong\n  wrapped\nout", "echo verylongwrapped", "\nout"),
        ("ec", "echo hi", ""),
        ("$ echo h", "echo hi", "$ "),
        ("", "echo hi", ""),
        ("hello\nhello\n", "hello", "\nhello\n"),  # cat says it again
        ("Password: ", "secret", "Password: "),
        ("out", "", "out"),
        ("out", "\n", "out"),
    ],
)
def test_the_echo_is_taken_out(text: str, typed: str, left: str):
    assert without_echo(text, Echo(typed)) == left


@for_each(
    ("text", "echo", "left"),
    [
        # Whether a program shows what is typed may not be known: "y" may be the key that it read.
        ("yes\n", Echo("y"), "es\n"),
        ("yes\n", Echo("y", certain=False), "yes\n"),
        ("y\nyes\n", Echo("y", certain=False), "\nyes\n"),
        ("yes y\n", Echo("y", certain=False), "yes \n"),
        ("echo hi", Echo("echo hi", certain=False), ""),
        ("ec", Echo("echo hi", certain=False), ""),
        ("your pass", Echo("password", drawn=True), "your pass"),
        ("$ echo hi\nhi\n", Echo("echo hi", drawn=True), "$ \nhi\n"),
    ],
)
def test_what_looks_like_an_echo(text: str, echo: Echo, left: str):
    assert without_echo(text, echo) == left


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"name: ", "name: "),
        (b"host% \rhost% ", "host% "),
        (b"ab \x1b[3G", "ab"),
        (b"ended \rended \r\n", "ended\n"),
    ],
)
def test_blanks_before_the_cursor_are_kept(data: bytes, text: str):
    assert with_blanks(plain(data, 80).text, data, 80) == text


BEGINS, ENDS = b"\x1b[?2004h", b"\x1b[?2004l\r\n"

PRINTED = {
    # what was printed, what was typed: what is left
    "nothing typed": (b"$ echo hi\r\nhi\r\n", "", "$ echo hi\nhi\n"),
    "one echo": (b"echo hi\r\nhi\r\n$ ", "echo hi", "\nhi\n$ "),
    "echoed by the terminal and by a line editor": (
        b"echo hi\r\nover\r\n" + BEGINS + b"$ echo hi" + ENDS + b"hi\r\n",
        "echo hi",
        "\nover\n$ \nhi\n",
    ),
    "a command that prints what was typed": (
        b"echo hi\r\nover\r\n" + BEGINS + b"$ echo hi" + ENDS + b"echo hi\r\n",
        "echo hi",
        "\nover\n$ \necho hi\n",
    ),
    "a command that prints it before the next prompt": (
        b"over\r\n" + BEGINS + b"$ echo hi" + ENDS + b"echo hi\r\n" + BEGINS + b"$ ",
        "echo hi",
        "over\n$ \necho hi\n$ ",
    ),
    "the line editor has drawn half of it": (
        b"echo hi\r\nover\r\n" + BEGINS + b"$ echo",
        "echo hi",
        "\nover\n$     ",  # up to the cursor
    ),
    "it was typed for a program that shows nothing": (b"\r\nwelcome\r\n", "secret", "\nwelcome\n"),
    "what came later has changed it": (
        b"over\r\n" + BEGINS + b"$ echo hi" + ENDS + b"\x1b[A\x1b[2Kkept",
        "echo hi",
        "over\nkept",
    ),
}


@for_each(("data", "typed", "left"), PRINTED.values())
def test_what_was_printed_without_echoes(data: bytes, typed: str, left: str):
    assert unechoed(Printed(data, 80, 24, tuple(edited_in(data))), Echo(typed)) == left
