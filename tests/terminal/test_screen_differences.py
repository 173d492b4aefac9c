"""Random streams, shown alike by a real tmux and by our screen, or different as the reference tells."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.kit.streams import HARD, SIZES, TITLE, TOKENS, Token, stream
from tests.terminal.conftest import RealTmux, Seed, looks
from tests.terminal.tmux_bugs import BUGS, as_captured, with_bugs
from tmuxmcp.terminal.emulator.capture import MODE_FIELDS
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.seed import seed
from tmuxmcp.terminal.emulator.stream import Stream
from tmuxmcp.terminal.snapshot import Snapshot

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tmux-differences.md"
FIRST = int(os.environ.get("TMUXMCP_TEST_SEED", "0"))
COUNT = 2000 if os.environ.get("TMUXMCP_TEST_MANY") else 240
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
        "modes": set(MODE_FIELDS.values()) & set(state.modes),
        "region": state.margins,
        "tab stops": state.tab_stops,
        "title": snapshot.title,
    }


def compared(tmux: RealTmux, streams: dict[int, bytes], cols: int, rows: int) -> tuple[list[int], dict[int, set[str]]]:
    """Seeds whose streams differ, and what differs in other ways than told."""
    differ, unexplained = [], {}
    for (number, data), answer in zip(streams.items(), tmux.show_all([*streams.values()], cols, rows), strict=True):
        told = seen(theirs(answer.seed))
        if seen(ours(data, cols, rows)) != told:
            differ.append(number)
            known = seen(with_bugs(data, cols, rows).snapshot())
            if known != told:
                unexplained[number] = {name for name, value in told.items() if known[name] != value}
    return differ, unexplained


@pytest.mark.parametrize(("tokens", "count", "share"), [(TOKENS, COUNT, 0.99), (HARD, COUNT // 5, 0.0)])
def test_random_streams_are_shown_alike_or_differ_as_told(
    real_tmux: RealTmux, tokens: list[tuple[int, Token]], count: int, share: float
) -> None:
    """`TMUXMCP_TEST_SEED` begins elsewhere; `TMUXMCP_TEST_MANY` takes 2,000 of them."""
    differ, unexplained = [], {}
    for number, (cols, rows) in enumerate(SIZES):
        seeds = [seed for seed in range(FIRST, FIRST + count) if seed % len(SIZES) == number]
        found = compared(real_tmux, {seed: stream(seed, tokens)[0] for seed in seeds}, cols, rows)
        differ += found[0]
        unexplained |= found[1]
    print(f"{count} streams from seed {FIRST}: {len(differ)} differ: {differ}")
    assert not unexplained, f"seeds that differ in other ways than told: {unexplained}"
    assert len(differ) <= count * (1 - share), f"seeds that differ: {differ}"


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_a_known_difference_is_as_told(name: str, real_tmux: RealTmux) -> None:
    data = TITLE + EXAMPLES[name]
    told = seen(theirs(real_tmux.show(data, 20, 6).seed))
    assert seen(with_bugs(data, 20, 6, [name]).snapshot()) == told
    assert seen(ours(data, 20, 6)) != told


def test_every_difference_stands_in_the_reference() -> None:
    rows = re.findall(r"^\| ([a-z ]+) \|", PAGE.read_text(), re.MULTILINE)
    assert set(EXAMPLES) == BUGS
    assert set(rows) - {"name"} == BUGS
