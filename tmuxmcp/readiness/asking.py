"""Whether a command that runs has come to the point where it wants input: the kernel, its last line, or only silence.

What leaves the machine (ssh, telnet, a container) is judged by its last line alone: a prompt like one that was seen at
rest, a question for a secret, or a new prompt that stands still. Pure.
"""

from __future__ import annotations

from tmuxmcp.machine.witness.kernel import InputWait, Process
from tmuxmcp.readiness import weak
from tmuxmcp.readiness.facts import (
    NO_TIME,
    Conclusion,
    Facts,
    Judged,
    Need,
    doubt,
    line_stands_s,
    stands_again_s,
)

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

    def feed(self, facts: Facts, size: int, now: float) -> Judged:
        """Judge by the facts of a moment."""
        if size != self._size:
            self._size, self._printed, self._name = size, now, ""
        found = self._judged(facts, now)
        if not isinstance(found, Conclusion):
            return found
        if facts.logged is None:
            return Need.LOGGED
        if not facts.logged.complete:
            return NO_TIME
        self._fed = found, now
        return Need.LAST_LOOK

    def confirm(self, facts: Facts, size: int) -> Judged:
        """Judge by the last look, which came after all that was printed before was in the log."""
        assert self._fed is not None
        found, then = self._fed
        if size != self._size or facts.verdict.hidden != (found.evidence == "prompt"):
            return NO_TIME
        if not facts.verdict.hidden:
            again = self._judged(facts, then)  # it may have just begun to listen for a time only
            if not isinstance(again, Conclusion):
                return again
            if again.outcome != found.outcome:
                return NO_TIME
        return found

    def _judged(self, facts: Facts, now: float) -> Judged:
        process = facts.verdict.process
        if facts.verdict.hidden:
            return self._hidden(facts, now) if process and not facts.draws else NO_TIME
        if process is None or not facts.verdict.ready:
            if process is None or process.name != self._name or process.state != "R":
                self._name = ""  # it has not only woken for a moment, as a program with a timer does
            return NO_TIME
        return self._seen(facts, process, now)

    def _seen(self, facts: Facts, process: Process, now: float) -> Judged:
        """Of a program that the kernel sees waiting."""
        if process.name != self._name:
            self._name, self._since = process.name, now
        asks_s = LISTENS_FOR_KEYS_S if facts.verdict.waiting is InputWait.EDITOR else ASKS_S
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
            self._printed + line_stands_s(facts.line.text, process, facts.line),
            self._printed + weak.NEW_LINE_S,
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
        if not weak.may_ask(line):
            return stands
        new = self._printed + NEW_PROMPT_S
        return Conclusion("idle", "prompt", line) if now >= new else min(stands, new)
