"""Checkpoints: what is written is read again, whatever happens to the file; it stays small."""

from __future__ import annotations

import fcntl
import os
from itertools import pairwise
from pathlib import Path

import pytest

from tmuxmcp.record.directory import SessionDirectory, make_directory, sessions_dir
from tmuxmcp.record.past import checkpoints as module
from tmuxmcp.record.past.checkpoints import Checkpoints, RecordKind, pack, packed_screen, screen_of, unpack
from tmuxmcp.terminal.emulator.replay import Replay, blank


@pytest.fixture
def directory(tmp_path: Path) -> SessionDirectory:
    """That of a session which has printed nothing."""
    sessions_dir(tmp_path).mkdir()
    made = make_directory(tmp_path, "a").pinned()
    made.log.touch()
    return made


def added(directory: SessionDirectory, *offsets: int, size: int = 100, cost_ms: int = 1000) -> Checkpoints:
    checkpoints = Checkpoints(directory)
    for offset in offsets:
        assert checkpoints.add(RecordKind.SCREEN, offset, b"%d" % offset * size, cost_ms=cost_ms, happened=0)
    return checkpoints


def offsets(checkpoints: Checkpoints) -> list[int]:
    return [each.offset for each in checkpoints.records()]


def test_a_screen_is_read_as_it_was_written(directory: SessionDirectory) -> None:
    replay = Replay(blank(40, 5))
    replay.feed(b"one\r\n\x1b[31mtwo\x1b[?1049hover\x1b[2;2H\x1b[3")
    screen = replay.snapshot()
    checkpoints = Checkpoints(directory)
    assert checkpoints.add(RecordKind.SCREEN, screen.offset, packed_screen(screen), cost_ms=5, happened=2)
    [record] = Checkpoints(directory).records()
    assert (record.kind, record.offset, record.cost_ms, record.happened) == (RecordKind.SCREEN, screen.offset, 5, 2)
    assert screen_of(checkpoints.value(record) or b"") == screen
    assert directory.screens.stat().st_mode & 0o777 == 0o600


def test_the_nearest_comes_first_and_only_while_it_is_right(directory: SessionDirectory) -> None:
    checkpoints = added(directory, 30, 10, 20)
    assert [each.offset for each in checkpoints.screens(25, [])] == [20, 10]
    assert [each.offset for each in checkpoints.screens(25, [15])] == [10]  # what happened there was not known then
    checkpoints.add(RecordKind.TOLD, 22, b"told", cost_ms=0, happened=0)
    assert [each.offset for each in checkpoints.screens(25, [])] == [20, 10]


@pytest.mark.parametrize("cut", [1, 20, 100, 210])
def test_a_torn_end_is_cut_off_by_the_next_writer(directory: SessionDirectory, cut: int) -> None:
    checkpoints = added(directory, 10, 20)
    os.truncate(directory.screens, directory.screens.stat().st_size - cut)
    assert offsets(checkpoints) == [10]
    added(directory, 30)
    assert offsets(checkpoints) == [10, 30]
    assert [checkpoints.value(each) for each in checkpoints.records()] == [b"10" * 100, b"30" * 100]


def test_what_is_damaged_is_not_used(directory: SessionDirectory) -> None:
    checkpoints = added(directory, 10, 20)
    first, second = checkpoints.records()
    with directory.screens.open("r+b") as file:
        file.seek(first.position + 5)
        file.write(b"x")
    assert checkpoints.value(first) is None
    assert checkpoints.value(second) == b"20" * 100
    with pytest.raises(ValueError, match="incorrect header check"):
        unpack(b"nonsense")
    with pytest.raises(ValueError, match="not whole"):
        unpack(pack("whole")[:-3])


def test_a_file_of_another_form_is_left_alone(directory: SessionDirectory) -> None:
    directory.screens.write_bytes(b"tmuxmcp screens 2\nand more")
    checkpoints = Checkpoints(directory)
    assert checkpoints.records() == []
    assert not checkpoints.add(RecordKind.SCREEN, 1, b"value", cost_ms=0, happened=0)
    checkpoints.thin()
    assert directory.screens.read_bytes() == b"tmuxmcp screens 2\nand more"


def test_two_do_not_write_at_once(directory: SessionDirectory) -> None:
    checkpoints = added(directory, 10)
    with directory.screens.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert not checkpoints.add(RecordKind.SCREEN, 20, b"value", cost_ms=0, happened=0)
    assert checkpoints.add(RecordKind.SCREEN, 20, b"value", cost_ms=0, happened=0)


def test_the_file_stays_small(directory: SessionDirectory) -> None:
    most = module.LEAST_BYTES
    checkpoints = added(directory, *range(10, 70), size=5000)
    assert directory.screens.stat().st_size <= most
    assert offsets(checkpoints)[-1] == 69
    assert len(offsets(checkpoints)) > 10
    gaps = [after - before for before, after in pairwise(offsets(checkpoints))]
    assert max(gaps) <= 8  # what went is spread
    directory.log.write_bytes(b"x" * 2 * module.LOG_SHARE * most)
    assert all(checkpoints.add(RecordKind.SCREEN, at, b"x" * 10_000, cost_ms=1, happened=0) for at in range(100, 110))
    assert most < directory.screens.stat().st_size <= 2 * most
    assert not checkpoints.add(RecordKind.SCREEN, 200, b"x" * 3 * most, cost_ms=1, happened=0)


def test_older_ones_are_joined_as_long_as_a_replay_stays_short(directory: SessionDirectory) -> None:
    checkpoints = added(directory, *range(100), cost_ms=500)
    checkpoints.thin()
    kept = checkpoints.records()
    assert len(kept) < 70
    assert [each.offset for each in kept][-module.DENSE_CHECKPOINTS :] == list(
        range(100 - module.DENSE_CHECKPOINTS, 100)
    )
    assert max(each.cost_ms for each in kept) <= module.JOINED_MS
    assert sum(each.cost_ms for each in kept) == 100 * 500
    assert all(checkpoints.value(each) == b"%d" % each.offset * 100 for each in kept)


def test_of_what_is_before_the_head_the_last_one_stays(directory: SessionDirectory) -> None:
    checkpoints = added(directory, 10, 20, 30, 40)
    directory.log.write_bytes(b"x" * 100)
    directory.base.write_text("35")
    checkpoints.thin()
    assert offsets(checkpoints) == [30, 40]


def test_what_took_its_place_is_not_written_to(directory: SessionDirectory, tmp_path: Path) -> None:
    checkpoints = added(directory, 10)
    make_directory(tmp_path, "a")
    assert not checkpoints.add(RecordKind.SCREEN, 20, b"value", cost_ms=0, happened=0)
    assert not directory.screens.exists()
