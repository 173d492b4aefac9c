"""What is told of a command that was typed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tmuxmcp.running.typed import ECHOED_LINE
from tmuxmcp.terminal.plain import plain


@given(st.from_regex(ECHOED_LINE, fullmatch=True), st.integers(1, 200))
def test_an_echoed_line_shows_something(shown: bytes, cols: int) -> None:
    assert plain(shown, cols, 24).text.strip()


def test_what_may_be_taken_away_again_is_no_echoed_line() -> None:
    for shown in (b"", b"\r\n", b"   \r\n", b"true\r\x1b[K\r\n", b"a\x08 \x08\r\n", b"true\r\n\x1b[A\x1b[K", b"true"):
        assert not ECHOED_LINE.fullmatch(shown)
