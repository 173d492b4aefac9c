"""Feeds a judge moments, as who waits does: each need is met from what is known, and no more is told than was asked."""

from __future__ import annotations

from tmuxmcp.contract.value import replace, value
from tmuxmcp.machine.witness.kernel import InputWait, Process, Verdict
from tmuxmcp.readiness.judge import Conclusion, Facts, Judge, LastLine, Logged, Need, NewLine

OPEN = {"line": None, "new_line": None, "shows_prompt": None, "logged": None}

SIZE = 100
"""Of the log, where nothing is printed."""


def known(
    verdict: Verdict, line: str = "", *, new: str | None = None, shows_prompt: bool = False, **more: object
) -> Facts:
    """Facts in which everything was found out already; the line is new, unless told."""
    last = more.pop("last", LastLine(line))
    assert isinstance(last, LastLine)
    facts = Facts(
        verdict, line=last, new_line=NewLine(line if new is None else new, last.known), shows_prompt=shows_prompt
    )
    return replace(facts, **{"logged": Logged(complete=True), **more})  # type: ignore[arg-type]


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
    facts, size, confirms = replace(moment.facts, **OPEN), moment.size, False  # type: ignore[arg-type]
    asked: set[tuple[bool, Need]] = set()
    found = moment.facts
    said = judge.feed(facts, size, moment.at)
    while isinstance(said, Need):
        assert (confirms, said) not in asked, f"{said} was told"
        asked.add((confirms, said))
        if said is Need.LAST_LOOK:
            found, confirms = moment.last or moment.facts, True
            facts, size = replace(found, **OPEN), moment.last_size or size  # type: ignore[arg-type]
        else:
            facts = replace(facts, **{said.value: getattr(found, said.value)})
        said = judge.confirm(facts, size) if confirms else judge.feed(facts, size, moment.at)
    return said


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
