"""The text of what moves the cursor about: a real tmux has the same in its panes."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.cases import for_each
from tests.kit.streams import LINES_ONLY, MOVES_ABOUT, MOVES_BACK, Token, text_stream
from tests.terminal.conftest import Panes, RealTmux, trimmed
from tmuxmcp.terminal.snapshot import PLAIN_STYLE
from tmuxmcp.terminal.text.plain import Cleaner, parts
from tmuxmcp.terminal.text.textscreen import TextScreen
from tmuxmcp.terminal.widths import clusters, text_width

COUNT = 20_000 if os.environ.get("TMUXMCP_TEST_MANY") else 2000
FIRST = int(os.environ.get("TMUXMCP_TEST_SEED", "0"))
COLS = 20

USUAL = [
    *(b"a", b"two words", b"x" * 7, b"y" * 20, b"  ", b"\xc3\xa9", "日".encode(), "日本".encode(), "─│".encode()),
    *(
        b"\r\n",
        b"\r\n",
        b"\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"\b",
        b"\t",
        b"\x0b",
        b"\0",
        b"\x07",
        b"\x0f",
        b"\x7f",
        b"\xff",
    ),
    *(b"\x1b[A", b"\x1b[A", b"\x1b[2A", b"\x1b[B", b"\x1b[9B", b"\x1b[C", b"\x1b[5C", b"\x1b[D", b"\x1b[0D", b"\x1b[E"),
    *(b"\x1b[F", b"\x1b[G", b"\x1b[5G", b"\x1b[9`", b"\x1b[H", b"\x1b[2;3H", b"\x1b[;4f", b"\x1b[99;99H", b"\x1b[2d"),
    *(
        b"\x1b[K",
        b"\x1b[K",
        b"\x1b[1K",
        b"\x1b[2K",
        b"\x1b[3K",
        b"\x1b[J",
        b"\x1b[1J",
        b"\x1b[2J",
        b"\x1b[3J",
        b"\x1b[X",
    ),
    *(
        b"\x1b[3X",
        b"\x1b[P",
        b"\x1b[4P",
        b"\x1b[@",
        b"\x1b[9@",
        b"\x1b[L",
        b"\x1b[2L",
        b"\x1b[M",
        b"\x1b[3M",
        b"\x1b[S",
    ),
    *(b"\x1b[2S", b"\x1b[T", b"\x1b[9T", b"\x1b[Z", b"\x1b[2Z", b"\x1b[2;4r", b"\x1b[r", b"\x1b[3;1r", b"\x1b[1;0r"),
    *(b"\x1b7", b"\x1b8", b"\x1b[s", b"\x1b[u", b"\x1bD", b"\x1bE", b"\x1bM", b"\x1b[1;31m", b"\x1b[44m", b"\x1b[m"),
    *(
        b"\x1b[38:2::1:2:3m",
        b"\x1b]0;title\x07",
        b"\x1b]8;;x\x1b\\",
        b"\x1b[?25l",
        b"\x1b[?2004h",
        b"\x1b[>4;1m",
        b"\x1b[c",
    ),
    *(b"\x1b[3 q", b"\x1b(B", b"\x1b=", b"\x1b[4l", b"\x1b[?1$p", b"\x1b[22;0;0t", "\x85".encode()),
]
UNUSUAL = [
    *(
        b"\x1b(0",
        b"\x0e",
        b"\x1b[4h",
        b"\x1b[?6h",
        b"\x1b[?7l",
        b"\x1b[?3h",
        b"\x1b[?1049h",
        b"\x1bc",
        b"\x1b#8",
        b"\x1bH",
    ),
    *(
        b"\x1b[g",
        b"\x1b[3b",
        b"\x1b[!p",
        b"\x1bP1\x1b\\",
        b"\x1b_x\x1b\\",
        b"\x1bkx\x1b\\",
        b"\x1b[1\nA",
        b"\x1b[9999999999A",
    ),
    *(
        "e\u0301".encode(),
        "日\u200d".encode(),
        b"\x1b[" + b"1;" * 40 + b"m",
        b"\x1b[?25\nl",
        b"\x1b]0;x\x1b[A",
        b"\x1b[3:4A",
    ),
]


LINES = b"".join(b"line%d\r\n" % number for number in range(4))


def collected(*pieces: bytes, cols: int = 20, rows: int = 4) -> str:
    screen = TextScreen(cols, rows)
    for piece in pieces:
        screen.feed(piece)
    return screen.text()


COLLECTED = [
    ("nothing", b"", ""),
    ("a line", b"one\r\n", "one\n"),
    ("no newline at the end", b"one\r\ntwo", "one\ntwo"),
    ("scrolled off", LINES + LINES, (LINES + LINES).decode().replace("\r", "")),
    ("unwrapped", b"x" * 250 + b"\r\ny", "x" * 250 + "\ny"),
    ("unwrapped wide", ("x" * 19 + "日本\r\n").encode(), "x" * 19 + "日本\n"),
    ("erased in a wrapped row", b"x" * 30 + b"\x1b[A\x1b[K", "x" * 10 + " " * 10 + "x" * 10),
    ("empty lines", b"\r\n\r\na\r\n\r\n", "\n\na\n\n"),
    ("redrawn", b"a\r\nb\r\n\x1b[2A\x1b[2Kc\r\n\x1b[2Kd\r\n", "c\nd\n"),
    ("cleared", LINES + b"\x1b[H\x1b[2J\x1b[3Jx", "line0\nline1\nline2\nline3\nx"),
    ("cleared by erasing below", LINES + b"\x1b[H\x1b[J\x1b[3Jx", "line0\nline1\nline2\nline3\nx"),
    ("cleared twice", b"a\r\n\x1b[H\x1b[2J\x1b[H\x1b[2Jb", "a\nb"),
    ("reset after a wrapped row", b"x" * 21 + b"\b \x1bcy", "x" * 20 + "\ny"),
    ("reset", b"a\x1bcb", "a\nb"),
    ("a line put into a wrapped one", b"x" * 30 + b"\x1b[L", "x" * 20 + "\n\n" + "x" * 10),
    ("much", b"0123456789\r\n" * 1000, "0123456789\n" * 1000),
    ("scrolled in a region", b"top\x1b[2;4r\x1b[2H" + LINES, "line0\nline1\ntop\nline2\nline3\n"),
    ("deleted lines are gone", b"a\r\nb\r\nc\x1b[H\x1b[Mx", "x\nc"),
    ("the alternate screen is left out", b"a\r\n\x1b[?1049hx" + LINES * 3 + b"\x1b[2J\x1b[?1049lb", "a\nb"),
    ("invalid UTF-8", b"a\xffb", "a\ufffdb"),
]


@for_each(("data", "text"), [pytest.param(*row[1:], id=row[0]) for row in COLLECTED])
def test_collected_text_of(data: bytes, text: str) -> None:
    assert collected(data) == text
    assert collected(*[bytes([byte]) for byte in data]) == text


def test_screen_is_settled_where_plain_text_goes_on() -> None:
    screen = TextScreen(20, 4)
    seen = []
    for piece in [
        b"",
        b"a",
        b"\r",
        b"\n",
        b"\x1b[A",
        b"\r\n",
        b"\x1b(0",
        b"\x1b(B",
        b"\x1b[1;2r",
        b"\x1b[r",
        b"\x1b[?1049h",
    ]:
        screen.feed(piece)
        seen.append(screen.settled)
    assert seen == [True, False, False, True, False, True, False, True, False, False, False]


@given(
    st.binary(max_size=200) | st.lists(st.sampled_from(USUAL + UNUSUAL)).map(b"".join),
    st.integers(1, 12),
    st.integers(1, 5),
)
def test_text_does_not_depend_on_how_the_stream_was_cut(data: bytes, cols: int, rows: int) -> None:
    whole, cut = TextScreen(cols, rows), TextScreen(cols, rows)
    whole.feed(data)
    for byte in data:
        cut.feed(bytes([byte]))
    assert whole.text() == cut.text()


def expanded(line: str) -> str:
    """A line without tabs, as on rows of the pane's width; clean text keeps the tabs of what was only printed."""
    rows, row, col = "", "", 0
    for number, part in enumerate(line.split("\t")):
        if number:
            col = max(col, min((col // 8 + 1) * 8, COLS - 1))
        for cluster, width in clusters(part):
            if col + width > COLS:
                rows, row, col = rows + row, "", 0
            row += " " * (col - text_width(row)) + cluster
            col += width
    return rows + row


def clean_text(data: bytes, rows: int, row: int) -> list[str]:
    """The lines of clean text, which is the same with styles and without."""
    text = "".join([part.text for part in parts(data, COLS, rows, cleaner=Cleaner(COLS, rows, row))])
    styled = Cleaner(COLS, rows, row, style=PLAIN_STYLE)
    assert text == "".join([str(part.text) for part in parts(data, COLS, rows, cleaner=styled)])
    return trimmed([expanded(line) for line in text.split("\n")])


@pytest.mark.parametrize(
    ("tokens", "rows", "above", "begin"),
    [
        (LINES_ONLY, 500, 6, b""),
        (MOVES_BACK, 500, 6, b""),
        (MOVES_ABOUT, 500, 0, b"\x1b[d"),  # in the top row, where an erasing scrolls what was shown away
        (MOVES_ABOUT, 7, 0, b"\x1b[d"),
    ],
    ids=["lines", "back", "about", "few rows"],
)
def test_text_is_what_tmux_has_of_its_rows(
    real_tmux: RealTmux, tokens: list[tuple[int, Token]], rows: int, above: int, begin: bytes
) -> None:
    """`TMUXMCP_TEST_SEED` begins elsewhere; `TMUXMCP_TEST_MANY` takes 20,000 in all."""
    panes = Panes(real_tmux, COLS, rows)
    for first in range(FIRST, FIRST + COUNT // 4, panes.count):
        seeds = range(first, min(first + panes.count, FIRST + COUNT // 4))
        streams = [(seed % (above + 1), begin + text_stream(seed, tokens, COLS)) for seed in seeds]
        for seed, (row, data), lines in zip(seeds, streams, panes.shown(streams), strict=True):
            assert clean_text(data, rows, row) == lines, f"seed {seed}, {row} rows above: {data!r}"
    panes.close()


def test_what_is_drawn_above_the_text_is_none_of_it() -> None:
    screen = TextScreen(20, 24, row=5)
    screen.feed(b"one\r\n\x1b[3A\x1b[Kabove\x1b[2;1Htop\x1b[7;1Htwo\r\n")
    assert (screen.text(), screen.drew_above) == ("one\ntwo\n", True)
    screen = TextScreen(20, 24, row=5)
    screen.feed(b"one\r\n\x1b[A\x1b[Ktwo\r\n\x1b[2A \x1b[2K\x1b[2B\r")
    assert (screen.text(), screen.drew_above) == ("two\n", False)
