"""The door of a machine: an actor that holds its broker, and does what gateways ask. It keeps nothing else.

All its methods run on one event loop, on which the broker lives. What comes and goes is JSON, so that another version
can at least say that it is one. An error is an answer: an exception that comes out of here is a defect.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

import anyio
from starlette.types import ASGIApp, Message

from tmuxmcp import __version__
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract import requests as q
from tmuxmcp.contract.call import CallAgain
from tmuxmcp.contract.errors import (
    Internal,
    NodeUnreachable,
    OutcomeUnknown,
    TmuxMcpError,
    Unauthorized,
    Unsupported,
    shortage,
)
from tmuxmcp.contract.follow import Change, Destroyed, Exit, Gap, Lost, Output
from tmuxmcp.contract.value import value
from tmuxmcp.machine import signals
from tmuxmcp.machine.ownfiles import state_id
from tmuxmcp.nodes import transport
from tmuxmcp.nodes.callnews import GatewayCalls

log = logging.getLogger(__name__)

CHANGES_S = 10.0
"""So long a door waits for a change before it says that there is none: whoever follows asks again."""

MACHINE_ID = Path("/etc/machine-id")


@value
class DoorHome:
    """What a machine gives its door."""

    broker: Broker
    state_dir: Path
    secret: str
    """The fleet's, as a file on this machine has it."""
    page: ASGIApp
    """What answers a person's page, for who knows the secret."""


Opens = Callable[[], AbstractAsyncContextManager[DoorHome]]
"""Opens the broker of the machine that it runs on."""

Act = Callable[[DoorHome, Mapping[str, Any]], Awaitable[dict[str, Any]]]


class Door:
    """The actor. Its methods' names and `version` and `secret` in what they are sent stay, whatever else changes."""

    def __init__(self, node: str, opens: Opens) -> None:
        # A raylet may start its workers with SIGCHLD ignored, and the tmux server that we start would inherit it.
        with suppress(ValueError):  # not the main thread: whoever opens tmux does it for what it starts
            signals.reset()
        self._node, self._opens = node, opens
        self._visits = Visits()
        self._opened: asyncio.Future[DoorHome] | None = None
        self._holding: asyncio.Task[None] | None = None
        self._gateway_calls = GatewayCalls()

    async def call(self, sent: bytes) -> bytes:
        """Do one call of an operation."""
        return await self._answer(sent, self._call)

    async def changes(self, sent: bytes) -> bytes:
        """What a session printed from an offset on, as soon as there is something; nothing after `CHANGES_S`."""
        return await self._answer(sent, self._changes)

    async def talk(self, sent: bytes) -> bytes:
        """What a gateway and its calls that go on have to say to each other."""
        return await self._answer(sent, self._talk)

    async def visit(self, sent: bytes) -> bytes:
        """A request of a person's page, and its answer piece by piece; see `Visits`."""
        return await self._answer(sent, self._visit)

    async def asciicast(self, sent: bytes) -> bytes:
        """The newest part of what a session did."""
        return await self._answer(sent, self._asciicast)

    async def here(self, sent: bytes) -> bytes:
        """Say that the door is there, and nothing else."""
        return b""

    async def hello(self, sent: bytes) -> bytes:
        """How this machine is, also for another version."""
        return await self._answer(sent, self._hello, any_version=True)

    # ---- the broker ----------------------------------------------------------------------------

    async def _open(self) -> DoorHome:
        """The broker and what belongs to it; whoever asks while it opens waits for the same."""
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            # The loop is Ray's, which knows no task group around all calls.
            self._holding = asyncio.create_task(self._hold(self._opened))  # noqa: TID251
        return await asyncio.shield(self._opened)

    async def _hold(self, opened: asyncio.Future[DoorHome]) -> None:
        try:
            async with self._opens() as home:
                await anyio.to_thread.run_sync(self._claim, home.state_dir)
                opened.set_result(home)
                await asyncio.Event().wait()
        except BaseException as error:
            self._opened = None  # the next call tries again
            if opened.done():
                log.exception("the broker has ended")
                raise
            opened.set_exception(error if isinstance(error, Exception) else Internal("The broker did not open."))

    def _claim(self, state_dir: Path) -> None:
        """Have the name be this machine's.

        Raises:
            NodeUnreachable: another machine has it.
        """
        from tmuxmcp.nodes.ray import kv

        mine = machine_id(state_dir)
        record = {"machine_id": mine, "host": os.uname().nodename, "state_dir": str(state_dir)}
        there = kv.claim(f"machine:{self._node}", record)
        if there["machine_id"] != mine:
            where = f"{there['host']} ({there['state_dir']})"
            raise NodeUnreachable(
                f"The name {self._node} belongs to {where}, and {record['host']} ({state_dir}) has the same label.",
                hint="Give one of them another name; or, if the first is gone for good: tmuxmcp fleet forget "
                + self._node,
                node=self._node,
            )

    # ---- answering -----------------------------------------------------------------------------

    async def _answer(self, sent: bytes, act: Act, *, any_version: bool = False) -> bytes:
        try:
            asked = json.loads(sent)
            home = await self._open()
            self._admit(asked, home.secret, any_version)
            answer = await act(home, asked)
        except TmuxMcpError as error:
            answer = transport.answer_sent(error)
        except CallAgain:
            answer = {"again": True}
        except Exception as error:
            answer = transport.answer_sent(shortage(error) or self._defect())
        return json.dumps({**answer, "now": self._gateway_calls.now()}).encode()

    def _admit(self, asked: Mapping[str, Any], secret: str, any_version: bool) -> None:
        """
        Raises:
            Unauthorized: it does not know the secret.
            Unsupported: it is of another version.
        """
        if not hmac.compare_digest(str(asked.get("secret", "")).encode(), secret.encode()):
            hint = "The file of the setting fleet_secret has to be the same on all machines of the fleet."
            raise Unauthorized(f"The call does not have the secret of {self._node}'s door.", hint=hint)
        if not any_version and asked.get("version") != __version__:
            raise Unsupported(
                f"The door of {self._node} is of tmuxmcp {__version__}, the gateway of {asked.get('version')}.",
                hint="Install the same version on all machines, then `tmuxmcp fleet up`: sessions do not notice.",
                node=self._node,
            )

    def _defect(self) -> Internal:
        log.exception("a call failed")
        return Internal(f"Something unexpected failed inside tmuxmcp on {self._node}.", hint="The door's log has it.")

    async def _call(self, home: DoorHome, asked: Mapping[str, Any]) -> dict[str, Any]:
        request, call = transport.request_received(asked["request"]), transport.call_received(asked["call"])
        if talk := asked.get("talk"):
            with self._gateway_calls.of(talk["line"], talk, call, asks=True) as heard:
                return transport.answer_sent(await home.broker.do(request, heard))
        return transport.answer_sent(await home.broker.do(request, call))

    async def _talk(self, home: DoorHome, asked: Mapping[str, Any]) -> dict[str, Any]:
        return await self._gateway_calls.do(asked["what"], asked["asked"]["line"], asked["asked"])

    async def _visit(self, home: DoorHome, asked: Mapping[str, Any]) -> dict[str, Any]:
        return await self._visits.do(home.page, asked)

    async def _asciicast(self, home: DoorHome, asked: Mapping[str, Any]) -> dict[str, Any]:
        call = transport.call_received(asked["call"])
        return {"result": (await home.broker.asciicast(asked["session_id"], asked["most_bytes"], call)).sent()}

    async def _changes(self, home: DoorHome, asked: Mapping[str, Any]) -> dict[str, Any]:
        call = transport.call_received(asked["call"])
        follow = home.broker.follow(asked["session_id"], asked["since"], call=call)
        told: list[dict[str, Any]] = []
        with anyio.move_on_after(CHANGES_S):
            while not told and (batch := await follow.batch()):
                told = [sent for change in batch if (sent := change_sent(change))]
        return {"changes": told}

    async def _hello(self, home: DoorHome, asked: Mapping[str, Any]) -> dict[str, Any]:
        health = await home.broker.do(q.Health(), transport.call_received(asked["call"]))
        live = health.sessions
        return {
            "version": __version__,
            "live": live,
            "free": max(health.limits["max_sessions"] - live, 0),
            "machine_id": machine_id(home.state_dir),
            "host": os.uname().nodename,
            "state_dir": str(home.state_dir),
            "pid": os.getpid(),
            "niceness": os.getpriority(os.PRIO_PROCESS, 0),
            "failed": [f"{check.name}: {check.message}" for check in health.checks if not check.ok],
        }


def machine_id(state_dir: Path) -> str:
    """What tells machines apart, also two that share a state directory, and one whose sessions are gone."""
    host = MACHINE_ID.read_bytes() if MACHINE_ID.exists() else b""
    return f"{state_id(state_dir)}-{hashlib.sha256(host).hexdigest()[:8]}"


def change_sent(change: object) -> dict[str, Any] | None:
    """An event of those that a gateway follows; None: it is none of them."""
    match change:
        case Output(offset, data):
            return {"output": offset, "data": base64.b64encode(data).decode()}
        case Gap(offset, until):
            return {"gap": offset, "until": until}
        case Exit(code, signal):
            return {"exit": code, "signal": signal}
        case Lost():
            return {"lost": True}
        case Destroyed():
            return {"destroyed": True}
    return None


def change_received(sent: Mapping[str, Any]) -> Change:
    """The event that was sent."""
    match sent:
        case {"output": offset, "data": data}:
            return Output(offset, base64.b64decode(data))
        case {"gap": offset, "until": until}:
            return Gap(offset, until)
        case {"exit": code, "signal": signal}:
            return Exit(code, signal)
        case {"lost": True}:
            return Lost()
    return Destroyed()


# ---- Requests to a machine's page that come by its door: begun with one call, and read on with others ----------------
#
# A door's calls answer once. So a little of an answer is kept as it comes, until the gateway has asked for it; the page
# waits meanwhile, as for a slow browser. Whoever asks no more for a while has gone.

PIECE_HELD_S = 10.0
"""So long a call waits for a piece before it says that there is none yet."""

VISIT_GONE_S = 30.0
"""A visit of which nobody asks for so long is over."""

VISIT_PIECE_BYTES = 1 << 20
"""Bytes that one call gives. When so many are kept, what comes then waits."""


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
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "path": f"/page/{name}",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self._body))],
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
