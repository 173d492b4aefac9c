"""Sessions as the rows of a table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tmuxmcp.contract import results as r


LINE_CHARACTERS = 40
"""Of a last line."""


def table_of(result: r.ListSessionsResult, last: Callable[[str], str] | None = None) -> list[tuple[str, ...]]:
    """The sessions as rows with a heading.

    Args:
        last: the last line that an ended session printed; None: that is left out.
    """
    rows = [("ID", "MODE", "PROGRAM", "PID", "SIZE", "AGE", "CWD"), *(_row(each) for each in result.sessions)]
    if last is None:
        return rows
    lines = [_clipped(last(each.session_id)) if each.exited else "" for each in result.sessions]
    return [(*row, line) for row, line in zip(rows, ["LAST LINE", *lines], strict=True)]


def _clipped(line: str) -> str:
    return line if len(line) <= LINE_CHARACTERS else line[: LINE_CHARACTERS - 1] + "…"


@dataclass(frozen=True)
class Line:
    """A session in the live table."""

    cells: tuple[str, ...]
    style: str
    """SGR number of its colour; empty: none."""


LIVE_HEADING = ("ID", "MODE", "NEEDS", "COMMAND", "PROGRAM", "PID", "SIZE", "AGE", "CWD")


def live_line(session: r.SessionSummary, facts: r.SessionFacts | None) -> Line:
    """A session with what runs in it and what it needs of a person.

    Args:
        facts: None: it is over, or has just gone.
    """
    program, pid, *rest = _row(session)[2:]
    needs = "a secret" if session.mode == "password" else "an answer" if session.asks else "-"
    command = facts.foreground.command if facts and facts.foreground and session.mode != "shell_prompt" else "-"
    held = facts.taken_over if facts else None
    state = _state(session)
    if held:
        state += ", paused" if held.by == "pause" else f", taken by {held.by}"
    return Line(
        (session.session_id, state, needs, command[:COMMAND_COLS], program, pid, *rest), _style(session, bool(held))
    )


COMMAND_COLS = 40
"""Most of a command that the live table shows."""


def _style(session: r.SessionSummary, held: bool) -> str:
    if session.mode == "password" or session.asks:
        return "1;33"
    if session.exited:
        return "31" if session.exit_code or session.exit_signal or session.mode == "lost" else "2"
    return "36" if held else "32" if session.mode == "running" else ""


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
    """Its mode; how and why it ended, where that is more than the mode says; that it asks a person, or is pinned."""
    state: str = session.mode
    if session.exited and (session.exit_signal or session.exit_code is not None):
        state += f" {session.exit_signal or session.exit_code}"
    if session.ended and session.ended.reason not in ("exit", "signal", session.mode):
        state += f" ({session.ended.reason})"
    return state + ", asks" * bool(session.asks) + ", pinned" * session.pinned


def _age(created_at: str) -> str:
    seconds = max(int((datetime.now(UTC) - datetime.fromisoformat(created_at)).total_seconds()), 0)
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
