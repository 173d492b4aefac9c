"""Replays: a screen at each offset, through changes of size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.corpora import Recording
from tests.terminal.test_screen_corpora import seen
from tmuxmcp.contract.value import replace
from tmuxmcp.terminal.emulator.replay import Replay, SizeChange, blank

DATA = b"one\r\n\x1b[31mtwo\x1b[?1049hover\x1b[2;2H" * 3


def test_a_recording_is_replayed_through_its_changes_of_size() -> None:
    recording = Recording("vim")
    resizes = [
        SizeChange(event["offset"], event["cols"], event["rows"])
        for event in recording.events
        if event["kind"] == "resize"
    ]
    replay = Replay(blank(recording.cols, recording.rows), resizes)
    changed = {resize.offset for resize in resizes}
    assert changed
    for event in recording.events:
        if event["kind"] == "look" and event["offset"] in changed:
            continue  # just before or after a change of size
        replay.feed(recording.raw[replay.offset : event["offset"]])
        assert seen(replay.snapshot()) == seen(recording.told(event))


def test_what_tmux_told_at_a_change_of_size_is_believed() -> None:
    told = Replay(blank(10, 2))
    told.feed(b"told")
    replay = Replay(blank(20, 4), [SizeChange(3, 10, 2, told.snapshot())])
    replay.feed(b"abcdef")
    assert replay.snapshot().text_rows() == ["tolddef", ""]
    assert (replay.offset, replay.snapshot().offset) == (6, 6)


@given(st.lists(st.integers(0, len(DATA)), max_size=4), st.integers(0, len(DATA)))
def test_a_replay_from_any_snapshot_on_is_the_same(cuts: list[int], start: int) -> None:
    resizes = [SizeChange(cut, 5 + number, 3 + number) for number, cut in enumerate(sorted(set(cuts)))]
    whole = Replay(blank(20, 6), resizes)
    whole.feed(DATA[:start])
    rest = Replay(whole.snapshot(), resizes)
    for each in (whole, rest):
        each.feed(DATA[start:])
    assert rest.snapshot() == whole.snapshot()


def test_what_is_not_known_for_certain_is_said_to_be_approximate() -> None:
    def approximate(data: bytes, *resizes: SizeChange, gaps: tuple[int, ...] = ()) -> bool:
        replay = Replay(blank(20, 4), resizes, gaps)
        replay.feed(data)
        return replay.snapshot().approximate

    told = replace(blank(10, 2), offset=3)
    assert not approximate(b"abcdef")
    assert approximate(b"abcdef", gaps=(6,))
    assert not approximate(b"abcde", gaps=(6,))
    assert approximate(b"abcdef", SizeChange(3, 10, 2))
    assert not approximate(b"abcdef", SizeChange(3, 20, 4))
    assert not approximate(b"abcdef", SizeChange(3, 10, 2, told))
    assert not approximate(b"abcdef", SizeChange(3, 10, 2, told), gaps=(2,))
    assert not approximate(b"\x1b[?1049h", SizeChange(8, 10, 2))
    start = replace(blank(20, 4), approximate=True)
    assert Replay(start).snapshot().approximate
