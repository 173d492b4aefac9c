"""Screens: whatever the bytes, however cut, what tmux would show."""

from __future__ import annotations

import json
import os
import random
import tracemalloc
from itertools import pairwise
from typing import Any

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.cases import for_each
from tests.terminal.conftest import RealTmux, looks, trimmed
from tmuxmcp.terminal.emulator.redraw import redraw
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.seed import grid, seed
from tmuxmcp.terminal.emulator.stream import Stream
from tmuxmcp.terminal.snapshot import PLAIN_STYLE, Cell, Style, from_data, to_data
from tmuxmcp.terminal.widths import MAX_CELL

LINES = b"".join(b"line%d\r\n" % number for number in range(4))
EDGE = b"x" * 20

# Shown by a real tmux on 20x6: text and cursor are compared.
LIKE_TMUX: list[tuple[str, bytes]] = [
    ("text", b"one\r\ntwo"),
    ("wrapped", b"x" * 50),
    ("scrolled", LINES + LINES),
    ("bare newlines", b"one\ntwo\n"),
    ("vertical tab, form feed", b"a\x0bb\x0cc"),
    ("NUL, DEL", b"a\0b\x7fc"),
    ("tabs", b"a\tb\tc\td"),
    ("tab at the edge", EDGE + b"\ty"),
    ("tab after a wide character", "日\tb".encode()),
    ("own tab stop", b"abc\x1bH\r\tX"),
    ("tab stop removed", b"\t\x1b[g\r\tX"),
    ("all tab stops removed", b"\x1b[3ga\tb"),
    ("back over tabs", b"0123456789012\x1b[Zx\x1b[2Zy"),
    ("backspace", b"abc\b\bx"),
    ("backspace at the edge", EDGE + b"\by"),
    ("backspace to the row above", EDGE + b"y\b\bz"),
    ("index, next line", b"abc\x1bDx\x1bEy"),
    ("reverse index", LINES + b"\x1b[2;2H\x1bM\x1bM\x1bMx"),
    ("up, down, right, left", LINES + b"\x1b[2Aa\x1b[Bb\x1b[3Cc\x1b[2Dd"),
    ("left from the edge", EDGE + b"\x1b[Dy"),
    ("up from the edge", LINES + EDGE + b"\x1b[Ay"),
    ("row from the edge", EDGE + b"\x1b[3dy"),
    ("next and previous lines", LINES + b"ab\x1b[2Fc\x1b[Ed"),
    ("columns", b"abc\x1b[10Gx\x1b[5`y"),
    ("position", LINES + b"\x1b[2;3Hx\x1b[fy"),
    ("position too large", b"\x1b[99;99Hx"),
    ("position with zeros", LINES + b"\x1b[0;0Hx"),
    ("position with too many numbers", LINES + b"\x1b[3;5;7Hx"),
    ("saved cursor", b"ab\x1b7\r\ncd\x1b8X"),
    ("saved cursor, SCO", b"ab\x1b[scd\x1b[uX"),
    ("never saved", b"ab\x1b8X"),
    ("one slot", b"a\x1b7b\x1b7c\x1b8X\x1b8Y"),
    ("erase below", LINES + b"\x1b[2;3H\x1b[J"),
    ("erase above", LINES + b"\x1b[2;3H\x1b[1J"),
    ("erase all", LINES + b"\x1b[2;3H\x1b[2Jx"),
    ("erase all from home", LINES + b"\x1b[H\x1b[Jx"),
    ("erase the scrollback", LINES + b"\x1b[3Jx"),
    ("erase right", b"abcdef\x1b[3D\x1b[K"),
    ("erase left", b"abcdef\x1b[3D\x1b[1K"),
    ("erase the line", b"abcdef\x1b[2Kx"),
    ("erase at the edge", EDGE + b"\x1b[Ky"),
    ("erase left at the edge", EDGE + b"\x1b[1Ky"),
    ("selective erase does nothing", b"abc\r\x1b[?K\x1b[?Jx"),
    ("erase characters", b"abcdef\r\x1b[2X"),
    ("delete characters", b"abcdef\r\x1b[2P"),
    ("insert characters", b"abcdef\r\x1b[2@x"),
    ("edits at the edge", EDGE + b"\x1b[X\x1b[P\x1b[@y"),
    ("insert mode", b"abc\r\x1b[4hX\x1b[4lY"),
    ("insert mode at the edge", b"\x1b[4h" + EDGE + b"yz"),
    ("insert mode, wide", "日本\r\x1b[4h語".encode()),
    ("no wrapping", b"\x1b[?7labcdefghijklmnopqrstuvwxyz"),
    ("no wrapping, wide", "\x1b[?7l日本語日本語日本語日本語日本語".encode()),
    ("no wrapping at the edge", EDGE + b"\x1b[?7labc"),
    ("insert lines", LINES + b"\x1b[2;3H\x1b[2LX"),
    ("delete lines", LINES + b"\x1b[2;3H\x1b[2MX"),
    ("insert outside the region", LINES + b"\r\nlast\x1b[3;5r\x1b[LX"),
    ("delete outside the region", LINES + b"\r\nlast\x1b[3;5r\x1b[MX"),
    ("scroll up, down", LINES + b"\x1b[2SX\x1b[TY"),
    ("region", LINES + b"\x1b[2;4rA\r\n\r\n\r\n\r\nB"),
    ("newline below the region", LINES + b"\x1b[2;3r\x1b[6;1HA\nB\nC"),
    ("scroll in the region", LINES + b"\x1b[2;3r\x1b[SX"),
    ("moves stop at the region", LINES + b"\x1b[2;4r\x1b[3;1H\x1b[9AX\x1b[9BY"),
    ("impossible region", LINES + b"\x1b[3;2rX"),
    ("region to line 0", LINES + b"\x1b[1;0rX"),
    ("origin mode", LINES + b"\x1b[2;4r\x1b[?6h\x1b[1;1HX\x1b[9;1HY\x1b[?6lZ"),
    ("origin mode saved", LINES + b"\x1b[2;4r\x1b[?6h\x1b7\x1b[?6l\x1b8\x1b[1;1HX"),
    ("repeat", b"ab\x1b[3bc"),
    ("repeat to the edge only", b"a\x1b[99bc"),
    ("repeat at the edge", EDGE + b"\x1b[3bc"),
    ("repeat after a newline", b"ab\r\n\x1b[3bc"),
    ("repeat after an unknown sequence", b"a\x1b[?9q\x1b%G\x7f\x1b[2bc"),
    ("repeat after a sequence without effect", b"a\x1b[6n\x1b[2bb\x1b=\x1b[2bc"),
    ("repeat after a character", "aé\x1b[2bc".encode()),
    ("repeat twice", b"a\x1b[2b\x1b[2bc"),
    ("repeat after a colour", b"a\x1b[1m\x1b[2bc"),
    ("repeat after a title", b"a\x1b]0;x\x07\x1b[2bc"),
    ("repeat a wide character", "日\x1b[9bc".encode()),
    ("alternate screen 47", b"abc\x1b[?47hX\x1b[?47lY"),
    ("alternate screen 1047", b"abc\x1b[?1047hX\r\nY\x1b[?1047lZ"),
    ("alternate screen 1049", b"abc\x1b[?1049hX\r\nY\x1b[?1049lZ"),
    ("alternate screen, not left", b"abc\x1b[?1049hX"),
    ("alternate screen, not entered", b"abc\x1b[?1049lX"),
    ("alternate screen twice", b"ab\x1b[?1049hX\x1b[?1049hY\x1b[?1049lZ"),
    ("alternate screen scrolls", LINES + b"\x1b[?1049h" + b"x\r\n" * 9 + b"\x1b[?1049ly"),
    ("alternate screen and saved cursor", b"ab\x1b7\x1b[?1049h\x1b[3;3Hx\x1b7\x1b[?1049ly\x1b8z"),
    ("alignment test", b"ab\x1b#8X"),
    ("reset", b"abc\x1bcX"),
    ("soft reset", b"\x1b[2;4r\x1b[4hab\x1b[!pX"),
    ("132 columns", b"abc\x1b[?3hX"),
    ("wide character at the edge", ("x" * 19 + "日").encode()),
    ("over the first half", "日本\rx".encode()),
    ("combining", "e\u0301x".encode()),
    ("combining at column 0", "\u0301x".encode()),
    ("combining at the edge", ("x" * 20 + "\u0301y").encode()),
    ("joined emoji", "👩\u200d💻x".encode()),
    ("joiner between ASCII and others", "a\u200d👍x".encode()),
    ("joiner at the end", "日\u200d\r\nx\u200dy".encode()),
    ("joiners", "é\u200d\u200d日\u200d\u0301x".encode()),
    ("joiner at the edge", ("x" * 20 + "\u200d日y").encode()),
    ("joiner after ASCII", "a\u200db".encode()),
    ("emoji style", "❤\ufe0fx".encode()),
    ("flag", "🇩🇪x".encode()),
    ("skin tone", "👍🏽x".encode()),
    ("zero width", "a\u200bb\u200cc\ufeffd".encode()),
    ("soft hyphen", "a\u00adb".encode()),
    ("Hindi", "हिन्दी नमस्ते".encode()),
    ("Hangul", "\u1100\u1161\u11a8x".encode()),
    ("invalid UTF-8", b"a\xff\xc3b\xe2\x82z\xc0\x80c"),
    ("C1", "a\u009b31mb".encode() + b"\x9b31mc"),
    ("newline inside a sequence", b"a\x1b[3\nCb"),
    ("bell inside a sequence", b"a\x1b[3\x07Cb"),
    ("cancelled", b"a\x1b[3\x18Cb\x1b[3\x1aCd"),
    ("escape inside a sequence", b"a\x1b[3\x1b[Cb"),
    ("other characters inside a sequence", "a\x1b[3é\x7fCb\x1bé[3Cc\x1b\n[2Cd".encode()),
    ("malformed", b"a\x1b[3?Cb\x1b[3 Cc\x1b[3:2Cd\x1b ([Ce"),
    ("empty numbers", b"ab\x1b[;;Hc"),
    ("no number", b"ab\x1b[0Cc"),
    ("many colours", b"a\x1b[" + b"1;" * 60 + b"mb"),
    ("title", b"a\x1b]0;x\ny\x07b\x1b]2;x\x1b\\c"),
    ("title cut short", b"a\x1b]0;x\x18b\x1b]0;x\x1b[Cc"),
    ("DCS", b"a\x1bPq;x\x1b\\b\x1bP$q m\x1b\\c"),
    ("DCS holds anything", b"a\x1bPqx\x18y\x07z\x1b[Cy\x1b\x1b\\z\x1b\\b"),
    ("APC, PM, SOS, window name", b"a\x1b_x\x07y\x1b\\b\x1b^x\x1b\\c\x1bXx\x1b\\d\x1bkx\x07y\x1b\\e"),
    ("APC, PM, SOS cut short", b"a\x1b_x\x1b[Cb\x1b^x\x1b[Cc\x1bXx\x18d"),
    ("unknown escapes", b"\x1b%Ga\x1b=b\x1b>c\x1bnd\x1bZe\x1bVf"),
    ("unknown sequences", b"a\x1b[1$rb\x1b[?1$pc\x1b[22;0;0td\x1b[>4;2me\x1b[<uf\x1b[=1;1ug\x1b[?4mh\x1b[20hi\nj"),
    ("not in tmux", b"a\x1b[2Ib\x1b[3ac\x1b[3ed\x1b[?1048he"),
    ("modes", b"a\x1b[?1000;1006;25;2004;2026h\x1b[?1lb"),
]

# Where we differ on purpose, or where `capture-pane` does not tell.
UNLIKE_TMUX = [
    ("line drawing", b"\x1b(0lqk\x1b(Bx\x1b)0\x0eq\x0fq", ["┌─┐x─q"]),
    ("line drawing repeated", b"\x1b(0q\x1b[5b\x1b(B", ["──────"]),
    ("line drawing ends with a reset", b"\x1b(0q\x1bcq", ["q"]),
    ("over the second half", "日本\r\x1b[Cx".encode(), [" x本"]),
    ("delete a half", "日本\r\x1b[C\x1b[P".encode(), [" 本"]),
    ("erase a half", "日本\r\x1b[X".encode(), ["  本"]),
    ("push a half over the edge", ("日" * 10 + "\r\x1b[@").encode(), [" " + "日" * 9]),
    ("a large family", "👨\u200d👩\u200d👧\u200d👦x".encode(), ["👨\u200d👩\u200d👧\u200d👦x"]),
]

STREAMS = [*LIKE_TMUX, *((name, data) for name, data, _ in UNLIKE_TMUX)]


def fed(*pieces: bytes, cols: int = 20, rows: int = 6) -> Screen:
    screen = Screen(cols, rows)
    stream = Stream(screen)
    for piece in pieces:
        stream.feed(piece)
    return screen


def state(screen: Screen) -> Any:
    return screen.snapshot(), [row.wrapped for row in screen.buffer]


def test_screens_are_those_of_tmux(real_tmux: RealTmux) -> None:
    unlike = {}
    streams = [data for _, data in LIKE_TMUX]
    for (name, data), shown in zip(LIKE_TMUX, real_tmux.show_all(streams, cols=20, rows=6), strict=True):
        screen = fed(data)
        ours = trimmed(screen.display), (screen.cursor.y, screen.cursor.x), looks(screen.buffer)
        theirs = shown.screen, shown.cursor, looks(grid(shown.seed.rows, 20, 6))
        if ours != theirs:
            unlike[name] = ours, theirs
    assert not unlike


@for_each(("data", "rows"), [pytest.param(*row[1:], id=row[0]) for row in UNLIKE_TMUX])
def test_screen_of(data: bytes, rows: list[str]) -> None:
    assert trimmed(fed(data).display) == rows


def test_screens_are_the_same_byte_by_byte_and_with_more_behind() -> None:
    for name, data in STREAMS:
        assert state(fed(*[bytes([byte]) for byte in data])) == state(fed(data)), name
        assert state(fed(data + b"\x1b[1mmore\r\n")) == state(fed(data, b"\x1b[1mmore\r\n")), name


MIXED = st.lists(st.sampled_from([data for _, data in STREAMS]) | st.binary(max_size=6), max_size=12).map(b"".join)


@given(MIXED, st.lists(st.integers(0, 400), max_size=8), st.integers(1, 25), st.integers(1, 7))
def test_screen_does_not_depend_on_how_the_bytes_were_cut(data: bytes, cuts: list[int], cols: int, rows: int) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(edges)]
    assert state(fed(*pieces, cols=cols, rows=rows)) == state(fed(data, cols=cols, rows=rows))


@given(MIXED, MIXED, st.integers(1, 25), st.integers(1, 7))
def test_a_snapshot_and_the_bytes_after_it_are_the_screen_of_all_bytes(
    before: bytes, after: bytes, cols: int, rows: int
) -> None:
    first = Screen(cols, rows)
    stream = Stream(first)
    stream.feed(before)
    snapshot = stream.snapshot(offset=len(before))
    second = Screen(1, 1)
    follower = Stream(second)
    follower.restore(from_data(json.loads(json.dumps(to_data(snapshot)))))
    assert follower.snapshot(len(before)) == snapshot
    for each in (stream, follower):
        each.feed(after)
    assert follower.snapshot() == stream.snapshot()


RED = Style(fg=1)
COLOURS = [
    ("nothing", b"", PLAIN_STYLE),
    ("red on green", b"\x1b[31;42m", Style(fg=1, bg=2)),
    ("bright", b"\x1b[95;106m", Style(fg=13, bg=14)),
    ("palette", b"\x1b[38;5;1;48;5;255m", Style(fg=1, bg=255)),
    ("true colour", b"\x1b[38;2;1;2;255m", Style(fg=(1, 2, 255))),
    ("colons", b"\x1b[38:2::1:2:3;48:5:9m", Style(fg=(1, 2, 3), bg=9)),
    ("colons, no colour space", b"\x1b[38:2:1:2:3m", Style(fg=(1, 2, 3))),
    ("default again", b"\x1b[31;42;39;49m", PLAIN_STYLE),
    ("styles", b"\x1b[1;2;3;4;5;7;8;9;53m", Style(None, None, True, True, True, "single", *[True] * 5)),
    ("styles off", b"\x1b[1;2;3;4;5;7;8;9;53m\x1b[22;23;24;25;27;28;29;55m", PLAIN_STYLE),
    ("double underline", b"\x1b[21m", Style(underline="double")),
    ("curly underline", b"\x1b[4:3m", Style(underline="curly")),
    ("underline off by colon", b"\x1b[4m\x1b[4:0m", PLAIN_STYLE),
    ("underline colour", b"\x1b[58;5;1;31;58:2::1:2:3m", Style(fg=1, underline_colour=(1, 2, 3))),
    ("reset", b"\x1b[1;31m\x1b[m", PLAIN_STYLE),
    ("cut short", b"\x1b[31;38m\x1b[38:2:1m", RED),
    ("what is left of a colour is obeyed", b"\x1b[31;38;2;1m", Style(fg=1, bold=True)),
    ("no such colour", b"\x1b[31;38;5;256m", PLAIN_STYLE),
    ("no such part of a colour", b"\x1b[31;38;2;300;1;1m", Style(fg=1, bold=True)),
    ("as many as are obeyed", b"\x1b[" + b"1;" * 22 + b"1m", Style(bold=True)),
    ("too many", b"\x1b[" + b"1;" * 23 + b"1m", PLAIN_STYLE),
    ("too long", b"\x1b[1;" + b"0" * 62 + b"1m", PLAIN_STYLE),
    ("too large", b"\x1b[1;99999999999m", PLAIN_STYLE),
    ("not a colour", b"\x1b[31m\x1b[>4;2m\x1b[?4m", RED),
]


@for_each(("data", "style"), [pytest.param(*row[1:], id=row[0]) for row in COLOURS])
def test_colours_and_styles_of(data: bytes, style: Style) -> None:
    assert fed(data + b"x").buffer[0][0] == Cell("x", style)


def test_erased_cells_take_the_background() -> None:
    screen = fed(b"abc\r\x1b[44m\x1b[K")
    assert {screen.buffer[0][col].style.bg for col in range(20)} == {4}


LONG = [
    ("plain", "".join(f"{number}\r\n" for number in range(3000))),
    (
        "reset",
        "".join(f"\x1b[3{number % 8}m{number}\x1b[K é\t\x1b[4{number % 5}m\x1b[0m\b-\r\n" for number in range(3000)),
    ),
    ("never reset", "\x1b[1;34;45m" + "".join(f"{number}\x1b[K\r\n" for number in range(3000))),
    ("background throughout", "\x1b[44m" + "x\r\n" * 3000),
    ("background near the end", "x\r\n" * 3000 + "\x1b[44m" + "x\r\n" * 3),
    ("bare newlines", "".join(f"{number}\n" for number in range(3000))),
    ("bare newlines and others", "x\n\x1b[31my\r\n" * 2000),
    ("saved before", "\x1b7" + "x\r\n" * 3000 + "\x1b8y"),
    ("a move in between", ("x\r\n" * 3000 + "\x1b[2Ay") * 2),
    ("in a region", "\x1b[2;4r" + "x\r\n" * 3000),
    ("line drawing", "\x1b(0" + "x\r\n" * 3000),
    ("insert mode", "\x1b[4h" + "x\ry\r\n" * 3000),
    ("no wrapping", "\x1b[?7l" + "x" * 30 + "\r\n" * 3000),
]


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in LONG])
def test_long_linear_text_is_skipped_without_a_trace(text: str) -> None:
    data = text.encode()
    pieces = [data[start : start + 500] for start in range(0, len(data), 500)]
    assert state(fed(data)) == state(fed(*pieces))


TITLES = [
    *(
        b"]0;a",
        b"]2;b",
        b"]1;c",
        b"]00;d",
        b"]02;e",
        b"]20;f",
        b"]2g",
        b"]2",
        b"]0;",
        b"];h",
        b"]3;i",
        b"];0;j",
        b"]0;k;l",
    ),
    *(
        b"]0;a\nb\tc",
        b"]0;a\x7fb",
        "]0;aé日".encode(),
        "]0;a\x85b".encode(),
        b"]2;  x  ",
        b"_c",
        b"_",
        b"_a\x07b",
        b"_a\x7f",
    ),
    *(b"^d", b"Xe", b"kf", b"P0;g", b"]8;;h", b"]7;i", b"]10;j"),
]


def test_title_is_the_one_of_tmux(real_tmux: RealTmux) -> None:
    streams = [b"\x1b]2;before\x07\x1b" + title + b"\x1b\\" for title in TITLES]
    shown = real_tmux.show_all(streams, cols=20, rows=6)
    theirs = [seed(each.seed.facts, each.seed.rows).title for each in shown]
    assert [fed(data).title for data in streams] == theirs


def test_title_is_kept_and_bounded() -> None:
    assert fed(b"\x1b]0;one\x07\x1bc").title == "one"
    assert fed(b"\x1b]0;one\x07\x1b]2;tw", b"o\x1b", b"\\").title == "two"
    assert fed(b"\x1b_o", b"ne\x1b\\").title == "one"
    assert len(fed(b"\x1b]2;" + b"x" * 100_000 + b"\x07").title) < 5000


def test_resize_takes_rows_below_the_cursor_then_above_it() -> None:
    screen = fed(b"a\r\nb\r\nc\r\nd\x1b[2;1H")
    screen.resize(lines=3, columns=10)
    assert (trimmed(screen.display), screen.cursor.y) == (["a", "b", "c"], 1)
    screen.resize(lines=1)
    assert (trimmed(screen.display), screen.cursor.y) == (["b"], 0)
    screen.resize(lines=2)
    assert screen.display == ["b" + " " * 9, " " * 10]


def test_size_may_change_on_the_alternate_screen() -> None:
    screen = Screen(20, 6)
    stream = Stream(screen)
    stream.feed(LINES + b"\x1b[?1049h")
    screen.resize(lines=3, columns=4)
    stream.feed(b"x\x1b[?1049l")
    assert len(screen.display) == 3
    assert {len(row) for row in screen.display} == {4}


HOSTILE = [
    ("unfinished sequence", b"\x1b[" + b"1;" * 1_000_000),
    ("unfinished title", b"\x1b]0;" + b"x" * 2_000_000),
    ("unfinished DCS", b"\x1bP" + b"x" * 2_000_000),
    ("unfinished escape", b"\x1b" + b" " * 2_000_000),
    ("saved cursors", b"\x1b7" * 100_000),
    ("styles", b"".join(b"\x1b[38;5;%d;48;5;%dm%d" % (n % 256, n // 256, n) for n in range(20_000))),
    ("modes", b"".join(b"\x1b[?%dh" % n for n in range(20_000))),
]


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in HOSTILE])
def test_memory_is_bounded(data: bytes) -> None:
    stream = Stream(Screen(80, 24))
    tracemalloc.start()
    for start in range(0, len(data), 50_000):
        stream.feed(data[start : start + 50_000])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_900_000


def test_a_cell_is_bounded() -> None:
    assert len(fed(b"e" + b"\xcc\x81" * 1000).buffer[0][0].text) == MAX_CELL


def hostile_stream(chance: random.Random) -> bytes:
    """Escape-heavy noise."""

    def piece() -> bytes:
        kind = chance.random()
        if kind < 0.2:
            return "".join(chance.choices("abc 日é\u0301👩\u200d", k=chance.randrange(30))).encode()
        if kind < 0.6:
            numbers = ";".join(chance.choices(["", "0", "1", "2", "3", "5", "38", "1049", "47", "99999999"], k=3))
            prefix, junk = chance.choice(["", "", "?", ">", "!"]), chance.choice(["", "", " ", "\n", ":", "\u00b2"])
            return f"\x1b[{prefix}{numbers}{junk}{chr(chance.randrange(0x40, 0x7F))}".encode()
        if kind < 0.8:
            return b"\x1b" + bytes([chance.randrange(0x20, 0x7F)])
        return chance.choice([chance.randbytes(3), b"\r\n", b"\b", b"\t", b"\x1b]0;t\x07", b"\x1b(0", b"\x0e"])

    return b"".join(piece() for _ in range(chance.randrange(1, 60)))


def assert_survives(chance: random.Random) -> None:
    """Feed one hostile stream in two pieces, with a change of size and a snapshot in between."""
    cols, rows = chance.choice([(80, 24), (20, 6), (3, 2), (1, 1)])
    data = hostile_stream(chance)
    cut = chance.randrange(len(data) + 1)
    screen = fed(data[:cut], cols=cols, rows=rows)
    if chance.random() < 0.3:
        cols, rows = chance.choice([(80, 24), (7, 3), (2, 9)])
        screen.resize(rows, cols)
    screen.restore(screen.snapshot())
    Stream(screen).feed(data[cut:])
    assert len(screen.buffer) == rows, data
    assert {len(row) for row in screen.buffer} == {cols}, data
    assert {sum(cell.width for cell in row) for row in screen.buffer} == {cols}, data
    assert 0 <= screen.cursor.y < rows, data
    assert 0 <= screen.cursor.x <= cols, data


HOSTILE_STREAMS = 10_000 if os.environ.get("TMUXMCP_TEST_MANY") else 2000


def test_no_hostile_stream_raises_or_leaves_the_screen() -> None:
    chance = random.Random(HOSTILE_STREAMS)
    for _ in range(HOSTILE_STREAMS):
        assert_survives(chance)


@given(st.binary(max_size=200), st.integers(1, 12), st.integers(1, 4))
def test_no_bytes_raise(data: bytes, cols: int, rows: int) -> None:
    fed(data, cols=cols, rows=rows)


def test_address_behind_text_stays_with_it() -> None:
    link = b"\x1b]8;%s;%s\x1b\\"
    screen = Screen(20, 3)
    stream = Stream(screen)
    stream.feed(link % (b"id=1", b"https://example.org/") + b"a\x1b[31mb\x1b[0mc\x1b[2Kd")
    stream.feed(link % (b"", b"") + b"e\r\n")
    for address in (b"javascript:x", b"file:///etc", b"https://a/\x01\xe2\x80\xae", b"https://" + b"x" * 600):
        stream.feed(link % (b"", b"https://before/") + link % (b"", address) + b"x")
    stream.feed(b"\r\n" + link % (b"", b"http://open/"))
    addresses = [[cell.style.link for cell in row] for row in stream.snapshot().grid]
    assert addresses == [[""] * 3 + ["https://example.org/"] + [""] * 16, [""] * 20, [""] * 20]
    snapshot = stream.snapshot()
    assert from_data(to_data(snapshot)) == snapshot
    again = Screen(20, 3)
    drawn = Stream(again)
    drawn.feed(redraw(snapshot) + b"f")
    stream.feed(b"f")
    assert drawn.snapshot() == stream.snapshot()
    assert drawn.snapshot().grid[2][0].style.link == "http://open/"


def test_what_is_left_to_pyte_is_known():
    """A method that a new pyte adds or renames would draw in cells that nobody shows: it is replaced, or named here."""
    unused = {
        "debug",
        "default_char",
        "define_charset",
        "ensure_hbounds",
        "ensure_vbounds",
        "linefeed",
        "report_device_attributes",
        "report_device_status",
        "select_graphic_rendition",
        "set_icon_name",
        "shift_in",
        "shift_out",
        "write_process_input",
    }
    ours = {name for base in Screen.__mro__ if base.__module__.startswith("tmuxmcp") for name in vars(base)}
    theirs = {name for name in vars(pyte.Screen) if not name.startswith("__")}
    assert theirs - ours == unused | {"set_title"}
    assert len(theirs & ours) == 34
