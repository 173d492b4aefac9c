"""One wait for one session: ready, command, idle, pattern, changed, exit or none. Bounded; it ends with an answer.

Woken by output and by the pane's end; while a wait is open, the kernel is looked at in short steps. What a look means
is judged by `readiness/settling.py`; this module looks, finds out what is needed for that, and sleeps.
"""

from __future__ import annotations

import logging
import time
from dataclasses import field

from tmuxmcp.contract.call import PROGRESS_EVERY_S, Progress, no_progress
from tmuxmcp.contract.results import Evidence, Outcome
from tmuxmcp.contract.words import TRACE_LEVEL
from tmuxmcp.latedataclass import dataclass
from tmuxmcp.machine.searching import CompiledPattern
from tmuxmcp.readiness.facts import NO_TIME, Conclusion
from tmuxmcp.readiness.kernel import Process
from tmuxmcp.readiness.settling import SETTLE_S, Settling, Terms
from tmuxmcp.sessions import commandresults
from tmuxmcp.sessions.look import Look, Looks, Scan
from tmuxmcp.sessions.screens import shown_by
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.marks import ShellState
from tmuxmcp.terminal.unechoed import Echo
from tmuxmcp.waiting.adoptable import note_prompt
from tmuxmcp.waiting.finding import Finding
from tmuxmcp.waiting.looking import Changed
from tmuxmcp.waiting.matching import Matching, Prompt

log = logging.getLogger(__name__)

WAIT_SHORTEST_LOOK_S, WAIT_LONGEST_LOOK_S = 0.001, 0.05
"""Time between two looks at the kernel: short after a change, longer the longer nothing happens."""

UNTOLD_S = 2.0
"""The same for the end of a session, which is told by the closing of its log; unless its sink was killed."""


@dataclass
class WaitCondition:
    """What to wait for."""

    want: str
    """`none ready command idle pattern changed exit`."""
    timeout_ms: int
    idle_ms: int = 300
    pattern: CompiledPattern | None = None
    prompt_pattern: CompiledPattern | None = None
    """Counts where the kernel cannot tell."""
    prompt_needed: bool = False
    """The caller described the prompt: without it only marks tell that the program is ready."""
    screen_id: str = ""
    """The screen from which `changed` is to see a change."""
    start_offset: int = 0
    """New text, in which the pattern is looked for, begins here."""
    sent_at: int | None = None
    """Size of the log when something was typed, if it was; else the wait begins at what there is now."""
    typed: str = ""
    """What was just typed: its echo matches nothing."""
    shown: bool = True
    """The terminal or a line editor shows what was typed; False: that is not known."""
    entered: bool = False
    """It ended with Enter: what then leaves the cursor on an empty line has not come to its prompt."""
    screen: bool = True
    """The pattern may also match a screen that no full-screen program draws."""
    settle_s: float = SETTLE_S
    look_s: float = WAIT_LONGEST_LOOK_S
    """Longest time between two looks while nothing is printed."""
    caller: str = ""
    """Who is told of a command."""
    before: Process | None = None
    """Who waited for input when something was typed, or hid who did."""
    before_seen: bool = True
    """It was seen waiting; if not, nothing tells whether who waits now has woken since."""
    at_rest: bool = True
    """When something was typed, the last line was a prompt that was seen before, if it was typed."""
    progress: Progress = no_progress

    def terms(self) -> Terms:
        """What it is judged by."""
        return Terms(
            idle_ms=self.idle_ms,
            described=self.prompt_pattern is not None,
            prompt_needed=self.prompt_needed,
            sent_at=self.sent_at,
            entered=self.entered,
            before=self.before,
            before_seen=self.before_seen,
            at_rest=self.at_rest,
            settle_s=self.settle_s,
        )

    def types_after(self, look: Look) -> None:
        """Note who waits for input, just before something is typed."""
        self.before, self.before_seen = look.verdict.process, look.ready


@dataclass(frozen=True)
class Answer:
    """How a wait ended."""

    outcome: Outcome
    evidence: Evidence | None
    matched: str | None
    waited_ms: int
    settled: Look | None = None
    """The look that found the program ready: it may do something for itself right afterwards."""
    note: str | None = None
    """What is to be said where nothing but silence is known."""
    command: int | None = None
    """Number of the command that has ended."""


@dataclass
class _WaitProgress:
    """What one wait has seen so far; times of `time.monotonic()`."""

    begun: float
    settling: Settling
    finding: Finding
    matching: Matching
    wake_at: float = NO_TIME
    """When the last look would give another answer."""
    screen: Changed = field(default_factory=Changed)
    told: float = 0.0
    settled: Look | None = None
    note: str | None = None
    """What is to be said if nothing but silence is found."""
    command: int | None = None


async def wait_for(session: Session, wait: WaitCondition) -> Answer:
    """Wait, at most `timeout_ms`."""
    begun = time.monotonic()
    if wait.want == "none":
        return Answer("immediate", None, None, 0)
    watch = _WaitProgress(
        begun,
        Settling(wait.terms(), session.log.size(), begun),
        Finding(
            session,
            Prompt(wait.prompt_pattern, wait.sent_at, wait.typed),
            sent_at=wait.sent_at,
            typed=wait.typed,
            entered=wait.entered,
        ),
        Matching(wait.pattern, wait.start_offset, Echo(wait.typed, wait.shown), wait.screen),
        told=begun,
    )
    deadline, held = begun + wait.timeout_ms / 1000, session.lease

    def step_s() -> float:
        now, crowd_s = time.monotonic(), session.crowd_step_s
        most_s = max(wait.look_s, crowd_s)
        told = wait.want == "exit" and session.watcher.watches(session.log.path)
        if told:
            most_s = max(most_s, UNTOLD_S)
        if wait.progress is not no_progress:
            most_s = min(most_s, max(PROGRESS_EVERY_S, crowd_s))
        least_s = WAIT_SHORTEST_LOOK_S
        changed = watch.settling.changed
        if wait.sent_at is None and changed == begun and seen.told < begun:  # nothing has happened
            least_s = most_s if told else max(least_s, crowd_s / 8)
        step_s = min(max(least_s, (now - max(changed, seen.told)) / 8), most_s)
        return min(step_s, max(watch.wake_at - now, WAIT_SHORTEST_LOOK_S)) if watch.wake_at > now else step_s

    # Nothing else needs the kernel's word.
    by_kernel = wait.want in ("ready", "command")
    seen: Looks[Look] | Looks[Scan]
    if by_kernel:
        seen = session.looks(step_s, deadline, shared=wait.sent_at is None)
    else:
        seen = session.scans(step_s, deadline)
    with session.watcher.waiting(session.log.path):
        async for scan in seen:
            found = await _check(session, scan, wait, watch)
            ended = found[0] if found else "goes on"
            log.log(TRACE_LEVEL, "%s: wait for %s at %d bytes: %s", session.id, wait.want, scan.size, ended)
            if found:
                return _answer(found, watch)
            if session.lease not in (None, held):
                return _answer(("taken", None, None), watch)
            await _tell(scan, wait, watch)
    return _answer(("exited" if scan.exited else "timeout", None, None), watch)


_Found = tuple[Outcome, Evidence | None, str | None]


def _answer(found: _Found, watch: _WaitProgress) -> Answer:
    outcome, evidence, matched = found
    waited_ms = int((time.monotonic() - watch.begun) * 1000)
    note = watch.note if outcome == "idle" else None
    return Answer(outcome, evidence, matched, waited_ms, watch.settled, note, watch.command)


async def _check(session: Session, scan: Scan, wait: WaitCondition, watch: _WaitProgress) -> _Found | None:
    now, settling = time.monotonic(), watch.settling
    if settling.grown(scan.size, now):
        session.throttle(scan.size - settling.begun_at)
    watch.wake_at = NO_TIME
    match wait.want:
        case "pattern" if (found := await watch.matching.found(session, scan, now)) is not None:
            return "matched", None, found
        case "changed" if await _changed(session, scan, wait, watch, now):
            return "matched", None, None
        case "command" if isinstance(scan, Look):
            return await _command(session, scan, wait, watch, now)
        case "ready" if isinstance(scan, Look):
            return await _ready(session, scan, watch, now)
    if scan.exited:
        return "exited", None, None
    return _told(settling.silent(scan.size, now), watch) if wait.want == "idle" else None


async def _command(
    session: Session, look: Look, wait: WaitCondition, watch: _WaitProgress, now: float
) -> _Found | None:
    """Whether a command has ended of which the caller was not told; or that none runs."""
    ended = commandresults.untold(session, look, wait.caller)
    if ended:
        watch.command = ended[0]
        return "command", "marks", None
    if look.exited:
        return "exited", None, None
    if not look.marks:
        return "immediate", None, None
    runs = look.shell.state is ShellState.RUNNING or session.commands.in_doubt(look)
    # What was just typed may be on its way to a shell that seems to wait.
    return ("immediate", None, None) if not runs and await _ready(session, look, watch, now) else None


async def _ready(session: Session, look: Look, watch: _WaitProgress, now: float) -> _Found | None:
    """What tells that the program is ready, or that nothing can and nothing is printed."""
    judged = await watch.finding.judged(watch.settling, look, now)
    if isinstance(judged, float):
        return _told(judged, watch)
    settled, last = judged
    if last is not look:
        watch.settled = last if settled.evidence == "marks" else await note_prompt(session, last)
    return _told(settled, watch)


def _told(judged: Conclusion | float, watch: _WaitProgress) -> _Found | None:
    if isinstance(judged, float):
        watch.wake_at = judged
        return None
    watch.note = judged.note
    return judged.outcome, judged.evidence, None


async def _changed(session: Session, scan: Scan, wait: WaitCondition, watch: _WaitProgress, now: float) -> bool:
    """Whether the screen is another one, and its program has come to the end of drawing it."""
    size = watch.settling.size
    if watch.screen.looks.due(size, now):
        shown = await shown_by(session)
        watch.screen.looked(shown is not None and shown.id != wait.screen_id, size, now)
    return watch.screen.feed(size, watch.settling.changed, now, exited=scan.exited)


async def _tell(scan: Scan, wait: WaitCondition, watch: _WaitProgress) -> None:
    now = time.monotonic()
    if now - watch.told < PROGRESS_EVERY_S:
        return
    watch.told = now
    await wait.progress(now - watch.begun, last_line(scan))


def last_line(scan: Scan) -> str:
    """The last line that a session printed, for progress reports."""
    return scan.last_text.rstrip().rsplit("\n", 1)[-1][:200]
