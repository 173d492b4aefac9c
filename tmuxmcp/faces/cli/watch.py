"""`tmuxmcp watch` and `tmuxmcp list --watch`: a session's screen, or the table of sessions, as it changes.

Only looks: the session keeps its size, and nobody's read cursor moves.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from tmuxmcp.contract.errors import InvalidArgument, SessionNotFound, TmuxMcpError
from tmuxmcp.contract.follow import Destroyed, Exit, Lost
from tmuxmcp.contract.value import value
from tmuxmcp.contract.words import EVERY_SESSION
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import session_id
from tmuxmcp.faces.cli.calling import UNCUT_BYTES, with_broker
from tmuxmcp.faces.cli.fullscreen import Stage
from tmuxmcp.faces.cli.service import effective
from tmuxmcp.gate.confirmations import Confirmations
from tmuxmcp.terminal.emulator.capture import clip
from tmuxmcp.terminal.emulator.grid import SGR
from tmuxmcp.terminal.widths import text_width

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.broker.listing import RunningFacts
    from tmuxmcp.contract import results as r
    from tmuxmcp.nodes.fleet import AnyBroker
    from tmuxmcp.sessions.follow import Event

TABLE_EVERY_S = 1.0
"""Time between two tables."""


def watch(options: argparse.Namespace) -> int:
    """`tmuxmcp watch`."""
    live = sys.stdout.isatty() and not (options.once or options.json)
    if options.more:
        if not live and not options.once:
            raise InvalidArgument(
                "Several sessions are watched in a terminal only.",
                hint="Watch one, or print each screen one time: --once.",
            )
        return with_broker(options, _watch_several)
    return with_broker(options, _watch_live if live else _watch_plain)


async def watch_list(broker: AnyBroker, options: argparse.Namespace) -> int:
    """`tmuxmcp list --watch`."""
    live = sys.stdout.isatty() and not options.json
    return await (_list_live if live else _list_plain)(broker, options)


# ---- one session ---------------------------------------------------------------------------------


async def _watch_several(broker: Broker, options: argparse.Namespace) -> int:

    given = [session_id(options), *options.more]
    names = list(dict.fromkeys([(await broker.get_session(each)).session_id for each in given]))
    return await (once(broker, options, names) if options.once else live(broker, names))


async def _watched(broker: Broker, options: argparse.Namespace) -> str:
    return (await broker.get_session(session_id(options))).session_id


async def _watch_live(broker: Broker, options: argparse.Namespace) -> int:
    name = await _watched(broker, options)
    watched = WatchedSession(broker, name, "ansi")
    last: SessionView | None = None
    async with Stage.open() as stage:
        await stage.wait(math.inf, watched.change)
        while not stage.left.is_set():
            begun = time.monotonic()
            view = await watched.view()
            if view is None or view.result.exited or watched.over:
                break
            last = view
            _paint(stage, view)
            await stage.wait(math.inf, watched.change)
            await stage.wait(max(WATCH_FRAME_S - (time.monotonic() - begun), 0))
    if stage.left.is_set():
        return stage.status
    for each in (view, last):  # what it showed at the end stays to be read
        if each and each.result.content:
            output.write(each.result.content + "\x1b[0m\n")
            break
    output.note(end_sentence(name, view))
    return 0


def _paint(stage: Stage, view: SessionView) -> None:
    cols, lines = stage.size
    rows = clip(view.result.content.split("\n"), cols)
    cursor = view.result.cursor
    height = max(lines - 1, 1)
    # Where not all of it fits, the part with the cursor is shown.
    top = max(min(cursor.row - height + 1, view.result.rows - height), 0) if cursor else 0
    shown = rows[top : top + height]
    place = (cursor.row - top, cursor.col) if cursor and cursor.visible else None
    stage.paint_above(f" {view.facts}  q ends", shown, place)


async def _watch_plain(broker: Broker, options: argparse.Namespace) -> int:
    name = await _watched(broker, options)
    watched = WatchedSession(broker, name, "plain")
    shown: tuple[Any, ...] = ()
    while True:
        await watched.change()
        view = await watched.view()
        if view and view.identity != shown:
            shown = view.identity
            print_view(view, options)
        if options.once:
            return 0
        if view is None or view.result.exited or watched.over:
            break
        await anyio.sleep(WATCH_FRAME_S)
    output.note(end_sentence(name, view))
    return 0


# ---- all sessions --------------------------------------------------------------------------------


async def _list_live(broker: AnyBroker, options: argparse.Namespace) -> int:
    state_dir = effective(options)[0].state_dir
    async with Stage.open() as stage:
        while not stage.left.is_set():
            found = await broker.list_sessions(include_exited=options.all, limit=EVERY_SESSION)
            cols, lines = stage.size
            rows = await table_of(broker, found, cols)
            if len(rows) >= lines:
                rows = [*rows[: max(lines - 2, 0)], f"... and {len(rows) - max(lines - 2, 0)} more"[:cols]]
            waiting = sum(not each.granted for each in Confirmations(state_dir).all())
            asked = f"  {waiting} wait for your answer: tmuxmcp policy pending" * bool(waiting)
            asked += f"  no answer: {', '.join(found.missing)}" if found.missing else ""
            stage.paint_above(f" {found.count} sessions{asked}  {time.strftime('%H:%M:%S')}  q ends", rows)
            await stage.wait(TABLE_EVERY_S)
    return stage.status


async def _list_plain(broker: AnyBroker, options: argparse.Namespace) -> int:
    while True:
        found = await broker.list_sessions(include_exited=options.all, limit=EVERY_SESSION)
        if options.json:
            output.write_result(found)
        else:
            output.write_lines([*await table_of(broker, found, None), ""])
        sys.stdout.flush()
        await anyio.sleep(TABLE_EVERY_S)


# ---- `tmuxmcp watch ID ID ...`: several sessions side by side. Only looks, as `watch` of one does --------------------


class Panel:
    """One of several sessions, and what it showed last."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.name = name
        self.view: SessionView | None = None
        self.over = False
        self._watched = WatchedSession(broker, name, "ansi")

    async def follow(self, changed: MemoryObjectSendStream[None]) -> None:
        """Look after each change, at most once a frame, until the session ends."""
        while not self.over:
            await self._watched.change()
            begun = time.monotonic()
            view = await self._watched.view()
            self.over = view is None or view.result.exited or self._watched.over
            self.view = view or self.view
            with suppress(anyio.WouldBlock):  # then it will be drawn anyway
                changed.send_nowait(None)
            await anyio.sleep(max(WATCH_FRAME_S - (time.monotonic() - begun), 0))

    @property
    def heading(self) -> str:
        """What stands above its screen."""
        if self.over:
            return f" {end_sentence(self.name, self.view)}"
        return f" {self.view.facts}" if self.view else f" {self.name}"

    def rows(self, size: tuple[int, int]) -> list[str]:
        """It, in columns and rows."""
        result = self.view.result if self.view else None
        cursor = result.cursor.row if result and result.cursor else 0
        return tile(self.heading, result.content if result else "", cursor, size)


async def live(broker: Broker, names: Sequence[str]) -> int:
    """Show them until a key, or until all have ended."""
    panels = [Panel(broker, name) for name in names]
    send, receive = anyio.create_memory_object_stream[None](1)
    async with send, receive, Stage.open() as stage, anyio.create_task_group() as task_group:
        for panel in panels:
            task_group.start_soon(panel.follow, send)
        while not stage.left.is_set():
            _paint_panels(stage, panels)
            if all(panel.over for panel in panels):
                break
            await stage.wait(math.inf, receive.receive)
            await stage.wait(WATCH_FRAME_S)
        task_group.cancel_scope.cancel()
    if not stage.left.is_set():
        for panel in panels:
            output.note(end_sentence(panel.name, panel.view))
    return stage.status


def _paint_panels(stage: Stage, panels: Sequence[Panel]) -> None:
    cols, lines = stage.size
    place = grid(len(panels), cols, lines - 1 if lines > 1 else 1)
    rows = joined_rows([panel.rows((place.cols, place.rows)) for panel in panels], place)
    hidden = max(len(panels) - place.places, 0)
    stage.paint_above(f" {len(panels)} sessions{f', {hidden} of them do not fit' * bool(hidden)}  q ends", rows)


async def once(broker: Broker, options: argparse.Namespace, names: Sequence[str]) -> int:
    """Print the screen of each one time."""
    for name in names:
        view = await WatchedSession(broker, name, "plain").view()
        if view and not options.json:
            output.write(f"--- {view.facts}\n")
        if view:
            print_view(view, options)
    return 0


# ---- A session that somebody watches from the command line: what it shows now, and when that has changed -------------

WATCH_FRAME_S = 0.05
"""The screen is drawn at most so often; programs draw in many small steps."""


@value
class SessionView:
    """What a session shows at one moment."""

    result: r.ReadResult

    @property
    def identity(self) -> tuple[Any, ...]:
        """What makes it another view."""
        return self.result.content, self.result.rows, self.result.cols, self.result.mode, self.result.exited

    @property
    def facts(self) -> str:
        """The session in a few words."""
        result = self.result
        words = [result.session_id, f"{result.cols}x{result.rows}", result.mode or ""]
        return "  ".join([*words, output.visible(result.title)] if result.title else words)


class WatchedSession:
    """A session that is watched, and how far that has come."""

    def __init__(self, broker: Broker, name: str, format: Literal["plain", "ansi"]) -> None:
        self._broker, self._name, self._format = broker, name, format
        self._following = broker.follow(name, output=False)
        self._last: Event | None = None

    async def change(self) -> None:
        """Wait until something has changed; the first time, take in how it stands."""
        events = await self._following.batch()
        self._last = events[-1] if events else self._last

    @property
    def over(self) -> bool:
        """Nothing will change any more."""
        return isinstance(self._last, Exit | Lost | Destroyed)

    async def view(self) -> SessionView | None:
        """What it shows now; None when it is gone."""
        if isinstance(self._last, Destroyed):
            return None
        try:
            result = await self._broker.read("screen", self._name, format=self._format, max_bytes=UNCUT_BYTES)
        except SessionNotFound:
            return None
        return SessionView(result)


def end_sentence(session_id: str, last: SessionView | None) -> str:
    """How a session ended, as a sentence."""
    code = last.result.exit_code if last else None
    if last is None or not last.result.exited:
        return f"session {session_id} is gone: somebody ended it"
    return f"session {session_id} has ended" + (f" with exit code {code}" if code is not None else "")


def print_view(view: SessionView, options: argparse.Namespace) -> None:
    """Put a screen on stdout, as JSON or as text; with the time above it where more follow."""
    if options.json:
        output.write_result(view.result)
    else:
        heading = "" if options.once else f"--- {time.strftime('%H:%M:%S')}  {view.facts}\n"
        output.write(heading + view.result.content + "\n")
    sys.stdout.flush()


# ---- Several screens side by side in one terminal: where each lies, and the rows that this makes. Pure ---------------

WANTED_SIZE = (80, 25)
"""Columns and rows that show most sessions whole."""

LEAST_ROWS = 2
"""A heading and a row of the screen."""

TILE_LEAST_COLS = 20


@value
class TileGrid:
    """Tiles of one size in columns, which are filled row by row."""

    across: int
    down: int
    cols: int
    """Of each tile; a line of one column stands between two."""
    rows: int

    @property
    def places(self) -> int:
        """How many tiles there are room for."""
        return self.across * self.down


def grid(count: int, cols: int, lines: int) -> TileGrid:
    """The grid that shows most of `count` screens; in a small terminal it has fewer places than that."""
    found = [_grid(across, count, cols, lines) for across in range(1, count + 1)]
    return max(found, key=lambda each: (min(each.places, count), _share_seen(each), each.across))


def _grid(across: int, count: int, cols: int, lines: int) -> TileGrid:
    across = max(min(across, (cols + 1) // (TILE_LEAST_COLS + 1)), 1)
    down = max(min(math.ceil(count / across), lines // LEAST_ROWS), 1)
    return TileGrid(across, down, max((cols - across + 1) // across, 1), max(lines // down, 1))


def _share_seen(each: TileGrid) -> float:
    """How much of a common screen is seen, in tenths."""
    return round(10 * min(each.cols / WANTED_SIZE[0], 1) * min(each.rows / WANTED_SIZE[1], 1))


def tile(heading: str, content: str, cursor_row: int, size: tuple[int, int]) -> list[str]:
    """One screen beneath its heading, exactly so large; where not all fits, the part with the cursor is shown.

    Args:
        size: columns and rows of the tile.
    """
    cols, rows = size
    lines = content.split("\n")
    height = rows - 1
    top = max(min(cursor_row - height + 1, len(lines) - height), 0)
    shown = clip(lines, cols)[top : top + height]
    padded = [f"{line}\x1b[0m{' ' * (cols - text_width(SGR.sub('', line)))}" for line in shown]
    bar = clip([heading], cols)[0]
    bar = f"\x1b[7m{bar}{' ' * (cols - text_width(bar))}\x1b[0m"
    return [bar, *padded, *[" " * cols] * (height - len(padded))][:rows]


def joined_rows(tiles: Sequence[list[str]], place: TileGrid) -> list[str]:
    """The rows of a whole grid."""
    rows: list[str] = []
    for first in range(0, min(len(tiles), place.places), place.across):
        beside = tiles[first : min(first + place.across, place.places)]
        rows += ["│".join(parts) for parts in zip(*beside, strict=True)]
    return rows


# ---- Sessions as the rows of a table ---------------------------------------------------------------------------------

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
    from tmuxmcp.broker.listing import RunningFacts

    try:
        facts = await broker.get_session(session.session_id)
    except TmuxMcpError:
        return None
    held = facts.taken_over
    return RunningFacts(facts.foreground.command if facts.foreground else "", held.by if held else "")


def _clipped(line: str) -> str:
    return line if len(line) <= LINE_CHARACTERS else line[: LINE_CHARACTERS - 1] + "…"


@value
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
