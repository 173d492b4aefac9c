"""What answers pages of a gateway: what they ask and do is passed on to the page of the session's machine.

Nothing is kept here but what machines told last. A machine does for who has its person's token what it does for a page
of its own, by the same rules and with the same audit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
import anyio.abc
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tmuxmcp.contract.errors import NodeUnreachable, OutcomeUnknown, TmuxMcpError
from tmuxmcp.faces.page.answers import PAGE_HEADERS, Endpoint, PageArguments, answer, refused, routes_of, text_of
from tmuxmcp.faces.page.gathering import (
    MACHINE_AGAIN_S,
    FleetListing,
    lines,
    local,
    local_asked,
    visit,
    whole,
    with_node_ids,
)
from tmuxmcp.faces.page.holding import TYPED_BODY_BYTES
from tmuxmcp.faces.page.stream import Desk, PageStream, as_json
from tmuxmcp.nodes.gateway import LIST_S, Gateway
from tmuxmcp.nodes.transport import VisitAnswer

READ_ENDPOINTS = ("commands", "output", "search", "past", "activity", "generations")
INPUT_ENDPOINTS = ("take", "give-back", "type", "paste")
ANSWER_ENDPOINTS = ("answer", "settle", "became", "agree")
"""What is about one session, or one question, and goes to its machine as it is."""

PAUSE_ENDPOINTS = {"pause": "paused", "resume": "resumed"}
"""What may be about all sessions, and where the answer has the ids of those that it was done to."""

HANDS_S, ANSWER_S, FILE_S = 15.0, 60.0, 600.0
"""Longest time without a byte of an answer: machines search long logs, and make films of them."""

NOT_SENT = "Nothing was done. Try again later."
MAYBE_DONE_HINT = "It may have been done: look before you do it again."


class FleetDesk(Desk):
    """Answers for the brokers of many machines."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(FleetListing(gateway))
        self._gateway = gateway

    def routes(self) -> list[Route]:
        """A route for each thing that a page asks for, or does."""
        asks: dict[str, Endpoint] = {
            name: partial(self._pass, name, ANSWER_S) for name in READ_ENDPOINTS + ANSWER_ENDPOINTS
        }
        asks |= {name: partial(self._pass, name, HANDS_S) for name in INPUT_ENDPOINTS}
        asks |= {name: partial(self._pause, name) for name in PAUSE_ENDPOINTS}
        asks["export"] = partial(self._pass, "export", FILE_S)
        return routes_of(asks, TYPED_BODY_BYTES)

    async def _pass(self, name: str, silence_s: float, asked: PageArguments) -> Response:
        there, node = local_asked(asked)
        return ForwardedAnswer(self._gateway, node, name, there, silence_s)

    # ---- streams ---------------------------------------------------------------------------------

    async def show(self, stream: PageStream) -> None:
        """Tell a page of the session that it shows, and its machine of the page."""
        async with anyio.create_task_group() as tasks:
            if stream.wish.page:
                tasks.start_soon(self._stay, stream)
            if stream.wish.session_id:
                tasks.start_soon(self._screen, stream)

    async def _screen(self, stream: PageStream) -> None:
        """Show what its machine shows of a session; a machine that is away is waited for."""
        session_id, said = stream.wish.session_id, ""
        while True:
            try:
                there, node = local(session_id)
                wish = {"session": there, "page": stream.wish.page, "lists": False}
                async with lines(self._gateway, node, wish) as messages:
                    async for message in messages:
                        if message.get("kind") == "screen":
                            said = ""
                            message = with_node_ids(message, node) if "error" in message else message
                            await stream.say("screen", partial(_text, session_id, message))
            except TmuxMcpError as error:
                if error.message != said:
                    said = error.message
                    away = isinstance(error, NodeUnreachable | OutcomeUnknown)
                    message = {"error": error.as_dict(), "away": away}
                    await stream.say("screen", partial(_text, session_id, message))
            await anyio.sleep(MACHINE_AGAIN_S)

    async def _stay(self, stream: PageStream) -> None:
        """Have machines know that a page is there which holds a session of theirs, and shows another one."""
        staying: dict[str, anyio.CancelScope] = {}
        version, page = 0, stream.wish.page
        async with anyio.create_task_group() as tasks:
            while True:
                await self.listing.change(version)
                version, rows = self.listing.version, self.listing.rows.values()
                held = {row["node"] for row in rows if row["taken_over"] and row["taken_over"]["page"] == page}
                for node in staying.keys() - held:
                    staying.pop(node).cancel()
                for node in held - staying.keys():
                    staying[node] = anyio.CancelScope()
                    tasks.start_soon(self._be_at, node, page, staying[node])

    async def _be_at(self, node: str, page: int, scope: anyio.CancelScope) -> None:
        with scope:
            while True:
                try:
                    async with lines(self._gateway, node, {"session": "", "page": page, "lists": False}) as messages:
                        async for _ in messages:
                            pass
                except TmuxMcpError:  # the list tells
                    pass
                await anyio.sleep(MACHINE_AGAIN_S)

    # ---- all machines ----------------------------------------------------------------------------

    async def _pause(self, name: str, asked: PageArguments) -> dict[str, list[str]]:
        """Pause or resume agents in one session, or everywhere."""
        if session := text_of(asked, "session"):
            there, node = local(session)
            return await self._paused(name, node, there)
        found: list[str] = []
        failed: dict[str, str] = {}

        async def one(node: str) -> None:
            failed[node] = f"{node} did not answer within {LIST_S:g} s"
            with anyio.move_on_after(LIST_S):
                try:
                    found.extend((await self._paused(name, node, ""))[PAUSE_ENDPOINTS[name]])
                    del failed[node]
                except TmuxMcpError as error:
                    failed[node] = error.message.rstrip(".")

        async with anyio.create_task_group() as tasks:
            for node in await self._gateway.transport.names():
                tasks.start_soon(one, node)
        if failed:
            where, why = ", ".join(sorted(failed)), "; ".join(failed.values())
            raise NodeUnreachable(
                f"Agents may not be {PAUSE_ENDPOINTS[name]} on {where}: {why}.",
                hint="All other machines have done it. Try again.",
                missing=sorted(failed),
            )
        return {PAUSE_ENDPOINTS[name]: sorted(found)}

    async def _paused(self, name: str, node: str, session: str) -> dict[str, list[str]]:
        async with visit(self._gateway, node, name, {"session": session}, ANSWER_S) as visited:
            told = await whole(visited, node)
        return {word: [f"{each}@{node}" for each in names] for word, names in told.items()}


async def _text(session_id: str, message: Mapping[str, Any]) -> str:
    """A line of the stream about a screen, without its braces."""
    told = {name: value for name, value in message.items() if name != "kind"}
    return as_json(told | {"session": session_id})[1:-1]


class ForwardedAnswer(Response):
    """The answer of a machine, passed on: a value with ids that name the machine, or a file as it is."""

    def __init__(self, gateway: Gateway, node: str, name: str, asked: PageArguments, silence_s: float) -> None:
        super().__init__()
        self._visit = partial(visit, gateway, node, name, asked, silence_s)
        self._node = node

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask, and answer."""
        begun = False
        try:
            async with self._visit() as visited:
                if visited.kind.startswith("application/json"):
                    told: Response = answer(await whole(visited, self._node))
                else:
                    length = self._length(visited)
                    begun = True
                    return await _pass(visited, length, send)
        except TmuxMcpError as error:
            if begun:
                raise  # the connection is cut: a part of a file must not look like a file
            if not error.hint and isinstance(error, NodeUnreachable | OutcomeUnknown):
                error.hint = NOT_SENT if isinstance(error, NodeUnreachable) else MAYBE_DONE_HINT
            told = refused(error)
        await told(scope, receive, send)

    def _length(self, visited: VisitAnswer) -> int:
        if visited.length is None:
            raise OutcomeUnknown(f"{self._node} does not say how long its file is.", node=self._node)
        return visited.length


async def _pass(visited: VisitAnswer, length: int, send: Send) -> None:
    head = Response(headers=PAGE_HEADERS | {"content-length": str(length)}, media_type="application/octet-stream")
    await send({"type": "http.response.start", "status": 200, "headers": head.raw_headers})
    async for piece in visited.pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
