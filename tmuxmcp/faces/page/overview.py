"""All sessions of this machine as the page lists them, and what waits for the person, changed where something happened.

Each session is followed, so that one in which nothing happens costs next to nothing. What nobody tells (a session was
made, somebody looks at it in a terminal, a question is about none) is looked for once a second.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from itertools import chain

import anyio

from tmuxmcp.broker.answering import WaitingRequest
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.faces.page.cells import encoded_rows
from tmuxmcp.faces.page.listing import PageListing, Row
from tmuxmcp.faces.page.waits import waits

log = logging.getLogger(__name__)

SESSIONS_LOOK_S = 1.0
"""Time between two looks for sessions that came and went."""

LIST_COALESCE_S = 0.25
"""What changes within this time is told at once: at most so often a session is looked at for the list."""

DESTROYED_S = 30.0
"""Time between two looks for sessions that were destroyed, when none went."""

QUIET_LOOK_S = 10.0
"""So late a change may be told of a session that has printed nothing for more than a minute; what it prints is told
at once."""

TAIL_ROWS = 5
"""Rows of a screen that the list shows."""


class Overview(PageListing):
    """The sessions of one broker."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._broker, self._seeing, self._people = broker, broker.seeing(), broker.people
        self._asked: dict[str, list[WaitingRequest]] = {}
        """The requests of each session."""
        self._news = anyio.Event()
        self._dirty: set[str] = set()
        self._signs: dict[str, Hashable] = {}
        """Of the moments in which the rows were made."""

    def _forget(self) -> None:
        super()._forget()
        self._signs, self._asked = {}, {}

    # ---- the work --------------------------------------------------------------------------------

    async def _keep(self) -> None:
        followed: dict[str, anyio.CancelScope] = {}
        signs: dict[str, Hashable] = {}
        destroyed_at = 0.0
        async with anyio.create_task_group() as task_group:
            while True:
                begun = anyio.current_time()
                try:
                    now = await self._seeing.signs()
                except (TmuxMcpError, OSError) as error:
                    log.debug("the sessions cannot be listed: %s", error)
                    now = signs
                gone = signs.keys() - now.keys()
                if gone or begun - destroyed_at > DESTROYED_S:
                    destroyed_at = begun
                    over = set(self._seeing.destroyed())
                    self._dirty |= {name for name in over if name not in now} | (self.rows.keys() - now.keys())
                self._dirty |= {name for name in now if self._signs.get(name) != now[name]}
                for name in followed.keys() - now.keys():
                    followed.pop(name).cancel()
                for name in now.keys() - followed.keys():
                    followed[name] = anyio.CancelScope()
                    task_group.start_soon(self._follow, name, followed)
                signs = now
                await self._refresh_until(begun + SESSIONS_LOOK_S)

    async def _refresh_until(self, end: float) -> None:
        """Take in what happens until then."""
        while True:
            names, self._dirty = self._dirty, set()
            await self._refresh(names)
            self._news = anyio.Event()
            with anyio.move_on_at(end):
                await self._news.wait()
            if anyio.current_time() >= end:
                return
            await anyio.sleep(LIST_COALESCE_S)

    async def _follow(self, name: str, followed: dict[str, anyio.CancelScope]) -> None:
        """Say that a session has changed, whenever it has."""
        with followed[name]:
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(self._follow_requests, name)
                await self._follow_output(name)
                task_group.cancel_scope.cancel()
            self.look_anew(name)
            await anyio.sleep(SESSIONS_LOOK_S)
        if followed.get(name):  # it ended, or another has its name now: the next look tells
            del followed[name]

    async def _follow_output(self, name: str) -> None:
        """Until the session ends."""
        try:
            follow = self._broker.follow(name, output=False, longest_look_s=QUIET_LOOK_S)
            while await follow.batch():
                self.look_anew(name)
                await anyio.sleep(LIST_COALESCE_S)
        except (TmuxMcpError, OSError) as error:
            log.debug("session %s cannot be followed: %s", name, error)

    async def _follow_requests(self, name: str) -> None:
        try:
            while True:
                await self._people.wait_for_change(name)
                self.look_anew(name)
        except (TmuxMcpError, OSError) as error:
            log.debug("requests of session %s cannot be followed: %s", name, error)

    def look_anew(self, session_id: str) -> None:
        """Look at a session anew; empty: at what waits."""
        if session_id:
            self._dirty.add(session_id)
        self._news.set()

    async def _refresh(self, names: set[str]) -> None:
        changed = False
        for name in names:
            try:
                row = await self._row(name)
                self._asked[name] = self._people.of(name)
                if row is None and name in self.rows:
                    self._seeing.destroyed()  # it is among those from now on
                    row = await self._row(name)
            except (TmuxMcpError, OSError) as error:
                log.debug("session %s cannot be looked at: %s", name, error)
                self._signs.pop(name, None)  # nothing is known of this moment: the next look for sessions tries again
                continue
            if row is None:
                self._signs.pop(name, None)
                changed |= self.rows.pop(name, None) is not None
                self._asked.pop(name, None)
            elif self.rows.get(name) != row:
                self.rows[name], changed = row, True
        found = waits(chain(*self._asked.values()), self._people.questions(), self.rows.values())
        if found != self.waits:
            self.waits, changed = found, True
        if changed or not self.version:
            self._tell()

    async def _row(self, name: str) -> Row | None:
        standing = await self._seeing.standing(name)
        if standing is None:
            return None
        self._signs[name] = standing.sign
        summary, taken = standing.summary, standing.taken
        row = summary.model_dump(mode="json", exclude={"output_bytes"})
        row |= {
            "taken_over": taken and {"by": taken.by, "since": taken.since, "via": taken.via, "page": taken.page},
            "paused": standing.paused,
            "yours": standing.yours,
            "watched": standing.watched,
            "command": standing.command and standing.command.model_dump(mode="json"),
            "commands": standing.commands,
            "tail": [] if summary.mode == "lost" else await self._tail(name),
        }
        return row

    async def _tail(self, name: str) -> list[str]:
        """The last rows that the screen shows, as JSON."""
        sight = await self._seeing.sight(name)
        if sight is None:
            return []
        shown = sight.shown
        rows = encoded_rows(shown.lines, shown.cols, shown.rows, shown.version)
        while rows and rows[-1] == "[]":
            rows.pop()
        return rows[-TAIL_ROWS:]
