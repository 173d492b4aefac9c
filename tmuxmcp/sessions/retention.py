"""Which files of sessions that are over stay, and which go: too old, or the oldest while all of it takes too much room.

Nothing is touched of a session that tmux knows, and of one that is pinned. Whoever removes holds the lock under which
sessions are made, and has asked tmux meanwhile: then nobody is just about to use the name.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from tmuxmcp.contract.call import seconds_of
from tmuxmcp.contract.errors import InvalidArgument, SessionNotFound, TmuxMcpError, Unsupported
from tmuxmcp.contract.requests import CreateSession
from tmuxmcp.contract.settings import Limits, SandboxLevel
from tmuxmcp.contract.value import value
from tmuxmcp.machine import cgroup
from tmuxmcp.machine.ownfiles import make_empty
from tmuxmcp.machine.processes import Counting
from tmuxmcp.machine.sandbox import sandbox
from tmuxmcp.record.commands import EndedCommand
from tmuxmcp.record.directory import SessionDirectory, sessions_dir
from tmuxmcp.record.events import Events, ExitedEvent
from tmuxmcp.record.meta import Meta
from tmuxmcp.sessions import inputrequests, noting
from tmuxmcp.sessions.end import process_tree
from tmuxmcp.sessions.life import EndCause, State
from tmuxmcp.sessions.look import Look
from tmuxmcp.sessions.registry import KEPT_NAME
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.modes import PROMPT_SHELLS

DAY_S = 86400

WRITTEN_YOUNG_S = 60
"""What was written to within this time stays, unless it is named."""


@value
class RetentionWish:
    """What is to go: what the settings say, else what is older than a time or named. Pinned files always stay."""

    retention_days: float = 0
    state_max_bytes: int = 0
    older_than_s: float | None = None
    names: tuple[str, ...] = ()
    """Directories in `sessions`: ids, or `ID.1` for an earlier session of that name."""


@value
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


@value
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


# ---- Ends what nobody wants any more ---------------------------------------------------------------------------------
#
# Done by whatever broker is there: each of them, now and then, and the next one to start. Nothing that computes is
# ended for being silent: idle is a session whose program waits for input, or has ended.

log = logging.getLogger(__name__)

ORPHAN_IDLE_S = 3600
"""How long the idle default session of a caller that is gone is kept for its return."""


@value
class AgeLimits:
    """How long a session may live; 0: for ever."""

    idle_timeout_s: float
    max_duration_s: float
    take_timeout_s: float = 0
    """How long a person may hold a session and do nothing."""


@value
class SessionAge:
    """What is judged of one session; times in seconds."""

    age_s: float
    idle_s: float
    """Since anything was printed or typed."""
    resting: bool
    """Its program waits for input, or has ended."""
    orphan: bool
    """It is a default session, and its caller is gone."""
    watched: bool
    """A person is attached."""
    duration_s: float = 0
    """Its own limit; 0: none."""
    cpu_s: float = 0
    """Processor time of all that ran in it, as far as a group counted it."""
    cpu_seconds: float = 0
    """Its own limit of that; 0: none."""
    held: bool = False
    """A person has taken it over, or it is paused: only its limit of processor time ends it."""


@value
class DueEnd:
    """Why a session is to be ended."""

    reason: EndCause
    why: str


def due(session: SessionAge, bounds: AgeLimits) -> DueEnd | None:
    """Whether a session is to be ended; pure."""
    if session.cpu_seconds and session.cpu_s > session.cpu_seconds:
        return DueEnd(EndCause.CPU, f"it has computed for longer than its limit cpu_seconds ({session.cpu_seconds:g})")
    if session.held:
        return None
    if bounds.max_duration_s and session.age_s > bounds.max_duration_s:
        return DueEnd(EndCause.DURATION, f"it is older than max_duration_s ({bounds.max_duration_s:g})")
    if session.duration_s and session.age_s > session.duration_s:
        return DueEnd(EndCause.DURATION, f"it is older than its limit duration_s ({session.duration_s:g})")
    if not session.resting or session.watched:
        return None
    if bounds.idle_timeout_s and session.idle_s > bounds.idle_timeout_s:
        return DueEnd(EndCause.IDLE, f"it was idle for longer than idle_timeout_s ({bounds.idle_timeout_s:g})")
    if session.orphan and session.idle_s > ORPHAN_IDLE_S:
        return DueEnd(EndCause.IDLE, "its caller is gone")
    return None


def interval_s(bounds: AgeLimits, sessions: Iterable[Session]) -> float:
    """Time between two looks."""
    limits = [bounds.idle_timeout_s, bounds.max_duration_s, bounds.take_timeout_s]
    for session in sessions:
        limits += [session.bounds.limits.get(name, 0) for name in ("duration_s", "cpu_seconds")]
    return min([60.0, *(max(limit / 4, 0.1) for limit in limits if limit)])


def age_of(session: Session, look: Look, state_dir: Path, watched: bool) -> SessionAge:
    """What is to be judged of a session."""
    now = time.time()
    return SessionAge(
        age_s=now - _seconds(session.meta.created_at, now),
        idle_s=now - _last_used(session, now),
        resting=look.exited or look.ready,
        orphan=_is_orphan(session, state_dir),
        watched=watched,
        duration_s=session.bounds.limits.get("duration_s", 0),
        cpu_s=(cgroup.cpu_ms(session.bounds.groups) or 0) / 1000,
        cpu_seconds=session.bounds.limits.get("cpu_seconds", 0),
        held=session.lease is not None,
    )


def _last_used(session: Session, now: float) -> float:
    used = _seconds(session.meta.created_at, now)
    for path in (session.directory.log, session.directory.events):
        with suppress(OSError):
            used = max(used, path.stat().st_mtime)
    return used


def _is_orphan(session: Session, state_dir: Path) -> bool:
    owner = session.meta.owner
    return bool(owner) and (state_dir / "callers" / owner).exists() and not noting.is_alive(state_dir, owner)


async def abandoned(
    sessions: Iterable[Session], state_dir: Path, watched: set[str], counting: Counting
) -> Session | None:
    """The session to end where another one needs its place, if it takes nothing from anybody.

    It is the default session of a caller that is gone, and of these the one that nobody has used for the longest. Its
    shell waits at its prompt, where nothing is typed; no other process of it lives; nobody watches or holds it, and
    nothing is asked of a person there.
    """
    now = time.time()
    orphans = [each for each in sessions if not each.exited and each.id not in watched and _is_orphan(each, state_dir)]
    for session in sorted(orphans, key=lambda each: _last_used(each, now)):
        look = await session.look_at_prompt()
        if look.mode != "shell_prompt" or look.typed_at_prompt or session.lease or inputrequests.waiting(session):
            continue
        census = await counting.census(session.bounds.born_s)
        if set(process_tree(session, census)) <= {look.pid}:
            return session
    return None


def _seconds(iso: str, otherwise: float) -> float:
    found = seconds_of(iso)
    return otherwise if found is None else found


async def end_idle(
    sessions: Iterable[Session],
    state_dir: Path,
    bounds: AgeLimits,
    watched: set[str],
    end: Callable[[Session, DueEnd], Awaitable[object]],
) -> list[str]:
    """End what has a reason to be ended; return what was."""
    ended = []
    for session in list(sessions):
        if session.life.state in (State.LOST, State.DESTROYED):
            continue
        ends = due(age_of(session, await session.look(), state_dir, session.id in watched), bounds)
        if ends:
            log.info("session %s is ended: %s", session.id, ends.why)
            with suppress(TmuxMcpError):
                await end(session, ends)
                ended.append(session.id)
    return ended


# ---- A session made again from what is written down of one that is over ----------------------------------------------
#
# What it is given, and what is to be said of it.
#
# No command that ran in it is run again. Its program is started anew, but not a shell that was given a command.

TAKES_A_WORD = ("--rcfile", "--init-file", "-o", "+o", "-O", "+O", "-C", "--init-command", "--profile")
"""Options of shells behind which a word stands that is no script."""


@value
class Restoration:
    """A session that is to be made from another."""

    request: CreateSession
    """All that is taken filled in, below what was asked for."""
    generation: int
    """Of the one that is over."""
    was_lost: bool
    """Nobody tells of its end; else it has ended, or was destroyed."""
    taken: tuple[str, ...]
    """Names of the arguments that are its."""
    owner: str
    """The caller whose default session it was."""
    env_names: tuple[str, ...] | None
    """Names of the variables that it was given; None: that is not known."""
    env_missing: tuple[str, ...] = ()
    """Those of them that have no value now."""
    env_other: tuple[str, ...] = ()
    """Those that have the value of the present environment, whatever they were given as."""
    remark: str = ""

    @property
    def note(self) -> str:
        """What is to be said of it."""
        over = "lost session" if self.was_lost else "session that was over and"
        words = [
            f"Made from the {over} of this name, whose log is generation {self.generation}: {', '.join(self.taken)} are"
            " as they were there. No command that ran there was run again.",
            self.remark,
        ]
        if self.env_names is None:
            words.append("Which variables it was given is not known.")
        if self.env_missing:
            words.append(f"These variables that it was given have no value now: {', '.join(self.env_missing)}.")
        if self.env_other:
            words.append(f"These have the present environment's value, not the one given: {', '.join(self.env_other)}.")
        return " ".join(word for word in words if word)


@value
class NotRestored:
    """A session that has the name of a lost one and nothing else of it."""

    note: str
    owner: str = ""
    env_names: tuple[str, ...] = ()


def was_lost(session: Session) -> bool:
    """Whether nothing runs in a session any more and nobody tells of its end."""
    return session.ended is not None and session.ended.reason == "lost"


def restoration(session: Session, look: Look, given: CreateSession) -> Restoration:
    """What is to be made from a session that is over; what was asked for wins.

    Raises:
        InvalidArgument: it was a shell that was given a command, which is not run again.
        Unsupported: it is written down in a way that is not understood here.
    """
    meta, asked = session.meta, given.arguments()
    remark = ""
    taken = _of(session, look)
    if "program" in asked or "host" in asked:
        for name in ("program", "args", *(("host", "cwd", "sandbox", "limits") if asked.get("host") else ())):
            taken.pop(name, None)
    elif why := ran_a_command(taken.get("program", ""), taken.get("args", []), marks=meta.marks):
        raise InvalidArgument(
            f"Session {session.id} was {os.path.basename(meta.program)} {why}, which is not run again.",
            hint="If it shall be, make a session of that name with this program and these args.",
            session_id=session.id,
        )
    if "cwd" in taken and "cwd" not in asked and not os.path.isdir(taken["cwd"]) and os.path.isdir(meta.cwd):
        remark = f"It begins in {meta.cwd}: {taken['cwd']} is gone."
        taken["cwd"] = meta.cwd
    taken = {name: value for name, value in taken.items() if name not in asked}
    return Restoration(
        request=CreateSession(**{**taken, **asked}),
        generation=session.generation,
        was_lost=was_lost(session),
        taken=tuple(taken),
        owner=meta.owner,
        env_names=None if meta.env_names is None else tuple(meta.env_names),
        remark=remark,
    )


def with_environment(found: Restoration, present: Mapping[str, str]) -> Restoration:
    """The same, with what became of the variables that it was given.

    Args:
        present: all that its program is going to have.
    """
    names = [name for name in found.env_names or () if name not in found.request.env]
    return Restoration(
        **{
            **vars(found),
            "env_missing": tuple(name for name in names if name not in present),
            "env_other": tuple(name for name in names if name in present),
        }
    )


def ran_a_command(program: str, args: Sequence[str], *, marks: bool = False) -> str:
    """By which of its arguments a shell was given a command or a script; empty: it is at a prompt, or is no shell."""
    if marks or os.path.basename(program) not in PROMPT_SHELLS:
        return ""
    words = iter(args)
    for word in words:
        if word in TAKES_A_WORD:
            next(words, None)
        elif word == "-s":
            return ""
        elif not word.startswith(("-", "+")) or word in ("-", "--") or _gives_a_command(word):
            return word
    return ""


def _gives_a_command(option: str) -> bool:
    """`-c`, also among other letters, `--command`."""
    if option.startswith("--"):
        return option.partition("=")[0] == "--command"
    return option.startswith("-") and "c" in option


def rank(level: SandboxLevel) -> int:
    """How much a sandbox keeps apart."""
    return get_args(SandboxLevel).index(level)


def _of(session: Session, look: Look) -> dict[str, Any]:
    """The arguments by which a session was made, as it was at last."""
    meta = session.meta
    found: dict[str, Any] = {"program": meta.program, "args": list(meta.args)}
    if meta.host:  # ssh, the host, and what was to run there
        words = list(meta.args[1:])
        found = {"host": meta.host, "program": words[0] if words else "", "args": words[1:]}
    else:
        found["cwd"] = _cwd(session, look)
        if session.bounds.sandbox != "none":
            found["sandbox"] = "required" if sandbox.meets(session.bounds.sandbox, "required") else "auto"
    resized = session.events.resizes()
    rows, cols = (resized[-1].rows, resized[-1].cols) if resized else (meta.rows, meta.cols)
    found |= {"rows": rows, "cols": cols, "scrollback_lines": meta.scrollback_lines}
    if limits := _limits(meta):
        found["limits"] = limits
    return {name: value for name, value in found.items() if value or name == "scrollback_lines"}


def _cwd(session: Session, look: Look) -> str:
    """Where its own shell was at last, as far as that told; in a sandbox, where it began."""
    if session.bounds.sandbox != "none" or not session.meta.marks:
        return session.meta.cwd
    known = [
        each for each in session.commands.kept_commands(look) if isinstance(each, EndedCommand) and each.level == 0
    ]
    return next((each.cwd for each in reversed(known) if each.cwd), session.meta.cwd)


def _limits(meta: Meta) -> Limits | None:
    values = meta.bounds.get("limits") or {}
    try:
        return Limits.model_validate(values) if values else None
    except ValidationError:
        raise Unsupported(
            f"The limits of session {meta.session_id} are not understood here: {', '.join(map(str, values))}.",
            hint="Upgrade tmuxmcp, or make the session with the limits that you want.",
            session_id=meta.session_id,
        ) from None
