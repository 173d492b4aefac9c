"""One wait for one session: ready, command, idle, pattern, changed, exit or none. Bounded; it ends with an answer.

Woken by output and by the pane's end; while a wait is open, the kernel is looked at in short steps. Evidence for
`ready`, best first: marks of the session's own shell, the kernel's word on the foreground program, a prompt pattern.
A program is ready when it waits for input, has read all that was typed, and has printed nothing for a few
milliseconds. Silence says nothing of that: where it is all that can be known, the outcome is `idle`.
"""

from __future__ import annotations

import logging
import time
from dataclasses import field

from tmuxmcp.contract.call import PROGRESS_EVERY_S, Progress, no_progress
from tmuxmcp.contract.results import Evidence, Outcome
from tmuxmcp.contract.words import TRACE
from tmuxmcp.latedataclass import dataclass
from tmuxmcp.machine.searching import CompiledPattern
from tmuxmcp.readiness import weak
from tmuxmcp.readiness.kernel import Process, Waiting
from tmuxmcp.sessions import commandresults
from tmuxmcp.sessions.logged import all_logged
from tmuxmcp.sessions.look import Look, Scan, Wakes
from tmuxmcp.sessions.screens import shown_by
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.marks import ShellState
from tmuxmcp.terminal.modes import ASKS_SECRET, EDITORS, FULLSCREEN, PAGERS
from tmuxmcp.waiting.adoptable import note_prompt
from tmuxmcp.waiting.matching import (
    SCREEN_EVERY_S,
    UNPRINTED_S,
    Matching,
    Prompt,
    draws,
    line_of_cursor,
    line_since,
    puts_cursor,
    takes_pastes,
)

log = logging.getLogger(__name__)

SETTLE_S = 0.004
"""A program that waits for input for so long, without printing, is done (measured: 4-10 ms for a dozen programs)."""

FAR_SETTLE_S = 0.02
"""The same for one on another machine: what it prints comes by another way than the word on it."""

ESCAPE_S = 0.12
"""The same after a lone Escape, which begins every other key's sequence: vim waits 100 ms for the rest."""

UNMOVED_S = 0.1
"""The same for one that has neither printed nor woken since something was typed: that may still be on its way.

Once for its own terminal, and once for each relay."""

RELAYED_S = 0.02
"""The same behind relays (script, sudo), once and for each of them: what is printed there passes through them all."""

NEW_S = 0.06
"""The same, from its beginning, for a program that has just begun and has printed nothing (fzf draws after 20 ms)."""

ANSWERS_OF_TMUX = 4
"""On a machine that is so busy that tmux answers late, what a program prints is late as well."""

LATEST_S = 0.2
"""Longer than this no answer of tmux makes it wait: mere silence is believed after 0.3 s."""

SHORTEST_LOOK_S, LONGEST_LOOK_S = 0.001, 0.05
"""Time between two looks at the kernel: short after a change, longer the longer nothing happens."""

UNTOLD_S = 2.0
"""The same for the end of a session, which is told by the closing of its log; unless its sink was killed."""

DRAWN_S = 0.02
"""A screen that has changed and then stood still for so long has been drawn to its end."""

DRAWING_S = 0.25
"""Longest wait for that end."""

DRAWN = ("fullscreen", "editor", "pager")
"""Modes of programs that draw the whole screen, some without asking for the alternate one."""

KNOWN_S = 0.05
"""A prompt like one that was seen before, behind what hides its program, with its line editor, stands for so long."""

KNOWN_PLAIN_S = 0.3
"""The same of a prompt without a line editor, which any program may print."""

ASLEEP_S = 0.1
"""A prompt that the caller described counts when all have slept for so long, though they do not read the terminal."""

IF_A_SHELL = " If its last line is a shell's prompt, run adopt=yes runs commands there."

SECRET_BY_TEXT = (
    "By its last line alone, it asks for a secret: whether what is typed will be shown cannot be known. Have the "
    "person type it with `tmuxmcp attach --take`."
)

NAMED = EDITORS | PAGERS | FULLSCREEN
"""Programs that are known to listen for a time only, and to do nothing of their own afterwards."""

ONLY_SILENCE = (
    "Nothing was printed for {} ms. Whether the program waits for input or still works cannot be known: {}. "
    "Wait for a text with wait_for=pattern, give prompt_pattern, or read again."
)


@dataclass
class Wait:
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
    entered: bool = False
    """It ended with Enter: what then leaves the cursor on an empty line has not come to its prompt."""
    screen: bool = True
    """The pattern may also match a screen that no full-screen program draws."""
    settle_s: float = SETTLE_S
    look_s: float = LONGEST_LOOK_S
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
class _Watch:
    """What one wait has seen so far; times of `time.monotonic()`."""

    begun: float
    begun_at: int
    """Size of the log then."""
    size: int
    changed: float
    """When the log last grew, or what the program does last changed."""
    ready_since: float | None = None
    unknown_since: float | None = None
    met: tuple[int, int] = (0, 0)
    """Who waits for input, and the size of the log when that was first seen."""
    answer_s: float = 0.0
    """How long tmux took for an answer."""
    screen_at: float = 0.0
    screen_of: int = -1
    """Size of the log when the screen was last looked at."""
    differs_since: float | None = None
    """When the screen was first seen changed."""
    told: float = 0.0
    matching: Matching = field(default_factory=Matching)
    prompt: Prompt = field(default_factory=Prompt)
    settled: Look | None = None
    listens_since: float | None = None
    """When a program that may be at work was first seen listening."""
    note: str | None = None
    """What is to be said if nothing but silence is found."""
    command: int | None = None


async def wait_for(session: Session, wait: Wait) -> Answer:
    """Wait, at most `timeout_ms`."""
    begun = time.monotonic()
    if wait.want == "none":
        return Answer("immediate", None, None, 0)
    size = session.log.size()
    watch = _Watch(begun, size if wait.sent_at is None else wait.sent_at, size, begun, told=begun)
    watch.matching = Matching(wait.pattern, wait.start_offset, wait.typed, wait.screen)
    watch.prompt = Prompt(wait.prompt_pattern, wait.sent_at, wait.typed)
    deadline, held = begun + wait.timeout_ms / 1000, session.lease

    def step_s() -> float:
        now, crowd_s = time.monotonic(), session.crowd_step_s
        most_s = max(wait.look_s, crowd_s)
        told = wait.want == "exit" and session.watcher.watches(session.log.path)
        if told:
            most_s = max(most_s, UNTOLD_S)
        if wait.want == "idle":
            most_s = min(most_s, max(wait.idle_ms / 1000 - (now - watch.changed), wait.look_s))
        if wait.progress is not no_progress:
            most_s = min(most_s, max(PROGRESS_EVERY_S, crowd_s))
        least_s = SHORTEST_LOOK_S
        if wait.sent_at is None and watch.changed == begun and seen.told < begun:  # nothing has happened
            least_s = most_s if told else max(least_s, crowd_s / 8)
        return min(max(least_s, (now - max(watch.changed, seen.told)) / 8), most_s)

    # Nothing else needs the kernel's word.
    by_kernel = wait.want in ("ready", "command")
    seen: Wakes[Look] | Wakes[Scan]
    if by_kernel:
        seen = session.looks(step_s, deadline, shared=wait.sent_at is None)
    else:
        seen = session.scans(step_s, deadline)
    with session.watcher.waiting(session.log.path):
        async for scan in seen:
            found = await _check(session, scan, wait, watch)
            ended = found[0] if found else "goes on"
            log.log(TRACE, "%s: wait for %s at %d bytes: %s", session.id, wait.want, scan.size, ended)
            if found:
                return _answer(found, watch)
            if session.lease not in (None, held):
                return _answer(("taken", None, None), watch)
            await _tell(scan, wait, watch)
    return _answer(("exited" if scan.exited else "timeout", None, None), watch)


_Found = tuple[Outcome, Evidence | None, str | None]


def _answer(found: _Found, watch: _Watch) -> Answer:
    outcome, evidence, matched = found
    waited_ms = int((time.monotonic() - watch.begun) * 1000)
    note = watch.note if outcome == "idle" else None
    return Answer(outcome, evidence, matched, waited_ms, watch.settled, note, watch.command)


async def _check(session: Session, scan: Scan, wait: Wait, watch: _Watch) -> _Found | None:
    now = time.monotonic()
    if scan.size != watch.size:
        watch.size, watch.changed = scan.size, now
        session.throttle(scan.size - watch.begun_at)
    if wait.want == "pattern":
        found = await watch.matching.found(session, scan, now)
        if found is not None:
            return "matched", None, found
    if wait.want == "changed" and await _changed(session, scan, wait, watch, now):
        return "matched", None, None
    if wait.want == "command" and isinstance(scan, Look):
        return await _command(session, scan, wait, watch, now)
    if scan.exited:
        return "exited", None, None
    quiet_ms = (now - watch.changed) * 1000
    if wait.want == "idle" and quiet_ms >= wait.idle_ms:
        return "idle", "quiet", None
    if not isinstance(scan, Look):
        return None
    evidence = await _ready(session, scan, wait, watch, now)
    if evidence == "quiet":
        return "idle", evidence, None
    return ("ready", evidence, None) if evidence else None


async def _command(session: Session, look: Look, wait: Wait, watch: _Watch, now: float) -> _Found | None:
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
    return ("immediate", None, None) if not runs and await _ready(session, look, wait, watch, now) else None


async def _ready(session: Session, look: Look, wait: Wait, watch: _Watch, now: float) -> Evidence | None:
    """What tells that the program is ready; `quiet`: nothing can, and nothing is printed."""
    shown = look.shell.state is ShellState.PROMPT
    if look.waiting is Waiting.UNKNOWN:
        watch.ready_since = None
        told = look.facts is None or (look.level.where == "remote" and look.own_shell_in_front)
        # Where the kernel does not tell what a shell has read, the prompt may be older than what was typed at it.
        told = told and not look.unanswered and (look.facts is not None or look.shell.prompt_end > look.typed_at)
        if told and shown and now - watch.changed >= SETTLE_S * 5:
            return "marks"
        watch.unknown_since = watch.unknown_since or now
        return await _by_eye(session, look, wait, watch, now)
    watch.unknown_since = None
    process = look.verdict.process
    if not look.ready or process is None:
        watch.ready_since = None
        return await _described(session, look, wait, watch, now)
    watch.listens_since = watch.listens_since or now
    if look.marks and look.at_editor and not look.at_prompt and now - watch.changed < 0.1:
        return None  # its prompt is on the way
    if watch.ready_since is None:
        watch.ready_since = now
    # A prompt that is newer than the wait: nothing to be seen settling.
    new_prompt = shown and look.own_shell_in_front and look.shell.prompt_end > watch.begun_at
    new_prompt = new_prompt and not look.knows.draws_after_mark
    rest_s = max(
        _settle_s(wait, watch, process, len(look.relays)), RELAYED_S * (1 + len(look.relays)) if look.relays else 0
    )
    if not new_prompt and now - max(watch.ready_since, watch.changed) < rest_s:
        return None
    by_marks = look.at_prompt and look.own_shell_in_front
    if not by_marks:
        if wait.prompt_needed:
            if not await watch.prompt.shown(session, look):
                return None
        elif why := _doubt(session, look, wait, watch, now):
            return _listens(why, wait, watch, now - max(watch.listens_since, watch.changed))
    asked = time.monotonic()
    logged = await all_logged(session, watch.size)
    slower = watch.answer_s * 1.5
    watch.answer_s = (time.monotonic() - asked) / 2
    settled = await session.look()
    too_soon = now - max(watch.ready_since, watch.changed) < LATEST_S
    if not logged or not settled.ready or (too_soon and watch.answer_s > max(slower, SETTLE_S)):
        return None
    if settled.size != look.size:
        return None  # it has just printed something
    if not by_marks and not wait.prompt_needed and _doubt(session, settled, wait, watch, now):
        return None  # it has just begun to listen for a time only
    watch.settled = settled
    session.prompts.learn(process.pid, line_of_cursor(look), takes_pastes(look))
    if settled.at_prompt and settled.own_shell_in_front:
        return "marks"
    watch.settled = await note_prompt(session, settled)
    return "prompt" if wait.prompt_needed else "kernel"


def _doubt(session: Session, look: Look, wait: Wait, watch: _Watch, now: float) -> str:
    """Why the program of a look, which listens, may be at work; empty: nothing tells so, or its last line stands."""
    why, process = doubt(session, look, wait.sent_at), look.verdict.process
    if not why or process is None:
        return ""
    still_s = now - max(watch.listens_since or now, watch.changed)
    told = weak.told(_line(session, wait, look), process, still_s, drawn(look)) or edits(session, look)
    return "" if told else why


def doubt(session: Session, look: Look, sent_at: int | None = None) -> str:
    """Why the program of a look, which listens, may be at work; empty: nothing tells so.

    One that draws the whole screen and listens for keys is ready for them, whatever it goes on to draw: only where
    it has drawn nothing for the last key, or others of its pipeline work for it, it may not have come to its end.

    Args:
        sent_at: size of the log when something was typed, if it was.
    """
    process, line = look.verdict.process, line_of_cursor(look)
    if process is None or not (draws(session, look) or look.mode in DRAWN):
        return weak.doubt(look.verdict, look.judged, line, session.entered)
    beside = weak.works_beside(process, look.judged)
    if beside:
        return beside
    drawn = look.size != sent_at
    return "" if drawn or process.name in NAMED or process.time_out_s is None else look.verdict.weak


def certain(session: Session, look: Look) -> bool:
    """Whether a look finds its program waiting for input, and nothing tells that it may be at work.

    A single look: it may print at this moment.
    """
    process = look.verdict.process
    if not look.ready or process is None:
        return False
    told = weak.stands_s(line_of_cursor(look), process.time_out_s) == 0 or edits(session, look)
    return told or not doubt(session, look)


def _line(session: Session, wait: Wait, look: Look) -> str:
    """The line of the cursor, as far as it is newer than what was typed."""
    if look.size <= session.typed_at:
        return ""
    if wait.sent_at is None or not wait.entered:
        return line_of_cursor(look)
    return line_since(look, wait.sent_at, wait.typed)


def drawn(look: Look) -> bool:
    """Whether a line editor drew the last line: it put the cursor behind it."""
    return look.waiting is Waiting.EDITOR and puts_cursor(look)


def edits(session: Session, look: Look) -> bool:
    """Whether a line editor shows its prompt, and behind it what is typed: nothing was entered there yet."""
    process = look.verdict.process
    if look.waiting is not Waiting.EDITOR or process is None:
        return False
    return session.prompts.begins(process.pid, line_of_cursor(look))


def _listens(why: str, wait: Wait, watch: _Watch, still_s: float) -> Evidence | None:
    """Of a program that listens, and may be at work: silence, once it has lasted."""
    if still_s < max(weak.NEW_LINE_S, wait.idle_ms / 1000):
        return None
    watch.note = weak.STILL_LISTENS.format(int(still_s * 1000), why[0].upper() + why[1:])
    return "quiet"


def _settle_s(wait: Wait, watch: _Watch, process: Process, relays: int) -> float:
    """How long a program must wait for input, without printing, until it counts as ready."""
    answers_s = min(watch.answer_s * ANSWERS_OF_TMUX, LATEST_S)
    settle_s = max(wait.settle_s, answers_s, FAR_SETTLE_S if process.pid < 0 else 0.0)
    before = wait.before
    unmoved = before is not None and (before.pid, before.wakes) == (process.pid, process.wakes)
    # What was printed may be a relay's own (the last line of a tmux), and say nothing of what was typed.
    by_relays = bool(relays) and wait.entered and (unmoved or not wait.before_seen)
    if by_relays or (unmoved and watch.size == wait.sent_at):
        return max(settle_s, UNMOVED_S * (1 + relays))
    if watch.met[0] != process.pid:
        watch.met = process.pid, watch.size
    if process.age_s < NEW_S and watch.met[1] == watch.size:
        return max(settle_s, NEW_S - process.age_s)
    return settle_s


async def _described(session: Session, look: Look, wait: Wait, watch: _Watch, now: float) -> Evidence | None:
    """Of a program that is not seen waiting: the caller's own prompt, once all sleep and nothing is printed."""
    if not wait.prompt_needed or not look.verdict.asleep or now - watch.changed < ASLEEP_S:
        return None
    if not await watch.prompt.shown(session, look) or not await all_logged(session, look.size):
        return None
    return "prompt"


async def _by_eye(session: Session, look: Look, wait: Wait, watch: _Watch, now: float) -> Evidence | None:
    """Where the kernel cannot tell: a described prompt, or silence."""
    quiet_s = now - max(watch.changed, watch.unknown_since or now)
    if quiet_s >= SETTLE_S and await watch.prompt.shown(session, look):
        return "prompt"
    if wait.prompt_needed:
        return None
    if look.verdict.hidden and _far_prompt(session, look, wait, quiet_s):
        return "prompt"
    if quiet_s * 1000 < wait.idle_ms:
        return None
    if wait.entered and watch.size != wait.sent_at and not draws(session, look) and not line_of_cursor(look):
        return None
    watch.note = ONLY_SILENCE.format(wait.idle_ms, look.verdict.why)
    if look.verdict.hidden and look.verdict.process and not draws(session, look):
        line = _line(session, wait, look)
        session.prompts.learn(look.verdict.process.pid, line, takes_pastes(look))
        if ASKS_SECRET.search(line):
            watch.note = SECRET_BY_TEXT
        elif session.prompts.knows(look.verdict.process.pid, line, True):
            watch.note += IF_A_SHELL
    return "quiet"


def _far_prompt(session: Session, look: Look, wait: Wait, quiet_s: float) -> bool:
    """Whether a program that another hides shows a prompt as it did at rest.

    Not where something was typed before it came to rest: the prompt then may be the one before what was typed.
    """
    process = look.verdict.process
    if process is None or not wait.at_rest or draws(session, look):
        return False
    return stands_again(session, process, look, _line(session, wait, look), quiet_s)


def stands_again(session: Session, process: Process, look: Look, line: str, quiet_s: float) -> bool:
    """Whether a prompt that was seen at rest stands there again, for long enough.

    A program may print the same line and go on: where a line editor showed itself with the prompt, it has to again.
    """
    edits = takes_pastes(look)
    known_s = KNOWN_S if edits else KNOWN_PLAIN_S
    return quiet_s >= known_s and session.prompts.knows(process.pid, line, edits)


async def _changed(session: Session, scan: Scan, wait: Wait, watch: _Watch, now: float) -> bool:
    """Whether the screen is another one, and its program has come to the end of drawing it."""
    due = SCREEN_EVERY_S if watch.size != watch.screen_of else UNPRINTED_S
    if watch.screen_of < 0 or now - watch.screen_at >= due:
        watch.screen_at, watch.screen_of = now, watch.size
        shown = await shown_by(session)
        differs = shown is not None and shown.id != wait.screen_id
        watch.differs_since = (watch.differs_since or now) if differs else None
    if watch.differs_since is None:
        return False
    drawn = watch.screen_of == watch.size and now - watch.changed >= DRAWN_S
    return drawn or scan.exited or now - watch.differs_since >= DRAWING_S


async def _tell(scan: Scan, wait: Wait, watch: _Watch) -> None:
    now = time.monotonic()
    if now - watch.told < PROGRESS_EVERY_S:
        return
    watch.told = now
    await wait.progress(now - watch.begun, last_line(scan))


def last_line(scan: Scan) -> str:
    """The last line that a session printed, for progress reports."""
    return scan.last_text.rstrip().rsplit("\n", 1)[-1][:200]
