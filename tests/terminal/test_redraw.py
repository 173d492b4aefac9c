"""The bytes that draw a screen: an empty terminal shows the same after them, and after whatever follows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.cases import for_each
from tests.kit.streams import HARD, SIZES, TOKENS, stream
from tests.terminal.conftest import RealTmux
from tmuxmcp.contract.value import replace
from tmuxmcp.terminal.emulator.redraw import redraw
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.seed import seed as seed_of
from tmuxmcp.terminal.emulator.stream import Stream
from tmuxmcp.terminal.snapshot import Snapshot


def shown(*pieces: bytes, cols: int = 20, rows: int = 6) -> Snapshot:
    made = Stream(Screen(cols, rows))
    for piece in pieces:
        made.feed(piece)
    return made.snapshot()


def comparable(snapshot: Snapshot) -> Snapshot:
    """Without what no sequence can say."""
    state, last = snapshot.state, snapshot.cols - 1
    saved, by_alternate = state.saved, state.saved_by_alternate
    state = replace(
        state,
        last_char="",
        saved=replace(saved, col=min(saved.col, last)) if saved else None,
        saved_by_alternate=replace(by_alternate, col=min(by_alternate.col, last)) if by_alternate else None,
        unfinished=b"",
    )
    return replace(snapshot, state=state)


@for_each(
    "data",
    [
        b"",
        b"one\r\n\x1b[31mtwo\x1b[44m  \x1b[K",
        b"x" * 20,
        "日本語 e\u0301 👍".encode(),
        b"main\x1b[2;3H\x1b[1m\x1b[?1049hover\x1b[7mit",
        b"\x1b[2;4r\x1b[?6h\x1b[2;2Hin\x1b7\x1b[?25l\x1b[4 q",
        b"\x1b[3g\x1b[5G\x1bH\x1b(0qq\x1b[4h\x1b[?7l\x1b[?1000h\x1b[?2004h",
        b"\x1b]2;a title\x07half a sequence \x1b[3",
        b"half a character \xe6\x97",
        b"\x1b[6;1H" + b"y" * 20,
        b"\x1b[5;1H" + b"x" * 18 + "日".encode(),
    ],
)
def test_what_is_drawn_is_what_was_shown(data: bytes) -> None:
    snapshot = shown(data)
    drawn = shown(redraw(snapshot))
    assert comparable(drawn) == comparable(snapshot)
    assert drawn.state.unfinished == snapshot.state.unfinished


@pytest.mark.parametrize("seed", range(40))
def test_any_screen_is_drawn_again_and_goes_on_alike(seed: int) -> None:
    before, cols, rows = stream(seed)
    dirty = stream(seed + 2000)[0]
    snapshot = shown(before, cols=cols, rows=rows)
    emptied = comparable(shown(dirty, redraw(snapshot, emptied=True), cols=cols, rows=rows))
    if snapshot.state.saved_by_alternate is None:  # nothing makes a terminal forget such a cursor
        emptied = replace(emptied, state=replace(emptied.state, saved_by_alternate=None))
    assert emptied == comparable(snapshot)
    goes_on_alike(before, stream(seed + 1000)[0], cols, rows)


def goes_on_alike(before: bytes, after: bytes, cols: int, rows: int) -> None:
    drawn = redraw(shown(before, cols=cols, rows=rows))
    for more in (b"", after):
        was, now = shown(before, more, cols=cols, rows=rows), shown(drawn, more, cols=cols, rows=rows)
        assert comparable(now) == comparable(was)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.booleans(), st.data())
def test_any_screen_goes_on_alike(seed: int, hard: bool, data: st.DataObject) -> None:
    tokens = HARD if hard else TOKENS
    before, cols, rows = stream(seed, tokens)
    cut = data.draw(st.integers(len(before) // 2, len(before)))
    goes_on_alike(before[:cut], before[cut:] + stream(seed + 4, tokens)[0], cols, rows)


@for_each(
    ("before", "after"),
    [
        (b"\x1b[3;9H\x1b[31m\x1b[?1049h\x1b[?1049lx", b"\x1b[?1049ly"),  # leaving again restores the cursor again
        (b"a" * 25, b"\r\b\bb"),  # back over the end of a row that goes on
        (("a" * 19 + "日").encode(), b"\r\bb"),
        (b"\x1b[?1049h" + b"a" * 25, b"\r\b\bb"),
        (b"a" * 25 + b"\x1b[?1049h", b"\x1b[?1049l\x1b[2;1H\bb"),
        (b"\x1b[1;3r\x1b[6;1H" + b"a" * 25 + b"\x1b[r", b"\x1b[6;1H\n\bb"),  # goes on in a row that is not there
        (b"\x1b[5;4H\x1b[?6h\x1b7\x1b[2;4r", b"\x1b8x"),  # saved in origin mode, and since then outside the region
        (b"\x1b[?6h\x1b[1;4H\x1b7\x1b[2;4r\x1b8", b"x"),
        (b"a-", b"\x1b[3b"),
        (b"\x1b(0q", b"\x1b[3b"),
        (b"a" * 20, b"\x1b[?7lb"),
        (b"a" * 20 + b"\x1b[?7l", b"b"),
    ],
)
def test_what_is_not_seen_is_drawn_again(before: bytes, after: bytes) -> None:
    goes_on_alike(before, after, 20, 6)
    assert shown(before, after) != shown(before)


def test_tmux_shows_what_is_drawn_again(real_tmux: RealTmux) -> None:
    for first, (cols, rows) in enumerate(SIZES):
        screens = [shown(stream(seed)[0], cols=cols, rows=rows) for seed in range(first, 40, len(SIZES))]
        answers = real_tmux.show_all([redraw(screen) for screen in screens], cols, rows)
        for screen, answer in zip(screens, answers, strict=True):
            told = seed_of(answer.seed.facts, answer.seed.rows, answer.seed.under)
            assert told.text_rows() == screen.text_rows()
            assert (told.cursor, told.alternate) == (replace(screen.cursor, shape="block"), screen.alternate)
            assert told.state.margins == screen.state.margins
