"""Exports: the table of formats, and the work of one in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import get_args

import pytest

from tests.record.test_recordings import Index, directory, printed
from tmuxmcp.contract.errors import IoError, ResourceLimit
from tmuxmcp.contract.value import replace
from tmuxmcp.contract.words import FilmFormat
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.meta import Meta
from tmuxmcp.record.past import exporting
from tmuxmcp.record.past.exporting import (
    FORMATS,
    Export,
    Exported,
    ExportOptions,
    free_path,
    read_reply,
    request,
    staged,
)
from tmuxmcp.record.past.recordings import RecordedSession, Stretch, WantedStretch
from tmuxmcp.record.past.timing import TimingStep
from tmuxmcp.terminal.drawing import reel
from tmuxmcp.terminal.film import formats
from tmuxmcp.terminal.film.frames import Rate, frames

__all__ = ["directory"]


def export_of(recorded: RecordedSession, options: ExportOptions) -> Export:
    return Export(recorded, recorded.stretch(WantedStretch()), options)


def in_a_process(asked: bytes) -> bytes:
    run = "from tmuxmcp.record.past import exporting; exporting.main()"
    return subprocess.run([sys.executable, "-c", run], input=asked, capture_output=True, check=True).stdout


def test_every_format_is_in_the_table_and_writes(directory: SessionDirectory) -> None:
    printed(directory, b"one\r\ntwo\r\n")
    assert set(FORMATS) == set(get_args(FilmFormat))
    for name in FORMATS:
        written = b"".join(export_of(RecordedSession(directory, Index(TimingStep(10, 50))), ExportOptions(name)))
        assert written.startswith(b"GIF89a") if name == "gif" else b"two" in written


def test_an_export_tells_what_came_of_it(directory: SessionDirectory) -> None:
    printed(directory, b"one\r\ntwo\r\n")
    recorded = RecordedSession(directory, Index(TimingStep(5, 1_000), TimingStep(10, 61_000)))
    export = export_of(recorded, ExportOptions("cast", speed=2, idle_limit_ms=3_000))
    data = b"".join(export)
    assert data.splitlines()[1:] == [b'[0.500, "o", "one\\r\\n"]', b'[1.500, "o", "two\\r\\n"]']
    assert export.exported == Exported(len(data), 2_000, 2, times_known=True, approximate=False, begin=0)
    text = export_of(RecordedSession(directory), ExportOptions("txt"))
    assert b"".join(text) == b"one\ntwo\n"
    assert text.exported.times_known  # it has none
    cast = export_of(RecordedSession(directory), ExportOptions("cast"))
    assert b"".join(cast)
    assert not cast.exported.times_known


@pytest.mark.parametrize(("tmux", "col", "approximate"), [("3.3a", 3, False), ("3.8", 5, False), ("", 3, True)])
def test_columns_are_those_of_the_sessions_tmux(
    directory: SessionDirectory, tmux: str, col: int, approximate: bool
) -> None:
    meta = Meta.load(directory)
    assert meta
    replace(meta, tmux=tmux).save(directory)
    printed(directory, "\u2764\ufe0f\u2764\ufe0f|".encode())
    recorded = RecordedSession(directory)
    *_, last = frames(recorded.film(recorded.stretch(WantedStretch())), Rate(10))
    assert recorded.screen_at(13).cursor.col == last.snapshot.cursor.col == col
    cast = export_of(recorded, ExportOptions("cast"))
    *_, again = frames(formats.read(b"".join(cast).splitlines(keepends=True)), Rate(10))
    assert again.snapshot.cursor.col == col
    assert cast.exported.approximate == approximate


@pytest.mark.parametrize(("name", "interval_ms"), [("svg", 80), ("gif", 200)])
def test_merged_pictures_are_told(
    directory: SessionDirectory, monkeypatch: pytest.MonkeyPatch, name: str, interval_ms: int
) -> None:
    printed(directory, b"".join(b"\r%04d" % number for number in range(100)))
    recorded = RecordedSession(directory, Index(*(TimingStep(5 * number + 5, 100 * number) for number in range(100))))
    few = export_of(recorded, ExportOptions(name))
    assert b"".join(few)
    assert (few.exported.merged_ms, few.exported.merged_note) == (None, None)
    monkeypatch.setattr(reel, "MOST_FRAMES", 60)
    many = export_of(recorded, ExportOptions(name))
    assert b"".join(many)
    assert many.exported.merged_ms >= interval_ms
    assert f"within {many.exported.merged_ms:g} ms became one" in many.exported.merged_note


def test_a_file_is_bounded(directory: SessionDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    printed(directory, b"x" * 5000)
    monkeypatch.setattr(exporting, "EXPORT_BYTES", 1000)
    with pytest.raises(ResourceLimit):
        list(export_of(RecordedSession(directory), ExportOptions("cast")))


@pytest.mark.parametrize("format", ["cast", "cast2", "jsonl"])
def test_a_file_that_is_full_ends_where_it_is_full_and_says_so(directory: SessionDirectory, format: FilmFormat) -> None:
    printed(directory, b"x" * 200_000)
    recorded = RecordedSession(directory, Index(*(TimingStep(at, at) for at in range(1000, 200_001, 1000))))
    export = export_of(recorded, ExportOptions(format, full_at=50_000))
    data = b"".join(export)
    lines = [json.loads(line) for line in data.splitlines()]
    assert 30_000 < len(data) <= 50_000
    assert b"the recording ends here" in data
    assert (export.exported.truncated, export.exported.bytes) == (True, len(data))
    assert 30_000 < export.exported.duration_ms < 50_000
    assert export.exported.events < 60
    whole = export_of(recorded, ExportOptions(format, full_at=50_000_000))
    assert len(b"".join(whole)) > 200_000
    assert (whole.exported.truncated, whole.exported.duration_ms) == (False, 200_000)
    if format == "jsonl":
        assert lines[-1]["event"] == "end"


def test_it_is_done_in_a_process_of_its_own(directory: SessionDirectory) -> None:
    printed(directory, b"one\r\ntwo\r\n")
    with staged(directory, "made") as path:
        told = in_a_process(request(directory, Stretch(0, 10, 0), ExportOptions("txt"), path))
        assert read_reply(told).bytes == len(path.read_bytes()) == 8
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()
    told = in_a_process(request(directory, Stretch(0, 10, 0), ExportOptions("txt"), directory.path / "missing"))
    with pytest.raises(IoError, match="No such file"):
        read_reply(told)
    with pytest.raises(IoError):
        read_reply(b"12 %\n")


def test_a_file_without_a_place_gets_a_new_name(directory: SessionDirectory) -> None:
    first = free_path(directory, FORMATS["cast"])
    first.touch()
    assert (first.parent, first.suffix) == (directory.recordings, ".cast")
    assert free_path(directory, FORMATS["cast"]) != first
