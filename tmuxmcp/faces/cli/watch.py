"""`tmuxmcp watch` and `tmuxmcp list --watch`: a session's screen, or the table of sessions, as it changes.

Only looks: the session keeps its size, and nobody's read cursor moves.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from typing import TYPE_CHECKING, Any

import anyio

from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.contract.words import EVERY_SESSION
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.arguments import session_id
from tmuxmcp.faces.cli.calling import with_any, with_broker
from tmuxmcp.faces.cli.service import effective
from tmuxmcp.faces.cli.stage import Stage
from tmuxmcp.faces.cli.table import table_of
from tmuxmcp.faces.cli.watched import WATCH_FRAME_S, SessionView, WatchedSession, end_sentence, print_view
from tmuxmcp.gate.confirmations import Confirmations
from tmuxmcp.terminal.emulator.capture import clip

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.nodes.fleet import AnyBroker

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


def watch_list(options: argparse.Namespace) -> int:
    """`tmuxmcp list --watch`."""
    live = sys.stdout.isatty() and not options.json
    return with_any(options, _list_live if live else _list_plain)


# ---- one session ---------------------------------------------------------------------------------


async def _watch_several(broker: Broker, options: argparse.Namespace) -> int:
    from tmuxmcp.faces.cli import watchmany

    given = [session_id(options), *options.more]
    names = list(dict.fromkeys([(await broker.get_session(each)).session_id for each in given]))
    return await (watchmany.once(broker, options, names) if options.once else watchmany.live(broker, names))


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
    bar = f" {view.facts}  q ends"[:cols].ljust(cols)
    stage.paint([*shown, *[""] * (height - len(shown)), f"\x1b[7m{bar}"] if lines > 1 else shown, place)


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
            bar = f" {found.count} sessions{asked}  {time.strftime('%H:%M:%S')}  q ends"[:cols].ljust(cols)
            stage.paint([*rows, *[""] * (lines - len(rows) - 1), f"\x1b[7m{bar}"])
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
