"""The screen of a session as an open page is shown it: frames, at most so often, of which each has what has changed."""

from __future__ import annotations

import logging

import anyio

from tmuxmcp.broker.broker import Broker
from tmuxmcp.broker.sight import SessionSight, SessionSights, ShapeSeen
from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.faces.page.cells import encoded_rows
from tmuxmcp.faces.page.stream import PageStream, as_json

log = logging.getLogger(__name__)

PAGE_FRAME_S = 0.05
"""Least time between two frames of a screen."""


async def show(broker: Broker, session_id: str, stream: PageStream) -> None:
    """Show a page what a session shows, until that ends."""
    seeing = broker.seeing()
    frames, shape = Frames(session_id), ShapeSeen()

    async def frame() -> str:
        return frames.frame(await _sight(seeing, session_id, shape))

    async def last(facts: str) -> None:
        async def told() -> str:
            return f'"session":{as_json(session_id)},{facts}'

        await stream.say("screen", told)

    try:
        follow = broker.follow(session_id, output=False)
        while True:
            begun = anyio.current_time()
            await stream.say("screen", frame)
            if not await follow.batch():
                break
            await anyio.sleep(max(begun + PAGE_FRAME_S - anyio.current_time(), 0))
    except TmuxMcpError as error:
        return await last(f'"error":{as_json(error.as_dict())}')
    await last('"over":true')


async def _sight(seeing: SessionSights, session_id: str, shape: ShapeSeen) -> SessionSight | None:
    try:
        return await seeing.sight(session_id, shape)
    except (TmuxMcpError, OSError) as error:
        log.debug("session %s cannot be looked at: %s", session_id, error)
        return None


class Frames:
    """The screens that one page was sent of a session."""

    def __init__(self, session_id: str) -> None:
        self._session = as_json(session_id)
        self._size = (0, 0)
        self._rows: list[str] = []
        self._facts = ""

    def frame(self, sight: SessionSight | None) -> str:
        """What has changed since the last frame, as JSON without its braces; empty: nothing."""
        if sight is None:
            return ""
        shown = sight.shown
        rows = encoded_rows(shown.lines, shown.cols, shown.rows, shown.version)
        size = (shown.cols, shown.rows)
        row, col, visible = shown.cursor
        facts = as_json([row, min(col, shown.cols - 1), visible and sight.alive, sight.title, sight.cursor_shape])
        whole = size != self._size
        changed = [f'"{number}":{text}' for number, text in enumerate(rows) if whole or self._rows[number] != text]
        if not changed and facts == self._facts:
            return ""
        self._size, self._rows, self._facts = size, rows, facts
        lines = ",".join(changed)
        return f'"session":{self._session},"size":[{size[0]},{size[1]}],"facts":{facts},"lines":{{{lines}}}'
