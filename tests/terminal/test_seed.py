"""Seeds: a screen that goes on where a real tmux's is."""

from __future__ import annotations

import pytest

from tests.terminal.conftest import RealTmux, Seed, looks
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.seed import seed
from tmuxmcp.terminal.emulator.stream import Stream
from tmuxmcp.terminal.snapshot import Snapshot, Style

LINES = b"".join(b"line%d\r\n" % number for number in range(4))

# What was printed before tmux was asked, and what comes after.
GONE_ON = [
    ("text", b"one\r\ntwo", b" three\r\nfour"),
    ("scrolled", LINES * 3, b"more\r\n" * 3),
    ("last column written", b"x" * 20, b"y"),
    ("coloured", b"\x1b[1;31;48;5;200mred\x1b[4;38;2;1;2;3mcurly\x1b[m\r\n", b"plain"),
    ("every attribute", b"\x1b[1mb\x1b[2mf\x1b[3mi\x1b[4mu\x1b[5ml\x1b[7mr\x1b[8mc\x1b[9ms\x1b[53mo\x1b[mn", b"x"),
    ("underlines", b"\x1b[4ma\x1b[21mb\x1b[4:3mc\x1b[4:4md\x1b[4:5me\x1b[53mf\x1b[58;5;9mg\x1b[24mh", b"x"),
    ("pen", b"\x1b[1;32mgreen", b" and on"),
    ("text that looks like a style", b"a[5:3m;5:3;\x1b[53mb;5:3;", b"x"),
    ("wide and joined", "日本e\u0301👩\u200d💻❤\ufe0f|".encode(), "語x".encode()),
    ("wide to the last column", ("日" * 10).encode(), b"x"),
    ("combining in the last column", ("x" * 19 + "e\u0301").encode(), b"y"),
    ("line drawing", b"\x1b(0lqk\x1b(B is\r\n\x1b(0x", b"mqj\x1b(Bq"),
    ("half a sequence", b"ab\x1b[3", b"1mred"),
    ("half a character", b"ab\xe6\x97", b"\xa5c"),
    ("half a title", b"ab\x1b]2;ti", b"tle\x07c"),
    ("region", LINES + b"\x1b[2;4r\x1b[4;1H", b"a\r\nb\r\nc"),
    ("insert mode", b"abc\r\x1b[4h", b"XY"),
    ("no wrapping", b"\x1b[?7lab", b"x" * 30),
    ("origin mode", LINES + b"\x1b[2;4r\x1b[?6h", b"\x1b[1;1HX"),
    ("tab stops", b"\x1b[3g\r\x1b[5C\x1bH\r", b"\tx\ty"),
    ("hidden cursor", b"ab\x1b[?25l", b"c"),
    ("saved cursor", b"ab\x1b7\r\ncd", b"\x1b8X"),
    ("alternate screen, left", b"under\x1b[32m\r\n\x1b[?1049hover\x1b[H", b"x\x1b[?1049lback"),
    ("alternate screen 47", b"under\r\n\x1b[?47hover", b"x\x1b[?47lback"),
    ("alternate screen, scrolled under", LINES * 3 + b"\x1b[1;33m\x1b[?1049h\x1b[2Jtop", b"\x1b[?1049lback"),
]


def screen_after(data: bytes, cols: int = 20, rows: int = 6) -> Stream:
    stream = Stream(Screen(cols, rows))
    stream.feed(data)
    return stream


def shown(snapshot: Snapshot) -> object:
    return looks(snapshot.grid), snapshot.cursor, snapshot.alternate


@pytest.fixture(scope="module")
def told_of(real_tmux: RealTmux) -> dict[bytes, Seed]:
    """What tmux tells of each."""
    streams = [before for _, before, _ in GONE_ON]
    return dict(zip(streams, [shown.seed for shown in real_tmux.show_all(streams, 20, 6)], strict=True))


@pytest.mark.parametrize(("before", "after"), [pytest.param(*row[1:], id=row[0]) for row in GONE_ON])
def test_a_seeded_screen_goes_on_as_if_nothing_was_missed(
    before: bytes, after: bytes, told_of: dict[bytes, Seed]
) -> None:
    told = told_of[before]
    seeded = seed(told.facts, told.rows, told.under, tail=before, offset=len(before))
    whole = screen_after(before)
    assert shown(seeded) == shown(whole.snapshot())
    follower = screen_after(b"")
    follower.restore(seeded)
    for each in (follower, whole):
        each.feed(after)
    assert shown(follower.snapshot()) == shown(whole.snapshot())


def test_what_tmux_wrapped_anew_is_seeded(real_tmux: RealTmux) -> None:
    (name,) = real_tmux.start([b"x" * 30 + b"\r\nend"], 20, 6)
    real_tmux.run("resize-window", "-t", name, "-x", "10", "-y", "6")
    told = real_tmux.look([name])[0].seed
    seeded = seed(told.facts, told.rows)
    rows = real_tmux.run("capture-pane", "-p", "-t", name).split("\n")[:6]
    assert (seeded.cols, seeded.rows, seeded.text_rows()) == (10, 6, rows)
    assert rows[:2] == ["x" * 10, "x" * 10]


def test_missing_rows_are_blank_and_an_overflow_moves_nothing() -> None:
    facts = "5 3 0 0 0 2 0 4294967295 4294967295 1 0 1 0 0 0 0 0 0 0 8 a title"
    seeded = seed(facts, ["too long for this", "b"])
    assert seeded.text_rows() == ["too l", "b", ""]
    assert (seeded.title, seeded.grid[1][1].style) == ("a title", Style())


@pytest.mark.parametrize("facts", ["", "80 24", "a" * 30, "x " * 30])
def test_other_answers_are_refused(facts: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - int's own message is one of them
        seed(facts, [])
