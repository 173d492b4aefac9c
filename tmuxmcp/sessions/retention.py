"""Which files of sessions that are over stay, and which go: too old, or the oldest while all of it takes too much room.

Nothing is touched of a session that tmux knows, and of one that is pinned. Whoever removes holds the lock under which
sessions are made, and has asked tmux meanwhile: then nobody is just about to use the name.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tmuxmcp.contract.errors import InvalidArgument, SessionNotFound
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine.ownfiles import make_empty
from tmuxmcp.record.directory import SessionDirectory, sessions_dir
from tmuxmcp.record.events import Events, ExitedEvent
from tmuxmcp.record.meta import Meta
from tmuxmcp.sessions.kept import KEPT_NAME

DAY_S = 86400

WRITTEN_YOUNG_S = 60
"""What was written to within this time stays, unless it is named."""


@dataclass(frozen=True)
class RetentionWish:
    """What is to go: what the settings say, else what is older than a time or named. Pinned files always stay."""

    retention_days: float = 0
    state_max_bytes: int = 0
    older_than_s: float | None = None
    names: tuple[str, ...] = ()
    """Directories in `sessions`: ids, or `ID.1` for an earlier session of that name."""


@dataclass(frozen=True)
class Removal:
    """The files of one session that are to go."""

    directory: SessionDirectory
    """The very one that was judged: another with its name is left alone."""
    last_s: float
    """When anything happened in the session for the last time; seconds since 1970."""
    bytes: int
    why: str

    @property
    def name(self) -> str:
        return self.directory.name


@dataclass(frozen=True)
class RetainedSession:
    """A session that is over, and when anything happened in it for the last time."""

    directory: SessionDirectory
    last_s: float


def removals(state_dir: Path, wish: RetentionWish, live: Collection[str], *, look_only: bool = False) -> list[Removal]:
    """What has to go.

    Args:
        live: ids of the sessions that tmux knows.
        look_only: write nothing down.

    Raises:
        SessionNotFound, InvalidArgument: what is named is not there, or has to stay.
    """
    if wish.names:
        return [_named(state_dir, name, live) for name in dict.fromkeys(wish.names)]
    there = [each for each in _ended_sessions(state_dir, live) if not each.directory.pin.exists()]
    there = sorted(there, key=lambda each: each.last_s)
    return list(_due(there, wish, disk_use(state_dir) if wish.state_max_bytes else 0, look_only))


def remove(removal: Removal) -> bool:
    """Remove the files; whether that was done."""
    directory = removal.directory
    if not directory.is_there:
        return False
    shutil.rmtree(directory.path, ignore_errors=True)
    return not directory.path.exists()


def disk_use(path: Path) -> int:
    """Bytes that the files below a directory take on the disk; holes take none."""
    total = 0
    for directory, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(directory, name)).st_blocks * 512
    return total


def _due(there: Sequence[RetainedSession], wish: RetentionWish, total: int, look_only: bool) -> Iterator[Removal]:
    """Of sessions that are over, oldest first, those that have to go."""
    now = time.time()
    for each in there:
        why = _why(now - each.last_s, total, wish)
        if not why or _was_lost_just_now(each, now, look_only):
            continue
        bytes = disk_use(each.directory.path)
        total -= bytes
        yield Removal(each.directory, each.last_s, bytes, why)


def _why(age_s: float, total: int, wish: RetentionWish) -> str:
    """Why a session of this age has to go; empty: it may stay."""
    if wish.older_than_s is not None:
        return f"it is older than {wish.older_than_s:g} s" if age_s > wish.older_than_s else ""
    if age_s <= WRITTEN_YOUNG_S:
        return ""
    if wish.retention_days and age_s > wish.retention_days * DAY_S:
        return f"it is older than retention_days ({wish.retention_days:g})"
    if wish.state_max_bytes and total > wish.state_max_bytes:
        return f"all that is kept takes more than state_max_bytes ({wish.state_max_bytes})"
    return ""


def _was_lost_just_now(kept: RetainedSession, now: float, look_only: bool) -> bool:
    """Whether nobody has noted that it was lost: it may have run, silent for months, until a moment ago.

    That is noted here, once; its files are kept from then on as those of one that has just ended.
    """
    directory = kept.directory
    if directory.lost.exists() or _is_told(directory):
        return False
    if not look_only:
        with suppress(OSError):
            make_empty(directory.lost)
            os.utime(directory.lost, (now, now))
    return True


def _is_told(directory: SessionDirectory) -> bool:
    """Whether its end is written down."""
    meta = Meta.load(directory)
    if meta is None or meta.destroyed or directory.ended.exists():
        return True
    return any(isinstance(event, ExitedEvent) for event in Events(directory).read())


def _named(state_dir: Path, name: str, live: Collection[str]) -> Removal:
    """What is to go because a person names it."""
    directory = SessionDirectory.of(state_dir, name)
    if not KEPT_NAME.match(name) or not directory.path.is_dir():
        kept = sorted(path.name for path in sessions_dir(state_dir).glob("*"))
        hint = f"There are: {', '.join(kept) or 'none'}."
        raise SessionNotFound(f"Nothing is kept of a session {name!r}.", hint=hint, session_id=name)
    if name in live:
        raise InvalidArgument(
            f"Session {name} is not over, or its pane is still there: its files stay.",
            hint=f"End it first: tmuxmcp kill {name}",
            session_id=name,
        )
    if directory.pin.exists():
        hint = f"Let them go first: tmuxmcp pin {name} --remove"
        raise InvalidArgument(f"The files of session {name} are pinned.", hint=hint, session_id=name)
    directory = directory.pinned()
    return Removal(directory, _last_s(directory), disk_use(directory.path), "it was named")


def _ended_sessions(state_dir: Path, live: Collection[str]) -> Iterator[RetainedSession]:
    """The sessions of which only files are left; what else lies there is nobody's."""
    with suppress(FileNotFoundError):
        for path in sessions_dir(state_dir).iterdir():
            if path.name not in live and KEPT_NAME.match(path.name) and not path.is_symlink():
                directory = SessionDirectory(path).pinned()
                yield RetainedSession(directory, _last_s(directory))


def _last_s(directory: SessionDirectory) -> float:
    """When anything happened for the last time, by the files that tell it; reading a log changes none of them."""
    times = []
    for path in (directory.log, directory.events, directory.meta, directory.ended, directory.destroyed, directory.lost):
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    if not times:  # what is left of one that was being made, or removed
        with suppress(OSError):
            times.append(directory.path.stat().st_mtime)
    return max(times, default=time.time())
