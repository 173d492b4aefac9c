"""The sessions of many machines as one list: each machine's page tells its own, one connection for all open pages.

A machine that does not tell is missing, and said to be: of its sessions nothing is shown.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import anyio

from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.faces.page.fleetids import named_row, named_wait
from tmuxmcp.faces.page.listing import Missing, PageListing, Row
from tmuxmcp.faces.page.visiting import lines, other_form
from tmuxmcp.faces.page.waits import PageWait
from tmuxmcp.nodes.gateway import Gateway
from tmuxmcp.nodes.ids import fleet_id

log = logging.getLogger(__name__)

MACHINES_LOOK_S = 2.0
"""Time between two looks for machines that came and went."""

MACHINE_AGAIN_S = 1.0
"""Time before a machine is asked again that does not tell."""

MACHINES_FIRST_S = 1.0
"""So long all machines have to begin before a page is told anything."""

FLEET_COALESCE_S = 0.1
"""What changes within this time is told at once."""


@dataclass
class _MachineListing:
    """What a machine has told."""

    rows: dict[str, Row] = field(default_factory=dict)
    waits: list[PageWait] = field(default_factory=list)
    missing: Missing | None = None
    """Why nothing is known of it."""
    began: bool = False
    """It has told something, or is known to be missing."""


class FleetListing(PageListing):
    """The sessions of all machines."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__()
        self._gateway = gateway
        self._machines: dict[str, _MachineListing] = {}
        self._news = anyio.Event()

    def _forget(self) -> None:
        super()._forget()
        self._machines = {}

    async def _keep(self) -> None:
        kept: dict[str, anyio.CancelScope] = {}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tell_together)
            while True:
                try:
                    names = set(await self._gateway.transport.names())
                except TmuxMcpError as error:
                    log.debug("the machines cannot be listed: %s", error)
                    names = set(kept)
                    self._machines.setdefault("", _MachineListing(began=True)).missing = _missing("", error)
                else:
                    self._machines.pop("", None)
                for name in kept.keys() - names:
                    kept.pop(name).cancel()
                    del self._machines[name]
                for name in names - kept.keys():
                    kept[name], self._machines[name] = anyio.CancelScope(), _MachineListing()
                    tasks.start_soon(self._listen, name, self._machines[name], kept[name])
                self._news.set()
                await anyio.sleep(MACHINES_LOOK_S)

    async def _tell_together(self) -> None:
        with anyio.move_on_after(MACHINES_FIRST_S):
            while not self._machines or not all(each.began for each in self._machines.values()):
                await self._news.wait()
                self._news = anyio.Event()
        while True:
            self._news = anyio.Event()
            self._gather()
            await anyio.sleep(FLEET_COALESCE_S)
            await self._news.wait()

    def _gather(self) -> None:
        """Put together what the machines have told."""
        machines = sorted(self._machines.items())
        self.rows = {name: row for _, each in machines for name, row in each.rows.items()}
        waits = sorted((wait for _, each in machines for wait in each.waits), key=_order)
        self.waits = self.waits if waits == self.waits else waits
        missing = [each.missing or _silent(name) for name, each in machines if each.missing or not each.began]
        self.missing = self.missing if missing == self.missing else missing
        self._tell()

    async def _listen(self, node: str, told: _MachineListing, scope: anyio.CancelScope) -> None:
        """Take what a machine tells, again and again."""
        with scope:
            while True:
                try:
                    async with lines(self._gateway, node, {"session": "", "page": 0}) as messages:
                        async for message in messages:
                            if message.get("kind") == "list":
                                _take(told, node, message)
                                self._news.set()
                except TmuxMcpError as error:
                    log.debug("the page of %s tells nothing: %s", node, error)
                    told.rows, told.waits, told.missing, told.began = {}, [], _missing(node, error), True
                self._news.set()
                await anyio.sleep(MACHINE_AGAIN_S)


def _take(told: _MachineListing, node: str, message: Mapping[str, Any]) -> None:
    """Take in what has changed; a machine that begins anew tells all.

    Raises:
        OutcomeUnknown: it is not understood.
    """
    rows, waits = {} if message.get("whole") else dict(told.rows), told.waits
    try:
        rows |= {fleet_id(row["session_id"], node): named_row(row, node) for row in message["rows"]}
        for name in message["gone"]:
            rows.pop(fleet_id(name, node), None)
        if "waits" in message:
            ahead_ms = round(time.time() * 1000) - message["now_ms"]
            waits = [named_wait(each, node, ahead_ms) for each in message["waits"]]
    except (LookupError, TypeError, ValueError, AttributeError):
        raise other_form(node) from None
    told.rows, told.waits, told.missing, told.began = rows, waits, None, True


def _order(wait: PageWait) -> tuple[bool, int]:
    """Who asked first first, what the person holds last."""
    return wait["kind"] == "held", wait["asked_ms"] or 0


def _missing(node: str, error: TmuxMcpError) -> Missing:
    return {"node": node, "code": error.code, "message": error.message, "hint": error.hint}


def _silent(node: str) -> Missing:
    return {"node": node, "code": "NODE_UNREACHABLE", "message": f"{node} has not answered yet.", "hint": ""}
