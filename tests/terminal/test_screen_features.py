"""Every documented sequence, one by one: printed to a real tmux and to our screen, which look the same."""

from __future__ import annotations

from tests.terminal.conftest import RealTmux, looks
from tests.terminal.features import COLS, END, FEATURES, ROWS, START
from tmuxmcp.terminal.emulator.capture import MODE_FIELDS
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.seed import seed
from tmuxmcp.terminal.emulator.stream import Stream
from tmuxmcp.terminal.snapshot import Snapshot

ON_PURPOSE = {
    "unassigned": "tmux drops what its C library's edition of Unicode does not know; newer text is worth keeping",
}
"""Where we differ from tmux, and why."""


def stream_of(feature: bytes) -> bytes:
    return START + feature + END


def seen(snapshot: Snapshot) -> object:
    state = snapshot.state
    modes = set(MODE_FIELDS.values()) & set(state.modes)
    return snapshot.text_rows(), snapshot.cursor, snapshot.alternate, looks(snapshot.grid), state.tab_stops, modes


def test_names_are_told_apart() -> None:
    assert len({name for name, _ in FEATURES}) == len(FEATURES)
    assert set(ON_PURPOSE) <= {name for name, _ in FEATURES}


def test_screens_are_those_of_tmux(real_tmux: RealTmux) -> None:
    streams = [stream_of(feature) for _, feature in FEATURES]
    unlike = set()
    for (name, _), data, shown in zip(FEATURES, streams, real_tmux.show_all(streams, COLS, ROWS), strict=True):
        stream = Stream(Screen(COLS, ROWS))
        stream.feed(data)
        told = shown.seed
        theirs = seed(told.facts, told.rows, told.under, tail=data)
        if seen(stream.snapshot()) != seen(theirs):
            unlike.add(name)
    assert unlike == set(ON_PURPOSE)


def test_screens_are_the_same_byte_by_byte() -> None:
    unlike = []
    for name, feature in FEATURES:
        data = stream_of(feature)
        whole, stream = Stream(Screen(COLS, ROWS)), Stream(Screen(COLS, ROWS))
        whole.feed(data)
        for byte in data:
            stream.feed(bytes([byte]))
        if stream.snapshot() != whole.snapshot():
            unlike.append(name)
    assert not unlike
