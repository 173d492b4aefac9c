"""The bytes that draw a screen: an empty terminal shows the same after them, and after whatever follows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.terminal.streams import stream
from tmuxmcp.terminal.redraw import redraw
from tmuxmcp.terminal.screen import Screen
from tmuxmcp.terminal.snapshot import Snapshot
from tmuxmcp.terminal.stream import Stream


def shown(*pieces: bytes, cols: int = 20, rows: int = 6) -> Snapshot:
    made = Stream(Screen(cols, rows))
    for piece in pieces:
        made.feed(piece)
    return made.snapshot()


def comparable(snapshot: Snapshot) -> Snapshot:
    """Without what no sequence can say."""
    saved = snapshot.state.saved
    state = replace(
        snapshot.state,
        wrapped=(),
        under_wrapped=(),
        last_char="",
        saved=replace(saved, col=min(saved.col, snapshot.cols - 1)) if saved else None,
        saved_by_alternate=None,
        unfinished=b"",
    )
    return replace(snapshot, state=state)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("seed", range(60))
def test_any_screen_is_drawn_again_and_goes_on_alike(seed: int) -> None:
    before, cols, rows = stream(seed)
    after, dirty = stream(seed + 1000)[0], stream(seed + 2000)[0]
    snapshot = shown(before, cols=cols, rows=rows)
    again = redraw(snapshot)
    assert comparable(shown(again, cols=cols, rows=rows)) == comparable(snapshot)
    emptied = redraw(snapshot, emptied=True)
    assert comparable(shown(dirty, emptied, cols=cols, rows=rows)) == comparable(snapshot)
    went_on = shown(again, after, cols=cols, rows=rows)
    assert went_on.text_rows() == shown(before, after, cols=cols, rows=rows).text_rows()
