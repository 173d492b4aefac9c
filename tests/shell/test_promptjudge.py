"""Whether a shell can be given a command: tables of looks with times, without a clock or a terminal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.cases import for_each
from tmuxmcp.contract.value import replace, value
from tmuxmcp.machine.witness.kernel import InputWait
from tmuxmcp.readiness.judge import UNMARKED_S
from tmuxmcp.shell.promptjudge import (
    ARRIVES_S,
    LEAVES_S,
    SETTLES_S,
    STOPPED_S,
    AtPrompt,
    PromptFacts,
    PromptNeed,
    PromptStep,
)
from tmuxmcp.terminal.marks import ShellState


@value
class Seen:
    """What one look tells, and what can be found out."""

    state: ShellState
    marks: bool
    in_front: bool
    at_editor: bool
    ready: bool
    hidden: bool
    logged: bool | None
    lost: bool | None
    patience_s: float | None
    adopting: bool = False
    unanswered: bool = False
    leaves: bool = False
    listening: bool = False
    stopped: bool = False
    prompted: bool = False
    doubtful: bool = False
    several: bool = False

    def facts(self) -> PromptFacts:
        """The facts before anything was found out."""
        look: Any = SimpleNamespace(
            shell=SimpleNamespace(state=self.state, listening=self.listening, prompted=1 if self.prompted else None),
            marks=self.marks,
            may_listen=self.in_front,
            own_shell_in_front=self.in_front,
            at_editor=self.at_editor,
            ready=self.ready,
            verdict=SimpleNamespace(hidden=self.hidden),
            waiting=InputWait.STOPPED if self.stopped else InputWait.BUSY,
            adopting=self.adopting,
            unanswered=self.unanswered,
            leaves_prompt=self.leaves,
            terminals_in_one="tmux" if self.several else "",
        )
        return PromptFacts(look, self.doubtful)


PROMPT = Seen(
    ShellState.PROMPT,
    marks=True,
    in_front=True,
    at_editor=True,
    ready=True,
    hidden=False,
    logged=True,
    lost=False,
    patience_s=0.02,
)
RUNS = replace(PROMPT, state=ShellState.RUNNING, at_editor=False, ready=False)
STARTS = replace(RUNS, state=ShellState.STARTING)
UNTOLD = replace(PROMPT, state=ShellState.RUNNING)
"""It waits for keys, and its marks say that a command runs."""
PLAIN = replace(UNTOLD, state=ShellState.STARTING, marks=False)
"""A program that sends no marks."""
NESTED = replace(UNTOLD, in_front=False, at_editor=False)
"""Another shell is in front of ours, and waits for input."""
HIDDEN = replace(NESTED, ready=False, hidden=True)
UNFINISHED = replace(PROMPT, state=ShellState.CONTINUATION)
FAR = replace(PROMPT, unanswered=True)

EARLY, LATE = SETTLES_S + 0.001, UNMARKED_S + 0.001


def step(judge: AtPrompt, seen: Seen, now: float, needs: set[PromptNeed] | None = None) -> PromptStep:
    """The next step; each need is met from what was seen, and no more is told than was asked."""
    known, asked = seen.facts(), set[PromptNeed]()
    while isinstance(said := judge.feed(known, now), PromptNeed):
        assert said not in asked, f"{said} was told"
        asked.add(said)
        value = True if said is PromptNeed.TAKEN_BACK else getattr(seen, said.value)
        known = replace(known, **{said.value: value})
    if needs is not None:
        needs |= asked
    return said


LOOKS: dict[str, list[tuple[Seen, float, PromptStep]]] = {
    "its prompt": [(PROMPT, 0.0, PromptStep.TYPE)],
    "it draws its prompt soon": [(STARTS, 0.0, PromptStep.LOOK), (PROMPT, 0.1, PromptStep.TYPE)],
    "somebody adopts": [(replace(PROMPT, adopting=True), 0.0, PromptStep.SETTLE), (PROMPT, 0.1, PromptStep.TYPE)],
    # ---- what was typed before
    "far, what was typed may be on its way": [(FAR, 1.0, PromptStep.LOOK), (FAR, 1.0 + ARRIVES_S, PromptStep.TYPE)],
    "far, it works on that": [
        (FAR, 1.0, PromptStep.LOOK),
        (replace(FAR, at_editor=False), 1.05, PromptStep.LOOK),
        (FAR, 1.0 + ARRIVES_S, PromptStep.LOOK),
    ],
    "it draws another prompt": [
        (replace(PROMPT, leaves=True), 1.0, PromptStep.LOOK),
        (replace(PROMPT, leaves=True), 0.9 + LEAVES_S, PromptStep.LOOK),
        (PROMPT, 1.1, PromptStep.TYPE),
    ],
    "it never draws it": [
        (replace(PROMPT, leaves=True), 1.0, PromptStep.LOOK),
        (replace(PROMPT, leaves=True), 1.0 + LEAVES_S, PromptStep.TYPE),
    ],
    "it listens for a command": [
        (replace(PROMPT, listening=True), 0.0, PromptStep.END_LISTENING),
        (replace(PROMPT, listening=True), 0.1, PromptStep.TYPE),
    ],
    "an unfinished command": [(UNFINISHED, 0.0, PromptStep.LOOK), (PROMPT, 0.1, PromptStep.TYPE)],
    "no end of it": [(UNFINISHED, 0.0, PromptStep.LOOK), (UNFINISHED, LATE, PromptStep.BLOCKED)],
    # ---- a command runs
    "it runs a command": [(RUNS, 0.0, PromptStep.LOOK), (RUNS, 0.021, PromptStep.BUSY)],
    "it is given time": [
        (replace(RUNS, patience_s=1.0), 0.0, PromptStep.LOOK),
        (replace(RUNS, patience_s=1.0), 0.9, PromptStep.LOOK),
        (replace(RUNS, patience_s=1.0), 1.1, PromptStep.BUSY),
    ],
    "it shows a prompt without hooks": [(replace(RUNS, prompted=True), 9.0, PromptStep.LOOK)],
    "it takes long for its first prompt": [(STARTS, 0.0, PromptStep.LOOK), (STARTS, 4.0, PromptStep.LOOK)],
    "a program without marks works": [(replace(PLAIN, ready=False), 0.021, PromptStep.BUSY)],
    # ---- another shell is in front
    "another shell waits": [
        (NESTED, 0.0, PromptStep.LOOK),
        (NESTED, EARLY, PromptStep.ADOPT),
        (NESTED, EARLY + 0.1, PromptStep.LOOK),
        (NESTED, LATE, PromptStep.BLOCKED),
    ],
    "it waits, works, and waits": [
        (NESTED, 0.0, PromptStep.LOOK),
        (RUNS, 0.01, PromptStep.LOOK),
        (NESTED, 0.02, PromptStep.LOOK),
        (NESTED, 0.02 + EARLY, PromptStep.ADOPT),
    ],
    "not all is in the log": [
        (NESTED, 0.0, PromptStep.LOOK),
        (replace(NESTED, logged=False), EARLY, PromptStep.LOOK),
        (replace(NESTED, logged=False), LATE, PromptStep.LOOK),
        (NESTED, LATE, PromptStep.ADOPT),
    ],
    "a program without marks": [
        (PLAIN, 0.0, PromptStep.LOOK),
        (PLAIN, EARLY, PromptStep.ADOPT),
        (PLAIN, LATE, PromptStep.BLOCKED),
    ],
    "hidden": [(HIDDEN, 0.0, PromptStep.LOOK), (HIDDEN, EARLY, PromptStep.LOOK), (HIDDEN, LATE, PromptStep.BLOCKED)],
    "several terminals in one": [(replace(NESTED, several=True), 0.0, PromptStep.SEVERAL)],
    # ---- the mark of its prompt is missing
    "its mark is late": [
        (UNTOLD, 0.0, PromptStep.LOOK),
        (UNTOLD, 0.2, PromptStep.LOOK),
        (PROMPT, 0.21, PromptStep.TYPE),
    ],
    "it has no mark": [(UNTOLD, 0.0, PromptStep.LOOK), (UNTOLD, LATE, PromptStep.BLOCKED)],
    "its mark was not recorded": [
        (replace(UNTOLD, lost=True), 0.0, PromptStep.LOOK),
        (replace(UNTOLD, lost=True), LATE, PromptStep.SHOW_PROMPT),
        (replace(UNTOLD, lost=True), LATE + 0.1, PromptStep.LOOK),
        (replace(UNTOLD, lost=True), 2 * LATE + 0.1, PromptStep.DRAW_PROMPT),
        (replace(UNTOLD, lost=True), 2 * LATE + 0.2, PromptStep.LOOK),
        (replace(UNTOLD, lost=True), 3 * LATE + 0.2, PromptStep.BLOCKED),
    ],
    "another shell waits, and something was not recorded": [
        (replace(HIDDEN, lost=True), 0.0, PromptStep.LOOK),
        (replace(HIDDEN, lost=True), LATE, PromptStep.BLOCKED),
    ],
    "its marks may be another's": [
        (replace(UNTOLD, doubtful=True), 0.0, PromptStep.LOOK),
        (replace(UNTOLD, doubtful=True), LATE, PromptStep.SHOW_PROMPT),
        (replace(UNTOLD, doubtful=True), LATE + 0.1, PromptStep.LOOK),
        (replace(UNTOLD, doubtful=True), 2 * LATE + 0.1, PromptStep.BLOCKED),
    ],
}


@for_each("looks", LOOKS.values())
def test_the_next_step(looks: list[tuple[Seen, float, PromptStep]]) -> None:
    judge = AtPrompt(0.0, adopts=True)
    assert [step(judge, seen, now) for seen, now, _ in looks] == [expected for *_, expected in looks]


def test_who_may_not_adopt_is_told_what_is_in_the_way() -> None:
    judge = AtPrompt(0.0, adopts=False)
    assert [step(judge, NESTED, now) for now in (0.0, EARLY, LATE)] == [
        PromptStep.LOOK,
        PromptStep.LOOK,
        PromptStep.BLOCKED,
    ]


def test_what_was_adopted_is_given_time_for_its_prompt() -> None:
    judge = AtPrompt(0.0, adopts=True)
    assert [step(judge, NESTED, now) for now in (0.0, EARLY)] == [PromptStep.LOOK, PromptStep.ADOPT]
    judge.tried(True)
    assert [step(judge, NESTED, now) for now in (LATE, LATE + 0.1, 2 * LATE + 0.1)] == [
        PromptStep.LOOK,
        PromptStep.LOOK,
        PromptStep.BLOCKED,
    ]
    assert judge.adopted


def test_a_shell_that_listens_no_more_is_given_time_for_its_prompt() -> None:
    judge = AtPrompt(0.0, adopts=True)
    assert step(judge, replace(PROMPT, listening=True), 0.0) is PromptStep.END_LISTENING
    judge.listens_no_more(2.0)
    assert [step(judge, RUNS, now) for now in (2.0, 1.9 + LEAVES_S, 2.1 + LEAVES_S)] == [
        PromptStep.LOOK,
        PromptStep.LOOK,
        PromptStep.BUSY,
    ]


@pytest.mark.parametrize(
    ("seen", "needs"),
    [
        (PROMPT, set()),
        (RUNS, {PromptNeed.PATIENCE}),
        (NESTED, {PromptNeed.LOGGED}),
        (UNTOLD, {PromptNeed.LOGGED, PromptNeed.LOST}),
        (UNFINISHED, {PromptNeed.TAKEN_BACK, PromptNeed.LOGGED, PromptNeed.LOST}),
    ],
    ids=["prompt", "runs", "nested", "untold", "unfinished"],
)
def test_nothing_is_found_out_that_is_not_needed(seen: Seen, needs: set[PromptNeed]) -> None:
    judge, asked = AtPrompt(0.0, adopts=True), set[PromptNeed]()
    for now in (0.0, LATE):
        step(judge, seen, now, asked)
    assert asked == needs


def test_a_shell_that_stands_still_for_a_moment_is_not_said_to_be_stopped() -> None:
    judge, stopped = AtPrompt(0.0, adopts=True), replace(PROMPT, ready=False, at_editor=False, stopped=True)
    assert step(judge, stopped, 0.0) is PromptStep.LOOK
    assert step(judge, stopped, STOPPED_S - 0.01) is PromptStep.LOOK
    assert step(judge, PROMPT, STOPPED_S) in (PromptStep.TYPE, PromptStep.LOOK)
    assert step(judge, stopped, STOPPED_S + 0.01) is PromptStep.LOOK
    assert step(judge, stopped, 2 * STOPPED_S + 0.02) is PromptStep.BUSY
