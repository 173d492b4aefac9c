"""Which files of sessions that are over stay, and which go."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.kit.agent import Agent, audit_lines
from tests.kit.agent import eventually as soon
from tmuxmcp.contract.errors import InvalidArgument, SessionNotFound
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.sessions import retention
from tmuxmcp.sessions.retention import DAY_S, RetentionWish, disk_use

WEEK = RetentionWish(retention_days=7)


def gone(state_dir: Path, name: str, days: float, size: int = 1000, *, destroyed: bool = True) -> Path:
    directory = state_dir / "sessions" / name
    directory.mkdir(parents=True)
    meta = dict.fromkeys(("session_id", "program", "created_at", "owner", "nonce", "cwd"), name)
    meta |= {"args": [], "marks": False, "cols": 80, "rows": 24, "scrollback_lines": 0, "destroyed": destroyed}
    (directory / "meta.json").write_text(json.dumps(meta))
    (directory / "out.raw").write_bytes(b"x" * size)
    then = time.time() - days * DAY_S
    for path in (directory / "meta.json", directory / "out.raw", directory):
        os.utime(path, (then, then))
    return directory


def removed(state_dir: Path, wish: RetentionWish, live: Collection[str] = ()) -> list[str]:
    found = retention.removals(state_dir, wish, live)
    assert all(retention.remove(each) for each in found)
    return sorted(each.name for each in found)


def test_old_logs_go_and_young_and_live_ones_stay(state_dir: Path):
    for name, days in (("old", 8), ("old.1", 9), ("young", 6), ("live", 30)):
        gone(state_dir, name, days)
    assert removed(state_dir, WEEK, {"live"}) == ["old", "old.1"]
    assert sorted(path.name for path in (state_dir / "sessions").iterdir()) == ["live", "young"]


def test_pinned_logs_stay(state_dir: Path):
    for name in ("a", "b", "b.1"):
        gone(state_dir, name, 30)
        SessionDirectory.of(state_dir, name).pin.touch()
    SessionDirectory.of(state_dir, "b").pin.unlink()
    assert removed(state_dir, RetentionWish(retention_days=7, state_max_bytes=1)) == ["b"]
    assert removed(state_dir, RetentionWish(older_than_s=0)) == []


def test_the_oldest_logs_make_room(state_dir: Path):
    for name, days in (("a", 3), ("b", 2), ("c", 1), ("live", 5)):
        gone(state_dir, name, days, size=100_000)
    wish = RetentionWish(state_max_bytes=disk_use(state_dir) - 1)
    assert removed(state_dir, wish, {"live"}) == ["a"]
    assert removed(state_dir, wish, {"live"}) == []


def test_looking_at_a_log_does_not_keep_it(state_dir: Path):
    directory = gone(state_dir, "a", 8)
    (directory / "marks.json").touch()
    assert removed(state_dir, WEEK) == ["a"]


def test_what_was_silent_for_long_and_then_lost_is_kept_as_if_it_had_ended_now(state_dir: Path):
    """Its log tells when it printed for the last time, not until when it ran."""
    directory = gone(state_dir, "a", 30, destroyed=False)
    assert retention.removals(state_dir, WEEK, (), look_only=True) == []
    assert not (directory / "lost").exists()
    assert removed(state_dir, WEEK) == []
    os.utime(directory / "lost", (time.time() - 6 * DAY_S,) * 2)
    assert removed(state_dir, WEEK) == []
    os.utime(directory / "lost", (time.time() - 8 * DAY_S,) * 2)
    assert removed(state_dir, WEEK) == ["a"]


def test_what_is_left_of_a_removal_that_was_cut_short_goes(state_dir: Path):
    directory = gone(state_dir, "a", 8)
    (directory / "meta.json").unlink()
    assert removed(state_dir, WEEK) == ["a"]


def test_named_ones_go_however_young(state_dir: Path):
    for name in ("a", "a.1", "b"):
        gone(state_dir, name, 0)
    assert removed(state_dir, RetentionWish(names=("a.1", "b", "b"))) == ["a.1", "b"]
    assert (state_dir / "sessions" / "a").exists()


def test_what_is_named_has_to_be_there_and_over_and_not_pinned(state_dir: Path):
    for name in ("a", "b"):
        gone(state_dir, name, 30)
    SessionDirectory.of(state_dir, "b").pin.touch()
    with pytest.raises(InvalidArgument, match="not over"):
        retention.removals(state_dir, RetentionWish(names=("a",)), {"a"})
    with pytest.raises(InvalidArgument, match="pinned"):
        retention.removals(state_dir, RetentionWish(names=("b",)), ())
    for wrong in ("c", "..", "", "../sessions/a", "a/within"):
        with pytest.raises(SessionNotFound):
            retention.removals(state_dir, RetentionWish(names=(wrong,)), ())


def test_another_session_that_took_the_name_is_left_alone(state_dir: Path):
    directory = gone(state_dir, "a", 8)
    (found,) = retention.removals(state_dir, WEEK, ())
    directory.rename(directory.with_name("a.1"))
    gone(state_dir, "a", 8)
    assert not retention.remove(found)
    assert (directory / "out.raw").exists()


def test_a_server_removes_of_its_own_accord_and_the_audit_tells_it(state_dir: Path):
    gone(state_dir, "a", 8)
    with Agent(state_dir) as agent:
        agent.call("create_session", program="cat", name="b")
        soon(lambda: any(line["tool"] == "prune" for line in audit_lines(state_dir)))
        assert [row["session_id"] for row in agent.call("list_sessions")["sessions"]] == ["b"]
    (line,) = (each for each in audit_lines(state_dir) if each["tool"] == "prune")
    assert (line["session_id"], line["client"], line["outcome"]) == ("a", None, "ok")
    assert line["removed_bytes"] > 0
    assert line["why"] == "it is older than retention_days (7)"
