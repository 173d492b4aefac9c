"""Requests to a machine's page that come by its door: begun with one call, and read on with others.

A door's calls answer once. So a little of an answer is kept as it comes, until the gateway has asked for it; the page
waits meanwhile, as for a slow browser. Whoever asks no more for a while has gone.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from starlette.types import ASGIApp, Message

from tmuxmcp.contract.errors import OutcomeUnknown

PIECE_HELD_S = 10.0
"""So long a call waits for a piece before it says that there is none yet."""

VISIT_GONE_S = 30.0
"""A visit of which nobody asks for so long is over."""

VISIT_PIECE_BYTES = 1 << 20
"""Bytes that one call gives. When so many are kept, what comes then waits."""

log = logging.getLogger(__name__)


class Visits:
    """All that go on at one door."""

    def __init__(self) -> None:
        self._visits: dict[str, _Visit] = {}

    async def do(self, app: ASGIApp, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a visit, go on with it, or end it.

        Args:
            app: the page.
            asked: `visit`, which names it; to begin it `name` and `asked`, to end it `end`.

        Raises:
            OutcomeUnknown: there is no such visit, or no longer.
        """
        number = str(asked["visit"])
        if "name" in asked:
            self._visits[number] = visit = _Visit(app, str(asked["name"]), asked["asked"])
        elif number not in self._visits:
            raise OutcomeUnknown("The door has begun anew, or nobody has asked for the answer in time.")
        visit = self._visits[number]
        try:
            told = await visit.read(0.0 if asked.get("end") else PIECE_HELD_S)
        except BaseException:
            self._end(number)
            raise
        if asked.get("end") or not told["more"]:
            self._end(number)
        else:
            visit.leave(lambda: self._end(number))
        return told

    def _end(self, number: str) -> None:
        if visit := self._visits.pop(number, None):
            visit.end()


class _Visit:
    """One request, and what has come of its answer and was not asked for yet."""

    def __init__(self, app: ASGIApp, name: str, asked: Any) -> None:
        self._head: dict[str, Any] = {}
        self._kept = bytearray()
        self._over = self._whole = False
        self._came, self._taken = asyncio.Event(), asyncio.Event()
        self._body: bytes | None = json.dumps(asked).encode()
        self._timer: asyncio.TimerHandle | None = None
        path = f"/page/{name}"
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self._body))]
        scope: dict[str, Any] = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "headers": headers,
        }
        scope |= {
            "http_version": "1.1",
            "scheme": "http",
            "query_string": b"",
            "root_path": "",
            "asgi": {"version": "3.0"},
        }
        # The loop is Ray's, which knows no task group around all calls.
        self._task = asyncio.create_task(self._run(app, scope))  # noqa: TID251

    async def _run(self, app: ASGIApp, scope: dict[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._send)
        except Exception:
            log.exception("%s failed", scope["path"])
        finally:
            self._over = True
            self._came.set()

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await asyncio.Event().wait()  # until the visit is ended
        raise AssertionError

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = {name.decode(): value.decode() for name, value in message["headers"]}
            length = headers.get("content-length")
            self._head = {"status": message["status"], "kind": headers.get("content-type", "")}
            self._head["length"] = None if length is None else int(length)
            return
        while len(self._kept) >= VISIT_PIECE_BYTES:
            self._taken.clear()
            await self._taken.wait()
        self._kept += message.get("body", b"")
        self._whole = not message.get("more_body", False)
        self._came.set()

    async def read(self, hold_s: float) -> dict[str, Any]:
        """What has come; with the first piece what it is. `more`: the answer goes on.

        Raises:
            OutcomeUnknown: the answer broke off.
        """
        if self._timer:
            self._timer.cancel()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wait(), hold_s)
        if self._over and not self._whole and not self._kept:
            raise OutcomeUnknown("The machine's page has not answered to the end.", hint="The door's log has why.")
        data = base64.b64encode(self._kept[:VISIT_PIECE_BYTES]).decode()
        del self._kept[:VISIT_PIECE_BYTES]
        self._taken.set()
        return {"data": data, "more": bool(self._kept) or not self._whole, **self._head}

    async def _wait(self) -> None:
        while not (self._kept or self._whole or self._over):
            self._came.clear()
            await self._came.wait()

    def leave(self, end: Callable[[], None]) -> None:
        """Nobody asks at this moment: after a while nobody will."""
        self._timer = asyncio.get_running_loop().call_later(VISIT_GONE_S, end)

    def end(self) -> None:
        """Tell nothing more."""
        if self._timer:
            self._timer.cancel()
        self._task.cancel()
