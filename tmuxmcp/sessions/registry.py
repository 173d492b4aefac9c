"""All sessions of one state directory: taken up from tmux, found by id, lost and forgotten.

Nothing here is remembered that tmux and the files do not say: other brokers and people make and end sessions too.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

import anyio.lowlevel

from tmuxmcp.contract.errors import SessionNotFound, TmuxFailed
from tmuxmcp.machine import cgroup
from tmuxmcp.record import meta as generations
from tmuxmcp.record.directory import SessionDirectory, directories
from tmuxmcp.record.log import LogWatcher
from tmuxmcp.record.meta import Meta, sink_of
from tmuxmcp.sessions.life import DestroyedOnDisk, PaneGone, State
from tmuxmcp.sessions.past import Past
from tmuxmcp.sessions.repair import Repair
from tmuxmcp.sessions.session import Session
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.held import Lease
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux

log = logging.getLogger(__name__)

SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")


class Registry:
    """The sessions that one broker knows."""

    def __init__(
        self, tmux: Tmux, watcher: LogWatcher, state_dir: Path, log_max_bytes: int, *, adopts: bool = True
    ) -> None:
        """`adopts`: shells in front are adopted without being asked for."""
        self.tmux = tmux
        self.watcher = watcher
        self.state_dir = state_dir
        self.log_max_bytes = log_max_bytes
        self.adopts = adopts
        self.past = Past()
        self.sessions: dict[str, Session] = {}
        self.opened: Callable[[Session], None] = lambda session: None
        """Told of each session that is taken up or made, and that tmux knows."""
        self.given_back: Callable[[Session, Lease, str], None] = lambda session, lease, reason: None
        """Told of each time that a session was given back, and why, by the broker that writes that down."""
        self._read: dict[str, tuple[int, int, bool]] = {}
        """By id, the `meta.json` that a session without a pane was last read from, also when it was destroyed."""

    def _given_back(self, session: Session, lease: Lease, reason: str) -> None:
        self.given_back(session, lease, reason)

    async def adopt(self) -> None:
        """Take up every session that tmux knows, and mend what broke while nobody looked."""
        for pane in await panes.list_panes(self.tmux):
            session = self.take_up(pane)
            # What tmux has just said of all need not be asked of each.
            recorded = pane.status_known if pane.dead else pane.piped and session and sink_of(session.directory).alive
            if session and (pane.given or not recorded):
                await session.refresh()
                await Repair.mend(session, self.log_max_bytes)
            await anyio.lowlevel.checkpoint()

    def take_up(self, pane: Pane) -> Session | None:
        known = self.sessions.get(pane.id)
        if known and known.pane and known.pane.pane_id == pane.pane_id and known.meta.nonce == pane.options["nonce"]:
            known.see(pane)
            return known
        meta = self._meta_of(pane)
        if meta is None:
            log.warning("pane %s says it is session %r, which cannot be", pane.pane_id, pane.options["id"])
            return None
        if known:
            known.see(None)  # its pane is gone: another has its name
            known.close()
        session = Session.open(self.tmux, self.watcher, self.directory(pane.id), meta, pane)
        self.put(session)
        return session

    def put(self, session: Session) -> None:
        """Take in a session that tmux knows, in the place of what had its name."""
        session.adopts, session.past = self.adopts, self.past
        self.sessions[session.id] = session
        session.given_back = self._given_back
        self.opened(session)

    def _meta_of(self, pane: Pane) -> Meta | None:
        """What a session is, from its pane alone; `meta.json` adds what tmux does not know."""
        options = pane.options
        if not SESSION_ID.match(options["id"]):
            return None
        written = Meta.load(self.directory(options["id"]))
        if written and written.nonce == options["nonce"]:
            return written
        try:
            return Meta(
                session_id=options["id"],
                program=json.loads(options["program"]),
                args=json.loads(options["args"]),
                created_at=options["created"],
                owner=options["owner"],
                nonce=options["nonce"],
                marks=bool(options["nonce"]),
                cwd="/",
                cols=pane.cols,
                rows=pane.rows,
                scrollback_lines=pane.scrollback or 0,
                tmux=self.tmux.version,
            )
        except ValueError:
            return None

    def directory(self, session_id: str) -> SessionDirectory:
        return SessionDirectory.of(self.state_dir, session_id)

    def session_of(self, log_path: Path) -> Session | None:
        return self.sessions.get(log_path.parent.name)

    async def existing(self, session_id: str) -> Session:
        session = self.sessions.get(session_id)
        if session and await session.refresh():
            return session
        if SESSION_ID.match(session_id):
            for pane in await panes.list_panes(self.tmux):
                if pane.id == session_id:
                    found = self.take_up(pane)
                    if found:
                        return found
            left = self.lost(session_id)
            if left:
                return left
        near = get_close_matches(session_id, self.sessions, n=1, cutoff=0.7)
        meant = f"Did you mean {near[0]!r}? " if near else ""
        named = [f"{each.id} (ended)" if each.exited else each.id for each in self.sessions.values()]
        raise SessionNotFound(
            f"There is no session {session_id!r}.",
            hint=f"{meant}Sessions are: {', '.join(sorted(named)) or 'none'}. Make one with create_session.",
            session_id=session_id,
        )

    async def known(self, session_id: str, generation: int | None = None) -> Session:
        """A session whatever became of it: also one that was destroyed, and an earlier one of that name.

        Raises:
            SessionNotFound: nothing is kept of it.
        """
        if generation is not None and generation != self._newest(session_id):
            found = self._session_of_files(session_id, generation)
            if found is None:
                raise self._no_generation(session_id, generation)
            return found
        try:
            return await self.existing(session_id)
        except SessionNotFound:
            found = self._session_of_files(session_id)
            if found is None:
                raise
            return found

    def _newest(self, session_id: str) -> int:
        directory = self.directory(session_id)
        return generations.generation_of(directory, Meta.load(directory))

    def _session_of_files(self, session_id: str, generation: int = 0) -> Session | None:
        """A session of which only files are left, as they tell it; it is not watched."""
        if not SESSION_ID.match(session_id):
            return None
        directory = self.directory(session_id)
        if generation:
            directory = generations.find(self.state_dir, session_id, generation)
        return self._open_kept(directory)

    def _open_kept(self, directory: SessionDirectory) -> Session | None:
        meta = Meta.load(directory)
        if meta is None:
            return None
        session = Session.open(self.tmux, LogWatcher(inotify=False), directory, meta, None)
        session.past = self.past
        if meta.destroyed:
            session.life.apply(DestroyedOnDisk())
        return session

    def over_in(self, directory: SessionDirectory) -> Session | None:
        """The session of a directory, if it was destroyed or another one has its name; else None."""
        session = self._open_kept(directory)
        over = session and (session.life.state is State.DESTROYED or directory.is_earlier)
        return session if over else None

    def _no_generation(self, session_id: str, generation: int) -> SessionNotFound:
        kept = (
            ", ".join(map(str, generations.kept_generations(self.state_dir, session_id)))
            if SESSION_ID.match(session_id)
            else ""
        )
        return SessionNotFound(
            f"Nothing is kept of generation {generation} of session {session_id!r}.",
            hint=f"Kept are: {kept}." if kept else "There is no session of that name.",
            session_id=session_id,
            generation=generation,
        )

    def destroyed(self, most: int) -> tuple[list[Session], int]:
        """The sessions that were destroyed last, and how many more there are; their marks are not read."""
        written = directories(self.state_dir, SessionDirectory.meta)
        others = [each for each in written if SESSION_ID.match(each.name) and each.name not in self.sessions]
        newest = sorted(others, key=lambda each: self._written(each.name)[1], reverse=True)
        found = [session for session in map(self._open_kept, newest[:most]) if session]
        for session in found:
            session.meta.marks = False
        return found, max(len(others) - most, 0)

    def lost(self, session_id: str) -> Session | None:
        """A session of which only the log is left: its pane was killed, or its tmux server ended."""
        known = self.sessions.pop(session_id, None)
        self._read[session_id] = self._written(session_id)
        meta = Meta.load(self.directory(session_id))
        destroyed = meta is None or meta.destroyed
        if known:
            known.life.apply(DestroyedOnDisk() if destroyed else PaneGone())
            known.close()
        if meta is None or destroyed:
            return None
        session = Session.open(self.tmux, self.watcher, self.directory(session_id), meta, None)
        session.past = self.past
        self.sessions[session_id] = session
        session.given_back = self._given_back
        return session

    async def look_again(self) -> None:
        """Take in what other brokers and people did."""
        seen = set()
        for pane in await panes.list_panes(self.tmux):
            session = self.take_up(pane)
            if session:
                seen.add(session.id)
        written = directories(self.state_dir, SessionDirectory.meta)
        on_disk = {directory.name for directory in written if SESSION_ID.match(directory.name)}
        for session_id in (on_disk | set(self.sessions)) - seen:
            known = self.sessions.get(session_id)
            if (known and known.pane) or self._written(session_id) != self._read.get(session_id):
                self.lost(session_id)

    def _written(self, session_id: str) -> tuple[int, int, bool]:
        """Which `meta.json` there is, as it is replaced, never changed; and whether `destroyed` is beside it."""
        directory = self.directory(session_id)
        try:
            state = os.stat(directory.meta)
        except OSError:
            return (0, 0, False)
        return (state.st_ino, state.st_mtime_ns, directory.destroyed.exists())

    async def forget(self, session: Session) -> None:
        """End what is left of it, and forget it."""
        session.mark_destroyed()  # before its pane goes: no other broker shall take it for lost
        if session.pane:
            with suppress(TmuxFailed):
                await panes.kill_session(self.tmux, session.pane)
        self.sessions.pop(session.id, None)
        session.close()
        cgroup.remove(session.bounds.groups)

    def drop(self, session_id: str) -> None:
        """Forget a session whose name or files were given away."""
        session = self.sessions.pop(session_id, None)
        if session:
            session.life.apply(DestroyedOnDisk())
            session.close()

    def close(self) -> None:
        """Let go of all; they live on."""
        for session in self.sessions.values():
            session.close()
        self.past.close()
