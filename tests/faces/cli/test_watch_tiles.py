from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmuxmcp.faces.cli.watch import grid, joined_rows, tile
from tmuxmcp.terminal.widths import text_width


@pytest.mark.parametrize(
    ("count", "size", "across_and_down"),
    [
        (1, (80, 24), (1, 1)),
        (2, (160, 24), (2, 1)),
        (2, (80, 50), (1, 2)),
        (4, (160, 50), (2, 2)),
        (3, (240, 25), (3, 1)),
        (9, (10, 4), (1, 2)),
        (5, (1, 1), (1, 1)),
    ],
)
def test_the_grid_fits_the_terminal(count: int, size: tuple[int, int], across_and_down: tuple[int, int]):
    found = grid(count, *size)
    assert (found.across, found.down) == across_and_down


TEXTS = st.lists(st.text("ab日é┌ ", max_size=30), max_size=30).map("\n".join)


@given(st.lists(TEXTS, min_size=1, max_size=9), st.integers(1, 200), st.integers(1, 60), st.integers(0, 40))
def test_whatever_is_shown_no_row_is_wider_and_no_grid_higher(contents: list[str], cols: int, lines: int, cursor: int):
    place = grid(len(contents), cols, lines)
    rows = joined_rows([tile(" x  日本 ", each, cursor, (place.cols, place.rows)) for each in contents], place)
    assert len(rows) <= lines
    assert all(text_width(re.sub(r"\x1b\[[0-9;]*m", "", row)) <= cols for row in rows)


def test_the_part_with_the_cursor_is_shown_and_colours_end_at_the_edge():
    content = "\n".join([*map(str, range(9)), "\x1b[31mred"])
    assert tile("x", content, 9, (4, 3)) == ["\x1b[7mx   \x1b[0m", "8\x1b[0m   ", "\x1b[31mred\x1b[0m "]
    assert tile("x", "\x1b[31mred\nmore", 0, (2, 3))[1:] == ["\x1b[31mre\x1b[0m", "\x1b[31mmo\x1b[0m"]
