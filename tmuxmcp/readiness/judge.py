"""Whether the program of a terminal has come to rest: judged from facts with times, one moment after the other. Pure.

`Settling.feed` is given what is known (`Facts`) and the time. It says the answer, or what it needs to know besides, or
when the same facts would give another answer.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Literal, Protocol

from tmuxmcp.contract.value import value
from tmuxmcp.machine.witness.kernel import (
    POLL_WAIT_CHANNELS,
    EnteredLine,
    InputWait,
    KernelFacts,
    Process,
    Verdict,
    descends,
)
from tmuxmcp.terminal.modes import (
    EDITORS,
    FULLSCREEN,
    PAGERS,
    PROGRESS_LINE,
    asks_secret,
    may_ask,
    may_be_prompt,
    shape,
)

if TYPE_CHECKING:
    from tmuxmcp.contract.results import Evidence
    from tmuxmcp.machine.searching import CompiledPattern
    from tmuxmcp.sessions.look import Look

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
"""The same, counted from its start, for a program that has printed nothing yet (fzf draws after 20 ms)."""

UNCONFIRMED_S = 0.02
"""Silence after which marks that say "at its prompt" count although the kernel tells nothing."""

LATE_S = 0.1
"""Silence in which a shell that waits for keys may still send the mark of its prompt."""

UNMARKED_S = 0.25
"""After this long at a line editor without a prompt of ours, a shell sends no marks."""

ANSWERS_OF_TMUX = 4
"""On a machine that is so busy that tmux answers late, what a program prints is late as well."""

LATEST_S = 0.2
"""Longer than this no answer of tmux makes it wait: mere silence is believed after 0.3 s."""

BETWEEN_KEYS_S = 0.25
"""A shell at its prompt whose line editor sleeps for a time between two looks for a key is ready after this silence."""

ASLEEP_S = 0.1
"""A prompt that the caller described counts when all have slept for so long, though they do not read the terminal."""

IF_A_SHELL = " If its last line is a shell's prompt, run adopt=yes runs commands there."

SECRET_BY_TEXT = (
    "By its last line alone, it asks for a secret: whether what is typed will be shown cannot be known. Have the "
    "person type it with `tmuxmcp attach --take`."
)

ONLY_SILENCE = (
    "Nothing was printed for {} ms. Whether the program waits for input or still works cannot be known: {}. "
    "Wait for a text with wait_for=pattern, give prompt_pattern, or read again."
)


@value(frozen=False, kw_only=True)
class Terms:
    """What a wait is judged by: what its caller said, and what was typed before the wait."""

    idle_ms: int = 300
    """So much silence ends the wait where nothing else can be known."""
    prompt_pattern: CompiledPattern | None = None
    """By which the caller or a setting describes the prompt: it counts where the kernel cannot tell."""
    prompt_needed: bool = False
    """The caller did: without it only marks tell that the program is ready."""
    sent_at: int | None = None
    """Size of the log when something was typed, if it was; else the wait begins at what there is now."""
    typed: str = ""
    """What was just typed: its echo matches nothing, and is no new line."""
    entered: bool = False
    """It ended with Enter: what then leaves the cursor on an empty line has not come to its prompt."""
    before: Process | None = None
    """Who waited for input when something was typed, or hid who did."""
    before_seen: bool = True
    """It was seen waiting; if not, nothing tells whether who waits now has woken since."""
    at_rest: bool = True
    """When something was typed, the last line was a prompt that was seen before, if it was typed."""
    settle_s: float = SETTLE_S
    """The shortest time that a program has to wait for input."""


class Settling:
    """Judges one session from the beginning of a wait. Times are those of any one clock that does not go back."""

    def __init__(self, terms: Terms, size: int, now: float) -> None:
        """`size`: of the log when the wait began."""
        self._terms = terms
        self.begun_at = size if terms.sent_at is None else terms.sent_at
        """Size of the log where what counts as new begins."""
        self.size = size
        self.changed = now
        """When the log was last seen grown."""
        self._ready_since: float | None = None
        """Since when each look has seen a program that waits for input."""
        self._unknown_since: float | None = None
        """Since when no look could tell what the program waits for."""
        self._listens_since: float | None = None
        """When a program was first seen waiting for input."""
        self._met: tuple[int, int] = (0, 0)
        """Who waits for input, and the size of the log when that was first seen."""
        self._answer_s = 0.0
        """How long tmux took for its last answer."""
        self._fed = (False, LastLine(""), now)
        """What the judgement that the last look is to confirm rests on: marks, the last line, the time."""

    def grown(self, size: int, now: float) -> bool:
        """Take in the size of the log; whether it is another one."""
        if size == self.size:
            return False
        self.size, self.changed = size, now
        return True

    def silent(self, size: int, now: float) -> Conclusion | float:
        """Judge where silence is all that is asked for."""
        self.grown(size, now)
        ends = self.changed + self._terms.idle_ms / 1000
        return Conclusion("idle", "quiet") if now >= ends else ends

    def feed(self, facts: Facts, now: float) -> Judged:
        """Judge by the facts of a moment."""
        self.grown(facts.look.size, now)
        if facts.look.exited:
            return Conclusion("exited")
        process = facts.look.verdict.process
        if facts.look.verdict.waiting is InputWait.UNKNOWN:
            self._ready_since = None
            if self._unknown_since is None:
                self._unknown_since = now
            return self._unseen(facts, now)
        self._unknown_since = None
        if process is None or not facts.look.verdict.ready:
            self._ready_since = None
            return self._asleep(facts, now)
        if self._listens_since is None:
            self._listens_since = now
        return self._listens(facts, process, now)

    def confirm(self, facts: Facts) -> Judged:
        """Judge by the last look, which came after all that was printed before was in the log."""
        by_marks, line, then = self._fed
        if not facts.look.verdict.ready or facts.look.size != self.size:
            return NO_TIME  # it has just printed something, or gone on
        if not by_marks and not self._terms.prompt_needed:
            why = self._doubt(facts, then)
            if why:
                return why if isinstance(why, Need) else NO_TIME  # it has just begun to listen for a time only
        if facts.look.prompt_in_front:
            return Conclusion("ready", "marks", line.text)
        note = SECRET_BY_TEXT if line.secret else None
        return Conclusion("ready", "prompt" if self._terms.prompt_needed else "kernel", line.text, note=note)

    def _listens(self, facts: Facts, process: Process, now: float) -> Judged:
        """Of a program that the kernel sees waiting for input."""
        if facts.look.prompt_late and now < self.changed + LATE_S:
            return self.changed + LATE_S
        if self._ready_since is None:
            self._ready_since = now
        since = max(self._ready_since, self.changed)
        rests = since + self._rest_s(process, len(facts.look.relays))
        # With a prompt that is newer than the wait, nothing is to be seen settling.
        if facts.look.prompt_drawn_to <= self.begun_at and now < rests:
            return rests
        if not facts.look.prompt_in_front:
            held = self._held(facts, now)
            if held is not None:
                return held
        if facts.line is None:
            return Need.LINE
        if facts.logged is None:
            return Need.LOGGED
        slower_s, self._answer_s = self._answer_s * 1.5, facts.logged.answer_s
        if not facts.logged.complete:
            return NO_TIME
        if now < since + LATEST_S and self._answer_s > max(slower_s, SETTLE_S):
            return since + LATEST_S
        self._fed = facts.look.prompt_in_front, facts.line, now
        return Need.LAST_LOOK

    def _held(self, facts: Facts, now: float) -> Judged | None:
        """Why to wait longer for a program that shows no prompt of ours; None: no reason."""
        if self._terms.prompt_needed:
            if facts.shows_prompt is None:
                return Need.PROMPT
            return None if facts.shows_prompt else NO_TIME
        why = self._doubt(facts, now)
        if isinstance(why, Need):
            return why
        return self._may_work(facts, why, now) if why else None

    def _may_work(self, facts: Facts, why: str, now: float) -> Judged:
        """Of a program that listens, and may be at work: silence, once it has lasted."""
        since = self._still_since(now)
        ends = since + max(NEW_LINE_S, self._terms.idle_ms / 1000)
        if now < ends:
            return min(ends, since + self._line_stands_s(facts))
        note = STILL_LISTENS.format(int((now - since) * 1000), why[0].upper() + why[1:])
        return Conclusion("idle", "quiet", doubt=why, note=note)

    def _doubt(self, facts: Facts, now: float) -> str | Need:
        """Why a program that listens may be at work; empty: nothing tells so, or its last line stands."""
        why = doubt(facts, self.size != self._terms.sent_at)
        if isinstance(why, Need) or not why:
            return why
        if facts.line is None:
            return Need.LINE
        if facts.new_line is None:
            return Need.NEW_LINE
        return "" if now >= self._still_since(now) + self._line_stands_s(facts) else why

    def _line_stands_s(self, facts: Facts) -> float:
        if facts.line is None or facts.new_line is None:
            return NO_TIME
        return line_stands_s(facts.new_line.text, facts.look, facts.line)

    def _still_since(self, now: float) -> float:
        return max(now if self._listens_since is None else self._listens_since, self.changed)

    def _rest_s(self, process: Process, relays: int) -> float:
        """How long a program must wait for input, without printing, until it counts as ready."""
        rest_s = self._settle_s(process, relays)
        return max(rest_s, RELAYED_S * (1 + relays)) if relays else rest_s

    def _settle_s(self, process: Process, relays: int) -> float:
        terms = self._terms
        answers_s = min(self._answer_s * ANSWERS_OF_TMUX, LATEST_S)
        settle_s = max(terms.settle_s, answers_s, FAR_SETTLE_S if process.pid < 0 else 0.0)
        before = terms.before
        unmoved = before is not None and (before.pid, before.wakes) == (process.pid, process.wakes)
        # What was printed may be a relay's own (the last line of a tmux), and say nothing of what was typed.
        by_relays = bool(relays) and terms.entered and (unmoved or not terms.before_seen)
        if by_relays or (unmoved and self.size == terms.sent_at):
            return max(settle_s, UNMOVED_S * (1 + relays))
        if self._met[0] != process.pid:
            self._met = process.pid, self.size
        if process.age_s < NEW_S and self._met[1] == self.size:
            return max(settle_s, NEW_S - process.age_s)
        return settle_s

    def _asleep(self, facts: Facts, now: float) -> Judged:
        """Of a program that is not seen waiting: a prompt of ours or of the caller's, once nothing is printed."""
        if facts.look.between_keys:
            return self._between_keys(facts, now)
        if not self._terms.prompt_needed or not facts.look.verdict.asleep:
            return NO_TIME
        if now < self.changed + ASLEEP_S:
            return self.changed + ASLEEP_S
        if facts.shows_prompt is None:
            return Need.PROMPT
        if not facts.shows_prompt:
            return NO_TIME
        if facts.logged is None:
            return Need.LOGGED
        return Conclusion("ready", "prompt") if facts.logged.complete else NO_TIME

    def _between_keys(self, facts: Facts, now: float) -> Judged:
        """Of a shell that sleeps at its prompt, in its own line editor."""
        if now < self.changed + BETWEEN_KEYS_S:
            return self.changed + BETWEEN_KEYS_S
        if facts.logged is None:
            return Need.LOGGED
        return Conclusion("ready", "marks") if facts.logged.complete else NO_TIME

    def _unseen(self, facts: Facts, now: float) -> Judged:
        """Where the kernel cannot tell: marks, a described prompt, one that was seen at rest, or silence."""
        wake_at = NO_TIME
        if facts.look.prompt_alone:
            wake_at = self.changed + UNCONFIRMED_S
            if now >= wake_at:
                return Conclusion("ready", "marks")
        since = max(self.changed, now if self._unknown_since is None else self._unknown_since)
        if self._terms.prompt_pattern:
            if now < since + SETTLE_S:
                wake_at = min(wake_at, since + SETTLE_S)
            elif facts.shows_prompt is None:
                return Need.PROMPT
            elif facts.shows_prompt:
                return Conclusion("ready", "prompt")
        if self._terms.prompt_needed:
            return wake_at
        if facts.look.verdict.hidden and facts.look.verdict.process and self._terms.at_rest and not facts.look.draws:
            stands = self._stands_again(facts, since, now)
            if isinstance(stands, Need):
                return stands
            if now >= stands:
                return Conclusion("ready", "prompt")
            wake_at = min(wake_at, stands)
        silent = since + self._terms.idle_ms / 1000
        return self._silence(facts) if now >= silent else min(wake_at, silent)

    def _stands_again(self, facts: Facts, since: float, now: float) -> float | Need:
        """When a program that another hides will have shown its prompt, as it was seen at rest, for long enough.

        Not where something was typed before it came to rest: the prompt then may be the one before what was typed.
        """
        if now < since + KNOWN_S:
            return since + KNOWN_S
        if facts.line is None:
            return Need.LINE
        if facts.new_line is None:
            return Need.NEW_LINE
        return since + stands_again_s(facts.new_line.known, facts.line.pastes)

    def _silence(self, facts: Facts) -> Judged:
        """The judgement where only silence is known."""
        terms = self._terms
        if terms.entered and self.size != terms.sent_at and not facts.look.draws:
            if facts.line is None:
                return Need.LINE
            if not facts.line.text:
                return NO_TIME  # it has not come to its prompt
        note = ONLY_SILENCE.format(terms.idle_ms, facts.look.verdict.why)
        if facts.look.draws or not facts.look.verdict.hidden or facts.look.verdict.process is None:
            return Conclusion("idle", "quiet", note=note)
        if facts.new_line is None:
            return Need.NEW_LINE
        line = facts.new_line.text
        if asks_secret(line):
            note = SECRET_BY_TEXT
        elif may_be_prompt(line):
            note += IF_A_SHELL
        return Conclusion("idle", "quiet", line, note=note)


# ---- Whether a command that runs has come to the point where it wants input ------------------------------------------
#
# The kernel, its last line, or only silence.
#
# What leaves the machine (ssh, telnet, a container) is judged by its last line alone: a prompt like one that was seen
# at rest, a question for a secret, or a new prompt that stands still. Pure.

ASKS_S = 0.05
"""A command that waits so long for a line, without printing, asks for it."""

LISTENS_FOR_KEYS_S = 0.25
"""The same for keys: some programs ask the terminal what it is, and listen for its answer for a moment."""

NEW_PROMPT_S = 0.3
"""A prompt that is seen for the first time, behind what hides its program, stands for so long."""


class AskingJudge:
    """Judges one command from when it was typed."""

    def __init__(self) -> None:
        self._size = -1
        self._printed = 0.0
        """When the log was last seen grown."""
        self._name = ""
        """Who is seen waiting for input, at each moment; empty: nobody."""
        self._since = 0.0
        self._fed: tuple[Conclusion, float] | None = None
        """What is to be confirmed, and the time."""

    def feed(self, facts: Facts, now: float) -> Judged:
        """Judge by the facts of a moment."""
        if facts.look.size != self._size:
            self._size, self._printed, self._name = facts.look.size, now, ""
        found = self._judged(facts, now)
        if not isinstance(found, Conclusion):
            return found
        if facts.logged is None:
            return Need.LOGGED
        if not facts.logged.complete:
            return NO_TIME
        self._fed = found, now
        return Need.LAST_LOOK

    def confirm(self, facts: Facts) -> Judged:
        """Judge by the last look, which came after all that was printed before was in the log."""
        assert self._fed is not None
        found, then = self._fed
        if facts.look.size != self._size or facts.look.verdict.hidden != (found.evidence == "prompt"):
            return NO_TIME
        if not facts.look.verdict.hidden:
            again = self._judged(facts, then)  # it may have just begun to listen for a time only
            if not isinstance(again, Conclusion):
                return again
            if again.outcome != found.outcome:
                return NO_TIME
        return found

    def _judged(self, facts: Facts, now: float) -> Judged:
        process = facts.look.verdict.process
        if facts.look.verdict.hidden:
            return self._hidden(facts, now) if process and not facts.look.draws else NO_TIME
        if process is None or not facts.look.verdict.ready:
            if process is None or process.name != self._name or process.state != "R":
                self._name = ""  # it has not only woken for a moment, as a program with a timer does
            return NO_TIME
        return self._seen(facts, process, now)

    def _seen(self, facts: Facts, process: Process, now: float) -> Judged:
        """Of a program that the kernel sees waiting."""
        if process.name != self._name:
            self._name, self._since = process.name, now
        asks_s = LISTENS_FOR_KEYS_S if facts.look.verdict.waiting is InputWait.EDITOR else ASKS_S
        asks = max(self._since, self._printed) + asks_s
        if now < asks:
            return asks
        why = doubt(facts)
        if isinstance(why, Need):
            return why
        if not why:
            return Conclusion("ready", "kernel")
        if facts.line is None:
            return Need.LINE
        stands, silent = (
            self._printed + line_stands_s(facts.line.text, facts.look, facts.line),
            self._printed + NEW_LINE_S,
        )
        if now >= stands:
            return Conclusion("ready", "kernel")
        return Conclusion("idle", "quiet", doubt=why) if now >= silent else min(stands, silent)

    def _hidden(self, facts: Facts, now: float) -> Judged:
        """Of a program that is hidden by another."""
        if facts.line is None:
            return Need.LINE
        line = facts.line.text
        if not line.strip():
            return NO_TIME
        stands = self._printed + stands_again_s(facts.line.known, facts.line.pastes)
        if now >= stands:
            return Conclusion("ready", "prompt")
        if not may_ask(line):
            return stands
        new = self._printed + NEW_PROMPT_S
        return Conclusion("idle", "prompt", line) if now >= new else min(stands, new)


# ---- What is known of a session at one moment, as values, and what that moment tells by itself. Pure -----------------
#
# What takes long to find out is left open at first. Whoever judges names what it needs next (`Need`), and is given the
# same facts with it.

FULL_SCREEN_MODES = ("fullscreen", "editor", "pager")
"""Modes of programs that draw the whole screen, some without asking for the alternate one."""

SCREEN_PROGRAMS = EDITORS | PAGERS | FULLSCREEN
"""Programs that are known to listen for a time only, and to do nothing of their own afterwards."""

KNOWN_S = 0.05
"""A prompt like one that was seen before, behind what hides its program, with its line editor, stands for so long."""

KNOWN_PLAIN_S = 0.3
"""The same of a prompt without a line editor, which any program may print."""


class Need(Enum):
    """What a judgement asks for; it is given the same facts with that, at the same time."""

    LINE = "line"
    NEW_LINE = "new_line"
    PROMPT = "shows_prompt"
    LOGGED = "logged"
    LAST_LOOK = "last look"
    """Other facts: those of a look taken after all that was printed before was in the log. They go to `confirm`."""


@value
class LastLine:
    """The line that the cursor is in."""

    text: str
    """With its blanks up to the cursor."""
    pastes: bool = False
    """The last word on pastes in brackets switched them on: a line editor is at work."""
    drawn: bool = False
    """A line editor drew it: it put the cursor behind it."""
    edited: bool = False
    """A line editor shows its prompt, and behind it what is typed: nothing was entered there yet."""
    known: bool = False
    """It looks like a prompt of this program that was seen at rest."""
    secret: bool = False
    """It asks for a secret, and nothing tells whether what is typed will be shown."""


@value
class NewLine:
    """The line that the cursor is in, as far as it is newer than what was typed, and no echo of that."""

    text: str
    known: bool = False
    """It looks like a prompt of this program that was seen at rest."""


@value
class Logged:
    """What came of waiting for all that was printed until now."""

    complete: bool
    """The log holds it, and nothing new."""
    answer_s: float = 0.0
    """How long tmux took for an answer."""


@value
class Facts:
    """A look, and what was found out besides. None: that was not yet."""

    look: Look
    line: LastLine | None = None
    new_line: NewLine | None = None
    shows_prompt: bool | None = None
    """The described prompt is shown."""
    logged: Logged | None = None


@value
class Conclusion:
    """What a judgement came to."""

    outcome: Literal["ready", "idle", "exited"]
    evidence: Evidence | None = None
    prompt: str = ""
    """The line at which the program rests, by which it may be known again; empty: not to be remembered."""
    doubt: str = ""
    """Why it may be at work all the same; empty: nothing tells so."""
    note: str | None = None
    """What is to be said where it cannot be known what the program does, or what becomes of what is typed."""


Judged = Conclusion | Need | float
"""The answer; or what is needed for one; or when the same facts would give another, by the clock of the judgement.

Whatever else comes before, whoever asks looks again: a program goes on without telling anybody.
"""

NO_TIME = float("inf")
"""Time alone changes nothing."""


class Judge(Protocol):
    """Judges one moment after the other."""

    def feed(self, facts: Facts, now: float) -> Judged:
        """Judge by the facts of a moment, and its time."""
        ...

    def confirm(self, facts: Facts) -> Judged:
        """Judge by the facts of the last look, which came after those that were fed."""
        ...


def doubt(facts: Facts, drawn: bool = True) -> str | Need:
    """Why a program that listens may be at work; empty: nothing tells so.

    One that draws the whole screen and listens for keys is ready for them. It may not have come to its end where it has
    drawn nothing for the last key, where others of its pipeline work for it, and where it was sent an Enter and waits
    for more than the terminal: what it draws at once may say no more than that it works.

    Args:
        drawn: something was printed since something was typed, if it was.
    """
    look = facts.look
    process = look.verdict.process
    if process is None or not draws_screen(look):
        if facts.line is None:
            return Need.LINE
        line = "" if look.entered_in_silence else facts.line.text
        return may_be_working(look.verdict, look.judged, line, look.entered)
    beside = works_beside(process, look.judged)
    if beside:
        return beside
    if process.name in SCREEN_PROGRAMS:
        return ""
    loops = not (process.only_reads or process.only_terminal)
    entered = look.entered
    if loops and entered and (entered.pid, entered.at) == (process.pid, look.typed_at):
        return f"{process.name} listens to more than the terminal, and may draw its answer later"
    return "" if drawn or process.time_out_s is None else look.verdict.weak


def draws_screen(look: Look) -> bool:
    """Whether its program draws the whole screen: not one that reads whole lines, whatever was drawn before."""
    return look.waiting is InputWait.EDITOR and (look.draws or look.mode in FULL_SCREEN_MODES)


def stands_again_s(known: bool, pastes: bool) -> float:
    """How long a last line must stand to be the prompt that was seen at rest: for ever where it is not like that.

    A program may print the same line and go on: where a line editor showed itself with the prompt, it has to again.
    """
    if not known:
        return NO_TIME
    return KNOWN_S if pastes else KNOWN_PLAIN_S


def line_stands_s(line: str, look: Look, last: LastLine) -> float:
    """How long a last line must stand to tell that a program which may be at work waits for input.

    A line on a screen of which a program draws the whole tells nothing: many draw a box for input while they work.

    Args:
        line: of it, what is newer than what was typed.
    """
    process = look.verdict.process
    if process is None or draws_screen(look):
        return NO_TIME
    if last.edited:
        return 0.0
    needed_s = stands_s(line, process.time_out_s, drawn=last.drawn, secret=look.secret)
    return NO_TIME if needed_s is None else needed_s


# ---- Programs that listen to the terminal while they work ------------------------------------------------------------
#
# What tells that one waits for input, and for how long not.
#
# The kernel shows that an event loop listens, not that it has nothing to do. Its last line may tell: a prompt or a
# question that is newer than what was typed, with the cursor at its end. Without that there is only silence. Pure.

NEW_LINE_S = 1.0
"""So long it is waited for a new last line, while nothing is printed."""

QUESTION_S = 0.15
"""A question has to stand for so long: it may be one that is put to somebody else."""

SHORT_S = 0.25
"""A program that wakes so often, as those do that draw a spinner, is waited for until it has slept once in peace."""

_QUESTION_LINE = re.compile(r"\?[^.?]{0,60}$|[\[(]\w+/\w+[\])]\W*$|^\s*\[[^\[\]]+\]:\s*$")
_WORD = re.compile(r"\w")

STILL_LISTENS = (
    "Nothing was printed for {} ms. {}, so it may wait for input or still work: that cannot be known. Wait for a text "
    "with wait_for=pattern, give prompt_pattern, or read again."
)


def may_be_working(verdict: Verdict, facts: KernelFacts | None, line: str, entered: EnteredLine | None) -> str:
    """Why a program that listens may be at work; empty: nothing tells so.

    Args:
        line: the one that the cursor is in.
        entered: the last line that was entered, where that is known.
    """
    process = verdict.process
    if process is None:
        return ""
    if verdict.weak:
        return verdict.weak
    if facts is None or entered is None or entered.pid != process.pid:
        return ""
    begun = _begun_since(facts, process, entered)
    if begun:
        return f"{begun.name} was started by what was entered, and still runs"
    if not process.only_reads and entered.prompt and not _is_back(entered.prompt, line):
        return f"{process.name} listens, and its prompt has not come back"
    return ""


def _is_back(prompt: str, line: str) -> bool:
    """Whether a line is the prompt at which the last one was entered; its digits and paths may be others."""
    return line.strip() == prompt.strip() or ("" != shape(line) == shape(prompt))


def works_beside(process: Process, facts: KernelFacts | None) -> str:
    """Why others of its group may work for a program that polls, as in `... | dialog --gauge`; empty: they do not."""
    if facts is None or process.wait_channel not in POLL_WAIT_CHANNELS:
        return ""
    above, parents = {process.pid}, {each.pid: each.parent for each in facts.processes}
    pid = process.parent
    while pid in parents and pid not in above:
        above.add(pid)
        pid = parents[pid]
    others = (
        each for each in facts.processes if each.pid not in above and not descends(each, process, facts.processes)
    )
    other = next((each for each in others if each.on_terminal is False and each.state not in "ZX"), None)
    return f"{process.name} listens to others than the terminal, and {other.name} beside it still runs" if other else ""


def _begun_since(facts: KernelFacts, process: Process, entered: EnteredLine) -> Process | None:
    others = (each for each in facts.processes if each.pid not in entered.present and each.pid != process.pid)
    others = (each for each in others if not (process.only_reads and descends(each, process, facts.processes)))
    return next((each for each in others if each.on_terminal is False and each.state not in "ZX"), None)


def stands_s(line: str, time_out_s: float | None, *, drawn: bool = False, secret: bool = False) -> float | None:
    """How long a last line must stand to tell that its program waits for input; None: it does not tell.

    Args:
        line: what is in the cursor's line, and newer than what was typed.
        time_out_s: of the program's wait.
        drawn: a line editor drew it, also one of signs alone, as the second line of a block has.
        secret: what is typed is not shown.
    """
    if not line.strip() or PROGRESS_LINE.search(line):
        return None
    if may_be_prompt(line):
        stands = 0.0
    elif _QUESTION_LINE.search(line) or ((drawn or secret) and may_ask(line)) or (drawn and not _WORD.search(line)):
        stands = QUESTION_S
    else:
        return None
    return max(stands, time_out_s * 1.5) if time_out_s is not None and time_out_s <= SHORT_S else stands


# ---- When a wait looks at what it waits for --------------------------------------------------------------------------
#
# At new text once, at a screen seldom, at a change until it is drawn. Pure.
#
# Each is given the size of the log, and the time by any one clock that does not go back.

SCREEN_EVERY_S = 0.05
"""Least time between two looks at the screen."""

UNPRINTED_S = 0.25
"""The same when nothing was printed: only a new size changes it then."""

DRAWN_S = 0.02
"""A screen that has changed and then stood still for so long has been drawn to its end."""

DRAWING_S = 0.25
"""Longest wait for that end."""


STANDS_S = 1.0
"""What has stood at the end for so long is no half-drawn echo, also on a busy machine or a slow link."""


class NewText:
    """Tells when there is text that was not searched yet, or is to be searched once more as nothing follows it."""

    def __init__(self, start: int, *, echoes: bool = False) -> None:
        """`start`: new text begins at this offset. `echoes`: something was typed, whose echo may be drawn."""
        self._start, self._echoes = start, echoes
        self._searched, self._grown_at = -1, 0.0
        self.stands = False
        """Nothing is being drawn at the end of what is to be searched."""

    def feed(self, size: int, now: float, *, exited: bool = False) -> bool:
        """Whether there is, by the size that the log has now; then it counts as searched.

        Args:
            exited: nothing follows any more.
        """
        if size <= self._start:
            return False
        grown = size != self._searched
        if grown:
            self._searched, self._grown_at, self.stands = size, now, False
        stood = self._echoes and not self.stands and (exited or now - self._grown_at >= STANDS_S)
        self.stands = self.stands or stood
        return grown or stood


class ScreenLooks:
    """Tells when a screen is to be looked at again."""

    def __init__(self) -> None:
        self._at = -NO_TIME
        self.size = -1
        """Of the log at the last look; -1: there was none."""

    def due(self, size: int, now: float) -> bool:
        """Whether it is."""
        return now - self._at >= (SCREEN_EVERY_S if size != self.size else UNPRINTED_S)

    def looked(self, size: int, now: float) -> None:
        """Take in that somebody looks now."""
        self._at, self.size = now, size


class Changed:
    """Tells when a screen is another one than that from which a wait began, and drawn to its end."""

    def __init__(self) -> None:
        self.looks = ScreenLooks()
        self._differs_since: float | None = None

    def looked(self, differs: bool, size: int, now: float) -> None:
        """Take in a look at the screen."""
        self.looks.looked(size, now)
        if not differs:
            self._differs_since = None
        elif self._differs_since is None:
            self._differs_since = now

    def feed(self, size: int, grown_at: float, now: float, *, exited: bool) -> bool:
        """Whether it is so now.

        Args:
            grown_at: when the log was last seen grown.
            exited: nothing draws any more.
        """
        if self._differs_since is None:
            return False
        drawn = self.looks.size == size and now - grown_at >= DRAWN_S
        return drawn or exited or now - self._differs_since >= DRAWING_S
