from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmuxmcp.tmux.viewers import SHOWN_COLS, TmuxViewer, parse, plain


def test_a_line_of_tmux_is_a_viewer():
    tty = "/dev/pts/1"
    assert parse(f"a|$2|@3|1|17|0|{tty}|{tty}") == TmuxViewer("a", "$2", "@3", False, 17, "root", tty, tty)
    nobody = 4_000_000_000
    assert parse(f"a|$2|@3|1|17|{nobody}|{tty}|{tty}") == TmuxViewer("a", "$2", "@3", False, 17, str(nobody), tty, tty)
    assert parse(f"a|$2|@3|0|17||{tty}|{tty}") == TmuxViewer("a", "$2", "@3", True, 17, "", tty, tty)
    assert parse("|$0|@0|0|1|||client-7") == TmuxViewer("", "$0", "@0", True, 1, "", "client-7", "client-7")


@pytest.mark.parametrize(
    "line",
    ["", "a|$2|@3|2|1|0|/dev/pts/1|x", "a|$2|@|1|1|0|/dev/pts/1|x", "a|$2|@3|1|1|root|b|c", "a|$2|@3|1|1|0|b|c|d"],
)
def test_what_is_no_line_of_tmux_is_nobody(line: str):
    assert parse(line) is None


def test_what_a_client_says_of_itself_is_cleaned():
    viewer = parse("a|$2|@3|1|1|0|/dev/\u202epts\n|\x1b[31mx")
    assert viewer
    assert (viewer.terminal, viewer.name) == ("/dev/pts", "[31mx")


@given(st.text())
def test_what_a_status_line_says_is_plain_and_short(text: str):
    shown = plain(text)
    assert len(shown) <= SHOWN_COLS
    assert shown.isascii()
    assert not set("#%\x1b\n\t\r\0`") & set(shown)


def test_what_a_status_line_says_can_be_read():
    assert plain("make -j4 FOO='a b' | tee /tmp/x && echo $?") == "make -j4 FOO='a b' | tee /tmp/x && echo $?"
    assert plain("a" * 61) == "a" * 57 + "..."
    assert plain("echo #[fg=red] #(id) %H é") == "echo ?[fg=red] ?(id) ?H ?"
