"""What is kept of a session, whatever became of it: its directory read without tmux, without starting anything.

Running, ended, lost, destroyed, or an earlier one of the same name (`ID.1`): the log is the same file in each case.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tmuxmcp.contract.errors import SessionNotFound
from tmuxmcp.record.directory import SessionDirectory, directories
from tmuxmcp.record.events import Events
from tmuxmcp.record.log import LogWatcher, RawLog
from tmuxmcp.record.meta import Meta, sink_of
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.widths import OLDEST_VERSION, version_of
from tmuxmcp.tmux.server import Tmux

if TYPE_CHECKING:
    from tmuxmcp.terminal.text.logtext import LogText

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
