from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.terminal.conftest import parse_capture, styled_rows
from tmuxmcp.terminal.emulator import capture
from tmuxmcp.terminal.emulator.capture import KnownRows
from tmuxmcp.terminal.emulator.redraw import ansi_row, changed_rows, numbered, sgr
from tmuxmcp.terminal.snapshot import PLAIN_STYLE, UNDERLINES, Style

COLOURS = st.none() | st.integers(0, 255) | st.tuples(*[st.integers(0, 255)] * 3)
STYLES = st.builds(
    Style,
    COLOURS,
    COLOURS,
    *[st.booleans()] * 3,
    st.sampled_from(UNDERLINES),
    *[st.booleans()] * 5,
    COLOURS,
    link=st.just(""),  # no SGR sequence says it
)
TEXTS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs"), exclude_characters="\xa0"), max_size=8)
ROWS = st.lists(st.lists(st.tuples(STYLES, TEXTS), max_size=4), max_size=4)

PRINTED = st.lists(
    st.sampled_from(["a", "lqx", "一", " ", "\t", "\x01", "\u202e", "é", "\x1b[31m", "\x1b[7m", "\x1b[44m", "\x1b[m"])
    | st.sampled_from(["\x0e", "\x0f", "\x1b]8;;x\x1b\\"]),
    max_size=6,
).map("".join)
NO_TEXT = "\x1b]8;;\x07"

RED = Style(fg=1)
REVERSE = Style(reverse=True)


def test_line_drawing_stands_between_shifts() -> None:
    assert parse_capture(["\x0elqk\x0f lqk", "\x0ex", "x\x0fx"]).rows == ["┌─┐ lqk", "│", "│x"]


def test_attributes_carry_over_from_row_to_row() -> None:
    rows = styled_rows(["a\x1b[31mb", "c\x1b[39md"])
    assert rows == [((PLAIN_STYLE, "a"), (RED, "b")), ((RED, "c"), (PLAIN_STYLE, "d"))]


def test_rows_that_look_the_same_are_equal() -> None:
    one = styled_rows(["\x1b[31mred", "red\x1b[0m text  "])
    other = styled_rows(["\x1b[0;31mred\x1b[39m   ", "\x1b[31mr\x1b[31med\x1b[0m text"])
    assert one == other


def test_blanks_that_can_be_seen_stay() -> None:
    assert styled_rows(["a\x1b[44m   "]) == [((PLAIN_STYLE, "a"), (Style(bg=4), "   "))]


def test_highlights_have_columns_and_no_blanks_around() -> None:
    found = parse_capture(["日本 \x1b[7m  一 two \x1b[0m x \x1b[7m \x1b[1my\x1b[22mz\x1b[0m"]).reversed
    assert [(each.row, each.col, each.text) for each in found] == [(0, 7, "一 two"), (0, 18, "yz")]


def test_hyperlinks_are_no_text() -> None:
    assert parse_capture(["\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\ end"]).rows == ["link end"]


def test_overline_as_tmux_writes_it() -> None:
    assert styled_rows(["\x1b[1;5:3mover"]) == [((Style(bold=True, overline=True), "over"),)]


@given(st.lists(PRINTED, max_size=4))
def test_rows_without_sequences_are_read_as_others_are(lines: list[str]) -> None:
    others = [line + NO_TEXT for line in lines]
    assert styled_rows(lines) == styled_rows(others)
    assert parse_capture(lines) == parse_capture(others)


@given(st.lists(st.lists(st.sampled_from(["", "lq ", "\x1b[7m", "\x1b[0ma", "\x0ex", "x\x0f"]) | PRINTED), max_size=5))
def test_known_rows_are_as_if_they_were_read_again(captures: list[list[str]]) -> None:
    known = KnownRows()
    for lines in captures:
        assert known.capture(lines) == parse_capture([line + NO_TEXT for line in lines])
        assert known.styled(lines) == styled_rows(lines)


def test_only_rows_that_are_new_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = capture._read_row
    monkeypatch.setattr(capture, "_read_row", lambda line, *rest: read.append(line) or original(line, *rest))
    known = KnownRows()
    for lines, news in [
        (["a", "b", "b", "", ""], ["a", "b", ""]),
        (["b", "c", "", "", ""], ["c"]),
        (["\x1b[31mb", "b", "c"], ["\x1b[31mb", "b", "c"]),  # in red now
        (["a"], ["a"]),  # one capture is kept
    ]:
        read.clear()
        known.capture(lines)
        assert read == news


@given(STYLES, STYLES)
def test_sequences_make_the_style(before: Style, after: Style) -> None:
    written = sgr(PLAIN_STYLE, before) + "a" + sgr(before, after) + "b"
    assert [style for style, text in styled_rows([written])[0]] == ([after] if before == after else [before, after])


@given(ROWS)
def test_a_row_written_with_its_colours_reads_back_equal(rows: list[list[tuple[Style, str]]]) -> None:
    written = [ansi_row(row) for row in rows]
    assert styled_rows(written) == [row for given in rows for row in styled_rows([ansi_row(given)])]
    assert [ansi_row(row) for row in styled_rows(written)] == [ansi_row(styled_rows([row])[0]) for row in written]
    texts = ["".join(text for _, text in row).rstrip(" ") for row in rows]
    assert [row.rstrip(" ") for row in parse_capture(written).rows] == texts


@given(ROWS)
def test_screens_drawn_again_do_not_differ(rows: list[list[tuple[Style, str]]]) -> None:
    screen = styled_rows(map(ansi_row, rows))
    assert changed_rows(screen, styled_rows(map(ansi_row, screen))) == []


def test_changed_rows_are_found_and_numbered() -> None:
    before, after = ["a", "b", "c"], ["a", "B", ""]
    assert changed_rows(before, after) == [1, 2]
    assert numbered(after, [1, 2]) == [" 1| B", " 2|"]
    assert numbered(["x"] * 24, [3, 20]) == ["  3| x", " 20| x"]
