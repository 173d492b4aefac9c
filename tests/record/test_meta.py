"""What a session is, as `meta.json` keeps it, written by this version and by others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tmuxmcp.contract.errors import Unsupported
from tmuxmcp.record import levels, meta
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.levels import Checkpoint
from tmuxmcp.record.meta import Meta
from tmuxmcp.sessions.bounds import SessionBounds
from tmuxmcp.terminal.marks import ShellTrack

NEWER = meta.META.format + 1
ONE = Meta("a", "bash", ["-i"], "2026-01-02T03:04:05.678Z", "me", "n0nce", True, "/", 80, 24, 5000)


def add(path: Path, **values: Any) -> bytes:
    """As another version does; gives what is then in the file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    return path.read_bytes()


def test_format_1_has_no_number(directory: SessionDirectory):
    """A version from before the numbers would take a session with one for one without `meta.json`."""
    ONE.save(directory)
    assert json.loads(directory.meta.read_text()) == vars(ONE)
    assert Meta.load(directory) == ONE


def test_keys_of_another_version_of_the_format_stay(directory: SessionDirectory):
    ONE.save(directory)
    add(directory.meta, colour="green")
    found = Meta.load(directory)
    assert found == ONE
    found.destroy(directory)
    assert json.loads(directory.meta.read_text()) == {**vars(ONE), "destroyed": True, "colour": "green"}
    assert not directory.destroyed.exists()


@pytest.mark.parametrize("number", [NEWER, "2.0", None])
def test_newer_format_is_read_and_not_replaced(number: object, directory: SessionDirectory):
    ONE.save(directory)
    before = add(directory.meta, format=number, colour="green")
    assert Meta.load(directory) == ONE
    with pytest.raises(Unsupported, match="newer"):
        ONE.save(directory)
    assert directory.meta.read_bytes() == before


def test_what_another_broker_destroyed_stays_destroyed(directory: SessionDirectory):
    ONE.save(directory)
    mine, theirs = Meta.load(directory), Meta.load(directory)
    assert mine
    assert theirs
    theirs.destroy(directory)
    mine.disown(directory)
    again = Meta.load(directory)
    assert again
    assert (again.destroyed, again.owner) == (True, "")


def test_newer_format_that_is_not_understood_is_not_replaced_either(directory: SessionDirectory):
    """Then the session is known from its pane alone."""
    directory.meta.write_text(json.dumps({"format": NEWER, "id": "a"}))
    assert Meta.load(directory) is None
    with pytest.raises(Unsupported):
        ONE.save(directory)


def test_end_of_a_session_of_a_newer_format_stands_beside_its_file(directory: SessionDirectory):
    ONE.save(directory)
    before = add(directory.meta, format=NEWER)
    for change in (Meta.disown, Meta.destroy):
        found = Meta.load(directory)
        assert found
        assert not found.destroyed
        change(found, directory)
    assert directory.meta.read_bytes() == before
    assert directory.destroyed.stat().st_mode & 0o777 == 0o600
    found = Meta.load(directory)
    assert found
    assert found.destroyed


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"session_id": "a"', "[" * 100_000])
def test_file_that_cannot_be_read_is_none(text: str, directory: SessionDirectory):
    directory.meta.write_text(text)
    assert Meta.load(directory) is None
    ONE.save(directory)
    assert Meta.load(directory) == ONE


def test_version_of_a_newer_format_writes_its_number(directory: SessionDirectory, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(meta.META, "format", NEWER)
    ONE.save(directory)
    assert json.loads(directory.meta.read_text()) == {"format": NEWER, **vars(ONE)}
    ONE.destroy(directory)
    assert not directory.destroyed.exists()


def test_checkpoint_of_a_newer_format_is_left_alone(directory: SessionDirectory):
    Checkpoint("n0nce", 5, ShellTrack()).save(directory)
    before = add(directory.checkpoint, format=levels.MARKS.format + 1)
    assert Checkpoint.load(directory) is None
    Checkpoint("n0nce", 6, ShellTrack()).save(directory)
    assert directory.checkpoint.read_bytes() == before


def test_bounds_of_another_version_are_known_as_far_as_they_are_understood():
    limits = {"limits": {"duration_s": 9, "heat": 3}, "kept_by": {"duration_s": "broker", "heat": "fan"}}
    found = SessionBounds.of({**limits, "groups": ["/g"], "sandbox": "landlock", "mark": [1, 2], "colour": "green"})
    assert (found.groups, found.sandbox, found.mark) == (["/g"], "landlock", (1, 2))
    assert [each.name for each in found.applied] == ["duration_s"]
    assert SessionBounds.of({"sandbox": "bunker"}).sandbox == "none"
