"""Where a stretch of a log begins: the cursor's row, found by looking back."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.kit.streams import MOVES_BACK, text_stream
from tmuxmcp.record import log as place
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.log import RawLog, ResumePoint, ResumePoints
from tmuxmcp.terminal.text.plain import row_behind

COLS, ROWS = 20, 7


def places_of(tmp_path: Path, data: bytes, resized: int = 0) -> ResumePoints:
    log = RawLog(SessionDirectory(tmp_path))
    log.path.write_bytes(data)
    return ResumePoints(log, lambda: resized)


def row_at(places: ResumePoints, offset: int, *, begins: bool = True) -> int | None:
    return places.row_of(ResumePoint(offset=offset, begins=begins), COLS, ROWS)


def test_row_is_that_of_all_that_was_printed_or_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "ROW_BYTES", (200, 400))
    known = 0
    for seed in range(300):
        data = b"".join(text_stream(seed * 100 + number, MOVES_BACK, COLS) for number in range(4))
        offset = Random(seed).randint(1, len(data))
        row = row_at(places_of(tmp_path, data), offset)
        assert row in (None, row_behind(data[:offset], COLS, ROWS, 0, inside=False)), seed
        known += row is not None
    assert known > 200


def test_row_counts_where_a_command_begins_or_a_shell_waits(tmp_path: Path) -> None:
    data = b"a\r\n\x1b]133;C\x07b\r\nc\r\n\x1b]133;D\x07$ "
    places = places_of(tmp_path, data)
    assert row_at(places, data.index(b"b"), begins=False) is None
    assert row_at(places, data.index(b"b")) == 1
    assert row_at(places, data.rindex(b"\x1b"), begins=False) == 3
    assert row_at(places, len(data), begins=False) == 3
    assert row_at(places_of(tmp_path, b"a\r\nb"), 4, begins=False) is None


def test_row_is_not_known_where_the_size_was_another(tmp_path: Path) -> None:
    assert row_at(places_of(tmp_path, b"a\r\nb\r\n"), 6) == 2
    assert row_at(places_of(tmp_path, b"a\r\nb\r\n", resized=3), 6) is None
    assert row_at(places_of(tmp_path, b"a\r\n" + b"\n" * 20, resized=3), 20) == ROWS - 1
