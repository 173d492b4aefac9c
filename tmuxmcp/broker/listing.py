"""`list_sessions`: a page of the sessions. What it does not show is not looked at, and a long page holds up no call."""

from __future__ import annotations

import re

import anyio
import anyio.lowlevel

from tmuxmcp.broker import facts
from tmuxmcp.contract import requests as q
from tmuxmcp.contract import results as r
from tmuxmcp.contract.errors import InvalidArgument
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session

LISTED_DESTROYED = 20
"""Destroyed sessions that are listed, the newest."""

LIST_PLACE = re.compile(r"([01])/(.{0,40})/([A-Za-z0-9_-]{1,64})", re.DOTALL)
"""A place in the list: whether the session was over, when it was made, its id."""

ListPlace = tuple[bool, str, str]
"""The order of the list. Sessions that run come first: one that ends moves on, to where no reader has been yet."""


class SessionListing:
    """Lists the sessions of one broker."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._turn = anyio.Lock()
        """One list at a time is made, a row between two turns of everybody else."""

    async def page(self, request: q.ListSessions, caller: str) -> r.ListSessionsResult:
        """Look at so many sessions, from a place on.

        Args:
            caller: whose default session is told.

        Raises:
            InvalidArgument: there is no such place.
        """
        after = _parse(request.after) if request.after else None
        async with self._turn:
            await self._registry.look_again()
            every, unlisted = list(self._registry.sessions.values()), 0
            if request.include_exited:
                destroyed, unlisted = self._registry.destroyed(LISTED_DESTROYED)
                every += destroyed
            else:
                every = [each for each in every if not each.exited]
            placed = sorted(((_list_place(each), each) for each in every), key=lambda each: each[0])
            behind = [each for each in placed if after is None or each[0] > after]
            rows = []
            for _, session in behind[: request.limit]:
                rows.append(facts.summary(session, await session.look()))
                await anyio.lowlevel.checkpoint()
        left = len(behind) - len(rows)
        goes_on = spell(behind[len(rows) - 1][0]) if left else None
        own = next((each.id for _, each in placed if each.meta.owner == caller and not each.exited), None)
        return r.ListSessionsResult(
            count=len(every),
            default_session_id=own,
            note=_note(left, goes_on, unlisted),
            next_after=goes_on,
            sessions=rows,
        )


def _list_place(session: Session) -> ListPlace:
    return session.exited, session.meta.created_at[:40], session.id


def spell(place: ListPlace) -> str:
    """A place as `after` takes it."""
    over, made, session_id = place
    return f"{over:d}/{made}/{session_id}"


def _parse(text: str) -> ListPlace:
    found = LIST_PLACE.fullmatch(text)
    if found is None:
        raise InvalidArgument(
            f"after={text[:200]!r} is no place in the list.",
            hint="Give next_after of the page before, or leave it out.",
        )
    return found[1] == "1", found[2], found[3]


def _note(left: int, goes_on: str | None, unlisted: int) -> str | None:
    more = f"{left} more are not shown: list_sessions with after={goes_on} goes on." if left else ""
    before = f"{unlisted} more were destroyed before; get_session and read know them." if unlisted else ""
    return " ".join(filter(None, (more, before))) or None
