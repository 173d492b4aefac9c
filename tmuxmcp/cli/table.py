"""Sessions as the rows of a table."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tmuxmcp.contract import results as r


def table_of(result: r.ListSessionsResult) -> list[tuple[str, ...]]:
    """The sessions as rows with a heading."""
    return [("ID", "MODE", "PROGRAM", "PID", "SIZE", "AGE", "CWD"), *(_row(each) for each in result.sessions)]


def _row(session: r.SessionSummary) -> tuple[str, ...]:
    return (
        session.session_id,
        _state(session),
        session.program,
        str(session.pid or "-"),
        f"{session.cols}x{session.rows}",
        _age(session.created_at),
        session.cwd or "-",
    )


def _state(session: r.SessionSummary) -> str:
    """Its mode; how and why it ended, where that is more than the mode says; whether its files are pinned."""
    state: str = session.mode
    if session.exited and (session.exit_signal or session.exit_code is not None):
        state += f" {session.exit_signal or session.exit_code}"
    if session.ended and session.ended.reason not in ("exit", "signal", session.mode):
        state += f" ({session.ended.reason})"
    return state + ", pinned" * session.pinned


def _age(created_at: str) -> str:
    seconds = max(int((datetime.now(UTC) - datetime.fromisoformat(created_at)).total_seconds()), 0)
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
