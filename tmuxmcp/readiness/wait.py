"""One wait for one session, for any of several conditions. Bounded; it ends with an answer.

Woken by output and by the pane's end; while a wait is open, the kernel is looked at in short steps. What a look means
is judged elsewhere: that a program is ready by `readiness/settling.py`, that a command has ended by `awaited`, that a
pattern matches by `matching`. This module looks, finds out what is needed for that, and sleeps. Of what holds at one
look, the first counts: pattern, taken, exited, command, left, needs_you, ready, changed, output, idle.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import field

from tmuxmcp.contract.call import PROGRESS_EVERY_S, Progress, no_progress
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.contract.results import Evidence, Outcome
from tmuxmcp.contract.words import TRACE_LEVEL
from tmuxmcp.machine.searching import CompiledPattern
from tmuxmcp.machine.witness.kernel import Process
from tmuxmcp.readiness.adoptable import note_prompt
from tmuxmcp.readiness.awaited import AwaitedCommand, CommandEnd, PrintingCommands, TypedNow
from tmuxmcp.readiness.facts import NO_TIME, Conclusion
from tmuxmcp.readiness.finding import Finding
from tmuxmcp.readiness.looking import Changed
from tmuxmcp.readiness.matching import Match, Matching, Prompt
from tmuxmcp.readiness.settling import SETTLE_S, Settling, Terms
from tmuxmcp.sessions.look import Look, Looks, Scan
from tmuxmcp.sessions.screens import ShownScreen, shown_by
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.text.unechoed import Echo

log = logging.getLogger(__name__)

WAIT_SHORTEST_LOOK_S, WAIT_LONGEST_LOOK_S = 0.001, 0.05
"""Time between two looks at the kernel: short after a change, longer the longer nothing happens."""

UNTOLD_S = 2.0
"""The same for the end of a session, which is told by the closing of its log; unless its sink was killed."""


@dataclass
class WaitCondition:
    """What to wait for."""

    want: str | Sequence[str]
    """Any of `ready command idle pattern changed exit output needs_you`; `none` alone."""
    timeout_ms: int
    idle_ms: int = 300
    patterns: Sequence[CompiledPattern] = ()
    """Any of them."""
    prompt_pattern: CompiledPattern | None = None
    """Counts where the kernel cannot tell."""
    prompt_needed: bool = False
    """The caller described the prompt: without it only marks tell that the program is ready."""
    screen_id: str = ""
    """The screen from which `changed` is to see a change."""
    seen: ShownScreen | None = None
    """The screen that the caller was shown last; of a call that types, the one before that."""
    since: int | None = None
    """Where a pattern is looked for begins here; None: behind what the caller typed last, or was shown."""
    sent_at: int | None = None
    """Size of the log when something was typed, if it was; else the wait begins at what there is now."""
    typed: str = ""
    """What was just typed: its echo matches nothing."""
    typed_now: TypedNow | None = None
    """The same, by what it can begin; None: nothing was typed."""
    shown: bool = True
    """The terminal or a line editor shows what was typed; False: that is not known."""
    entered: bool = False
    """It ended with Enter: what then leaves the cursor on an empty line has not come to its prompt."""
    command: int | None = None
    """Number of the command that is waited for; None: the caller's newest."""
    news_from: int | None = None
    """`ready`, `output` and `needs_you` count once the session has printed more than this, or was seen otherwise."""
    needs_you: Callable[[Look], tuple[bool, Evidence | None]] | None = None
    """Whether the session needs its caller now, and what tells."""
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

    def wants(self, *conditions: str) -> bool:
        """Whether it is for one of these."""
        wanted = (self.want,) if isinstance(self.want, str) else self.want
        return any(each in wanted for each in conditions)

    @property
    def only(self) -> str:
        """The one condition that it is for; empty: there are several."""
        wanted = (self.want,) if isinstance(self.want, str) else tuple(self.want)
        return wanted[0] if len(wanted) == 1 else ""

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
    waited_ms: int
    settled: Look | None = None
    """The look that found the program ready: it may do something for itself right afterwards."""
    note: str | None = None
    """What is to be said beside that."""
    command: int | None = None
    """Number of the command that has ended."""
    match: Match | None = None
    """What matched; of a wait that ended otherwise, what stood there before it."""

    @property
    def matched(self) -> str | None:
        """The text that matched."""
        return self.match.text if self.match else None


@dataclass
class _WaitProgress:
    """What one wait has seen so far; times of `time.monotonic()`."""

    begun: float
    settling: Settling
    finding: Finding
    matching: Matching
    awaited: AwaitedCommand
    printing: PrintingCommands
    wake_at: float = NO_TIME
    """When the last look would give another answer."""
    screen: Changed = field(default_factory=Changed)
    told: float = 0.0
    settled: Look | None = None
    note: str | None = None
    """What is to be said if nothing but silence is found, or of what was typed."""
    match: Match | None = None
    command: int | None = None
    news: set[str] = field(default_factory=set)
    """`ready` and `needs_you`, each once something of it has changed since the caller last looked."""


def begins(session: Session, wait: WaitCondition) -> tuple[int, str]:
    """Where what is waited for may begin, in the log: behind what the caller typed last, with the text of that.

    Behind the end of the last match that it was given, if that is later. Of a caller that typed nothing: behind what it
    was shown last.
    """
    if wait.since is not None:
        return wait.since, ""
    if wait.sent_at is not None:
        return wait.sent_at, wait.typed
    typed, matched = session.commands.typed_by(wait.caller), session.matched.of(wait.caller)
    if typed is None:
        return max(matched, session.seen_to(wait.caller)), ""
    if matched > typed.offset:
        return matched, ""
    offset, text = session.last_texts.get(wait.caller, (-1, ""))
    return typed.offset, text if offset == typed.offset else typed.text or ""


async def wait_for(session: Session, wait: WaitCondition) -> Answer:
    """Wait, at most `timeout_ms`."""
    begun = time.monotonic()
    if wait.only == "none":
        return Answer("immediate", None, 0)
    watch = await _begun(session, wait, begun)
    deadline, held = begun + wait.timeout_ms / 1000, session.lease
    seen: Looks[Look] | Looks[Scan]

    def step_s() -> float:
        now, crowd_s = time.monotonic(), session.crowd_step_s
        most_s = max(wait.look_s, crowd_s)
        told = wait.only == "exit" and session.watcher.watches(session.log.path)
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
    if wait.wants("ready", "command", "needs_you"):
        seen = session.looks(step_s, deadline, shared=wait.sent_at is None)
    else:
        seen = session.scans(step_s, deadline)
    with session.watcher.waiting(session.log.path):
        async for scan in seen:
            found = await _check(session, scan, wait, watch, taken=session.lease not in (None, held))
            ended = found[0] if found else "goes on"
            log.log(TRACE_LEVEL, "%s: wait for %s at %d bytes: %s", session.id, wait.want, scan.size, ended)
            if found:
                return _answer(found, watch)
            await _tell(scan, wait, watch)
    return _answer(("exited" if scan.exited else "timeout", None), watch)


async def _begun(session: Session, wait: WaitCondition, begun: float) -> _WaitProgress:
    start, typed, size, ran = 0, "", session.log.size(), frozenset[int]()
    if wait.wants("pattern"):
        start, typed = begins(session, wait)
        scan = await session.scan()
        size, ran = scan.size, frozenset(session.commands.running_in(scan))
    if wait.sent_at is not None:
        size = wait.sent_at
    return _WaitProgress(
        begun,
        Settling(wait.terms(), session.log.size(), begun),
        Finding(
            session,
            Prompt(wait.prompt_pattern, wait.sent_at, wait.typed),
            sent_at=wait.sent_at,
            typed=wait.typed,
            entered=wait.entered,
        ),
        Matching(
            wait.patterns,
            start,
            Echo(typed, wait.shown),
            session.seen_to(wait.caller) if wait.caller else 0,
            wait.seen,
            sent=wait.sent_at is not None,
            jobs=wait.typed_now is not None and wait.typed_now.lines > 0,
        ),
        AwaitedCommand(session, wait.caller, wait.command, wait.typed_now),
        PrintingCommands(session, size, ran),
        told=begun,
    )


_Found = tuple[Outcome, Evidence | None]


def _answer(found: _Found, watch: _WaitProgress) -> Answer:
    outcome, evidence = found
    waited_ms = int((time.monotonic() - watch.begun) * 1000)
    note = watch.note if outcome in ("idle", "immediate") else None
    match = watch.match or watch.matching.stale
    note = " ".join(filter(None, (note, watch.printing.note))) or None
    return Answer(outcome, evidence, waited_ms, watch.settled, note, watch.command, match)


async def _check(
    session: Session, scan: Scan, wait: WaitCondition, watch: _WaitProgress, *, taken: bool
) -> _Found | None:
    """What ends the wait now: of all that holds, the first by the order that the module names."""
    now, settling = time.monotonic(), watch.settling
    if settling.grown(scan.size, now):
        session.throttle(scan.size - settling.begun_at)
    watch.wake_at = NO_TIME
    if wait.wants("pattern"):
        watch.match = await watch.matching.found(session, scan, now)
    end = await _command(session, scan, wait, watch)
    if end and end.number:
        watch.command = end.number
    if watch.match:
        return "matched", None
    if taken:
        return "taken", None
    if scan.exited:
        return "exited", None
    if end and (end.number or wait.only == "command"):
        watch.note = end.note
        return end.outcome, "marks" if end.number else None
    if isinstance(scan, Look) and (found := await _by_kernel(session, scan, wait, watch, now)):
        return found
    if wait.wants("changed") and await _changed(session, scan, wait, watch, now):
        return "matched", None
    if wait.wants("output") and scan.size > (wait.news_from or 0):
        return "output", None
    return _told(settling.silent(scan.size, now), watch) if wait.wants("idle") else None


async def _command(session: Session, scan: Scan, wait: WaitCondition, watch: _WaitProgress) -> CommandEnd | None:
    """What has become of the command that is waited for, or of those that may print what is."""
    if wait.wants("command") and isinstance(scan, Look):
        if scan.exited:
            return None
        end = await watch.awaited.judged(scan)
        if end and (end.number or wait.only == "command"):
            return end
    if wait.wants("pattern") and not scan.exited and watch.printing.ended():
        look = scan if isinstance(scan, Look) else await session.look()
        return await watch.printing.judged(look, watch.matching.searched_to)
    return None


async def _by_kernel(
    session: Session, look: Look, wait: WaitCondition, watch: _WaitProgress, now: float
) -> _Found | None:
    # Whoever is asked for it tells the caller: only where that is waited for.
    needs, told = wait.needs_you(look) if wait.needs_you and wait.wants("needs_you") else (False, None)
    printed = wait.news_from is None or look.size > wait.news_from
    watch.news |= {name for name, holds in (("needs_you", needs), ("ready", look.ready)) if printed or not holds}
    if needs and (told is None or "needs_you" in watch.news):
        return "needs_you", told
    if wait.wants("ready") and "ready" in watch.news:
        return await _ready(session, look, watch, now)
    return None


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
    return judged.outcome, judged.evidence


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
