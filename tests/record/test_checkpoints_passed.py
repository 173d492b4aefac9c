"""Screens that a replay has passed: a later one begins there, and shows the same."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.kit.streams import stream
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import ResizedEvent
from tmuxmcp.record.past import checkpoints, replayer
from tmuxmcp.record.past.checkpoints import Checkpoints, passed_screens, screen_of
from tmuxmcp.record.past.replaying import BlankScreen, Story
from tmuxmcp.terminal.emulator.replay import blank
from tmuxmcp.terminal.snapshot import Snapshot

DATA = b"".join(stream(seed)[0] for seed in range(2, 202, 4))
SIZES_AT = tuple(ResizedEvent("", len(DATA) * part // 7, 20 + part, 4 + part) for part in range(1, 7))


def at(offset: int, cols: int = 10) -> Snapshot:
    return blank(cols, 10, offset)


def test_the_nearest_one_behind_the_begin_is_taken() -> None:
    passed = passed_screens()
    for offset in (10, 20, 30):
        passed.keep("a", at(offset), 0)
    passed.keep("b", at(25), 0)
    assert passed.nearest("a", 0, 29, []) == at(20)
    assert passed.nearest("a", 0, 30, []) == at(30)
    assert passed.nearest("a", 20, 29, []) is None  # the begin is as good
    assert passed.nearest("c", 0, 29, []) is None


def test_one_is_wrong_once_more_is_known_to_have_happened_before_it() -> None:
    passed = passed_screens()
    passed.keep("a", at(10), 0)
    passed.keep("a", at(20), 1)
    assert passed.nearest("a", 0, 30, [15]) == at(20)
    assert passed.nearest("a", 0, 30, [5, 15]) is None
    assert passed.nearest("a", 0, 30, [25]) == at(10)


def test_they_take_so_much_room_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "PASSED_CELLS", 350)
    passed = passed_screens()
    for offset in (10, 20, 30, 40, 40):
        passed.keep("a", at(offset), 0)
    assert passed.nearest("a", 0, 19, []) is None
    assert passed.nearest("a", 0, 29, []) == at(20)
    passed.keep("a", at(50, cols=100), 0)
    assert passed.nearest("a", 0, 60, []) is None


@pytest.mark.parametrize("seed", range(3))
def test_a_look_that_begins_at_one_shows_the_same(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "APART_S", 0)
    monkeypatch.setattr(replayer, "LEAST_PIECE", 64)
    monkeypatch.setattr(replayer, "MOST_PIECE", 256)
    directory, passed, chosen = SessionDirectory(tmp_path), passed_screens(), Random(seed)
    directory.log.write_bytes(DATA)
    gap = len(DATA) // 2
    story = Story(SIZES_AT, (gap,), (), Checkpoints(directory))

    def look(offset: int, name: str | None) -> dict[str, Any]:
        answer = replayer.stretch(story.request(directory, BlankScreen(20, 6), offset, 60, name), passed)
        assert answer
        return answer

    look(len(DATA), "a")
    for offset in (chosen.randrange(2000, len(DATA)) for _ in range(12)):
        fresh, near = look(offset, None), look(offset, "a")
        assert (fresh["whole"], near["whole"]) == (True, False)
        assert screen_of(replayer.b64decode(near["screen"])) == screen_of(replayer.b64decode(fresh["screen"]))


def test_pieces_become_as_large_as_the_time_allows() -> None:
    assert replayer.next_piece(replayer.LEAST_PIECE, 0.001) == 2 * replayer.LEAST_PIECE
    assert replayer.next_piece(replayer.MOST_PIECE, 0.001) == replayer.MOST_PIECE
    assert replayer.next_piece(1 << 16, replayer.PIECE_S) == 1 << 16
    assert replayer.next_piece(1 << 16, 1.0) == 1 << 15
    assert replayer.next_piece(replayer.LEAST_PIECE, 1.0) == replayer.LEAST_PIECE
