"""Where our screen differs from a real tmux on purpose, it does so as the reference tells."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.terminal.conftest import RealTmux, Seed, looks
from tests.terminal.tmux_bugs import BUGS, as_captured, with_bugs
from tmuxmcp.terminal.screen import Screen
from tmuxmcp.terminal.seed import MODES, seed
from tmuxmcp.terminal.snapshot import Snapshot
from tmuxmcp.terminal.stream import Stream

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tmux-differences.md"
# A stream for each difference, at 20x6.
EXAMPLES = {
    "insert characters": b"abcdefghij\x1b[G\x1b[15@",
    "insert lines": b"\r\n".join([b"1", b"2", b"3", b"4", b"5", b"6"]) + b"\x1b[1;2r\x1b[3;1H\x1b[9L",
    "half erased": "日本\r\x1b[C\x1b[K".encode(),
    "half overwritten": "日本\r\x1b[Cx".encode(),
    "joiner": "日\u200da語".encode(),
    "long cluster": "👨\u200d👩\u200d👧\u200d👦x".encode(),
}


@pytest.fixture(autouse=True)
def told_of(real_tmux: RealTmux) -> None:
    version = real_tmux.run("display-message", "-p", "#{version}").strip()
    if version != "3.3a":
        pytest.skip(f"the faults told of are those of tmux 3.3a, not of {version}")


def ours(data: bytes, cols: int, rows: int) -> Snapshot:
    made = Stream(Screen(cols, rows))
    made.feed(data)
    return made.snapshot()


def theirs(told: Seed) -> Snapshot:
    return seed(told.facts, told.rows, told.under)


def seen(snapshot: Snapshot) -> dict[str, object]:
    """All that tmux tells of a pane."""
    state, cursor = snapshot.state, snapshot.cursor
    return {
        "cells": looks([as_captured(row, snapshot.cols) for row in snapshot.grid]),
        "cells under": looks([as_captured(row, snapshot.cols) for row in state.under]),
        "cursor": (cursor.row, cursor.col, cursor.wraps, cursor.visible),
        "alternate": snapshot.alternate,
        "modes": set(MODES.values()) & set(state.modes),
        "region": state.margins,
        "tab stops": state.tab_stops,
        "title": snapshot.title,
    }


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_a_known_difference_is_as_told(name: str, real_tmux: RealTmux) -> None:
    data = b"\x1b]2;first title\x1b\\" + EXAMPLES[name]
    told = seen(theirs(real_tmux.show(data, 20, 6).seed))
    assert seen(with_bugs(data, 20, 6, [name]).snapshot()) == told
    assert seen(ours(data, 20, 6)) != told


def test_every_difference_stands_in_the_reference() -> None:
    rows = re.findall(r"^\| ([a-z ]+) \|", PAGE.read_text(), re.MULTILINE)
    assert set(EXAMPLES) == BUGS
    assert set(rows) - {"name"} == BUGS
