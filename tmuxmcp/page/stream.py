"""The one connection of an open page: lines of JSON with the list of sessions, what waits for the person,
and the screen that it shows.

Nothing is queued for a page. Each line is made when the page has taken the one before, of how things stand then: a
slow page gets fewer of them, and always the latest.
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import AsyncExitStack
from typing import Any

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tmuxmcp.broker.broker import Broker
from tmuxmcp.errors import TmuxMcpError
from tmuxmcp.page.answers import HEADERS
from tmuxmcp.page.cells import encoded_rows
from tmuxmcp.page.hands import Handling
from tmuxmcp.page.overview import Overview
from tmuxmcp.page.waits import Wait
from tmuxmcp.reading.sight import Seeing, ShapeSeen, Sight

log = logging.getLogger(__name__)

FRAME_S = 0.05
"""Least time between two frames of a screen."""

BEAT_S = 10.0
"""A page hears something so often: silence means that the connection is gone."""

TAIL = "tail"


class Stream(Response):
    """What a page is told, until it leaves."""

    media_type = "application/x-ndjson"

    def __init__(self, broker: Broker, overview: Overview, session_id: str, page: int, handling: Handling) -> None:
        """Begin to tell a page.

        Args:
            session_id: whose screen is shown; empty: none.
            page: its number; 0: it has none.
        """
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._broker, self._overview, self._session_id = broker, overview, session_id
        self._page, self._handling = page, handling
        self._lock = anyio.Lock()
        self._said_at = 0.0
        self._scope = anyio.CancelScope()

    def end(self) -> None:
        """Tell the page nothing more."""
        self._scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell it all."""
        with self._scope:
            await self._tell(receive, send)
        await send({"type": "http.response.body", "body": b""})

    async def _tell(self, receive: Receive, send: Send) -> None:
        self._send = send
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with AsyncExitStack() as there, anyio.create_task_group() as task_group:
            await there.enter_async_context(self._overview.looked_at())
            there.enter_context(self._handling.connected(self._page))
            if self._session_id:
                there.enter_context(self._broker.shown(self._session_id, self._page))
            task_group.start_soon(self._list)
            task_group.start_soon(self._beat)
            if self._session_id:
                task_group.start_soon(self._screen)
            while (await receive())["type"] != "http.disconnect":
                pass
            task_group.cancel_scope.cancel()

    async def _say(self, kind: str, text: str) -> None:
        """Send a line, when the page has taken those before."""
        self._said_at = anyio.current_time()
        body = f'{{"kind":"{kind}",{text}}}\n'.encode("utf-8", "replace")
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def _beat(self) -> None:
        while True:
            await anyio.sleep(BEAT_S)
            if anyio.current_time() - self._said_at >= BEAT_S / 2:
                async with self._lock:
                    await self._say("beat", '"v":1')

    # ---- the list --------------------------------------------------------------------------------

    async def _list(self) -> None:
        sent: dict[str, dict[str, Any]] | None = None
        told: list[Wait] | None = None
        version = 0
        while True:
            await self._overview.change(version)
            async with self._lock:
                version, rows = self._overview.version, dict(self._overview.rows)
                before = sent or {}
                changed = [_row(row) for name, row in rows.items() if before.get(name) is not row]
                gone = [name for name in before if name not in rows]
                waits = self._overview.waits
                if changed or gone or waits is not told:
                    more = "" if waits is told else f',"waits":{_json(waits)},"now_ms":{round(time.time() * 1000)}'
                    more += "" if sent is not None else ',"whole":true'  # what a page knows beside these is gone
                    await self._say("list", f'"rows":[{",".join(changed)}],"gone":{_json(gone)}{more}')
                sent, told = rows, waits

    # ---- the screen ------------------------------------------------------------------------------

    async def _screen(self) -> None:
        seeing = self._broker.seeing()
        frames, shape = Frames(self._session_id), ShapeSeen()
        try:
            follow = self._broker.follow(self._session_id, output=False)
            while True:
                begun = anyio.current_time()
                async with self._lock:  # taken first: what is shown is that of the moment in which it can be sent
                    if text := frames.frame(await _sight(seeing, self._session_id, shape)):
                        await self._say("screen", text)
                if not await follow.batch():
                    break
                await anyio.sleep(max(begun + FRAME_S - anyio.current_time(), 0))
        except TmuxMcpError as error:
            async with self._lock:
                await self._say("screen", f'"session":{_json(self._session_id)},"error":{_json(error.as_dict())}')
            return
        async with self._lock:
            await self._say("screen", f'"session":{_json(self._session_id)},"over":true')


async def _sight(seeing: Seeing, session_id: str, shape: ShapeSeen) -> Sight | None:
    try:
        return await seeing.sight(session_id, shape)
    except (TmuxMcpError, OSError) as error:
        log.debug("session %s cannot be looked at: %s", session_id, error)
        return None


class Frames:
    """The screens that one page was sent of a session."""

    def __init__(self, session_id: str) -> None:
        self._session = _json(session_id)
        self._size = (0, 0)
        self._rows: list[str] = []
        self._facts = ""

    def frame(self, sight: Sight | None) -> str:
        """What has changed since the last frame, as JSON without its braces; empty: nothing."""
        if sight is None:
            return ""
        shown = sight.shown
        rows = encoded_rows(shown.lines, shown.cols, shown.rows)
        size = (shown.cols, shown.rows)
        row, col, visible = shown.cursor
        facts = _json([row, min(col, shown.cols - 1), visible and sight.alive, sight.title, sight.cursor_shape])
        whole = size != self._size
        changed = [f'"{number}":{text}' for number, text in enumerate(rows) if whole or self._rows[number] != text]
        if not changed and facts == self._facts:
            return ""
        self._size, self._rows, self._facts = size, rows, facts
        lines = ",".join(changed)
        return f'"session":{self._session},"size":[{size[0]},{size[1]}],"facts":{facts},"lines":{{{lines}}}'


def _row(row: dict[str, Any]) -> str:
    """A row of the list; the last rows of its screen are JSON already."""
    rest = {name: value for name, value in row.items() if name != TAIL}
    return f'{_json(rest)[:-1]},"tail":[{",".join(row[TAIL])}]}}'


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
