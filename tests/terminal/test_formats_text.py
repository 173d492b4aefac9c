"""Films as text, coloured text, a page and lines of JSON."""

from __future__ import annotations

import codecs
import json
import re
from html import unescape
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.terminal.test_plain import LAYERS
from tmuxmcp.terminal.drawing.markup import as_html
from tmuxmcp.terminal.emulator.replay import blank
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.stream import Stream
from tmuxmcp.terminal.film.film import Film, FilmEvent, FilmExit, FilmInput, FilmMarker, FilmOutput, FilmResize
from tmuxmcp.terminal.film.formats import as_jsonl
from tmuxmcp.terminal.snapshot import PLAIN_STYLE
from tmuxmcp.terminal.text.logtext import as_txt
from tmuxmcp.terminal.text.plain import plain


def film(*moments: FilmEvent, created_at: float = 0.0) -> Film:
    return Film(blank(20, 4), 0, max((each.ms for each in moments), default=0), moments, "build", created_at)


def in_pieces(data: bytes, cuts: list[int]) -> Film:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return film(*[FilmOutput(number, data[a:b]) for number, (a, b) in enumerate(pairwise(edges))])


STYLED = st.lists(
    st.sampled_from([b"one", b" two", b"\r\n", b"\r\n", b"\x1b[31m", b"\x1b[0m", b"\x1b[1;44m", "日é".encode(), b"\t"])
).map(b"".join)
CUTS = st.lists(st.integers(0, 90), max_size=6)


@given(STYLED, CUTS)
def test_text_and_colours_do_not_depend_on_the_cuts(data: bytes, cuts: list[int]) -> None:
    assert b"".join(as_txt(in_pieces(data, cuts))).decode() == plain(data, 20, 4).text
    shown = re.sub(r"\x1b\[[0-9;]*m", "", b"".join(as_txt(in_pieces(data, cuts), colours=True)).decode())
    assert shown == plain(data, 20, 4).text


@pytest.mark.parametrize("size", [7, 1000, 70_000])
def test_what_is_drawn_over_and_over_is_there_once(size: int) -> None:
    lines = b"".join(b"line %d\r\n" % number for number in range(20_000))
    data = b"before\r\n" + LAYERS + lines + LAYERS + b"after\r\n"
    moments = [FilmOutput(number, data[at : at + size]) for number, at in enumerate(range(0, len(data), size))]
    made = b"".join(as_txt(Film(blank(20, 6), 0, len(moments), moments, "build", 0.0))).decode()
    bars = "l0: 99%\nl1: 99%\n"
    assert made == "before\n" + bars + lines.decode().replace("\r", "") + bars + "after\n"


@given(STYLED)
def test_colours_go_on_from_line_to_line(data: bytes) -> None:
    made = b"".join(as_txt(in_pieces(data, list(range(0, 90, 3))), colours=True)).decode()
    assert made.split("\n") == plain(data, 20, 4, style=PLAIN_STYLE).text.split("\n")


@given(st.binary(max_size=120), CUTS)
def test_any_bytes_make_text_without_sequences_and_a_sound_page(data: bytes, cuts: list[int]) -> None:
    assert b"\x1b" not in b"".join(as_txt(in_pieces(data, cuts)))
    page = b"".join(as_html(in_pieces(data, cuts)))
    assert b"\x1b" not in page
    assert page.count(b"<span") == page.count(b"</span>")


def test_a_page_has_the_text_with_its_colours_and_nothing_of_a_program_s_own() -> None:
    page = b"".join(
        as_html(film(FilmOutput(0, b"a<script>\x1b[31mred</pre>\x1b[0m\r\n"), FilmOutput(9, b"&amp;")))
    ).decode()
    body = page.partition("<pre>")[2].partition("</pre></body>")[0]
    assert body == 'a&lt;script&gt;<span style="color:#e05561">red&lt;/pre&gt;</span>\n&amp;amp;'
    assert unescape(re.sub(r"<[^>]*>", "", body)) == "a<script>red</pre>\n&amp;"
    assert "default-src 'none'" in page


def test_a_full_screen_program_is_one_line_also_from_its_middle() -> None:
    before = Stream(Screen(20, 4))
    before.feed(b"\x1b[32mgreen\x1b[?1049hdrawn")
    of = Film(before.snapshot(), 5, 9, [FilmOutput(9, b"more\x1b[2;2Hdrawn\x1b[?1049lleft\r\n")])
    assert b"".join(as_txt(of)) == b"left\n"
    assert b"".join(as_txt(of, colours=True)) == b"\x1b[32mleft\x1b[0m\n"


def lines(of: Film) -> list[dict[str, Any]]:
    return [json.loads(line) for line in as_jsonl(of)]


def test_jsonl_tells_what_happened_and_the_screen_once_a_second() -> None:
    of = film(
        FilmOutput(10, b"one\r\n\xe6\x97"),
        FilmOutput(500, b"\xa5\r\n"),
        FilmInput(600, b"ls"),
        FilmOutput(1500, b"\x1b[2J\x1b[H"),
        FilmResize(1600, 30, 5),
        FilmMarker(1600, "ls: exit 2", 2),
        FilmExit(1700, 2),
        created_at=1_000_000.0,
    )
    made = lines(of)
    assert [each.get("direction") or each["event"] for each in made] == [
        *("start", "screen", "output", "output", "input", "screen", "output"),
        *("resize", "command", "exit", "screen", "end"),
    ]
    assert [each["timestamp"] for each in made[:4]] == [1_000_000, 1_000_000, 1_000_000.01, 1_000_000.5]
    assert (made[2]["data"], made[3]["data"]) == ("one\r\n", "日\r\n")
    assert made[5] == {
        "timestamp": 1_000_000.5,
        "event": "screen",
        "screen": ["one", "日", "", ""],
        "cursor": {"row": 2, "col": 0, "visible": True},
    }
    assert (made[7]["cols"], made[7]["rows"]) == (30, 5)
    assert (made[8]["data"], made[8]["exit_code"]) == ("ls: exit 2", 2)
    assert made[-2]["screen"] == ["", "", "", "", ""]


def test_screens_of_a_flood_are_bounded_in_number() -> None:
    made = lines(film(*[FilmOutput(ms, b"%d\r\n" % ms) for ms in range(0, 10_000, 10)]))
    assert 9 <= sum(each.get("event") == "screen" for each in made) <= 12


@given(st.binary(max_size=200), CUTS)
def test_any_bytes_make_lines_of_json(data: bytes, cuts: list[int]) -> None:
    text = "".join(each["data"] for each in lines(in_pieces(data, cuts)) if each.get("direction") == "output")
    assert text == codecs.getincrementaldecoder("utf-8")("replace").decode(data)
