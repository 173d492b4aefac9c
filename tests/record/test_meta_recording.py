"""What is written down of a recording that runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tmuxmcp.contract.errors import IoError
from tmuxmcp.contract.value import replace
from tmuxmcp.record import meta
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.meta import RecordingNote, begin_recording


def test_a_recording_is_as_it_was_written_down(directory: SessionDirectory) -> None:
    assert RecordingNote.load(directory) is None
    note = begin_recording(directory, "cast", begin=5, begin_ms=70, path="/x/y.cast", place=(7, 8), by="me", input=True)
    assert RecordingNote.load(directory) == note
    assert note.file(directory) == Path("/x/y.cast")
    assert not directory.recordings.exists()
    saved = replace(note, state="saved", saved="/z")
    saved.save(directory)
    assert RecordingNote.load(directory) == saved
    assert (note.is_open, saved.is_open, saved.file(directory)) == (True, False, Path("/z"))


def test_two_recordings_get_two_files(directory: SessionDirectory) -> None:
    files = [begin_recording(directory, "jsonl", begin=0, begin_ms=0).file(directory) for _ in range(3)]
    assert len(set(files)) == 3
    for file in files:
        assert (file.parent, file.suffix, file.stat().st_size) == (directory.recordings, ".jsonl", 0)
        assert file.stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_written_down_does_not_begin(directory: SessionDirectory) -> None:
    directory.recording.write_text(json.dumps({"format": meta.RECORDING.format + 1, "id": "x"}))
    with pytest.raises(IoError, match="newer"):
        begin_recording(directory, "cast", begin=0, begin_ms=0)
    assert list(directory.recordings.iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", "{", '{"id": "x"}'])
def test_what_is_no_note_is_none(directory: SessionDirectory, text: str) -> None:
    directory.recording.write_text(text)
    assert RecordingNote.load(directory) is None
