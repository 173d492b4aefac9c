"""A session's life: its states, what happens to it, and what then becomes of it. Pure.

    UNSEEN --SessionStarting--> STARTING --ProgramStarted--> RUNNING <--> REPLACED
       |                           |                            |            |
       +---------------------------+--------- PaneDied ---------+------------+---> ENDED
       +---------------------------+--------- PaneGone ---------+------------+---> LOST
                                   +----- DestroyedOnDisk ------+------------+---> DESTROYED

Everything that moves a session from one state to another stands in `TRANSITIONS`. What tmux tells can come in every
state, since scripts and people do what they like and an answer may be on its way; of anything else, what is not in
the table is a mistake of ours.
"""

from __future__ import annotations

import os
import signal
import time
from enum import StrEnum
from typing import get_args

from tmuxmcp.contract.call import iso, seconds_of
from tmuxmcp.contract.results import Ended, EndReason
from tmuxmcp.contract.settings import WRAPPER_LEVELS
from tmuxmcp.contract.value import value
from tmuxmcp.machine import cgroup
from tmuxmcp.machine.signals import signal_name
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import Events, ExitedEvent
from tmuxmcp.record.meta import WhyEnded
from tmuxmcp.sessions.bounds import SessionBounds
from tmuxmcp.terminal.modes import PROMPT_SHELLS
from tmuxmcp.tmux.panes import Pane


class State(StrEnum):
    """Where in its life a session is."""

    UNSEEN = "unseen"
    """It was just found or is about to be made: tmux has told nothing of it."""
    STARTING = "starting"
    """Its launcher has not become the program yet."""
    RUNNING = "running"
    REPLACED = "replaced"
    """A script has put another program into its pane."""
    ENDED = "ended"
    """Its program has ended; the pane still shows the last screen."""
    LOST = "lost"
    """Its pane is gone, and no broker took it away: its log is left."""
    DESTROYED = "destroyed"
    """It was ended on purpose, and every broker forgets it."""


OVER_STATES = frozenset({State.ENDED, State.LOST, State.DESTROYED})
"""States in which nothing runs in it."""


class EndCause(StrEnum):
    """Why nothing runs in it any more."""

    EXIT = "exit"
    SIGNAL = "signal"
    MEMORY = "memory"
    """It has taken more memory than its limit."""
    CPU = "cpu"
    """It has computed for longer than its limit."""
    DURATION = "duration"
    """It is older than it may become."""
    IDLE = "idle"
    """Nobody has used it for too long."""
    DESTROYED = "destroyed"
    LOST = "lost"


# ---- what happens to it --------------------------------------------------------------------------


@value
class SessionStarting:
    """This broker is making it."""


@value
class ProgramStarted:
    """Its launcher has become the program."""


@value
class ProgramRuns:
    """tmux tells: a program runs in its pane, under our launcher."""


@value
class OtherProgramRuns:
    """tmux tells: a program runs in its pane, but our launcher is not the pane's leader."""


@value
class PaneDied:
    """tmux tells: the pane is dead."""

    exit_code: int | None = None
    exit_signal: str | None = None


@value
class PaneGone:
    """tmux tells: there is no such pane."""


@value
class EndRequested:
    """A broker is about to end it; what is told of its end after that has this reason."""

    reason: EndCause
    by: str = ""
    """Which caller wanted it; empty: the broker itself, by a setting or a limit."""


@value
class DestroyedOnDisk:
    """A broker has written down that it is destroyed, or has removed its files."""


Told = ProgramRuns | OtherProgramRuns | PaneDied | PaneGone
Event = SessionStarting | ProgramStarted | Told | EndRequested | DestroyedOnDisk

TRANSITIONS: dict[State, dict[type[Event], State]] = {
    State.UNSEEN: {
        SessionStarting: State.STARTING,
        ProgramRuns: State.RUNNING,
        OtherProgramRuns: State.REPLACED,
        PaneDied: State.ENDED,
        PaneGone: State.LOST,
    },
    State.STARTING: {
        ProgramStarted: State.RUNNING,
        ProgramRuns: State.STARTING,
        OtherProgramRuns: State.REPLACED,
        PaneDied: State.ENDED,
        PaneGone: State.LOST,
        EndRequested: State.STARTING,
        DestroyedOnDisk: State.DESTROYED,
    },
    State.RUNNING: {
        ProgramRuns: State.RUNNING,
        OtherProgramRuns: State.REPLACED,
        PaneDied: State.ENDED,
        PaneGone: State.LOST,
        EndRequested: State.RUNNING,
        DestroyedOnDisk: State.DESTROYED,
    },
    State.REPLACED: {
        ProgramRuns: State.RUNNING,
        OtherProgramRuns: State.REPLACED,
        PaneDied: State.ENDED,
        PaneGone: State.LOST,
        EndRequested: State.REPLACED,
        DestroyedOnDisk: State.DESTROYED,
    },
    State.ENDED: {
        ProgramRuns: State.RUNNING,  # a script can let anything run in the pane again
        OtherProgramRuns: State.REPLACED,
        PaneDied: State.ENDED,
        PaneGone: State.LOST,
        EndRequested: State.ENDED,
        DestroyedOnDisk: State.DESTROYED,
    },
    State.LOST: {  # tmux never gives a pane's id away again: what else it tells was asked before
        ProgramRuns: State.LOST,
        OtherProgramRuns: State.LOST,
        PaneDied: State.LOST,
        PaneGone: State.LOST,
        EndRequested: State.LOST,
        DestroyedOnDisk: State.DESTROYED,
    },
    State.DESTROYED: {  # as above; and two callers may destroy it at once
        ProgramRuns: State.DESTROYED,
        OtherProgramRuns: State.DESTROYED,
        PaneDied: State.DESTROYED,
        PaneGone: State.DESTROYED,
        EndRequested: State.DESTROYED,
        DestroyedOnDisk: State.DESTROYED,
    },
}


class ImpossibleEvent(RuntimeError):
    """An event was applied to a session in a state in which it cannot happen: a mistake of ours."""


@value
class End:
    """How a session's program came to its end, as far as this broker knows."""

    reason: EndCause
    by: str
    """The caller who wanted it, if one did."""
    at_s: float
    """When this broker learned of it; seconds since 1970."""


class Life:
    """The life of one session, as this broker knows it."""

    def __init__(self) -> None:
        self.state = State.UNSEEN
        self.over = False
        """Nothing runs in it."""
        self.end: End | None = None
        """None while something runs in it."""
        self.exit_status: tuple[int | None, str | None] = (None, None)
        """Exit code and signal name, while tmux knows them; at most one of them."""
        self._ending: EndRequested | None = None

    def apply(self, event: Event) -> None:
        """Take in what has happened.

        Raises:
            ImpossibleEvent: it cannot have, in this state.
        """
        was_over, self.state = self.over, self._after(event)
        self.over = self.state in OVER_STATES
        if isinstance(event, EndRequested) and not self.over:
            self._ending = event
        if isinstance(event, PaneDied) and self.state is not State.LOST:
            self.exit_status = (event.exit_code, event.exit_signal)
        elif isinstance(event, Told):
            self.exit_status = (None, None)
        if not self.over:
            self.end = None
            self._ending = None if was_over else self._ending
        elif not was_over or self._explains(event):
            self.end = self._end_by(event)

    def _explains(self, event: Event) -> bool:
        """Whether it tells more of an end that is known already."""
        match event:
            case PaneDied():
                return self.state is State.ENDED  # tmux may learn the status a moment after the end
            case DestroyedOnDisk():
                # A pane that another broker takes away seems lost until what that has written is read.
                return self.end is not None and self.end.reason is EndCause.LOST
            case _:
                return False

    def _after(self, event: Event) -> State:
        try:
            return TRANSITIONS[self.state][type(event)]
        except KeyError:
            raise ImpossibleEvent(f"{event} in the life of a session that is {self.state}") from None

    def _end_by(self, event: Event) -> End:
        at_s = self.end.at_s if self.end else time.time()
        if self._ending:
            return End(self._ending.reason, self._ending.by, at_s)
        match event:
            case PaneDied(exit_signal=None):
                return End(EndCause.EXIT, "", at_s)
            case PaneDied():
                return End(EndCause.SIGNAL, "", at_s)
            case DestroyedOnDisk():
                return End(EndCause.DESTROYED, "", at_s)
            case _:
                return End(EndCause.LOST, "", at_s)


def told_by(pane: Pane | None, program: str, sandbox: str) -> Told:
    """What tmux tells by the state of a session's pane; None: it knows no such pane."""
    if pane is None:
        return PaneGone()
    if pane.dead:
        return PaneDied(*_exit_status(pane, program, sandbox))
    return OtherProgramRuns() if pane.respawned else ProgramRuns()


def _exit_status(pane: Pane, program: str, sandbox: str) -> tuple[int | None, str | None]:
    """Exit code and signal name of the program that ended in a pane; at most one of them.

    The launcher's shell cannot tell `exit 130` from death by SIGINT (nor 141 from SIGPIPE): a shell that
    ends like that exited, because shells catch these; any other program was ended by the signal.
    """
    if pane.exit_signal:
        return None, signal_name(pane.exit_signal)
    code = pane.exit_code
    if code is None or os.path.basename(program) in PROMPT_SHELLS:
        return code, None
    # The wrapper tells every death by a signal as a shell does.
    ambiguous = {128 + signal.SIGINT, 128 + signal.SIGPIPE}
    if code in ambiguous or (sandbox in WRAPPER_LEVELS and 128 < code < 192):
        return None, signal_name(code - 128)
    return code, None


# ---- Why nothing runs in a session any more --------------------------------------------------------------------------
#
# From what tmux told of it, and from what is written beside its log.

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
