"""Why nothing runs in a session any more: from what tmux told of it, and from what is written beside its log."""

from __future__ import annotations

from typing import get_args

from tmuxmcp.contract.call import iso, seconds_of
from tmuxmcp.contract.results import Ended, EndReason
from tmuxmcp.machine import cgroup
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import Events, ExitedEvent
from tmuxmcp.record.meta import WhyEnded
from tmuxmcp.sessions.bounds import SessionBounds
from tmuxmcp.sessions.life import EndCause, Life, State

ENDING_S = 120
"""Whoever ends a session needs less: time to end, which is a minute at most, and until its log holds everything."""

Status = tuple[int | None, str | None]
"""Exit code and signal name of a program that has ended; at most one of them is known."""


class EndRecord:
    """What is written down of one session's end; read when it is first asked for, as an end does not change."""

    def __init__(self, directory: SessionDirectory) -> None:
        self._directory = directory
        self._exit: ExitedEvent | None = None

    @property
    def exit(self) -> ExitedEvent | None:
        """The launcher's word on how the program ended."""
        if self._exit is None:
            ends = [event for event in Events(self._directory).read() if isinstance(event, ExitedEvent)]
            self._exit = ends[-1] if ends else None
        return self._exit

    @property
    def ending(self) -> WhyEnded | None:
        """Why it was ended, if somebody wrote that down."""
        return WhyEnded.load(self._directory)


def status_of(life: Life, left: EndRecord) -> Status:
    """Exit code and signal, as tmux tells or the launcher wrote down."""
    if not life.over or life.exit_status != (None, None) or left.exit is None:
        return life.exit_status
    return left.exit.exit_code, left.exit.exit_signal


def why_ended(life: Life, left: EndRecord, bounds: SessionBounds) -> Ended | None:
    """Why it ended; None: it has not."""
    if not life.over or life.end is None:
        return None
    ending = ending_of(life, left)
    if ending and ending.reason in get_args(EndReason):
        return Ended(reason=ending.reason, by=ending.by or None, at=ending.at)  # type: ignore[arg-type]  # looked up
    code, name = status_of(life, left)
    if code is None and name is None:
        return Ended(reason="destroyed" if life.state is State.DESTROYED else "lost", by=None, at=None)
    at = left.exit.time if left.exit and left.exit.time else iso(life.end.at_s)
    if name == "XCPU" and bounds.kept_by.get("cpu_seconds") == "rlimit":
        return Ended(reason="cpu", by=None, at=at)
    return Ended(reason="signal" if name else "exit", by=None, at=at)


def ending_of(life: Life, left: EndRecord) -> WhyEnded | None:
    """Why somebody ended it, if somebody did; nothing of an ending that was begun and never came."""
    ending, over = left.ending, life.end
    if ending is None or over is None or ending.reason == EndCause.MEMORY:  # that is written down afterwards
        return ending
    if left.exit is None and life.state is not State.ENDED:
        # Whoever ends a session writes down that it is destroyed before its pane goes.
        return ending if life.state is State.DESTROYED else None
    at_s = (seconds_of(left.exit.time) if left.exit else None) or over.at_s
    return None if at_s - (seconds_of(ending.at) or 0) > ENDING_S else ending


def took_too_much_memory(life: Life, bounds: SessionBounds) -> bool:
    """Whether the kernel has just ended its program for its limit of memory, as far as its group counts that."""
    killed = life.exit_status in ((None, "KILL"), (137, None))  # 137: a shell whose last command was killed
    return killed and bounds.kept_by.get("memory_mb") == "cgroup" and cgroup.oom_kills(bounds.groups) > 0


def sentence(session_id: str, why: Ended, status: Status, bounds: SessionBounds, words: str = "") -> str:
    """How a session ended, for people.

    Args:
        words: the setting or the limit by which it was ended.
    """
    code, name = status
    at = f" at {why.at}" if why.at else ""
    match why.reason:
        case "exit":
            return f"The program of session {session_id} ended with exit code {code}{at}."
        case "signal":
            return f"The program of session {session_id} was ended by SIG{name}{at}."
        case "memory":
            most = _limit(bounds, "memory_mb")
            return f"Session {session_id} ended{at}: it took more than its limit memory_mb ({most})."
        case "cpu":
            return f"Session {session_id} ended{at}: {words or _computed(bounds)}."
        case "duration" | "idle":
            return f"Session {session_id} was ended{at}: {words or why.reason}."
        case "destroyed":
            return f"Session {session_id} was destroyed{f' by {why.by}' if why.by else ''}{at}."
        case _:
            return f"Session {session_id} is lost: its pane is gone."


def _computed(bounds: SessionBounds) -> str:
    return f"it has computed for longer than its limit cpu_seconds ({_limit(bounds, 'cpu_seconds')})"


def _limit(bounds: SessionBounds, name: str) -> str:
    return f"{bounds.limits.get(name, 0):g}"
