"""The list of all sessions that open pages are told, and what waits for the person: kept while somebody looks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from tmuxmcp.faces.page.waits import PageWait

Row = dict[str, Any]

Missing = dict[str, str]
"""A machine of which nothing is told, and why: `node`, `code`, `message`, `hint`; without a name: it is the fleet."""


class PageListing:
    """What is told to pages, who may be as slow as they like. Who fills it in says how."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.waits: list[PageWait] = []
        self.missing: list[Missing] = []
        self.version = 0
        self.lookers = 0
        """Pages that are open."""
        self._told = anyio.Event()
        self._wanted, self._unwanted = anyio.Event(), anyio.Event()

    @asynccontextmanager
    async def looked_at(self) -> AsyncIterator[None]:
        """Keep the list up to date while this is open."""
        self.lookers += 1
        self._wanted.set()
        try:
            yield
        finally:
            self.lookers -= 1
            if not self.lookers:
                self._unwanted.set()

    async def change(self, seen: int) -> None:
        """Wait until there is something newer than a version."""
        while self.version == seen:
            await self._told.wait()

    async def run(self) -> None:
        """Do the work, whenever somebody looks; until cancelled."""
        while True:
            await self._wanted.wait()
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(self._keep)
                while self.lookers:
                    self._unwanted = anyio.Event()
                    await self._unwanted.wait()
                task_group.cancel_scope.cancel()
            self._forget()
            self.version = 0  # so that the next page is told nothing before it is known
            if not self.lookers:  # else somebody has come while the work ended
                self._wanted = anyio.Event()

    def _tell(self) -> None:
        """Have all pages told how it is now."""
        self.version += 1
        told, self._told = self._told, anyio.Event()
        told.set()

    async def _keep(self) -> None:
        """Keep it up to date, until cancelled."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Nobody looks any more."""
        self.rows, self.waits, self.missing = {}, [], []
