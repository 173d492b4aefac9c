"""Removes the files of sessions that are over, and has the audit say what went and why."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

import anyio

from tmuxmcp.contract.errors import IoError, TimedOut
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.gate.audit import Audit, of_removal
from tmuxmcp.machine import locks
from tmuxmcp.record.directory import making_lock
from tmuxmcp.sessions import retention
from tmuxmcp.sessions.creation import CREATION_LOCK_S
from tmuxmcp.sessions.retention import Removal, RetentionWish

log = logging.getLogger(__name__)

Live = Callable[[], Awaitable[Collection[str]]]


@dataclass(frozen=True)
class Pruned:
    """What came of it."""

    removed: list[Removal]
    """Looked only: what would go."""
    left: list[Removal]
    """What should have gone, and is there still, or partly."""


class Prune:
    """Removes what is to go on one state directory."""

    def __init__(self, settings: BrokerSettings, live: Live, by: str = "") -> None:
        """`live` asks tmux for the ids of all sessions that it knows; `by`: the caller who wants it, if one does."""
        self._settings, self._live, self._by = settings, live, by
        self._audit = Audit(settings.state_dir)
        self._told = False

    @property
    def _state_dir(self) -> Path:
        return self._settings.state_dir

    async def preview(self, wish: RetentionWish) -> Pruned:
        """What would go; nothing is changed.

        Raises:
            SessionNotFound, InvalidArgument: what is named is not there, or has to stay.
        """
        live = await self._live()
        return Pruned(
            await anyio.to_thread.run_sync(lambda: retention.removals(self._state_dir, wish, live, look_only=True)), []
        )

    async def run(self, wish: RetentionWish) -> Pruned:
        """Remove what has to go.

        Raises:
            SessionNotFound, InvalidArgument: as `preview`.
            TimedOut: another broker has been making a session for too long.
            IoError: the audit is strict and cannot be written.
        """
        live = await self._live()
        found = await anyio.to_thread.run_sync(retention.removals, self._state_dir, wish, live)
        pruned = Pruned([], [])
        if not found:
            return pruned
        async with locks.lock_within(making_lock(self._state_dir), patience_s=CREATION_LOCK_S) as held:
            if not held:
                raise TimedOut("Another broker has been making a session for too long.", hint="Try again.")
            live = await self._live()  # nobody makes one now
            for each in found:
                if each.name not in live:
                    gone = await anyio.to_thread.run_sync(self._remove, each)
                    (pruned.removed if gone else pruned.left).append(each)
        return pruned

    def _remove(self, removal: Removal) -> bool:
        """Remove the files of one session; whether that was done."""
        entry = of_removal(removal.name, removal.bytes, removal.why, self._by)
        try:
            line = self._audit.begin(entry) if self._settings.audit == "strict" else None
        except OSError as error:
            raise IoError(
                f"The audit cannot be written ({error.strerror}), and nothing is removed without it.",
                hint=f"Mend {self._audit.path}; the setting audit says `strict`.",
            ) from None
        gone = retention.remove(removal)
        entry |= {"outcome": "ok"} if gone else {"outcome": "error", "error_code": IoError.code}
        try:
            if line:
                line.finish(entry)
            elif self._settings.audit != "off":
                self._audit.write(entry)
        except OSError as error:
            log.log(logging.DEBUG if self._told else logging.WARNING, "the audit cannot be written: %s", error)
            self._told = True
        return gone
