"""Feeds a judge moments, as who waits does: each need is met from what is known, and no more is told than was asked."""

from __future__ import annotations

from typing import cast

from tmuxmcp.contract.results import Mode
from tmuxmcp.contract.value import replace, value
from tmuxmcp.machine.witness.kernel import EnteredLine, InputWait, KernelFacts, Process, Verdict
from tmuxmcp.readiness.judge import Conclusion, Facts, Judge, LastLine, Logged, Need, NewLine
from tmuxmcp.sessions.look import Look

OPEN = {"line": None, "new_line": None, "shows_prompt": None, "logged": None}

SIZE = 100
"""Of the log, where nothing is printed."""


@value
class Marks:
    """What the marks say in a look, as far as they count."""

    at_prompt: bool = False
    drawn_to: int = -1
    late: bool = False
    between_keys: bool = False
    alone: bool = False


@value
class Seen:
    """What a judge asks of a look."""

    verdict: Verdict
    judged: KernelFacts | None = None
    relays: tuple[str, ...] = ()
    marks: Marks = Marks()
    exited: bool = False
    draws: bool = False
    mode: Mode = "unknown"
    entered: EnteredLine | None = None
    size: int = SIZE
    typed_at: int = -1

    @property
    def entered_in_silence(self) -> bool:
        return self.entered is not None and self.entered.at == self.typed_at == self.size

    @property
    def waiting(self) -> InputWait:
        return self.verdict.waiting

    @property
    def secret(self) -> bool:
        return self.waiting is InputWait.SECRET

    @property
    def prompt_in_front(self) -> bool:
        return self.marks.at_prompt

    @property
    def prompt_drawn_to(self) -> int:
        return self.marks.drawn_to

    @property
    def prompt_late(self) -> bool:
        return self.marks.late

    @property
    def between_keys(self) -> bool:
        return self.marks.between_keys

    @property
    def prompt_alone(self) -> bool:
        return self.marks.alone


def known(
    verdict: Verdict,
    line: str = "",
    *,
    new: str | None = None,
    shows_prompt: bool = False,
    last: LastLine | None = None,
    logged: Logged | None = None,
    **seen: object,
) -> Facts:
    """Facts in which everything was found out already; the line is new, unless told."""
    last = last or LastLine(line)
    return Facts(
        cast(Look, Seen(verdict, **seen)),  # type: ignore[arg-type]
        line=last,
        new_line=NewLine(line if new is None else new, last.known),
        shows_prompt=shows_prompt,
        logged=logged or Logged(complete=True),
    )


def waits(waiting: InputWait, process: Process | None = None, **more: object) -> Verdict:
    return Verdict(waiting, "why", process, **more)  # type: ignore[arg-type]


@value(frozen=False)
class Moment:
    """What is known at a time, and at the last look, if it comes to that."""

    facts: Facts
    at: float = 0.0
    """Seconds."""
    size: int = SIZE
    last: Facts | None = None
    """None: the same facts."""
    last_size: int | None = None


def judged(judge: Judge, moment: Moment) -> Conclusion | float:
    """What a judge says of a moment."""
    found, confirms = _sized(moment.facts, moment.size), False
    facts = replace(found, **OPEN)  # type: ignore[arg-type]
    asked: set[tuple[bool, Need]] = set()
    said = judge.feed(facts, moment.at)
    while isinstance(said, Need):
        assert (confirms, said) not in asked, f"{said} was told"
        asked.add((confirms, said))
        if said is Need.LAST_LOOK:
            found, confirms = _sized(moment.last or moment.facts, moment.last_size or moment.size), True
            facts = replace(found, **OPEN)  # type: ignore[arg-type]
        else:
            facts = replace(facts, **{said.value: getattr(found, said.value)})
        said = judge.confirm(facts) if confirms else judge.feed(facts, moment.at)
    return said


def _sized(facts: Facts, size: int) -> Facts:
    return replace(facts, look=replace(facts.look, size=size))


def stands(judge: Judge, facts: Facts, size: int = SIZE, begun: float = 0.0) -> tuple[Conclusion, float] | None:
    """The answer to facts that do not change, and after how long; None: never. It sleeps as long as it is told."""
    now = begun
    for _ in range(20):
        said = judged(judge, Moment(facts, now, size))
        if isinstance(said, Conclusion):
            return said, now - begun
        if said == float("inf"):
            return None
        assert said > now, "it would not sleep"
        now = said
    raise AssertionError("it never comes to an answer")


def looked_at_often(
    judge: Judge, facts: Facts, size: int = SIZE, longest: float = 3.0
) -> tuple[Conclusion, float] | None:
    """The same, looked at each millisecond."""
    for ms in range(int(longest * 1000)):
        said = judged(judge, Moment(facts, ms / 1000, size))
        if isinstance(said, Conclusion):
            return said, ms / 1000
    return None
