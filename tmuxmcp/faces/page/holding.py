"""What a person does in an open page: takes a session, types into it, gives it back, pauses agents.

A page has a number of its own, which its lease has too, so that of all pages only the one that holds a session types
into it. What a page holds is given back once it has had no connection for `PAGE_GONE_S`. Only the server that it was
connected to knows that: where that one is killed too, the setting `take_timeout_s` ends it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.abc
from starlette.routing import Route

from tmuxmcp.broker.broker import Broker
from tmuxmcp.broker.pageinput import pasteable
from tmuxmcp.contract.errors import InvalidArgument, InvalidKey, NoInput, ResourceLimit, TmuxMcpError
from tmuxmcp.faces.page.answers import PageArguments, routes_of, text_of
from tmuxmcp.faces.page.stream import number_of
from tmuxmcp.shell.sequence import KeySequence, Text
from tmuxmcp.terminal.keys import parse_key

log = logging.getLogger(__name__)

PAGE_GONE_S = 30.0
"""A page without a connection for so long has gone: it may load anew meanwhile, or lose its network for a moment."""

MOST_ITEMS, MOST_TEXT = 500, 4096
"""Keys and texts that are typed at once, and bytes of all these texts."""

MOST_PASTE = 64 * 1024
"""Bytes of a paste."""

TYPED_BODY_BYTES = 512 * 1024
"""Bytes of a request: JSON writes some characters of a paste with six."""


class InputEndpoints:
    """The hands of the pages of one server."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._connected: Counter[int] = Counter()
        self._left_at: dict[int, float] = {}
        self._tasks: anyio.abc.TaskGroup | None = None

    async def run(self) -> None:
        """Give back what pages hold that have gone; until cancelled."""
        try:
            async with anyio.create_task_group() as self._tasks:
                await anyio.sleep_forever()
        finally:
            self._tasks = None

    @contextmanager
    def connected(self, page: int) -> Iterator[None]:
        """Know that a page is there while this is open."""
        self._connected[page] += 1
        try:
            yield
        finally:
            self._connected[page] -= 1
            self._watch(page)

    def _watch(self, page: int) -> None:
        """Give back what a page holds, if it does not connect in time."""
        if self._connected[page]:
            return
        del self._connected[page]
        if page and self._tasks:
            self._left_at[page] = left_at = anyio.current_time()
            self._tasks.start_soon(self._let_go, page, left_at)

    async def _let_go(self, page: int, left_at: float) -> None:
        await anyio.sleep(PAGE_GONE_S)
        if page in self._connected or self._left_at.get(page) != left_at:
            return  # it is there, or was meanwhile
        del self._left_at[page]
        try:
            await self._broker.hands.let_go(page)
        except (TmuxMcpError, OSError) as error:
            log.warning("what a page held that has gone is not given back yet: %s", error)

    # ---- what pages ask for ----------------------------------------------------------------------

    def routes(self) -> list[Route]:
        """A route for each thing that a page does."""
        named = {
            "take": self._take,
            "give-back": self._give_back,
            "type": self._type,
            "paste": self._paste,
            "pause": self._pause,
            "resume": self._resume,
        }
        return routes_of(named, TYPED_BODY_BYTES)

    async def _take(self, asked: PageArguments) -> PageArguments:
        page = page_of(asked)
        taken = await self._broker.hands.take(text_of(asked, "session"), page)
        self._watch(page)
        return {"by": taken.by, "since": taken.since, "via": taken.via, "page": taken.page}

    async def _give_back(self, asked: PageArguments) -> PageArguments:
        return {"given_back": await self._broker.hands.give_back(text_of(asked, "session"), page_of(asked))}

    async def _type(self, asked: PageArguments) -> PageArguments:
        items = _items(asked.get("items"))
        if items:
            await self._broker.hands.press(text_of(asked, "session"), page_of(asked), items)
        return {"typed": len(items)}

    async def _paste(self, asked: PageArguments) -> PageArguments:
        text = text_of(asked, "text")
        size = len(text.encode("utf-8", "replace"))
        if size > MOST_PASTE:
            hint = "Paste it in pieces, or put it into a file."
            raise ResourceLimit(f"A paste may have {MOST_PASTE:,} bytes, not {size:,}.", hint=hint)
        if not pasteable(text):
            raise NoInput("There is nothing to paste.")
        return {"left_out": await self._broker.hands.paste(text_of(asked, "session"), page_of(asked), text)}

    async def _pause(self, asked: PageArguments) -> PageArguments:
        return {"paused": await self._broker.hands.pause(text_of(asked, "session"))}

    async def _resume(self, asked: PageArguments) -> PageArguments:
        return {"resumed": await self._broker.hands.resume(text_of(asked, "session"))}


def page_of(asked: PageArguments) -> int:
    """The number of the page that asks.

    Raises:
        InvalidArgument
    """
    if page := number_of(asked):
        return page
    raise InvalidArgument("page is missing.")


def _items(asked: Any) -> list[KeySequence | Text]:
    """What is typed: `{"key": NAME}` in the grammar of all keys, or `{"text": TEXT}`. An unknown key does nothing.

    Raises:
        InvalidArgument, ResourceLimit
    """
    if not isinstance(asked, list) or not all(isinstance(item, dict) for item in asked):
        raise InvalidArgument("items is a list of objects.")
    if len(asked) > MOST_ITEMS:
        raise ResourceLimit(f"At most {MOST_ITEMS} keys and texts are typed at once.")
    found = [item for each in asked if (item := _item(each))]
    if sum(len(item.data) for item in found if isinstance(item, Text)) > MOST_TEXT:
        raise ResourceLimit(f"Texts of at most {MOST_TEXT:,} bytes are typed at once.")
    return found


def _item(item: PageArguments) -> KeySequence | Text | None:
    if "key" not in item:
        text = text_of(item, "text")
        if pasteable(text) != text or "\n" in text or "\t" in text:
            raise InvalidArgument("A text has no control characters: they are keys.")
        return Text(text) if text else None
    try:
        names = parse_key(text_of(item, "key"))
    except InvalidKey:
        return None
    return KeySequence(names) if len(names) <= 2 else None  # a few keys are two names; more is a repeat
