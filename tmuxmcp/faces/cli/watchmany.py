"""`tmuxmcp watch ID ID ...`: several sessions side by side. Only looks, as `watch` of one does."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.stage import Stage
from tmuxmcp.faces.cli.tiles import grid, joined_rows, tile
from tmuxmcp.faces.cli.watched import WATCH_FRAME_S, SessionView, WatchedSession, end_sentence, print_view

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker


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
            _paint(stage, panels)
            if all(panel.over for panel in panels):
                break
            await stage.wait(math.inf, receive.receive)
            await stage.wait(WATCH_FRAME_S)
        task_group.cancel_scope.cancel()
    if not stage.left.is_set():
        for panel in panels:
            output.note(end_sentence(panel.name, panel.view))
    return stage.status


def _paint(stage: Stage, panels: Sequence[Panel]) -> None:
    cols, lines = stage.size
    place = grid(len(panels), cols, lines - 1 if lines > 1 else 1)
    rows = joined_rows([panel.rows((place.cols, place.rows)) for panel in panels], place)
    hidden = max(len(panels) - place.places, 0)
    bar = f" {len(panels)} sessions{f', {hidden} of them do not fit' * bool(hidden)}  q ends"[:cols].ljust(cols)
    stage.paint([*rows, *[""] * (lines - 1 - len(rows)), f"\x1b[7m{bar}"] if lines > 1 else rows)


async def once(broker: Broker, options: argparse.Namespace, names: Sequence[str]) -> int:
    """Print the screen of each one time."""
    for name in names:
        view = await WatchedSession(broker, name, "plain").view()
        if view and not options.json:
            output.write(f"--- {view.facts}\n")
        if view:
            print_view(view, options)
    return 0
