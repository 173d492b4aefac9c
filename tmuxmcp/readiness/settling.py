"""Whether the program of a terminal has come to rest: judged from facts with times, one moment after the other. Pure.

`Settling.feed` is given what is known (`readiness/facts.py`), the size of the log, and the time. It says the answer, or
what it needs to know besides, or when the same facts would give another answer.
"""

from __future__ import annotations

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine.witness.kernel import InputWait, Process
from tmuxmcp.readiness import weak
from tmuxmcp.readiness.facts import (
    KNOWN_S,
    NO_TIME,
    Conclusion,
    Facts,
    Judged,
    Need,
    doubt,
    line_stands_s,
    stands_again_s,
)
from tmuxmcp.terminal.modes import ASKS_SECRET, may_be_prompt

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


@dataclass(frozen=True)
class Terms:
    """What a wait is judged by: what its caller said, and what was typed before the wait."""

    idle_ms: int = 300
    """So much silence ends the wait where nothing else can be known."""
    described: bool = False
    """The prompt is described, by the caller or a setting: it counts where the kernel cannot tell."""
    prompt_needed: bool = False
    """The caller did: without it only marks tell that the program is ready."""
    sent_at: int | None = None
    """Size of the log when something was typed, if it was."""
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
        self._fed = (False, "", now)
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

    def feed(self, facts: Facts, size: int, now: float) -> Judged:
        """Judge by the facts of a moment."""
        self.grown(size, now)
        if facts.exited:
            return Conclusion("exited")
        process = facts.verdict.process
        if facts.verdict.waiting is InputWait.UNKNOWN:
            self._ready_since = None
            if self._unknown_since is None:
                self._unknown_since = now
            return self._unseen(facts, now)
        self._unknown_since = None
        if process is None or not facts.verdict.ready:
            self._ready_since = None
            return self._asleep(facts, now)
        if self._listens_since is None:
            self._listens_since = now
        return self._listens(facts, process, now)

    def confirm(self, facts: Facts, size: int) -> Judged:
        """Judge by the last look, which came after all that was printed before was in the log."""
        by_marks, line, then = self._fed
        if not facts.verdict.ready or size != self.size:
            return NO_TIME  # it has just printed something, or gone on
        if not by_marks and not self._terms.prompt_needed:
            why = self._doubt(facts, then)
            if why:
                return why if isinstance(why, Need) else NO_TIME  # it has just begun to listen for a time only
        if facts.marks.at_prompt:
            return Conclusion("ready", "marks", line)
        return Conclusion("ready", "prompt" if self._terms.prompt_needed else "kernel", line)

    def _listens(self, facts: Facts, process: Process, now: float) -> Judged:
        """Of a program that the kernel sees waiting for input."""
        if facts.marks.late and now < self.changed + LATE_S:
            return self.changed + LATE_S
        if self._ready_since is None:
            self._ready_since = now
        since = max(self._ready_since, self.changed)
        rests = since + self._rest_s(process, facts.relays)
        # With a prompt that is newer than the wait, nothing is to be seen settling.
        if facts.marks.drawn_to <= self.begun_at and now < rests:
            return rests
        if not facts.marks.at_prompt:
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
        self._fed = facts.marks.at_prompt, facts.line.text, now
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
        ends = since + max(weak.NEW_LINE_S, self._terms.idle_ms / 1000)
        if now < ends:
            return min(ends, since + self._line_stands_s(facts))
        note = weak.STILL_LISTENS.format(int((now - since) * 1000), why[0].upper() + why[1:])
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
        process = facts.verdict.process
        if process is None or facts.line is None or facts.new_line is None:
            return NO_TIME
        return line_stands_s(facts.new_line.text, process, facts.line)

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
        if facts.marks.between_keys:
            return self._between_keys(facts, now)
        if not self._terms.prompt_needed or not facts.verdict.asleep:
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
        if facts.marks.alone:
            wake_at = self.changed + UNCONFIRMED_S
            if now >= wake_at:
                return Conclusion("ready", "marks")
        since = max(self.changed, now if self._unknown_since is None else self._unknown_since)
        if self._terms.described:
            if now < since + SETTLE_S:
                wake_at = min(wake_at, since + SETTLE_S)
            elif facts.shows_prompt is None:
                return Need.PROMPT
            elif facts.shows_prompt:
                return Conclusion("ready", "prompt")
        if self._terms.prompt_needed:
            return wake_at
        if facts.verdict.hidden and facts.verdict.process and self._terms.at_rest and not facts.draws:
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
        if terms.entered and self.size != terms.sent_at and not facts.draws:
            if facts.line is None:
                return Need.LINE
            if not facts.line.text:
                return NO_TIME  # it has not come to its prompt
        note = ONLY_SILENCE.format(terms.idle_ms, facts.verdict.why)
        if facts.draws or not facts.verdict.hidden or facts.verdict.process is None:
            return Conclusion("idle", "quiet", note=note)
        if facts.new_line is None:
            return Need.NEW_LINE
        line = facts.new_line.text
        if ASKS_SECRET.search(line):
            note = SECRET_BY_TEXT
        elif may_be_prompt(line):
            note += IF_A_SHELL
        return Conclusion("idle", "quiet", line, note=note)
