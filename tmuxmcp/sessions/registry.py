"""All sessions of one state directory: taken up from tmux, found by id, lost and forgotten.

Nothing here is remembered that tmux and the files do not say: other brokers and people make and end sessions too.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import psutil

from tmuxmcp.contract.errors import SessionNotFound, TmuxFailed, TmuxMcpError
from tmuxmcp.machine import cgroup
from tmuxmcp.machine.launch import launch
from tmuxmcp.record.directory import SessionDirectory, directories
from tmuxmcp.record.documents import FileVersion, file_version
from tmuxmcp.record.events import Events
from tmuxmcp.record.log import LogWatcher, RawLog
from tmuxmcp.record.meta import Meta, find_generation, generation_of, kept_generations, sink_of
from tmuxmcp.record.past.replaying import Past
from tmuxmcp.sessions.life import DestroyedOnDisk, PaneGone, State
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.widths import OLDEST_VERSION, version_of
from tmuxmcp.tmux import panes
from tmuxmcp.tmux.leaseoptions import Lease
from tmuxmcp.tmux.panes import Pane
from tmuxmcp.tmux.server import Tmux

if TYPE_CHECKING:
    from tmuxmcp.terminal.text.logtext import LogText

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
        self._read: dict[str, tuple[FileVersion, bool]] = {}
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
        return generation_of(directory, Meta.load(directory))

    def _session_of_files(self, session_id: str, generation: int = 0) -> Session | None:
        """A session of which only files are left, as they tell it; it is not watched."""
        if not SESSION_ID.match(session_id):
            return None
        directory = self.directory(session_id)
        if generation:
            directory = find_generation(self.state_dir, session_id, generation)
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
        kept = ", ".join(map(str, kept_generations(self.state_dir, session_id))) if SESSION_ID.match(session_id) else ""
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
        newest = sorted(others, key=lambda each: self._written(each.name)[0][1], reverse=True)
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

    def _written(self, session_id: str) -> tuple[FileVersion, bool]:
        """Which `meta.json` there is, as it is replaced, never changed; and whether `destroyed` is beside it."""
        directory = self.directory(session_id)
        return file_version(directory.meta), directory.destroyed.exists()

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


# ---- What is kept of a session ---------------------------------------------------------------------------------------
#
# Whatever became of it: its directory read without tmux, without starting anything.
#
# Running, ended, lost, destroyed, or an earlier one of the same name (`ID.1`): the log is the same file in each case.

KEPT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}(\.[0-9]+)?\Z")
"""A session id, or that and the generation of an earlier session."""

SERVER_ANSWERS_S = 2
"""A server that takes longer to answer is there."""


def find(state_dir: Path, name: str, owner: str = "") -> Session:
    """The session as its files tell it, without a pane.

    Args:
        name: a directory in `sessions`: an id, or `ID.1` for an earlier session of that name.
        owner: without a name, the newest default session of this caller is meant.

    Raises:
        SessionNotFound: nothing is kept under this name.
    """
    directory = directory_of(state_dir, name, owner)
    meta = Meta.load(directory) or Meta(directory.name, "", [], "", "", "", False, "/", 80, 24, 0)
    meta.cols, meta.rows = _last_size(directory, meta)
    return Session.open(Tmux(state_dir), LogWatcher(inotify=False), directory, meta, None)


def directory_of(state_dir: Path, name: str, owner: str = "") -> SessionDirectory:
    """The directory of a session; arguments and errors as of `find`."""
    directory = SessionDirectory.of(state_dir, name) if name else _newest_of(state_dir, owner)
    if KEPT_NAME.match(name or directory.name) and directory.log.exists():
        return directory
    kept = sorted(each.name for each in directories(state_dir, SessionDirectory.log))
    raise SessionNotFound(
        f"Nothing is kept of a session {name!r}." if name else "There is no default session.",
        hint=f"There are: {', '.join(kept) or 'none'}.",
        session_id=name,
    )


def text_of(session: Session, *, last_state: bool) -> LogText:
    """What makes lines of text of a session's log."""
    from tmuxmcp.terminal.text.logtext import LogText  # late: whoever opens a broker needs none

    version = version_of(session.meta.tmux) or OLDEST_VERSION
    return LogText(session.cols, session.rows, last_state=last_state, version=version)


def _newest_of(state_dir: Path, owner: str) -> SessionDirectory:
    metas = [(each, Meta.load(each)) for each in directories(state_dir, SessionDirectory.meta)]
    own = [(meta.created_at, directory.name) for directory, meta in metas if meta and meta.owner == owner]
    return SessionDirectory.of(state_dir, max(own, default=("", "-"))[1])


def _last_size(directory: SessionDirectory, meta: Meta) -> tuple[int, int]:
    """Columns and rows after the last resize."""
    resizes = Events(directory).resizes()
    return (resizes[-1].cols, resizes[-1].rows) if resizes else (meta.cols, meta.rows)


def server_seems_running(state_dir: Path) -> bool:
    """Whether there may be a tmux server, with sessions: one runs that we started, or something listens."""
    tmux = Tmux(state_dir)
    if tmux.running_pid() is not None:
        return True
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(SERVER_ANSWERS_S)
        try:
            probe.connect(str(tmux.socket))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:  # it is busy, or nobody knows
            return True
    return True


def seems_running(session: Session) -> bool:
    """Whether its tmux server, and its program or what writes its log, may still be there; only tmux knows it."""
    if session.tmux.running_pid() is None:
        return False
    if sink_of(session.directory).alive:
        return True
    return bool(session.pid and psutil.pid_exists(session.pid))


def start_of_tail(log: RawLog, end: int, lines: int) -> int:
    """Offset at which the last `lines` raw lines before `end` begin."""
    at, head, piece = end, log.head(), 1 << 16
    ended = end > head and log.read(end - 1, 1) == b"\n"
    wanted = lines + ended
    while at > head and wanted > 0:
        begin = max(at - piece, head)
        data = log.read(begin, at - begin)
        position = len(data)
        while wanted > 0 and (position := data.rfind(b"\n", 0, position)) >= 0:
            wanted -= 1
            if wanted == 0:
                return begin + position + 1
        at = begin
    return at if wanted > 0 else end


# ---- Notices that a session's output is no longer recorded, and mends it ---------------------------------------------
#
# A killed sink, a full disk or a script's own `pipe-pane` loses output without a word. Whoever closes a log is told
# by inotify; then either the pane has ended, or the sink is put back. The new sink writes the gap down, for every
# reader: sinks are numbered, and all but a session's first begin with a gap.

SINK_AGAIN_S = (0.0, 0.2, 1.0, 5.0)
"""How long to wait before the sink is put back: a full disk must not become a loop."""

CALM_S = 30.0
"""After so long without a repair the next one is immediate again."""

STARTING_S = 2.0
"""How long a new sink may take to write down that it is there, and an old one to write what it still has."""


class Repair:
    """The watch over all sinks of one broker."""

    def __init__(self, watcher: LogWatcher, session_of: Callable[[Path], Session | None], log_max_bytes: int) -> None:
        self._watcher = watcher
        self._session_of = session_of
        self._log_max_bytes = log_max_bytes
        self._mended: dict[Path, tuple[int, float]] = {}
        """By log: how often its sink was put back, and when last."""
        self._looked_at: set[Path] = set()
        self._again: set[Path] = set()

    async def run(self) -> None:
        """Mend until cancelled; a session that has to wait holds up no other."""
        async with anyio.create_task_group() as task_group:
            while True:
                await self._watcher.closed.wait()
                self._watcher.closed = anyio.Event()
                paths, self._watcher.closed_paths = self._watcher.closed_paths, set()
                for path in paths:
                    if path in self._looked_at:
                        self._again.add(path)
                    else:
                        self._looked_at.add(path)
                        task_group.start_soon(self._look_at, path)

    async def _look_at(self, path: Path) -> None:
        try:
            while True:
                self._again.discard(path)
                session = self._session_of(path)
                if session is None or session.exited:
                    self._mended.pop(path, None)
                    break
                try:
                    await self._mend_in_time(path, session)
                except TmuxMcpError as error:
                    log.warning("session %s: its output may not be recorded: %s", session.id, error)
                    self._again.add(path)
                    await anyio.sleep(SINK_AGAIN_S[-1])
                except Exception:  # one session's oddity must not end the broker
                    log.exception("session %s: its output may not be recorded", session.id)
                if path not in self._again:
                    break
        finally:
            self._looked_at.discard(path)

    async def _mend_in_time(self, path: Path, session: Session) -> None:
        if await needs_mending(session):
            times, at = self._mended.get(path, (0, 0.0))
            if time.monotonic() - at > CALM_S:
                times = 0
            await anyio.sleep(SINK_AGAIN_S[min(times, len(SINK_AGAIN_S) - 1)])
            self._mended[path] = (times + 1, time.monotonic())
            await self.mend(session, self._log_max_bytes)
        session.growth.wake_all()

    @staticmethod
    async def mend(session: Session, log_max_bytes: int) -> None:
        """Put the sink back if it is gone."""
        if not await needs_mending(session):
            return
        assert session.pane
        number = max(session.pane.sink, sink_of(session.directory).number) + 1
        sink = launch.sink_argv(session.directory.path, log_max_bytes, number)
        if await panes.pipe_again(session.tmux, session.pane, sink, number):
            log.warning("session %s: output was not recorded for a moment; its sink is back", session.id)
        await session.refresh()
        session.growth.wake_all()


async def needs_mending(session: Session) -> bool:
    """Whether a running program's output goes elsewhere than to the log."""
    pane = None
    with anyio.move_on_after(STARTING_S):
        while True:
            pane = await session.refresh()
            if pane is None or pane.dead:
                return False
            number, alive = sink_of(session.directory)
            if pane.piped and alive:
                return False
            if not alive and (not pane.piped or number == pane.sink):
                return True
            await anyio.sleep(0.005)  # the new one is about to write down its number, or the old one ends
    return True
