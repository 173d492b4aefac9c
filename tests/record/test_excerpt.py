"""Clean text of a bounded size whose offsets tell the truth."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import SLOW
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.excerpt import Excerpt, LogReader
from tmuxmcp.record.log import STYLE_BYTES, RawLog, ResumePoint, ResumePoints
from tmuxmcp.terminal.snapshot import PLAIN_STYLE
from tmuxmcp.terminal.text.plain import ends_full_screen, plain, unfinished_character

MARKER = 160
MARKED = re.compile(r"\[\.\.\. ([\d,]+) bytes left out; read since=(\d+) gives them \.\.\.\]\n")


@contextmanager
def reader_of(data: bytes) -> Iterator[LogReader]:
    with tempfile.TemporaryDirectory() as directory:
        log = RawLog(SessionDirectory(Path(directory)))
        log.path.write_bytes(data)
        yield LogReader(log, 80, 24)


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


def chained(reader: LogReader, end: int, limit: int) -> list[tuple[int, Excerpt]]:
    """Pieces from the first byte on, and where each begins: they are bounded, and come to an end."""
    offset, pieces = 0, []
    while offset < end:
        piece = reader.from_start(offset, end, limit)
        assert size(piece.text) <= limit
        assert offset < piece.next_offset <= end
        pieces.append((offset, piece))
        offset = piece.next_offset
    return pieces


@given(line_output, limits)
def test_chained_pieces_are_the_whole(data: bytes, limit: int) -> None:
    with reader_of(data) as reader:
        pieces = [piece for _, piece in chained(reader, len(data), limit)]
    for piece in pieces:
        assert (piece.omitted_bytes > 0) == (piece.next_offset < len(data))
        assert piece.omitted_bytes == len(data) - piece.next_offset
    assert "".join(piece.text for piece in pieces) == clean(data)


@given(drawing, limits)
def test_pieces_of_anything_are_bounded_and_come_to_an_end(data: bytes, limit: int) -> None:
    with reader_of(data) as reader:
        chained(reader, len(data), limit)


@given(drawing, limits)
def test_both_ends_are_bounded(data: bytes, limit: int) -> None:
    with reader_of(data) as reader:
        excerpt = reader.both_ends(0, len(data), limit)
    assert size(excerpt.text) <= limit + MARKER
    assert excerpt.next_offset == len(data)


@given(line_output, limits)
def test_head_what_was_left_out_and_tail_are_the_whole(data: bytes, limit: int) -> None:
    with reader_of(data) as reader:
        excerpt = reader.both_ends(0, len(data), limit)
        marked = MARKED.search(excerpt.text)
        if not marked:
            assert excerpt.omitted_bytes == 0
            assert excerpt.text == clean(data)
            return
        omitted, since = int(marked[1].replace(",", "")), int(marked[2])
        assert excerpt.omitted_bytes > 0
        assert excerpt.omitted_bytes == omitted
        head, tail = excerpt.text[: marked.start()], excerpt.text[marked.end() :]
    middle = clean(data[since : since + omitted])
    if not clean(data[:since]).endswith("\n"):
        head = head.removesuffix("\n")  # the line with the marker is one of its own
    assert head + middle + tail == clean(data)


def test_short_output_is_given_whole() -> None:
    with reader_of(b"one\r\ntwo\r\n$ ") as reader:
        for excerpt in (reader.both_ends(0, 12, 100), reader.from_start(0, 12, 100)):
            assert (excerpt.text, excerpt.omitted_bytes) == ("one\ntwo\n$ ", 0)
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


LONG = b"<" + b"x" * 5000 + b">\r\n"


@pytest.mark.parametrize("before", [b"", b"a\r\n", b"a\r\nb\r\n" + b"y" * 70 + b"\r\n"])
@pytest.mark.parametrize("behind", [b"", b">>> ", b"c\r\n$ ", b"c\r\n" * 50])
def test_of_a_line_that_is_too_long_both_ends_are_shown(before: bytes, behind: bytes) -> None:
    data = before + LONG + behind
    with reader_of(data) as reader:
        excerpt = reader.both_ends(0, len(data), 600)
        assert size(excerpt.text) <= 600
        head, omitted, offset, tail = MARKED.split(excerpt.text)
        assert head == clean(before) + "<" + "x" * (len(head) - len(clean(before)) - 2) + "\n"
        if len(behind) < 20:
            assert tail.endswith("x>\n" + clean(behind))
        assert size(excerpt.text) > 480
        begin = int(offset)
        left_out = reader.from_start(begin, begin + excerpt.omitted_bytes, 1 << 20).text
        assert omitted == f"{excerpt.omitted_bytes:,}"
        assert head[:-1] + left_out + tail == clean(data)


def test_two_lines_that_are_too_long() -> None:
    data = LONG + b"short\r\n" + LONG.replace(b"x", b"y")
    with reader_of(data) as reader:
        head, _, _, tail = MARKED.split(reader.both_ends(0, len(data), 400).text)
    assert (head[:2], tail[-3:]) == ("<x", "y>\n")


def test_progress_bar_of_megabytes_is_one_line() -> None:
    bar = b"".join(b"\r[%-50s] %3d%%" % (b"#" * (percent // 2), percent) for percent in range(101))
    data = b"start\r\n" + bar * 200 + b"\r\ndone\r\n"
    assert len(data) > 1_000_000
    with reader_of(data) as reader:
        excerpt = reader.both_ends(0, len(data), 1000)
        longer = reader.both_ends(0, len(data), 300)
    assert excerpt.text == "start\n[" + "#" * 50 + "] 100%\ndone\n"
    assert excerpt.omitted_bytes == 0
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
            assert excerpt.omitted_bytes > 0
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


def numberless(text: str) -> str:
    """Without how much was drawn: that depends on where a read ended."""
    return re.sub(r"program: [\d,]+ bytes", "program: N bytes", text)


FULL_SCREEN = (
    "héé\r\n\x1b]0;title\x07\x1b[31mred\x1b[0m\r\n"
    "\x1b[?1049h\x1b[2J\x1b[1;1H~ one\x1b[2;1H~ 日\r\n\x1b[3;5Hx\x1b[?25;1049l"
    "日本 \x1b[1mdone\x1b[m\r\n\x1b[?1049hagain\x1b[?1049l$ "
).encode()
SHOWN = (
    "héé\nred\n[full-screen program: N bytes of screen drawing left out]\n"
    "日本 done\n[full-screen program: N bytes of screen drawing left out]\n$ "
)


def read_in_pieces(data: bytes, cuts: list[int], view: str = "both_ends") -> str:
    """What the reads show that a session's cursor makes."""
    with reader_of(data) as reader:
        places, text = ResumePoints(reader.log), ""
        for start, end in pairwise([0, *sorted(cuts), len(data)]):
            one = LogReader(reader.log, 80, 24, places)  # each read has one of its own
            start -= unfinished_character(data[:start])
            text += getattr(one, view)(start, end - unfinished_character(data[:end]), 4000).text
    return numberless(text)


@pytest.mark.parametrize("view", ["both_ends", "from_start"])
def test_full_screen_stretch_is_told_once_wherever_reads_cut_it(view: str):
    assert read_in_pieces(FULL_SCREEN, [], view) == SHOWN
    for cut in range(1, len(FULL_SCREEN)):
        assert read_in_pieces(FULL_SCREEN, [cut], view) == SHOWN, (cut, FULL_SCREEN[cut - 10 : cut])


@pytest.mark.parametrize("data", [b"line of text\r\n" * 300_000, b"x" * 4_000_000], ids=["lines", "one line"])
def test_long_output_is_cleaned_few_times(data: bytes, monkeypatch: pytest.MonkeyPatch):
    from tmuxmcp.record import excerpt

    cleaned = 0

    def counting(data: bytes, *args: Any, **place: Any):
        nonlocal cleaned
        cleaned += len(data)
        return plain(data, *args, **place)

    monkeypatch.setattr(excerpt, "plain", counting)
    budget = 1_000_000
    with reader_of(data) as reader:
        for read in (reader.from_start, reader.both_ends):
            cleaned = 0
            found = read(0, len(data), budget)
            assert budget - MARKER - 20 <= size(found.text) <= budget
            assert cleaned < 10 * budget


@given(st.lists(st.integers(1, len(FULL_SCREEN) - 1), max_size=8, unique=True))
def test_full_screen_stretch_is_told_once_in_many_reads(cuts: list[int]):
    assert read_in_pieces(FULL_SCREEN, cuts) == SHOWN


def test_long_full_screen_program_is_told_once():
    drawing = b"".join(b"\x1b[%d;1H~ line %d" % (number % 24, number) for number in range(200_000))
    data = b"$ vi\r\n\x1b[?1049h" + drawing + b"\x1b[?1049l$ "
    cuts = [100, 5000, 700_000, 700_001, 2_900_000, len(data) - 3]
    assert read_in_pieces(data, cuts) == "$ vi\n[full-screen program: N bytes of screen drawing left out]\n$ "
    with reader_of(data) as reader:  # nobody read what came before
        assert reader.from_start(1_000_000, len(data), 1000).text == "$ "
        assert reader.both_ends(100_000, 2_900_000, 1000).text == ""


@given(
    st.lists(st.sampled_from([b"\x1b[?1049h", b"\x1b[?1049l", b"text\r\n", b"\x1b[3;3H"]), max_size=30).map(b"".join),
    st.lists(st.integers(0, 200), max_size=20),
)
def test_places_say_the_same_in_any_order(data: bytes, offsets: list[int]):
    with reader_of(data) as reader:
        places = ResumePoints(reader.log)
        for offset in offsets:
            offset = min(offset, len(data))
            assert places.inside(offset) == ends_full_screen(data[:offset])


def test_place_near_a_head_that_is_gone():
    with reader_of(b"") as reader:
        with reader.log.path.open("wb") as file:
            file.seek(65536)
            file.write(b"gone \x1b[?1049h\x1b[31mx")
        assert ResumePoints(reader.log).at(reader.log.size(), 80) == ResumePoint(inside=True)
        assert ResumePoints(reader.log).at(65536 + 5, 80).inside is False
        assert ResumePoints(reader.log).at(65536 + 16, 80) == ResumePoint(cut=b"\x1b[3", inside=True)


def test_progress_bar_in_many_reads_shows_its_states():
    data = b" 10%\r 50%\r100%\r\n"
    assert read_in_pieces(data, [4, 9]) == " 10% 50%100%\n"
    typed = b"$ lss\b\x1b[K -l\r\n"
    assert read_in_pieces(typed, [2]) == "$ ls -l\n"


@given(st.text("aé日😀\n", max_size=40), st.integers(1, 8))
def test_what_does_not_fit_is_passed_over_and_counted(text: str, limit: int):
    data = text.replace("\n", "\r\n").encode()
    with reader_of(data) as reader:
        pieces = chained(reader, len(data), limit)
    for offset, piece in pieces:
        passed_over = 0 if piece.text else piece.next_offset - offset
        assert piece.omitted_bytes == len(data) - piece.next_offset + passed_over
    seen = "".join(piece.text for _, piece in pieces)
    assert seen == "".join(char for char in clean(data) if size(char) <= limit)


EDITED = (
    b"\x1b[1m\x1b[7m#\x1b[27m\x1b[1m\x1b[0m                   \r \r\r\x1b[0m\x1b[27m\x1b[24m\x1b[J$ \x1b[K\x1b[?2004h"
    b"e\x08echo aaa bbb ccc d \r\x1b[Kd\rdd eee fff\x1b[?2004l\r\r\naaa bbb ccc ddd eee fff\r\n"
    b"root@vm:/work# \r\x1b[K\rroot@vm:/work# \x1b[?2004hecho " + b"word " * 20 + b"end\r\n"
    b"\x1b[?2004h$ echo aabb cccccccc\x08\x08Xcc\x08\x08\r\n\x1b[?2004l\raabb\r\n 10%\r 50%\r100%\r\nend\r\n"
)
"""Of zsh in 20 columns, the mark before a prompt and a wrapped line; of bash a prompt drawn twice, a changed line."""

JOINED = "a 👨‍👩‍👧 é ❤️ 👍🏽 🇩🇪🇫🇷 e\u0301\u0302 b\r\nc\r\n".encode()


@pytest.mark.parametrize(("data", "least"), [(EDITED, 4), (JOINED, 18)])
def test_small_pieces_say_together_what_one_large_piece_says(data: bytes, least: int):
    with reader_of(data) as made:
        reader = LogReader(made.log, 20, 24)
        whole = reader.from_start(0, len(data), 10_000).text
        for limit in range(least, 60):
            pieces = [piece for _, piece in chained(reader, len(data), limit)]
            assert all(piece.omitted_bytes == len(data) - piece.next_offset for piece in pieces)
            texts = [piece.text for piece in pieces]
            assert "".join(texts) == whole, (limit, texts)
            assert not [each for each in texts if each[:1] in ("\u200d", "\ufe0f", "\u0301", "\u0302", "\U0001f3fd")]


def test_what_is_seen_as_one_character_is_passed_over_as_one():
    data = "👨‍👩‍👧x".encode()
    with reader_of(data) as reader:
        piece = reader.from_start(0, len(data), 10)
        assert (piece.text, piece.next_offset, piece.omitted_bytes) == ("", len(data) - 1, len(data))
        endless = b"e" + "\u0301".encode() * 500  # but not without bound
    with reader_of(endless) as reader:
        assert size(reader.from_start(0, len(endless), 200).text) > 100


def test_bytes_that_are_no_characters_are_passed_one_by_one():
    data = b"\x80" * 50 + b"end"
    with reader_of(data) as reader:
        piece = reader.from_start(0, len(data), 6)
        assert (piece.text, piece.next_offset, piece.omitted_bytes) == ("\ufffd\ufffd", 2, 51)


# --- with colours -------------------------------------------------------------------------------------

SGR = re.compile(r"\x1b\[[0-9;:]*m")
STYLES = st.sampled_from([b"\x1b[31m", b"\x1b[1;44m", b"\x1b[38;2;1;2;3m", b"\x1b[m", b"\x1b[0m"])
coloured_lines = st.lists(words.map(str.encode) | STYLES | st.just(b"\r\n"), max_size=80).map(b"".join)
"""Lines in whose middle styles begin and end."""


def whole(text: str) -> str:
    """The text without its colours, of which none is cut or open at a line's end."""
    bare = SGR.sub("", text)
    assert "\x1b" not in bare
    for line in text.split("\n"):
        assert (SGR.findall(line) or ["\x1b[0m"])[-1] == "\x1b[0m"
    return bare


@settings(deadline=None)
@given(coloured_lines, st.integers(60, 2000))
def test_chained_pieces_in_colours_are_the_whole(data: bytes, limit: int) -> None:
    with reader_of(data) as reader:
        pieces = chained(reader.coloured(), len(data), limit)
    assert whole("".join(piece.text for _, piece in pieces)) == clean(data)


@settings(deadline=None)
@given(coloured_lines)
def test_pieces_of_lines_have_the_colours_of_the_whole(data: bytes) -> None:
    data = data.replace(b"\n", b"\n" + b"x" * 40 + b"\r\n")
    with reader_of(data) as reader:
        coloured, cut = reader.coloured(), data.find(b"\n") + 1
        pieces = [coloured.from_start(0, cut, 10_000), coloured.both_ends(cut, len(data), 100_000)]
    assert "".join(piece.text for piece in pieces) == plain(data, 80, style=PLAIN_STYLE).text


@settings(deadline=None)
@given(drawing, limits)
def test_both_ends_in_colours_are_bounded_and_whole(data: bytes, limit: int) -> None:
    with reader_of(data) as reader:
        excerpt = reader.coloured().both_ends(0, len(data), limit)
        piece = reader.coloured().from_start(0, len(data), limit)
    assert size(excerpt.text) <= limit + MARKER
    assert size(piece.text) <= limit
    whole(excerpt.text)
    whole(piece.text)


def test_style_is_open_on_both_sides_of_what_was_left_out():
    data = b"\x1b[31m" + b"".join(b"line %05d\r\n" % number for number in range(1000)) + b"\x1b[0mend\r\n"
    with reader_of(data) as reader:
        excerpt = reader.coloured().both_ends(0, len(data), 400)
    head, marked, tail = MARKED.split(excerpt.text)[0], MARKED.search(excerpt.text), MARKED.split(excerpt.text)[-1]
    assert marked
    assert head.startswith("\x1b[31mline 00000\x1b[0m\n\x1b[31mline 00001\x1b[0m\n")
    assert tail.endswith("\x1b[31mline 00999\x1b[0m\nend\n")
    assert tail.startswith("\x1b[31mline 0")
    assert excerpt.omitted_bytes == int(marked[1].replace(",", ""))


def test_long_line_in_colours_is_cut_and_goes_on():
    data = b"\x1b[31mred\x1b[32m" + b"g" * 5000 + b"\x1b[0m"
    with reader_of(data) as reader:
        first = reader.coloured().from_start(0, len(data), 1000)
        after = reader.coloured().from_start(first.next_offset, len(data), 1000)
        ends = reader.coloured().both_ends(0, len(data), 1000)
    assert first.text.startswith("\x1b[31mred\x1b[")
    assert first.text.endswith("g\x1b[0m")
    assert after.text.startswith("\x1b[32mg")
    assert size(first.text) in range(980, 1001)
    assert whole(ends.text).startswith("redggg")
    assert ends.text.endswith("g\x1b[0m")


def test_lines_of_scrollback_each_have_their_colour():
    data = b"one\r\n\x1b[34mtwo\r\nthree\x1b[m\r\nfour\r\n"
    with reader_of(data) as reader:
        lines = reader.coloured().last_lines(len(data), 2)
        assert lines == ["\x1b[34mthree\x1b[0m", "four"]
        assert reader.coloured().last_lines(data.index(b"three"), 1) == ["\x1b[34mtwo\x1b[0m"]


def test_style_from_before_a_full_screen_program_goes_on():
    data = b"\x1b[31mred\r\n\x1b[?1049h\x1b[44mdrawn\x1b[?1049lred\r\n"
    with reader_of(data) as reader:
        for cut in range(data.index(b"drawn"), data.index(b"drawn") + 9):
            assert reader.coloured().both_ends(cut, len(data), 1000).text == "\x1b[31mred\x1b[0m\n"


def test_style_is_looked_for_so_far_back():
    data = b"\x1b[31m" + b"x" * STYLE_BYTES
    with reader_of(data) as reader:
        assert reader.coloured().from_start(STYLE_BYTES, len(data), 100).text == "\x1b[31mxxxxx\x1b[0m"
        assert ResumePoints(reader.log).style_at(STYLE_BYTES + 5) == PLAIN_STYLE


def test_rows_that_the_cursor_goes_by_are_no_blank_lines():
    shown = b"a\r\nb\r\n"
    for data, text in [
        (b"\x1b[?1l\x1b[25;1H\r\n\x1b[K\x1b]133;A\x07$ ", "$ "),
        (b"\x1b[8;3H*\x1b[18;1H", "  *"),
        (b"\x1b[20;1H\x1b[?25h$ ", "$ "),
        (b"\r\n\r\n\r\n$ \x1b[A\x1b[B", "\n\n\n$"),  # these were printed
        (b"\x1b[H\x1b[2J\x1b[4;1Hbox", "\n\n\nbox"),  # and this is a picture
        (b"\x1b[?1049h\x1b[9;1Hx\x1b[?1049l\r\n\r\n$ ", None),
        (b"top\x1b[20;1H$ ", "top" + "\n" * 19 + "$ "),
    ]:
        with reader_of(shown + data) as reader:
            start, end = len(shown), len(shown + data)
            for excerpt in (reader.both_ends(start, end, 999), reader.from_start(start, end, 999)):
                assert excerpt.text.rstrip() == (clean(data) if text is None else text).rstrip(), data
                assert excerpt.scattered == (text in ("$ ", "  *", "top" + "\n" * 19 + "$ ")), data
                assert (excerpt.next_offset, excerpt.omitted_bytes) == (end, 0)
