"""Patterns, and the echo that matches none."""

from __future__ import annotations

import pytest

from tmuxmcp.broker.wait import without_echo
from tmuxmcp.errors import InvalidPattern
from tmuxmcp.terminal.patterns import compile_pattern, search_pattern


@pytest.mark.parametrize(
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
    assert without_echo(text, typed) == left


def test_a_pattern_matches_lines():
    assert search_pattern(compile_pattern("^b+$"), "a\nbb\nc") == "bb"
    assert search_pattern(compile_pattern("x"), "a\nbb\nc") is None


def test_a_bad_pattern_says_so():
    with pytest.raises(InvalidPattern):
        compile_pattern("(")
    with pytest.raises(InvalidPattern, match="too long"):
        search_pattern(compile_pattern(r"(a|a|b)*(a|aa)+$c"), "a" * 60 + "!")
