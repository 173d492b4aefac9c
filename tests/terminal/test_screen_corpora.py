"""Recordings of real programs: our screen is tmux's, while they run, after they end and after a change of size.

`scripts/corpora` makes the recordings; a look holds what tmux showed at that offset.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kit.corpora import CORPORA, NAMES, Recording
from tests.terminal.conftest import looks
from tmuxmcp.terminal.emulator.screen import Screen
from tmuxmcp.terminal.emulator.stream import Stream
from tmuxmcp.terminal.snapshot import Snapshot, from_data, to_data


def seen(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "text": snapshot.text_rows(),
        "cursor": snapshot.cursor,
        "looks": looks(snapshot.grid),
        "alternate": snapshot.alternate,
        "size": (snapshot.cols, snapshot.rows),
    }


def test_there_are_enough_recordings_and_they_are_small() -> None:
    assert len(NAMES) >= 20
    assert sum(file.stat().st_size for file in CORPORA.iterdir()) < 3_000_000


@pytest.mark.parametrize("name", NAMES)
def test_screen_is_the_one_tmux_showed(name: str) -> None:
    recording = Recording(name)
    screen = Screen(recording.cols, recording.rows)
    stream = Stream(screen)
    done = 0
    for event in recording.events:
        stream.feed(recording.raw[done : event["offset"]])
        done = event["offset"]
        told = recording.told(event)
        if event["kind"] == "resize":
            screen.resize(event["rows"], event["cols"])
            if not screen.alternate:  # tmux wraps the main screen anew: that is what seeds are for
                stream.restore(told)
        assert seen(stream.snapshot()) == seen(told), f"at {done}"


@pytest.mark.parametrize("name", NAMES)
def test_screen_goes_on_from_each_look(name: str) -> None:
    """From each look to the next, as after a gap; through plain data, as after a restart."""
    recording = Recording(name)
    for before, after in zip(recording.events, recording.events[1:], strict=False):
        if after["kind"] == "resize":
            continue
        stream = Stream(Screen(1, 1))
        stream.restore(from_data(json.loads(json.dumps(to_data(recording.told(before))))))
        stream.feed(recording.raw[before["offset"] : after["offset"]])
        assert seen(stream.snapshot()) == seen(recording.told(after)), f"from {before['offset']} to {after['offset']}"


@pytest.mark.parametrize("name", NAMES)
def test_recordings_cut_anywhere_give_the_same_screen(name: str) -> None:
    recording = Recording(name)
    raw = recording.raw[-20_000:]
    screens = []
    for step in (len(raw), 1, 7, 4096):
        stream = Stream(Screen(recording.cols, recording.rows))
        for start in range(0, len(raw), step):
            stream.feed(raw[start : start + step])
        screens.append(stream.snapshot())
    assert all(screen == screens[0] for screen in screens)
