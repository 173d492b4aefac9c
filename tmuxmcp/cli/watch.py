"""`tmuxmcp watch` and `tmuxmcp list --watch`: a session's screen, or the table of sessions, as it changes.

Only looks: the session keeps its size, and nobody's read cursor moves.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import anyio

from tmuxmcp.cli import output
from tmuxmcp.cli.arguments import session_id
from tmuxmcp.cli.calling import MOST_BYTES, with_broker
from tmuxmcp.cli.stage import Stage
from tmuxmcp.cli.table import table_of
from tmuxmcp.contract.follow import Destroyed, Exit, Lost
from tmuxmcp.errors import SessionNotFound
from tmuxmcp.terminal.capture import clip

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.contract import results as r
    from tmuxmcp.sessions.follow import Event

FRAME_S = 0.05
"""The screen is drawn at most so often; programs draw in many small steps."""

TABLE_EVERY_S = 1.0
"""Time between two tables."""


def watch(options: argparse.Namespace) -> int:
    """`tmuxmcp watch`."""
    live = sys.stdout.isatty() and not (options.once or options.json)
    return with_broker(options, _watch_live if live else _watch_plain)


def watch_list(options: argparse.Namespace) -> int:
    """`tmuxmcp list --watch`."""
    live = sys.stdout.isatty() and not options.json
    return with_broker(options, _list_live if live else _list_plain)


# ---- one session ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """What a session shows at one moment."""

    result: r.ReadResult

    @property
    def shown(self) -> tuple[Any, ...]:
        """What makes it another view."""
        return self.result.content, self.result.rows, self.result.cols, self.result.mode, self.result.exited

    @property
    def facts(self) -> str:
        """The session in a few words."""
        result = self.result
        words = [result.session_id, f"{result.cols}x{result.rows}", result.mode or ""]
        return "  ".join([*words, output.visible(result.title)] if result.title else words)


class Watched:
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

    async def look(self) -> View | None:
        """What it shows now; None when it is gone."""
        if isinstance(self._last, Destroyed):
            return None
        try:
            result = await self._broker.read("screen", self._name, format=self._format, max_bytes=MOST_BYTES)
        except SessionNotFound:
            return None
        return View(result)


async def _watched(broker: Broker, options: argparse.Namespace) -> str:
    return (await broker.get_session(session_id(options))).session_id


def _ended(session_id: str, last: View | None) -> str:
    code = last.result.exit_code if last else None
    if last is None or not last.result.exited:
        return f"session {session_id} is gone: somebody ended it"
    return f"session {session_id} has ended" + (f" with exit code {code}" if code is not None else "")


async def _watch_live(broker: Broker, options: argparse.Namespace) -> int:
    name = await _watched(broker, options)
    watched = Watched(broker, name, "ansi")
    last: View | None = None
    async with Stage.open() as stage:
        await stage.wait(math.inf, watched.change)
        while not stage.left.is_set():
            begun = time.monotonic()
            view = await watched.look()
            if view is None or view.result.exited or watched.over:
                break
            last = view
            _paint(stage, view)
            await stage.wait(math.inf, watched.change)
            await stage.wait(max(FRAME_S - (time.monotonic() - begun), 0))
    if stage.left.is_set():
        return stage.status
    for each in (view, last):  # what it showed at the end stays to be read
        if each and each.result.content:
            output.write(each.result.content + "\x1b[0m\n")
            break
    output.note(_ended(name, view))
    return 0


def _paint(stage: Stage, view: View) -> None:
    cols, lines = stage.size
    rows = clip(view.result.content.split("\n"), cols)
    cursor = view.result.cursor
    height = max(lines - 1, 1)
    # Where not all of it fits, the part with the cursor is shown.
    top = max(min(cursor.row - height + 1, view.result.rows - height), 0) if cursor else 0
    shown = rows[top : top + height]
    place = (cursor.row - top, cursor.col) if cursor and cursor.visible else None
    bar = f" {view.facts}  q ends"[:cols].ljust(cols)
    stage.paint([*shown, *[""] * (height - len(shown)), f"\x1b[7m{bar}"] if lines > 1 else shown, place)


async def _watch_plain(broker: Broker, options: argparse.Namespace) -> int:
    name = await _watched(broker, options)
    watched = Watched(broker, name, "plain")
    shown: tuple[Any, ...] = ()
    while True:
        await watched.change()
        view = await watched.look()
        if view and view.shown != shown:
            shown = view.shown
            _print(view, options)
        if options.once:
            return 0
        if view is None or view.result.exited or watched.over:
            break
        await anyio.sleep(FRAME_S)
    output.note(_ended(name, view))
    return 0


def _print(view: View, options: argparse.Namespace) -> None:
    if options.json:
        output.write_result(view.result)
    else:
        heading = "" if options.once else f"--- {time.strftime('%H:%M:%S')}  {view.facts}\n"
        output.write(heading + view.result.content + "\n")
    sys.stdout.flush()


# ---- all sessions --------------------------------------------------------------------------------


async def _list_live(broker: Broker, options: argparse.Namespace) -> int:
    async with Stage.open() as stage:
        while not stage.left.is_set():
            found = await broker.list_sessions(include_exited=options.all)
            cols, lines = stage.size
            rows = clip(output.table(table_of(found)), cols)
            if len(rows) >= lines:
                rows = [*rows[: max(lines - 2, 0)], f"... and {len(rows) - max(lines - 2, 0)} more"[:cols]]
            bar = f" {found.count} sessions  {time.strftime('%H:%M:%S')}  q ends"[:cols].ljust(cols)
            stage.paint([*rows, *[""] * (lines - len(rows) - 1), f"\x1b[7m{bar}"])
            await stage.wait(TABLE_EVERY_S)
    return stage.status


async def _list_plain(broker: Broker, options: argparse.Namespace) -> int:
    while True:
        found = await broker.list_sessions(include_exited=options.all)
        if options.json:
            output.write_result(found)
        else:
            output.write_table(table_of(found))
            output.write("\n")
        sys.stdout.flush()
        await anyio.sleep(TABLE_EVERY_S)
