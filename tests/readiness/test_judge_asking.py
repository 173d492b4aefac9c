"""When a command that runs has come to ask for something: tables of facts with times, without a terminal."""

from __future__ import annotations

import math

import pytest

from tests.kit.cases import for_each
from tests.readiness.moments import SIZE, Moment, judged, known, looked_at_often, stands, waits
from tmuxmcp.contract.value import replace
from tmuxmcp.machine.witness.kernel import InputWait, Process
from tmuxmcp.readiness.judge import (
    ASKS_S,
    KNOWN_PLAIN_S,
    KNOWN_S,
    LISTENS_FOR_KEYS_S,
    NEW_LINE_S,
    NEW_PROMPT_S,
    QUESTION_S,
    AskingJudge,
    Conclusion,
    Facts,
    LastLine,
    Logged,
)

CAT = Process(7, "cat", "S", "wait_woken", True)
LOOP = Process(7, "node", "S", "do_epoll_wait", True)
SSH = Process(7, "ssh", "S", "poll_schedule_timeout")

READS = waits(InputWait.LINE, CAT)
KEYS = waits(InputWait.EDITOR, LOOP)
WEAK = waits(InputWait.LINE, LOOP, weak="it always listens")
BUSY = waits(InputWait.BUSY, replace(LOOP, state="R"))
HIDDEN = waits(InputWait.UNKNOWN, SSH, hidden=True)

READY = ("ready", "kernel")

STANDING: dict[str, tuple[Facts, tuple[str, str | None] | None, float]] = {
    "it reads a line": (known(READS), READY, ASKS_S),
    "it reads a secret": (known(waits(InputWait.SECRET, CAT)), READY, ASKS_S),
    "it reads keys": (known(KEYS), READY, LISTENS_FOR_KEYS_S),
    "it works": (known(BUSY), None, 0),
    "it sleeps": (known(waits(InputWait.BUSY, replace(CAT, on_terminal=False))), None, 0),
    "it is stopped": (known(waits(InputWait.STOPPED, replace(CAT, state="T"))), None, 0),
    "it listens always": (known(WEAK, "words"), ("idle", "quiet"), NEW_LINE_S),
    "it listens, at a prompt": (known(WEAK, "> "), READY, ASKS_S),
    "it listens, at a question": (known(WEAK, "Name? "), READY, QUESTION_S),
    "it listens, at a prompt that is edited": (known(WEAK, last=LastLine("> ab", edited=True)), READY, ASKS_S),
    "it draws": (known(replace(WEAK, waiting=InputWait.EDITOR), draws=True), READY, LISTENS_FOR_KEYS_S),
    "the kernel cannot tell": (known(waits(InputWait.UNKNOWN)), None, 0),
    "hidden, with words": (known(HIDDEN, "words"), None, 0),
    "hidden, on an empty line": (known(HIDDEN, " "), None, 0),
    "hidden, at a new prompt": (known(HIDDEN, "me@far:~$ "), ("idle", "prompt"), NEW_PROMPT_S),
    "hidden, at a question for a secret": (known(HIDDEN, "Password: "), ("idle", "prompt"), NEW_PROMPT_S),
    "hidden, at progress": (known(HIDDEN, "50%"), None, 0),
    "hidden, at a known prompt": (known(HIDDEN, last=LastLine("$ ", known=True)), ("ready", "prompt"), KNOWN_PLAIN_S),
    "hidden, at a known prompt with a line editor": (
        known(HIDDEN, last=LastLine("$ ", pastes=True, known=True)),
        ("ready", "prompt"),
        KNOWN_S,
    ),
    "hidden, and it draws": (known(HIDDEN, last=LastLine("$ ", known=True), draws=True), None, 0),
}


@for_each(("facts", "answer", "after_s"), STANDING.values())
def test_what_stands(facts: Facts, answer: tuple[str, str | None] | None, after_s: float):
    found = stands(AskingJudge(), facts, begun=100.0)
    assert (found and (found[0].outcome, found[0].evidence)) == answer
    assert math.isclose(found[1] if found else 0.0, after_s, abs_tol=1e-6)
    looked = looked_at_often(AskingJudge(), facts)
    assert (looked and looked[0]) == (found and found[0])
    assert math.isclose(looked[1] if looked else 0.0, after_s, abs_tol=0.0021)


def outcomes(asking: AskingJudge, *moments: Moment) -> list[str | None]:
    said = [judged(asking, each) for each in moments]
    return [each.outcome if isinstance(each, Conclusion) else None for each in said]


def test_what_it_prints_begins_the_silence_anew():
    moments = [Moment(known(READS)), Moment(known(READS), 0.04, SIZE + 1), Moment(known(READS), 0.08, SIZE + 1)]
    assert outcomes(AskingJudge(), *moments, Moment(known(READS), 0.1, SIZE + 1)) == [None, None, None, "ready"]


def test_who_wakes_for_a_moment_goes_on_waiting():
    """As a program does whose timer runs; another that computes, or the same asleep elsewhere, does not."""
    wakes = [Moment(known(WEAK, "> ")), Moment(known(BUSY), 0.04), Moment(known(WEAK, "> "), 0.06)]
    assert outcomes(AskingJudge(), *wakes) == [None, None, "ready"]
    for other in (waits(InputWait.BUSY, replace(CAT, state="R")), waits(InputWait.BUSY, LOOP)):
        assert outcomes(AskingJudge(), wakes[0], Moment(known(other), 0.04), wakes[2]) == [None, None, None]


LAST_LOOKS = {
    "it has printed": Moment(known(READS), 0.06, last_size=SIZE + 1),
    "it has gone on": Moment(known(READS), 0.06, last=known(BUSY)),
    "it has begun to hide": Moment(known(READS), 0.06, last=known(HIDDEN)),
    "it has begun to listen for a time only": Moment(known(READS), 0.06, last=known(replace(WEAK, process=CAT), "so")),
    "not all is in the log": Moment(known(READS, logged=Logged(False)), 0.06),
}


@pytest.mark.parametrize("moment", LAST_LOOKS.values(), ids=LAST_LOOKS.keys())
def test_what_the_last_look_sees_counts(moment: Moment):
    assert outcomes(AskingJudge(), Moment(known(READS)), moment) == [None, None]


def test_a_new_prompt_is_remembered():
    found = stands(AskingJudge(), known(HIDDEN, "me@far:~$ "))
    assert found
    assert found[0].prompt == "me@far:~$ "


def test_why_it_may_be_at_work_is_said():
    found = stands(AskingJudge(), known(WEAK))
    assert found
    assert found[0].doubt == "it always listens"
