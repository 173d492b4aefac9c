"""Tells subscribers that a resource changed, in both protocol eras, and has it watched only while there are some.

A client of 2026-07-28 holds a `subscriptions/listen` stream; an earlier one sent `resources/subscribe` and is told on
its connection. A change is told as "look again", so what a slow client has not taken yet is never queued twice, and
one that takes nothing is forgotten alone.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged, ResourceUpdated
from mcp.types import (
    INVALID_PARAMS,
    EmptyResult,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.contract.value import field, value
from tmuxmcp.faces.resources import SESSIONS, BrokerSource, failed, parse_uri

log = logging.getLogger(__name__)

Context = ServerRequestContext[Any, Any]

MOST_URIS = 256
"""Resources that one client may subscribe to."""

SUBSCRIPTION_STREAMS, MOST_BACKLOG = 256, 64

SEND_S = 10
"""A client that does not take a notification for so long is forgotten."""


@value(frozen=False, eq=False)
class _Subscriber:
    """A client of the earlier era: what it subscribed to, and what it was not told yet."""

    session: ServerSession
    uris: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    news: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class Subscriptions:
    """All subscribers of one server, of both eras."""

    def __init__(self, broker: BrokerSource, dropped: Callable[[], None] = lambda: None) -> None:
        self._broker, self._dropped = broker, dropped
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(
            self._bus, max_subscriptions=SUBSCRIPTION_STREAMS, max_buffered_events=MOST_BACKLOG
        )
        self._clients: dict[object, _Subscriber] = {}
        self._listeners: Counter[str] = Counter()
        self._watched: dict[str, anyio.CancelScope] = {}
        self._starting = anyio.Lock()
        self._ids: frozenset[str] = frozenset()
        self._tasks: anyio.abc.TaskGroup

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Serve subscribers while this is open."""
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    def close(self) -> None:
        """End all streams in good order; their clients are told that they ended."""
        self._streams.close()

    # ---- the two eras --------------------------------------------------------------------------

    async def listen(self, ctx: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """Serve one stream of the 2026 era until its client leaves."""
        uris = set(params.notifications.resource_subscriptions or ())
        _check_count(len(uris))
        try:
            await self._follow(uris)
            return await self._streams(ctx, params)
        finally:
            self._unfollow(uris)

    async def subscribe(self, ctx: Context, params: SubscribeRequestParams) -> EmptyResult:
        """Begin to tell a client of the earlier era about one resource."""
        uri = str(params.uri)
        client = self._client(ctx)
        if uri not in client.uris:
            _check_count(len(client.uris) + 1)
            client.uris.add(uri)
            try:
                await self._follow([uri])
            except BaseException:
                client.uris.discard(uri)
                self._unfollow([uri])
                raise
        return EmptyResult()

    async def unsubscribe(self, ctx: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        """Tell it no longer."""
        uri = str(params.uri)
        client = self._client(ctx)
        if uri in client.uris:
            client.uris.remove(uri)
            self._unfollow([uri])
        return EmptyResult()

    def _client(self, ctx: Context) -> _Subscriber:
        # The SDK drops what is sent to a connection that has ended, and gives handlers no public way to learn of
        # its end; `exit_stack` is where its own documentation puts such cleanup.
        connection = ctx.session._connection
        if connection not in self._clients:
            client = self._clients[connection] = _Subscriber(ctx.session)
            connection.exit_stack.callback(self._forget, connection)
            self._tasks.start_soon(self._deliver, connection, client)
        return self._clients[connection]

    def _forget(self, connection: object) -> None:
        client = self._clients.pop(connection, None)
        if client:
            client.scope.cancel()
            self._unfollow(client.uris)

    async def _deliver(self, connection: object, client: _Subscriber) -> None:
        with client.scope:
            while True:
                await client.news.wait()
                client.news = anyio.Event()
                while client.pending:
                    with anyio.move_on_after(SEND_S) as patience:
                        await client.session.send_resource_updated(client.pending.pop())
                    if patience.cancelled_caught:
                        self._dropped()
                        self._forget(connection)

    # ---- watching ------------------------------------------------------------------------------

    async def _follow(self, uris: Iterable[str]) -> None:
        """Have these watched as well; when this returns, no later change is missed.

        Raises:
            MCPError: there is no broker to watch them.
        """
        self._listeners.update(uris)
        for uri in uris:
            async with self._starting:
                if parse_uri(uri) and uri not in self._watched and self._listeners[uri] > 0:
                    try:
                        await self._broker()
                    except TmuxMcpError as error:
                        raise failed(error, uri) from None
                    await self._tasks.start(self._watch, uri)

    def _unfollow(self, uris: Iterable[str]) -> None:
        self._listeners.subtract(uris)
        for uri in uris:
            if self._listeners[uri] <= 0:
                del self._listeners[uri]
                if uri in self._watched:
                    self._watched.pop(uri).cancel()

    async def _watch(self, uri: str, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        address, broker = parse_uri(uri), await self._broker()
        assert address is not None

        async def changed() -> None:
            await self._tell(uri, broker.session_ids)

        with anyio.CancelScope() as scope:
            self._watched[uri] = scope
            try:
                commands = address.part == "history"
                await broker.notify(changed, address.session_id, True, commands, task_status=task_status)
            except Exception:
                log.exception("%s is not watched any more", uri)
            finally:
                if self._watched.get(uri) is scope:
                    del self._watched[uri]

    async def _tell(self, uri: str, ids: frozenset[str]) -> None:
        await self._bus.publish(ResourceUpdated(uri))
        if uri == SESSIONS and ids != self._ids:
            self._ids = ids
            await self._bus.publish(ResourcesListChanged())
        for client in self._clients.values():
            if uri in client.uris:
                client.pending.add(uri)
                client.news.set()


def _check_count(count: int) -> None:
    if count > MOST_URIS:
        raise MCPError(INVALID_PARAMS, f"A client may subscribe to {MOST_URIS} resources, not {count}.")
