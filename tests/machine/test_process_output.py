from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmuxmcp.machine.process import HeadAndTail, carry


def fed(most: int, *pieces: bytes) -> HeadAndTail:
    ends = HeadAndTail(most)
    for piece in pieces:
        ends.feed(piece)
    return ends


@given(st.lists(st.binary(max_size=40)), st.integers(1, 200))
def test_what_fits_is_there_whatever_the_pieces(pieces: list[bytes], most: int):
    data = b"".join(pieces)
    ends = fed(most, *pieces)
    head, tail = ends.pieces(most)
    assert ends.size == len(data)
    assert ends.truncated == (len(data) > most)
    if ends.truncated:
        assert len(head) + len(tail) == most
        assert data.startswith(head)
        assert data.endswith(tail)
    else:
        assert (head, tail) == (data, b"")


@given(st.text(), st.integers(1, 300))
def test_text_is_never_longer_than_asked_for(text: str, most: int):
    shown = fed(most, text.encode()).text()
    assert shown is not None
    assert len(shown.encode()) <= most
    if len(text.encode()) <= most:
        assert shown == text


def test_head_and_tail_stay_with_a_line_between():
    text = "".join(f"{number}\n" for number in range(10_000))
    shown = fed(1000, text.encode()).text()
    assert shown is not None
    first, rest = shown.split("\n[... ")
    omitted, last = rest.split(" bytes left out ...]\n")
    assert text.startswith(first)
    assert text.endswith(last)
    assert int(omitted.replace(",", "")) == len(text) - len(first) - len(last)


@pytest.mark.parametrize("shift", range(4))
def test_a_cut_never_splits_a_character(shift: int):
    text = "x" * shift + "\U0001f600" * 1000
    shown = fed(400, text.encode()).text()
    assert shown is not None
    assert "\ufffd" not in shown


def test_memory_is_bounded():
    ends = HeadAndTail(1000)
    for _ in range(1000):
        ends.feed(b"x" * 65536)
    assert ends.size == 65_536_000
    assert len(ends._head) + len(ends._tail) <= 1000 + 4096


def test_one_stream_that_is_not_text_makes_both_base64():
    encoding, streams = carry([fed(100, b"hello"), fed(100, b"\xff\x00")])
    assert encoding == "base64"
    assert [base64.b64decode(stream) for stream in streams] == [b"hello", b"\xff\x00"]


def test_a_writer_that_was_ended_may_have_left_half_a_character():
    ends = fed(100, "ab\u20ac".encode()[:-1])
    assert carry([ends])[0] == "base64"
    assert carry([ends], cut_off=True) == ("utf-8", ["ab"])


def test_last_line_is_the_newest_that_says_something():
    assert fed(100, b"one\ntwo\n \n\n").last_line() == "two"
    assert fed(100).last_line() == ""
