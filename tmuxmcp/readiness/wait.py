"""One wait for one session, for any of several conditions. Bounded; it ends with an answer.

Woken by output and by the pane's end; while a wait is open, the kernel is looked at in short steps. What a look means
is judged elsewhere: that a program is ready by `readiness/judge.py`, that a pattern matches by `Matching`; that a
command has ended by `AwaitedCommand`, below. What waits looks, finds out what is needed for that, and sleeps. Of what
holds at one look, the first counts: pattern, taken, exited, command, left, needs_you, ready, changed, output, idle.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence

import anyio
import anyio.abc

from tmuxmcp.contract.call import PROGRESS_EVERY_S, Progress, joined_notes, ms_since, no_progress
from tmuxmcp.contract.errors import TmuxMcpError
from tmuxmcp.contract.follow import Command, Destroyed, Exit, Lost, ModeChange, Printed, Resize
from tmuxmcp.contract.results import Evidence, Outcome
from tmuxmcp.contract.value import value
from tmuxmcp.contract.words import TRACE_LEVEL
from tmuxmcp.machine.searching import CompiledPattern
from tmuxmcp.readiness.adoptable import note_prompt
from tmuxmcp.readiness.finding import Finding, Match, Matching, who_holds
from tmuxmcp.readiness.judge import NO_TIME, Changed, Conclusion, Settling, Terms
from tmuxmcp.sessions.commands import shell_is_back
from tmuxmcp.sessions.follow import LONGEST_LOOK_S, Event, Follow
from tmuxmcp.sessions.look import LogView, Look, Looks
from tmuxmcp.sessions.registry import Registry
from tmuxmcp.sessions.screens import shown_by
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.emulator.capture import ShownScreen
from tmuxmcp.terminal.marks import ShellState
from tmuxmcp.terminal.text.echo import Echo

log = logging.getLogger(__name__)

WAIT_SHORTEST_LOOK_S, WAIT_LONGEST_LOOK_S = 0.001, 0.05
"""Time between two looks at the kernel: short after a change, longer the longer nothing happens."""

STEP_PER_WAIT_S, LONGEST_STEP_S = 0.002, 2.0
"""Between two looks of a wait, for each wait that is open; and the longest. A look costs half a millisecond."""

UNTOLD_S = 2.0
"""The same for the end of a session, which is told by the closing of its log; unless its sink was killed."""


@value(frozen=False)
class WaitCondition(Terms):
    """What to wait for."""

    want: str | Sequence[str]
    """Any of `ready command idle pattern changed exit output needs_you`; `none` alone."""
    timeout_ms: int
    patterns: Sequence[CompiledPattern] = ()
    """Any of them."""
    screen_id: str = ""
    """The screen from which `changed` is to see a change."""
    seen: ShownScreen | None = None
    """The screen that the caller was shown last; of a call that types, the one before that."""
    since: int | None = None
    """Where a pattern is looked for begins here; None: behind what the caller typed last, or was shown."""
    typed_now: TypedNow | None = None
    """What was just typed, by what it can begin; None: nothing was."""
    shown: bool = True
    """The terminal or a line editor shows what was typed; False: that is not known."""
    command: int | None = None
    """Number of the command that is waited for; None: the caller's newest."""
    news_from: int | None = None
    """`ready`, `output` and `needs_you` count once the session has printed more than this, or was seen otherwise."""
    needs_you: Callable[[Look], tuple[bool, Evidence | None]] | None = None
    """Whether the session needs its caller now, and what tells."""
    look_s: float = WAIT_LONGEST_LOOK_S
    """Longest time between two looks while nothing is printed."""
    caller: str = ""
    """Who is told of a command."""
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

    def types_after(self, look: Look) -> None:
        """Note who waits for input, just before something is typed."""
        self.before, self.before_seen = look.verdict.process, look.ready


@value
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
        return max(matched, session.read_or_seen_to(wait.caller)), ""
    if matched > typed.offset:
        return matched, ""
    offset, text = session.last_texts.get(wait.caller, (-1, ""))
    return typed.offset, text if offset == typed.offset else typed.text or ""


async def wait_for(session: Session, wait: WaitCondition) -> Answer:
    """Wait, at most `timeout_ms`."""
    begun = time.monotonic()
    if wait.only == "none":
        return Answer("immediate", None, 0)
    pattern = wait.wants("pattern")
    start, typed = begins(session, wait) if pattern else (0, "")
    watch = _Wait(session, wait, begun, start, Echo(typed, wait.shown), await session.scan() if pattern else None)
    deadline, held = begun + wait.timeout_ms / 1000, session.lease
    seen: Looks[Look] | Looks[LogView]

    def step_s() -> float:
        # All who wait take a small part of the processor together.
        now, crowd_s = time.monotonic(), min(session.watcher.waits * STEP_PER_WAIT_S, LONGEST_STEP_S)
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
            found = await watch.check(scan, taken=session.lease not in (None, held))
            ended = found[0] if found else "goes on"
            log.log(TRACE_LEVEL, "%s: wait for %s at %d bytes: %s", session.id, wait.want, scan.size, ended)
            if found:
                return watch.answer(found)
            await watch.tell(scan)
    return watch.answer(("exited" if scan.exited else "timeout", None))


_Found = tuple[Outcome, Evidence | None]


class _Wait:
    """One wait, and what it has seen so far; times of `time.monotonic()`."""

    def __init__(
        self, session: Session, wait: WaitCondition, begun: float, start: int, echo: Echo, scan: LogView | None
    ) -> None:
        """`start`, `echo`: where a pattern is looked for, and what matches none; `scan`: of a wait for a pattern."""
        self.session, self.wait, self.begun, self.told = session, wait, begun, begun
        size = scan.size if scan else session.log.size()
        self.settling = Settling(wait, session.log.size(), begun)
        self.finding = Finding(session, wait)
        self.matching = Matching(
            wait.patterns,
            start,
            echo,
            session.read_or_seen_to(wait.caller) if wait.caller else 0,
            wait.seen,
            sent=wait.sent_at is not None,
            jobs=wait.typed_now is not None and wait.typed_now.lines > 0,
        )
        self.awaited = AwaitedCommand(session, wait.caller, wait.command, wait.typed_now)
        ran = frozenset(session.commands.running_in(scan) if scan else ())
        self.printing = PrintingCommands(session, size if wait.sent_at is None else wait.sent_at, ran)
        self.screen = Changed()
        self.wake_at = NO_TIME
        """When the last look would give another answer."""
        self.settled: Look | None = None
        self.note: str | None = None
        """What is to be said if nothing but silence is found, or of what was typed."""
        self.match: Match | None = None
        self.command: int | None = None
        self.news = set[str]()
        """`ready` and `needs_you`, each once something of it has changed since the caller last looked."""

    def answer(self, found: _Found) -> Answer:
        """What the wait comes to."""
        outcome, evidence = found
        waited_ms = ms_since(self.begun)
        note = self.note if outcome in ("idle", "immediate") or evidence in ("kernel", "prompt") else None
        match = self.match or self.matching.stale
        note = joined_notes(note, self.printing.note)
        return Answer(outcome, evidence, waited_ms, self.settled, note, self.command, match)

    async def check(self, scan: LogView, *, taken: bool) -> _Found | None:
        """What ends the wait now: of all that holds, the first by the order that the module names."""
        now, settling, wait = time.monotonic(), self.settling, self.wait
        if settling.grown(scan.size, now):
            self.session.throttle(scan.size - settling.begun_at)
        self.wake_at = NO_TIME
        if wait.wants("pattern"):
            self.match = await self.matching.found(self.session, scan, now)
        end = await self._command(scan)
        if end and end.number:
            self.command = end.number
        if self.match:
            return "matched", None
        if taken:
            return "taken", None
        if scan.exited:
            return "exited", None
        if end and (end.number or wait.only == "command"):
            self.note = end.note
            return end.outcome, "marks" if end.number else None
        if isinstance(scan, Look) and (found := await self._by_kernel(scan, now)):
            return found
        if wait.wants("changed") and await self._changed(scan, now):
            return "matched", None
        if wait.wants("output") and scan.size > (wait.news_from or 0):
            return "output", None
        return self._judged(settling.silent(scan.size, now)) if wait.wants("idle") else None

    async def _command(self, scan: LogView) -> CommandEnd | None:
        """What has become of the command that is waited for, or of those that may print what is."""
        if self.wait.wants("command") and isinstance(scan, Look):
            if scan.exited:
                return None
            end = await self.awaited.judged(scan)
            if end and (end.number or self.wait.only == "command"):
                return end
        if self.wait.wants("pattern") and not scan.exited and self.printing.ended():
            look = scan if isinstance(scan, Look) else await self.session.look()
            return await self.printing.judged(look, self.matching.searched_to)
        return None

    async def _by_kernel(self, look: Look, now: float) -> _Found | None:
        # Whoever is asked for it tells the caller: only where that is waited for.
        wait = self.wait
        needs, told = wait.needs_you(look) if wait.needs_you and wait.wants("needs_you") else (False, None)
        printed = wait.news_from is None or look.size > wait.news_from
        self.news |= {name for name, holds in (("needs_you", needs), ("ready", look.ready)) if printed or not holds}
        if needs and (told is None or "needs_you" in self.news):
            return "needs_you", told
        if not wait.wants("ready") or "ready" not in self.news:
            return None
        # What tells that the program is ready, or that nothing can and nothing is printed.
        judged = await self.finding.judged(self.settling, look, now)
        if isinstance(judged, float):
            return self._judged(judged)
        settled, last = judged
        if last is not look:
            self.settled = last if settled.evidence == "marks" else await note_prompt(self.session, last)
        return self._judged(settled)

    def _judged(self, judged: Conclusion | float) -> _Found | None:
        if isinstance(judged, float):
            self.wake_at = judged
            return None
        self.note = judged.note
        return judged.outcome, judged.evidence

    async def _changed(self, scan: LogView, now: float) -> bool:
        """Whether the screen is another one, and its program has come to the end of drawing it."""
        size = self.settling.size
        if self.screen.looks.due(size, now):
            shown = await shown_by(self.session)
            self.screen.looked(shown is not None and shown.id != self.wait.screen_id, size, now)
        return self.screen.feed(size, self.settling.changed, now, exited=scan.exited)

    async def tell(self, scan: LogView) -> None:
        """Tell the caller how long it waits, and the last line, once in a while."""
        now = time.monotonic()
        if now - self.told >= PROGRESS_EVERY_S:
            self.told = now
            await self.wait.progress(now - self.begun, last_line(scan))


def last_line(scan: LogView) -> str:
    """The last line that a session printed, for progress reports."""
    return scan.last_text.rstrip().rsplit("\n", 1)[-1][:200]


# ---- A watch in the background: tells who listens that a session changed, without a call -----------------------------
#
# It follows each session (`sessions/follow.py`), and waits for one that is still to come. Two changes of a session are
# told at least `CHANGES_APART_S` apart, and nothing at all is done while nobody listens.

CHANGES_APART_S = 0.5
"""Least time between two changes that are told of one session."""

WatchChange = Callable[[], Awaitable[None]]


class SessionWatch:
    """Watches sessions for those who listen; each listener runs its own `session` or `all` until it has enough."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.listeners = 0
        """How many listen now."""

    async def session(
        self,
        session_id: str,
        changed: WatchChange,
        output: bool = False,
        commands: bool = False,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Call `changed` after each change of one session, until cancelled; it may come and go meanwhile.

        Args:
            output: what it prints counts as well, not only mode, ready and size.
            commands: instead of all these, only the end of a command counts.
        """
        counts = (Command,) if commands else (ModeChange, Resize, Printed) if output else (ModeChange, Resize)
        name = _NameFollower(self._registry, session_id, counts)
        await name.begin()
        self.listeners += 1
        try:
            task_status.started()
            while True:
                await name.change()
                await changed()
                await anyio.sleep(CHANGES_APART_S)
        finally:
            self.listeners -= 1

    async def all(
        self, changed: WatchChange, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Call `changed` after each change of any session, and when one comes or goes, until cancelled."""
        following: dict[str, anyio.CancelScope] = {}
        news = _ChangeFlag()
        async with anyio.create_task_group() as task_group:
            await self._follow_all(task_group, following, news)
            await news.within(0)  # those that are there already
            task_status.started()
            while True:
                if await news.within(CHANGES_APART_S):
                    await changed()
                    await anyio.sleep(CHANGES_APART_S)
                await self._follow_all(task_group, following, news)

    async def _follow_all(
        self, task_group: anyio.abc.TaskGroup, following: dict[str, anyio.CancelScope], news: _ChangeFlag
    ) -> None:
        """Follow the sessions that have come, and those no longer that have gone."""
        try:
            await self._registry.look_again()
        except (TmuxMcpError, OSError) as error:
            log.debug("the sessions cannot be listed: %s", error)
            return
        ids = set(self._registry.sessions)
        for session_id in set(following) - ids:
            following.pop(session_id).cancel()
            await news.tell()
        for session_id in ids - set(following):
            await task_group.start(self._in_scope, session_id, news.tell, following)
            await news.tell()

    async def _in_scope(
        self,
        session_id: str,
        changed: WatchChange,
        following: dict[str, anyio.CancelScope],
        *,
        task_status: anyio.abc.TaskStatus[None],
    ) -> None:
        with anyio.CancelScope() as scope:
            following[session_id] = scope
            await self.session(session_id, changed, task_status=task_status)


class _ChangeFlag:
    """Something happened that was not told yet."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    async def tell(self) -> None:
        self._event.set()

    async def within(self, seconds: float) -> bool:
        """Whether there is something, or comes within this time; it counts as told then."""
        with anyio.move_on_after(seconds):
            await self._event.wait()
        if not self._event.is_set():
            return False
        self._event = anyio.Event()
        return True


class _NameFollower:
    """Follows whatever session has a name: one after the other, and waits while there is none that runs."""

    def __init__(self, registry: Registry, session_id: str, counts: tuple[type[Event], ...]) -> None:
        self._registry, self._id, self._counts = registry, session_id, counts
        self._follow: Follow | None = None
        self._told: tuple[str, str] | None = None
        """When the session was made, and what has become of it; None: there is none."""

    async def begin(self) -> None:
        """Take in how it stands; what comes later is a change."""
        self._told = await self._standing()
        if self._told and self._told[1] == "runs":
            follow = Follow(self._registry, self._session, None, output=False)
            try:
                first = await follow.batch()
            except (TmuxMcpError, OSError):
                first = []  # it is gone, or cannot be looked at now: the next look tells
            self._follow = follow
            self._take(first)

    async def change(self) -> None:
        """Wait until something has changed."""
        while True:
            if self._follow:
                if self._take(await self._follow.batch()):
                    return
            elif await self._standing() != self._told:
                return await self.begin()
            else:
                await self._wait()

    def _take(self, events: Sequence[Event]) -> bool:
        """Take in what has happened; whether it counts."""
        end = events[-1] if events else Destroyed()
        if isinstance(end, Exit | Lost | Destroyed):
            self._follow = None
            made = self._told[0] if self._told else ""
            self._told = None if isinstance(end, Destroyed) else (made, "ended" if isinstance(end, Exit) else "lost")
            return True
        return any(isinstance(event, self._counts) for event in events)

    async def _standing(self) -> tuple[str, str] | None:
        """How it stands, in the form of `_told`; that itself when tmux does not answer."""
        try:
            session = self._registry.sessions.get(self._id)
            if session is None or (session.pane and await session.refresh() is None):
                await self._registry.look_again()
                session = self._registry.sessions.get(self._id)
        except (TmuxMcpError, OSError) as error:
            log.debug("session %s cannot be looked at: %s", self._id, error)
            return self._told
        if session is None:
            return None
        return session.meta.created_at, "runs" if not session.exited else "ended" if session.pane else "lost"

    async def _session(self) -> Session:
        return self._registry.sessions.get(self._id) or await self._registry.existing(self._id)

    async def _wait(self) -> None:
        session = self._registry.sessions.get(self._id)
        if session is None:
            return await anyio.sleep(CHANGES_APART_S)
        with session.watcher.waiting(session.log.path) as growth, anyio.move_on_after(LONGEST_LOOK_S):
            await growth.next_change().wait()


# ---- Which command a wait is about, and what has become of it --------------------------------------------------------
#
# The end of an earlier command never answers for a later one, begun or only typed. So a wait settles at its beginning
# what it is about: a command that is named; what its own call has typed; the lines that its caller entered and that
# have begun nothing yet; the caller's newest command of whose end it was not told; else the one that runs, whoever
# began it. Lines are settled once the shell is back at its prompt, has read all input, and the log holds all that was
# printed: then the last command that they began counts, or it is known that they began none.

BEGAN_NONE = "What was typed began no command: it was read as input, or there was nothing in it to run."

WANTS_MORE = "What was typed began no command yet: the shell wants more, as a quote or a here-document is not closed."

HELD = "{command} has ended, and {holder} still has the terminal: so the wait for the pattern went on."


@value
class TypedNow:
    """What a call has just typed, or is about to type."""

    offset: int
    """Size of the log before."""
    lines: int
    """How many lines it entered."""
    read_by: int = 0
    """Number of the command that waited for it; of keys without Enter, of the one that ran. 0: none."""
    runs: int = 0
    """Number of the command that ran; 0: none."""


@value
class CommandEnd:
    """What a wait for a command comes to."""

    outcome: Outcome
    """`command`, `left` where its shell ended as it did, `immediate` where there is nothing to wait for."""
    number: int | None = None
    note: str | None = None


NOTHING = CommandEnd("immediate")


class AwaitedCommand:
    """Judges, from one look after the other, whether the command that a wait is about has ended."""

    def __init__(self, session: Session, caller: str, number: int | None = None, typed: TypedNow | None = None) -> None:
        """
        Args:
            number: of the one that is meant; None: the caller's, as the module has it.
            typed: what this very call types: only what begins behind it counts.
        """
        self.session, self.caller, self.number, self.typed = session, caller, number, typed
        self._named, self._types = number is not None, typed is not None
        self._settled = False
        self._shells: dict[int, str] = {}
        """By number, nonces of the shells that were seen to run commands."""

    async def judged(self, look: Look) -> CommandEnd | None:
        """What has become of it; None: it goes on."""
        runs = look.shell.state is ShellState.RUNNING and not look.replaced
        if not look.marks and self.number is None and not runs:
            # Where another program has the own shell's place, the log may lack what that said last.
            return None if self.session.meta.marks and not await self.session.log_complete(look.size) else NOTHING
        if not look.marks and runs and look.ready and await self.session.log_complete(look.size):
            await note_prompt(self.session, look)  # a shell at its prompt in the own one's place ends what that ran
        self._shells |= {number: level.nonce for number, level in self.session.commands.running_in(look).items()}
        if not self._settled:
            self._settle(look)
            self._settled = True
        if self.number is not None:
            return await self._of_number(look, self.number)
        return await self._of_lines(look, self.typed) if self.typed else NOTHING

    def _settle(self, look: Look) -> None:
        """Settle what it is about."""
        if self.number is None and self.typed is None:
            self.typed = self._lines(look)
        if self.number is None and self.typed and not self.typed.lines:
            self.number = self.typed.read_by or None
        if self.number is None and self.typed is None:
            told = self.session.told.of(self.caller)
            said = self.session.commands.said_to_have_ended(told.through)
            newest = self.session.commands.newest_of(look, self.caller, [each for each in said if not told.knows(each)])
            self.number = newest.number if newest else max(self.session.commands.running_in(look), default=None)

    def _lines(self, look: Look) -> TypedNow | None:
        """The lines that the caller entered last, if the shell has not got to the end of them as far as is known."""
        entered = self.session.commands.typed_by(self.caller, entered=True)
        if entered is None or entered.offset <= self.session.lines_settled.get(self.caller, -1):
            return None
        begun = self.session.commands.begun_behind(look, entered.offset, self.caller)
        return None if len(begun) >= entered.lines else TypedNow(entered.offset, entered.lines)

    async def _of_number(self, look: Look, number: int) -> CommandEnd | None:
        if self._has_ended(look, number):
            return self._end(number)
        shell = self.session.commands.running_in(look).get(number)
        if shell:
            # Another shell in front of its own waits for its next line: nothing that was typed can end it.
            behind = not self._named and shell.number < look.level.number
            return NOTHING if behind and await self._is_at_rest(look) else None
        if number in self.session.commands.said_to_have_ended(number - 1):
            return None  # its shell is still to be seen back
        gone = number in self._shells and look.at(self._shells[number]) is None
        return CommandEnd("left", number) if gone else NOTHING

    async def _of_lines(self, look: Look, typed: TypedNow) -> CommandEnd | None:
        begun = self.session.commands.begun_behind(look, typed.offset, self.caller)
        last = begun[-1].number if begun else typed.read_by
        ended = last > 0 and self._has_ended(look, last)
        all_begun = len(begun) >= max(typed.lines, 1)
        if not (ended and all_begun) and ((begun and not ended) or not await self._is_at_rest(look)):
            return None
        self.session.lines_settled[self.caller] = typed.offset
        if ended and (self._types or not self.session.told.of(self.caller).knows(last)):
            return self._end(last)
        if ended:  # its end was told by another answer
            self.typed = None
            self._settle(look)
            return await self._of_number(look, self.number) if self.number else NOTHING
        more = look.shell.state is ShellState.CONTINUATION
        return CommandEnd("immediate", note=(WANTS_MORE if more else BEGAN_NONE) if typed.lines else None)

    def _has_ended(self, look: Look, number: int) -> bool:
        return number in self.session.commands.ended_numbers(look, number - 1)

    def _end(self, number: int) -> CommandEnd:
        return CommandEnd("left" if self.session.ended_with_its_shell(number) else "command", number)

    async def _is_at_rest(self, look: Look) -> bool:
        return shell_is_back(look) and await self.session.log_complete(look.size)


@value(frozen=False)
class PrintingCommands:
    """The commands that may print what a wait for a pattern is about: those that run as it begins, and later ones."""

    session: Session
    offset: int
    """Size of the log as the wait began; of a call that types, before that."""
    ran: frozenset[int]
    """Numbers of those that ran then."""
    note: str | None = None
    """Why the wait goes on though they have ended."""

    def ended(self) -> list[int]:
        """Numbers of those that marks have ended: if there are any, the session is worth a look."""
        return self.session.commands.ended_behind(self.offset, self.ran)

    async def judged(self, look: Look, searched_to: int) -> CommandEnd | None:
        """The last of them, once none runs and no other process has the terminal; None: the wait goes on.

        Args:
            searched_to: all that was printed up to this offset was searched.
        """
        said = self.ended()
        ended = (
            [each for each in self.session.commands.ended_numbers(look, said[0] - 1) if each in said] if said else []
        )
        if not ended or searched_to < look.size or not shell_is_back(look):
            return None
        holder = who_holds(self.session, look)
        if holder:
            self.note = HELD.format(command=f"Command {ended[-1]}", holder=holder)
            return None
        if not await self.session.log_complete(look.size):
            return None
        return CommandEnd("left" if self.session.ended_with_its_shell(ended[-1]) else "command", ended[-1])
