"""Sessions as the rows of a table."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import anyio

from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.faces.cli import output

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tmuxmcp.broker.sight import RunningFacts
    from tmuxmcp.contract import results as r
    from tmuxmcp.nodes.fleet import AnyBroker


MOST_ASKED = 100
"""Sessions of many machines of which each is asked what runs in it: that is a call each."""

ROWS_AT_ONCE = 32
"""So many of them at the same time."""

LINE_CHARACTERS = 40
"""Of a last line."""


async def table_of(
    broker: AnyBroker, result: r.ListSessionsResult, cols: int | None, last: Callable[[str], str] | None = None
) -> list[str]:
    """The sessions as lines below a heading, coloured where that is welcome.

    Args:
        cols: the terminal's; None: all columns, as wide as they are.
        last: the last line that an ended session printed; None: that is left out.
    """
    asks = result.missing is None or len(result.sessions) <= MOST_ASKED
    fronts = await _fronts(broker, result.sessions) if asks else [None] * len(result.sessions)
    lines = [_line(each, front) for each, front in zip(result.sessions, fronts, strict=True)]
    rows = [HEADING, *(line.cells for line in lines)]
    if last:
        ends = [_clipped(last(each.session_id)) if each.exited else "" for each in result.sessions]
        rows = [(*row, end) for row, end in zip(rows, ["LAST LINE", *ends], strict=True)]
    heading, *shown = output.table(rows if cols is None else _narrowed(rows, cols))
    styled = [output.bold(row, sys.stdout, line.style or "0") for row, line in zip(shown, lines, strict=True)]
    if cols is None:
        return [heading, *styled]
    from tmuxmcp.terminal.emulator.capture import clip

    return clip([heading, *styled], cols)


def terminal_cols() -> int | None:
    """Columns of the terminal that stdout is; None: it is none, or does not know."""
    return os.get_terminal_size(1).columns or None if sys.stdout.isatty() else None


def _narrowed(rows: Sequence[tuple[str, ...]], cols: int) -> list[tuple[str, ...]]:
    """Without the columns for which there is no room, those that tell least first; the last one may be clipped."""
    columns = list(range(len(rows[0])))
    for name in DROPPED_COLUMNS:
        widths = [max(len(output.visible(row[column])) for row in rows) for column in columns]
        if sum(widths[:-1]) + 2 * len(widths[:-1]) + min(widths[-1], LAST_CELL_COLS) <= cols:
            break
        columns = [column for column in columns if rows[0][column] != name]
    return [tuple(row[column] for column in columns) for row in rows]


async def _fronts(broker: AnyBroker, sessions: Sequence[r.SessionSummary]) -> list[RunningFacts | None]:
    """What the list does not tell of each session; None: it is over, or has gone at this moment."""
    from tmuxmcp.broker.broker import Broker

    fronts: list[RunningFacts | None] = [None] * len(sessions)
    running = [number for number, each in enumerate(sessions) if not each.exited]
    if isinstance(broker, Broker):
        for number in running:
            fronts[number] = await broker.seeing().front(sessions[number].session_id)
        return fronts
    room = anyio.Semaphore(ROWS_AT_ONCE)

    async def one(number: int) -> None:
        async with room:
            fronts[number] = await _far_front(broker, sessions[number])

    async with anyio.create_task_group() as tasks:
        for number in running:
            tasks.start_soon(one, number)
    return fronts


async def _far_front(broker: AnyBroker, session: r.SessionSummary) -> RunningFacts | None:
    """The same of a session on another machine, which is a call."""
    from tmuxmcp.broker.sight import RunningFacts

    try:
        facts = await broker.get_session(session.session_id)
    except TmuxMcpError:
        return None
    held = facts.taken_over
    return RunningFacts(facts.foreground.command if facts.foreground else "", held.by if held else "")


def _clipped(line: str) -> str:
    return line if len(line) <= LINE_CHARACTERS else line[: LINE_CHARACTERS - 1] + "…"


@dataclass(frozen=True)
class _TableLine:
    """A session in the table."""

    cells: tuple[str, ...]
    style: str
    """SGR number of its colour; empty: none."""


HEADING = ("ID", "MODE", "NEEDS", "COMMAND", "PROGRAM", "PID", "SIZE", "AGE", "CWD")

DROPPED_COLUMNS = ("SIZE", "PID", "PROGRAM", "LAST LINE", "CWD", "AGE", "NEEDS")
"""What a narrow terminal does not show, first the first."""

LAST_CELL_COLS = 12
"""Fewest columns that the last cell is clipped to before another is dropped."""


def _line(session: r.SessionSummary, front: RunningFacts | None) -> _TableLine:
    """A session with what runs in it and what it needs of a person.

    Args:
        front: None: it is over, or has just gone.
    """
    program, pid, *rest = _row(session)[2:]
    needs = "a secret" if session.mode == "password" else "an answer" if session.asks else "-"
    command = front.command if front and front.command and session.mode != "shell_prompt" else "-"
    held = front.held_by if front else ""
    state = _state(session)
    if held:
        state += ", paused" if held == "pause" else f", taken by {held}"
    return _TableLine(
        (session.session_id, state, needs, command[:COMMAND_COLS], program, pid, *rest), _style(session, bool(held))
    )


COMMAND_COLS = 40
"""Most of a command that is shown."""


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
