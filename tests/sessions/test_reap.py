"""What is ended, and what is never."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent import Agent
from tests.agent import eventually as soon
from tests.conftest import SLOW
from tmuxmcp.sessions.life import EndCause
from tmuxmcp.sessions.reap import ORPHAN_IDLE_S, AgeLimits, DueEnd, SessionAge, due

BOUNDS = AgeLimits(idle_timeout_s=100, max_duration_s=1000)


@pytest.mark.parametrize(
    ("age", "ended"),
    [
        (SessionAge(age_s=50, idle_s=50, resting=True, orphan=False, watched=False), None),
        (SessionAge(age_s=500, idle_s=101, resting=True, orphan=False, watched=False), ("idle", "idle_timeout_s")),
        (SessionAge(age_s=500, idle_s=101, resting=False, orphan=False, watched=False), None),
        (SessionAge(age_s=500, idle_s=101, resting=True, orphan=False, watched=True), None),
        (SessionAge(age_s=1001, idle_s=0, resting=False, orphan=False, watched=True), ("duration", "max_duration_s")),
        (SessionAge(9, 9, resting=False, orphan=False, watched=True, duration_s=8), ("duration", "duration_s (8)")),
        (
            SessionAge(9, 9, resting=False, orphan=False, watched=True, cpu_s=2, cpu_seconds=1),
            ("cpu", "cpu_seconds (1)"),
        ),
        (SessionAge(age_s=500, idle_s=50, resting=True, orphan=True, watched=False), None),
    ],
)
def test_who_is_ended(age: SessionAge, ended: tuple[str, str] | None):
    found = due(age, BOUNDS)
    assert (found is None) == (ended is None)
    if found and ended:
        assert found.reason == ended[0]
        assert ended[1] in found.why


def test_an_orphan_is_kept_for_its_callers_return():
    bounds = AgeLimits(0, 0)
    orphan = SessionAge(age_s=9e9, idle_s=ORPHAN_IDLE_S - 1, resting=True, orphan=True, watched=False)
    assert due(orphan, bounds) is None
    late = SessionAge(age_s=9e9, idle_s=ORPHAN_IDLE_S + 1, resting=True, orphan=True, watched=False)
    assert due(late, bounds) == DueEnd(EndCause.IDLE, "its caller is gone")


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
