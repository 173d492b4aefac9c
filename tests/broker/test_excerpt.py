"""Clean text of a bounded size whose offsets tell the truth."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import SLOW
from tmuxmcp.broker.excerpt import Reader
from tmuxmcp.broker.log import RawLog
from tmuxmcp.terminal.plain import plain

MARKER = 160
MARKED = re.compile(r"\[\.\.\. ([\d,]+) bytes left out; read since=(\d+) gives them \.\.\.\]\n")


@contextmanager
def reader_of(data: bytes) -> Iterator[Reader]:
    with tempfile.TemporaryDirectory() as directory:
        log = RawLog(Path(directory))
        log.path.write_bytes(data)
        yield Reader(log, 80, 24)


def size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def clean(data: bytes) -> str:
    return plain(data, 80, 24).text


words = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\n", exclude_categories=["Cc", "Cf", "Cs"]), max_size=60
)
line_output = st.lists(words.map(lambda word: word.encode() + b"\r\n"), max_size=80).map(b"".join)
"""Lines, as programs print them."""

drawing = st.lists(
    st.one_of(
        words.map(str.encode),
        st.sampled_from([b"\r", b"\n", b"\r\n", b"\x1b[31m", b"\x1b[0m", b"\x1b[K", b"\b", b"\t", b"\x07"]),
        st.sampled_from([b"\x1b[2J", b"\x1b[5;5H", b"\x1b[A", b"\x1b]0;title\x07", b"\x1b[?1049h", b"\x1b[?1049l"]),
        st.binary(max_size=8),
    ),
    max_size=60,
).map(b"".join)
"""Anything."""

limits = st.one_of(st.integers(min_value=16, max_value=400), st.integers(min_value=16, max_value=4000))


@settings(deadline=None, max_examples=300)
@given(line_output, limits)
def test_chained_pieces_are_the_whole(data: bytes, limit: int) -> None:
    with reader_of(data) as reader:
        offset, pieces = 0, []
        while offset < len(data):
            piece = reader.from_start(offset, len(data), limit)
            assert size(piece.text) <= limit
            assert piece.next_offset > offset
            assert piece.truncated == (piece.next_offset < len(data))
            assert piece.omitted_bytes == len(data) - piece.next_offset
            pieces.append(piece.text)
            offset = piece.next_offset
    assert "".join(pieces) == clean(data)


@settings(deadline=None, max_examples=300)
@given(drawing, limits)
def test_pieces_of_anything_are_bounded_and_come_to_an_end(data: bytes, limit: int) -> None:
    with reader_of(data) as reader:
        offset = 0
        while offset < len(data):
            piece = reader.from_start(offset, len(data), limit)
            assert size(piece.text) <= limit
            assert offset < piece.next_offset <= len(data)
            offset = piece.next_offset


@settings(deadline=None, max_examples=300)
@given(drawing, limits)
def test_both_ends_are_bounded(data: bytes, limit: int) -> None:
    with reader_of(data) as reader:
        excerpt = reader.both_ends(0, len(data), limit)
    assert size(excerpt.text) <= limit + MARKER
    assert excerpt.next_offset == len(data)


@settings(deadline=None, max_examples=300)
@given(line_output, limits)
def test_head_what_was_left_out_and_tail_are_the_whole(data: bytes, limit: int) -> None:
    with reader_of(data) as reader:
        excerpt = reader.both_ends(0, len(data), limit)
        marked = MARKED.search(excerpt.text)
        if not marked:
            assert not excerpt.truncated
            assert excerpt.text == clean(data)
            return
        omitted, since = int(marked[1].replace(",", "")), int(marked[2])
        assert excerpt.truncated
        assert excerpt.omitted_bytes == omitted
        head, tail = excerpt.text[: marked.start()], excerpt.text[marked.end() :]
    middle = clean(data[since : since + omitted])
    if not clean(data[:since]).endswith("\n"):
        head = head.removesuffix("\n")  # the line with the marker is one of its own
    assert head + middle + tail == clean(data)


def test_short_output_is_given_whole() -> None:
    with reader_of(b"one\r\ntwo\r\n$ ") as reader:
        for excerpt in (reader.both_ends(0, 12, 100), reader.from_start(0, 12, 100)):
            assert (excerpt.text, excerpt.truncated, excerpt.omitted_bytes) == ("one\ntwo\n$ ", False, 0)
            assert (excerpt.next_offset, excerpt.lost_before) == (12, 0)
        assert reader.both_ends(5, 10, 100).text == "two\n"
        assert reader.both_ends(5, 5, 100).text == ""


@pytest.mark.parametrize("unit", ["x", "é", "日", "😀", "a\x1b[31mb\x1b[0m"])
def test_giant_line_is_cut_between_characters(unit: str) -> None:
    data = (unit * 400_000).encode()
    with reader_of(data) as reader:
        begun = time.monotonic()
        excerpt = reader.both_ends(0, len(data), 1000)
        piece = reader.from_start(0, len(data), 1000)
        after = reader.from_start(piece.next_offset, len(data), 1000)
        assert time.monotonic() - begun < 5 * SLOW
    assert "\ufffd" not in excerpt.text + piece.text + after.text
    assert size(excerpt.text) <= 1000 + MARKER
    assert size(piece.text) > 900
    assert piece.text + after.text == clean(data[: after.next_offset])


def test_progress_bar_of_megabytes_is_one_line() -> None:
    bar = b"".join(b"\r[%-50s] %3d%%" % (b"#" * (percent // 2), percent) for percent in range(101))
    data = b"start\r\n" + bar * 200 + b"\r\ndone\r\n"
    assert len(data) > 1_000_000
    with reader_of(data) as reader:
        excerpt = reader.both_ends(0, len(data), 1000)
        longer = reader.both_ends(0, len(data), 300)
    assert excerpt.text == "start\n[" + "#" * 50 + "] 100%\ndone\n"
    assert not excerpt.truncated
    assert longer.text == excerpt.text


def test_progress_bar_that_is_too_long_for_that_is_small_all_the_same() -> None:
    bar = b"".join(b"\r\x1b[2K[%-50s] %3d%%" % (b"#" * (percent // 2), percent) for percent in range(101))
    data = b"start\r\n" + bar * 1000 + b"\r\ndone\r\n"
    with reader_of(data) as reader:
        begun = time.monotonic()
        excerpt = reader.both_ends(0, len(data), 1000)
        assert time.monotonic() - begun < 5 * SLOW
    assert excerpt.text.startswith("start\n")
    assert excerpt.text.endswith("] 100%\ndone\n")
    assert size(excerpt.text) <= 1000


def test_head_that_is_gone_is_told() -> None:
    data = b"".join(b"line %06d\r\n" % number for number in range(20_000))
    with reader_of(b"") as reader:
        with reader.log.path.open("wb") as file:  # a hole up to 64 KiB
            file.seek(65536)
            file.write(data[65536:])
        for excerpt in (reader.both_ends(0, len(data), 1000), reader.from_start(0, len(data), 1000)):
            assert excerpt.text.startswith("[... the first 65,536 bytes are no longer kept ...]\n")
            assert "\0" not in excerpt.text
            assert excerpt.lost_before == 65536
            assert excerpt.truncated
        assert reader.from_start(0, len(data), 1000).omitted_bytes > 65536
        assert reader.from_start(70_000, len(data), 1000).lost_before == 0


def test_head_that_goes_while_it_is_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(b"line %06d\r\n" % number for number in range(20_000))
    with reader_of(data) as reader:
        heads = iter([0, 65536])
        monkeypatch.setattr(RawLog, "head", lambda _: next(heads, 65536))
        excerpt = reader.from_start(0, len(data), 1000)
    assert excerpt.lost_before == 65536
    assert clean(data[65536:]).startswith(excerpt.text.split("\n", 1)[1])
