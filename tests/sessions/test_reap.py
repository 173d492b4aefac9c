"""What is ended and removed, and what is never."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.agent import Agent
from tests.agent import eventually as soon
from tests.conftest import SLOW
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.sessions.life import Reason
from tmuxmcp.sessions.reap import DAY_S, ORPHAN_IDLE_S, Age, Bounds, Due, disk_use, due, remove_old

BOUNDS = Bounds(idle_timeout_s=100, max_duration_s=1000, retention_days=7, state_max_bytes=0)


@pytest.mark.parametrize(
    ("age", "ended"),
    [
        (Age(age_s=50, idle_s=50, resting=True, orphan=False, watched=False), None),
        (Age(age_s=500, idle_s=101, resting=True, orphan=False, watched=False), ("idle", "idle_timeout_s")),
        (Age(age_s=500, idle_s=101, resting=False, orphan=False, watched=False), None),
        (Age(age_s=500, idle_s=101, resting=True, orphan=False, watched=True), None),
        (Age(age_s=1001, idle_s=0, resting=False, orphan=False, watched=True), ("duration", "max_duration_s")),
        (Age(9, 9, resting=False, orphan=False, watched=True, duration_s=8), ("duration", "duration_s (8)")),
        (Age(9, 9, resting=False, orphan=False, watched=True, cpu_s=2, cpu_seconds=1), ("cpu", "cpu_seconds (1)")),
        (Age(age_s=500, idle_s=50, resting=True, orphan=True, watched=False), None),
    ],
)
def test_who_is_ended(age: Age, ended: tuple[str, str] | None):
    found = due(age, BOUNDS)
    assert (found is None) == (ended is None)
    if found and ended:
        assert found.reason == ended[0]
        assert ended[1] in found.why


def test_an_orphan_is_kept_for_its_callers_return():
    bounds = Bounds(0, 0, 0, 0)
    orphan = Age(age_s=9e9, idle_s=ORPHAN_IDLE_S - 1, resting=True, orphan=True, watched=False)
    assert due(orphan, bounds) is None
    late = Age(age_s=9e9, idle_s=ORPHAN_IDLE_S + 1, resting=True, orphan=True, watched=False)
    assert due(late, bounds) == Due(Reason.IDLE, "its caller is gone")


def gone(state_dir: Path, name: str, days: float, size: int = 1000) -> Path:
    directory = state_dir / "sessions" / name
    directory.mkdir(parents=True)
    meta = dict.fromkeys(("session_id", "program", "created_at", "owner", "nonce", "cwd"), name)
    meta |= {"args": [], "marks": False, "cols": 80, "rows": 24, "scrollback_lines": 0, "destroyed": True}
    (directory / "meta.json").write_text(json.dumps(meta))
    (directory / "out.raw").write_bytes(b"x" * size)
    then = time.time() - days * DAY_S
    for path in (directory / "meta.json", directory / "out.raw", directory):
        os.utime(path, (then, then))
    return directory


def test_old_logs_go_and_young_and_live_ones_stay(state_dir: Path):
    for name, days in (("old", 8), ("old.1", 9), ("young", 6), ("live", 30)):
        gone(state_dir, name, days)
    assert sorted(remove_old(state_dir, BOUNDS, {"live"})) == ["old", "old.1"]
    assert sorted(path.name for path in (state_dir / "sessions").iterdir()) == ["live", "young"]


def test_pinned_logs_stay(state_dir: Path):
    for name in ("a", "b", "b.1"):
        gone(state_dir, name, 30)
        SessionDirectory.of(state_dir, name).pin.touch()
        os.utime(state_dir / "sessions" / name, (0, 0))
    SessionDirectory.of(state_dir, "b").pin.unlink()
    os.utime(state_dir / "sessions" / "b", (0, 0))
    assert remove_old(state_dir, Bounds(0, 0, 7, state_max_bytes=1), set()) == ["b"]


def test_the_oldest_logs_make_room(state_dir: Path):
    for name, days in (("a", 3), ("b", 2), ("c", 1), ("live", 5)):
        gone(state_dir, name, days, size=100_000)
    bounds = Bounds(0, 0, 0, state_max_bytes=disk_use(state_dir) - 1)
    assert remove_old(state_dir, bounds, {"live"}) == ["a"]
    assert remove_old(state_dir, bounds, {"live"}) == []


def test_an_idle_session_is_ended_and_a_busy_one_is_not(state_dir: Path):
    with Agent(state_dir, TMUXMCP_IDLE_TIMEOUT_S=str(0.6 * SLOW)) as agent:
        agent.call("create_session", program="sleep", args=["1000"], name="busy", wait_ready=False)
        agent.call("create_session", program="bash", name="idle")
        soon(
            lambda: (
                [row["session_id"] for row in agent.call("list_sessions", include_exited=False)["sessions"]] == ["busy"]
            )
        )


def test_a_session_may_not_live_longer_than_allowed(state_dir: Path):
    with Agent(state_dir, TMUXMCP_MAX_DURATION_S=str(0.6 * SLOW)) as agent:
        agent.call("create_session", program="sleep", args=["1000"], name="busy", wait_ready=False)
        soon(lambda: agent.call("list_sessions", include_exited=False)["count"] == 0)
