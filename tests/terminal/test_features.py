"""Every documented sequence, one by one: printed to a real tmux and to our screen, which look the same."""

from __future__ import annotations

import pytest

from tests.terminal.conftest import RealTmux, Seed, looks
from tests.terminal.features import COLS, END, FEATURES, ROWS, START
from tmuxmcp.terminal.looked import MODES
from tmuxmcp.terminal.screen import Screen
from tmuxmcp.terminal.seed import seed
from tmuxmcp.terminal.snapshot import Snapshot
from tmuxmcp.terminal.stream import Stream

ON_PURPOSE = {
    "unassigned": "tmux drops what its C library's edition of Unicode does not know; newer text is worth keeping",
}
"""Where we differ from tmux, and why."""


def stream_of(feature: bytes) -> bytes:
    return START + feature + END


@pytest.fixture(scope="module")
def told_of(real_tmux: RealTmux) -> dict[bytes, Seed]:
    """What tmux tells of each."""
    streams = [stream_of(feature) for _, feature in FEATURES]
    return dict(zip(streams, [shown.seed for shown in real_tmux.show_all(streams, COLS, ROWS)], strict=True))


def seen(snapshot: Snapshot) -> object:
    state = snapshot.state
    modes = set(MODES.values()) & set(state.modes)
    return snapshot.text_rows(), snapshot.cursor, snapshot.alternate, looks(snapshot.grid), state.tab_stops, modes


def test_names_are_told_apart() -> None:
    assert len({name for name, _ in FEATURES}) == len(FEATURES)
    assert set(ON_PURPOSE) <= {name for name, _ in FEATURES}


@pytest.mark.parametrize(("name", "feature"), [pytest.param(*row, id=row[0]) for row in FEATURES])
def test_screen_is_the_one_of_tmux(name: str, feature: bytes, told_of: dict[bytes, Seed]) -> None:
    data = stream_of(feature)
    stream = Stream(Screen(COLS, ROWS))
    stream.feed(data)
    told = told_of[data]
    theirs = seed(told.facts, told.rows, told.under, tail=data)
    assert (seen(stream.snapshot()) == seen(theirs)) == (name not in ON_PURPOSE)


@pytest.mark.parametrize("feature", [pytest.param(feature, id=name) for name, feature in FEATURES])
def test_screen_is_the_same_byte_by_byte(feature: bytes) -> None:
    data = stream_of(feature)
    whole, stream = Stream(Screen(COLS, ROWS)), Stream(Screen(COLS, ROWS))
    whole.feed(data)
    for byte in data:
        stream.feed(bytes([byte]))
    assert stream.snapshot() == whole.snapshot()
