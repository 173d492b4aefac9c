"""What answers a page that was let in: the part of a server that knows sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import anyio
from starlette.routing import Route

from tmuxmcp.broker.broker import Broker
from tmuxmcp.faces.page import screens
from tmuxmcp.faces.page.hands import InputEndpoints
from tmuxmcp.faces.page.listing import PageListing
from tmuxmcp.faces.page.lookups import QueryEndpoints
from tmuxmcp.faces.page.overview import Overview
from tmuxmcp.faces.page.settling import AnswerEndpoints
from tmuxmcp.faces.page.stream import PageStream, PageSubscription

if TYPE_CHECKING:
    from tmuxmcp.nodes.fleet import AnyBroker


class Desk(Protocol):
    """Answers pages."""

    @property
    def listing(self) -> PageListing:
        """What pages are told of all sessions."""

    def run(self) -> AbstractAsyncContextManager[None]:
        """Keep pages up to date while this is open."""

    def routes(self) -> list[Route]:
        """A route for each thing that a page asks for, or does."""

    def stream(self, wish: PageSubscription) -> PageStream:
        """What tells a page of what it wants to know."""


class OwnDesk:
    """Answers for the broker of this machine."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.listing = Overview(broker)
        self._asking, self._handling = QueryEndpoints(broker), InputEndpoints(broker)
        self._answering = AnswerEndpoints(broker, self.listing)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Keep pages up to date, and give back what they hold that have gone, while this is open."""
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(self.listing.run)
            task_group.start_soon(self._handling.run)
            yield
            task_group.cancel_scope.cancel()

    def routes(self) -> list[Route]:
        """Questions, hands, answers."""
        return [*self._asking.routes(), *self._handling.routes(), *self._answering.routes()]

    def stream(self, wish: PageSubscription) -> PageStream:
        """The list and a screen."""
        return PageStream(self.listing, wish, self._show)

    async def _show(self, stream: PageStream) -> None:
        """Show the session, and know that the page is there, until cancelled."""
        session_id, page = stream.wish.session_id, stream.wish.page
        with self._handling.connected(page):
            if session_id:
                with self._broker.shown(session_id, page):
                    await screens.show(self._broker, session_id, stream)
                    await anyio.sleep_forever()
            await anyio.sleep_forever()


def desk_of(broker: AnyBroker) -> Desk:
    """What answers the pages of a server, for what it serves."""
    if isinstance(broker, Broker):
        return OwnDesk(broker)
    from tmuxmcp.faces.page.fleetdesk import FleetDesk  # late: most servers have one machine

    return FleetDesk(broker)
