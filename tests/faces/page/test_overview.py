from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmuxmcp.faces.page.overview import encoded_rows, spans
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.stream import Stream


def drawn(text: str, cols: int = 40) -> list[dict]:
    stream = Stream(Screen(cols, 1))
    stream.feed(text.encode())
    return spans(stream.snapshot(0).grid[0])


def test_stretches_of_one_look():
    assert drawn("plain \x1b[1;31mred\x1b[0m") == [{"t": "plain "}, {"t": "red", "f": "#e05561", "a": "b"}]


def test_what_is_no_plain_letter_stands_alone():
    assert drawn("a漢é👩‍👩‍👧─") == [
        {"t": "a"},
        {"t": "漢", "w": 2},
        {"t": "é", "w": 1},
        {"t": "👩‍👩‍👧", "w": 2},
        {"t": "─", "w": 1},
    ]


def test_true_colours_reverse_and_underlines():
    assert drawn("\x1b[38;2;1;2;3;48;5;21mx\x1b[0m") == [{"t": "x", "f": "#010203", "b": "#0000ff"}]
    assert drawn("\x1b[7mx")[0]["b"] == "#d7dae0"
    assert drawn("\x1b[4:3;58;2;9;9;9mx")[0] == {"t": "x", "u": "curly", "l": "#090909"}


def test_coloured_blanks_at_the_end_stay():
    assert drawn("\x1b[44m  ") == [{"t": "  ", "b": "#4aa5f0"}]
    assert drawn("x   ") == [{"t": "x"}]


LINK = "\x1b]8;;{}\x1b\\{}\x1b]8;;\x1b\\"


def test_address_behind_text_is_told():
    (row,) = encoded_rows(["漢 \x1b[31m" + LINK.format("https://example.org/a?b", "see 字") + "\x1b[39m!"], 20, 1)
    address = "https://example.org/a?b"
    assert json.loads(row) == [
        {"t": "漢", "w": 2},
        {"t": " "},
        {"t": "see ", "f": "#e05561", "h": address},
        {"t": "字", "w": 2, "f": "#e05561", "h": address},
        {"t": "!"},
    ]


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "https:/x",
        "https://x y",
        'https://x"onclick=',
        "https://exämple.org",
        "https://x/" + "a" * 2048,
    ],
)
def test_address_that_nobody_is_asked_to_open_is_left_out(address: str):
    (row,) = encoded_rows([LINK.format(address, "text")], 20, 1)
    assert json.loads(row) == [{"t": "text"}]


def test_styles_carry_over_from_row_to_row():
    rows = encoded_rows(["\x1b[31mone", "two\x1b[39m", "three"], 10, 4)
    assert [json.loads(row) for row in rows] == [
        [{"t": "one", "f": "#e05561"}],
        [{"t": "two", "f": "#e05561"}],
        [{"t": "three"}],
        [],
    ]


@given(st.text(max_size=60))
def test_nothing_but_text_comes_out_and_no_wider_than_the_row(text: str):
    (row,) = encoded_rows([text.replace("\n", " ")], 20, 1)
    cells = json.loads(row)
    assert sum(span.get("w", len(span["t"])) for span in cells) <= 20
    assert all(char.isprintable() or char in " \u200d\u3000" or ord(char) > 127 for span in cells for char in span["t"])
