"""Which callers were told that a session has ended, so that a wait over all sessions tells each end once.

A session may end between two waits: neither would tell of it. In memory only: a broker tells of the ends that it saw.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from tmuxmcp.contract import results as r
from tmuxmcp.contract.call import seconds_of
from tmuxmcp.contract.errors import SessionExited
from tmuxmcp.contract.request import Request
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.session import Session

MOST_CALLERS = 1024
"""Callers of whom it is known when they came; to the others older ends are no news."""

OVER_MODES = ("exited", "lost")
"""Modes of sessions in which nothing runs."""


class ToldEnds:
    """Who was told of which ends."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._came: OrderedDict[str, float] = OrderedDict()
        """When each caller made its first call, in seconds since 1970."""

    def came(self, caller: str) -> None:
        """Take note that this caller is there."""
        self._came.setdefault(caller, time.time())
        self._came.move_to_end(caller)
        if len(self._came) > MOST_CALLERS:
            self._came.popitem(last=False)

    def untold_ends(self, caller: str) -> list[Session]:
        """The sessions that have ended since this caller came, and of whose end it was not told."""
        return [each for each in self._registry.sessions.values() if self._is_news(each, caller)]

    def note_ends(self, caller: str, request: Request[Any], answer: r.Result | SessionExited) -> None:
        """Take note of the ends that an answer tells a caller of."""
        if getattr(request, "generation", None) is None:  # an earlier session of a name says nothing of the newest
            for session_id in _ends_in(answer):
                self.tell(caller, session_id)

    def tell(self, caller: str, session_id: str) -> None:
        """Take note that a caller is told of one end."""
        session = self._registry.sessions.get(session_id)
        if session and session.exited:
            session.end_told.add(caller)

    def _is_news(self, session: Session, caller: str) -> bool:
        end = session.life.end
        if end is None or not session.seen_alive or caller in session.end_told:
            return False
        why = session.ended
        at_s = (seconds_of(why.at) if why and why.at else None) or end.at_s
        return at_s >= self._came.get(caller, time.time())


def _ends_in(answer: r.Result | SessionExited) -> Iterator[str]:
    """The sessions of which an answer says that they have ended."""
    match answer:
        case SessionExited():
            yield answer.details.get("session_id", "")
        case r.WaitResult() | r.ListSessionsResult():
            yield from (each.session_id for each in answer.sessions if each.mode in OVER_MODES)
        case r.SendResult(result=r.ReadResult() as read):
            yield from _ends_in(read)
        case _ if getattr(answer, "mode", None) in OVER_MODES:
            yield getattr(answer, "session_id", "")
