"""Reels: a film's frames with each row kept once, in bounded memory."""

from __future__ import annotations

import pytest

from tests.kit.films import printed, recorded
from tests.terminal.test_frames import made
from tmuxmcp.terminal.drawing import reel as reels
from tmuxmcp.terminal.drawing.reel import LAST_MS, Reel, reel
from tmuxmcp.terminal.film.film import Film
from tmuxmcp.terminal.film.frames import Frame


def shown(found: Reel) -> list[tuple[int, list[str]]]:
    """Each shot's beginning and text."""
    texts = {number: "".join(cell.text for cell in row).rstrip() for number, row in found.rows.items()}
    return [(shot.ms, [texts[number] for number in shot.rows]) for shot in found.shots]


def texts(frames: list[Frame]) -> list[tuple[int, list[str]]]:
    return [(frame.ms, frame.snapshot.text_rows()) for frame in frames]


@pytest.mark.parametrize("name", ["vim", "htop", "less"])
def test_a_reel_has_every_frame_and_each_row_once(name: str) -> None:
    found = reel(recorded(name), 25)
    assert shown(found) == texts(made(recorded(name), 25))
    assert not found.merged
    assert len(set(found.rows.values())) == len(found.rows)
    assert [shot.until_ms for shot in found.shots[:-1]] == [shot.ms for shot in found.shots[1:]]


def test_the_last_frame_is_seen_for_a_while() -> None:
    found = reel(printed((0, b"a"), (500, b"b"), end_ms=500), 10)
    assert (found.shots[-1].ms, found.duration_ms) == (500, 500 + LAST_MS)


def ticking() -> Film:
    return printed(*[(number * 100, b"\r%d" % number) for number in range(200)], end_ms=20_000)


@pytest.mark.parametrize(("bound", "value"), [("MOST_FRAMES", 30), ("MOST_WEIGHT", 30 * 28)])
def test_too_many_frames_are_merged_evenly(monkeypatch: pytest.MonkeyPatch, bound: str, value: int) -> None:
    monkeypatch.setattr(reels, bound, value)
    found = reel(ticking(), 10)
    assert found.merged
    assert found.interval_ms == 800
    assert 15 < len(found.shots) <= 30
    gaps = {one.until_ms - one.ms for one in found.shots[:-1]}
    assert min(gaps) >= 800
    assert max(gaps) < 2 * 800
    assert shown(found)[-1][1][0] == "199"
    assert len(found.rows) <= len(found.shots) + 2
