"""What is known of a session at one moment, as values, and what that moment tells by itself. Pure.

What takes long to find out is left open at first. Whoever judges names what it needs next (`Need`), and is given the
same facts with it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Literal, Protocol

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.machine.witness.kernel import EnteredLine, KernelFacts, Process, Verdict
from tmuxmcp.readiness import weak
from tmuxmcp.terminal.modes import EDITORS, FULLSCREEN, PAGERS

if TYPE_CHECKING:
    from tmuxmcp.contract.results import Evidence, Mode

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


@dataclass(frozen=True)
class Marks:
    """What the marks of the shell in front say, as far as they count."""

    at_prompt: bool = False
    """It waits at its prompt; and it has the terminal, as far as the kernel tells."""
    drawn_to: int = -1
    """Size of the log where that prompt ended, of a shell that draws nothing more behind it."""
    late: bool = False
    """It certainly waits for keys, and has not said that it is at its prompt: that is on the way."""
    between_keys: bool = False
    """It sleeps at its prompt, and is not seen waiting for input: its line editor is a program of its own language."""
    alone: bool = False
    """They say that it waits at its prompt where the kernel cannot, and nothing typed since is on its way."""


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class NewLine:
    """The line that the cursor is in, as far as it is newer than what was typed, and no echo of that."""

    text: str
    known: bool = False
    """It looks like a prompt of this program that was seen at rest."""


@dataclass(frozen=True)
class Logged:
    """What came of waiting for all that was printed until now."""

    complete: bool
    """The log holds it, and nothing new."""
    answer_s: float = 0.0
    """How long tmux took for an answer."""


@dataclass(frozen=True)
class Facts:
    """What is known at one moment. None: not found out yet."""

    verdict: Verdict
    """The kernel's word on the terminal that input comes to."""
    kernel: KernelFacts | None = None
    """The facts of that terminal; None: they cannot be had."""
    relays: int = 0
    """How many programs pass input on to it."""
    marks: Marks = Marks()
    exited: bool = False
    """Nothing runs any more."""
    draws: bool = False
    """A full-screen program draws, as far as tmux was asked or the log tells."""
    mode: Mode = "unknown"
    entered: EnteredLine | None = None
    """The last line that was entered, where that is known."""
    line: LastLine | None = None
    new_line: NewLine | None = None
    shows_prompt: bool | None = None
    """The described prompt is shown."""
    logged: Logged | None = None


@dataclass(frozen=True)
class Conclusion:
    """What a judgement came to."""

    outcome: Literal["ready", "idle", "exited"]
    evidence: Evidence | None = None
    prompt: str = ""
    """The line at which the program rests, by which it may be known again; empty: not to be remembered."""
    doubt: str = ""
    """Why it may be at work all the same; empty: nothing tells so."""
    note: str | None = None
    """What is to be said where nothing but silence is known."""


Judged = Conclusion | Need | float
"""The answer; or what is needed for one; or when the same facts would give another, by the clock of the judgement.

Whatever else comes before, whoever asks looks again: a program goes on without telling anybody.
"""

NO_TIME = float("inf")
"""Time alone changes nothing."""


class Judge(Protocol):
    """Judges one moment after the other."""

    def feed(self, facts: Facts, size: int, now: float) -> Judged:
        """Judge by the facts of a moment, the size of the log then, and the time."""
        ...

    def confirm(self, facts: Facts, size: int) -> Judged:
        """Judge by the facts of the last look, which came after those that were fed."""
        ...


def doubt(facts: Facts, drawn: bool = True) -> str | Need:
    """Why a program that listens may be at work; empty: nothing tells so.

    One that draws the whole screen and listens for keys is ready for them, whatever it goes on to draw: only where
    it has drawn nothing for the last key, or others of its pipeline work for it, it may not have come to its end.

    Args:
        drawn: something was printed since something was typed, if it was.
    """
    process = facts.verdict.process
    if process is None or not (facts.draws or facts.mode in FULL_SCREEN_MODES):
        if facts.line is None:
            return Need.LINE
        return weak.doubt(facts.verdict, facts.kernel, facts.line.text, facts.entered)
    beside = weak.works_beside(process, facts.kernel)
    if beside:
        return beside
    return "" if drawn or process.name in SCREEN_PROGRAMS or process.time_out_s is None else facts.verdict.weak


def certain(facts: Facts, line: LastLine) -> bool:
    """Whether a program is found waiting for input by one look, and nothing tells that it may be at work.

    It may print at this moment.
    """
    process = facts.verdict.process
    if not facts.verdict.ready or process is None:
        return False
    told = weak.stands_s(line.text, process.time_out_s) == 0 or line.edited
    return told or not doubt(facts)


def stands_again_s(known: bool, pastes: bool) -> float:
    """How long a last line must stand to be the prompt that was seen at rest: for ever where it is not like that.

    A program may print the same line and go on: where a line editor showed itself with the prompt, it has to again.
    """
    if not known:
        return NO_TIME
    return KNOWN_S if pastes else KNOWN_PLAIN_S


def line_stands_s(line: str, process: Process, last: LastLine) -> float:
    """How long a last line must stand to tell that a program which may be at work waits for input.

    Args:
        line: of it, what is newer than what was typed.
    """
    if last.edited:
        return 0.0
    stands_s = weak.stands_s(line, process.time_out_s, last.drawn)
    return NO_TIME if stands_s is None else stands_s
