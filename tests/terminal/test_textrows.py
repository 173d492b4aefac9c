"""Text on rows of strings: the same text as the emulator's, or none."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import for_each
from tmuxmcp.terminal.collector import Collector
from tmuxmcp.terminal.textgrid import Unusual
from tmuxmcp.terminal.textrows import TextRows

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


def texts(pieces: list[bytes], cols: int, rows: int) -> tuple[list[object], list[object]] | None:
    """What each says after every piece; None where the rows leave the drawing to the emulator."""
    fast, slow = TextRows(cols, rows), Collector(cols, rows)
    said: tuple[list[object], list[object]] = ([], [])
    for piece in pieces:
        try:
            fast.feed(piece)
        except Unusual:
            return None
        slow.feed(piece)
        for each, found in zip((fast, slow), said, strict=True):
            found.append(each.settled)
    return [*said[0], fast.text()], [*said[1], slow.text()]


@pytest.mark.parametrize("start", range(0, 4000, 500))
def test_text_is_that_of_the_emulator(start: int) -> None:
    for number in range(start, start + 500):
        random = Random(number)
        data = b"".join(random.choices(USUAL, k=random.randint(1, 80)))
        edges = sorted({0, len(data), *(random.randrange(len(data) + 1) for _ in range(random.randint(0, 5)))})
        pieces = [data[first:last] for first, last in pairwise(edges)]
        said = texts(pieces, random.choice([1, 2, 3, 9, 20]), random.choice([1, 2, 4, 6]))
        assert said is not None, (number, pieces)
        assert said[0] == said[1], (number, pieces)


@given(
    st.lists(st.sampled_from(USUAL + UNUSUAL) | st.binary(max_size=6), max_size=20).map(b"".join),
    st.lists(st.integers(0, 200), max_size=6),
    st.integers(1, 12),
    st.integers(1, 5),
)
def test_text_of_any_bytes_is_that_of_the_emulator_or_none(data: bytes, cuts: list[int], cols: int, rows: int) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    said = texts([data[first:last] for first, last in pairwise(edges)], cols, rows)
    assert said is None or said[0] == said[1]


@for_each("data", UNUSUAL)
def test_what_is_unusual_is_left_to_the_emulator(data: bytes) -> None:
    with pytest.raises(Unusual):
        TextRows(20, 6).feed(b"a" + data + b"x\r\n")
