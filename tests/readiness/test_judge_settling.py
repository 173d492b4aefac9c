"""When a program has come to rest: tables of facts with times, without a terminal."""

from __future__ import annotations

import math

import pytest

from tests.kit.cases import for_each
from tests.readiness.moments import SIZE, Marks, Moment, judged, known, looked_at_often, stands, waits
from tmuxmcp.contract.value import replace
from tmuxmcp.machine.searching import CompiledPattern, Searching
from tmuxmcp.machine.witness.kernel import EnteredLine, InputWait, KernelFacts, Process, Verdict
from tmuxmcp.readiness.judge import (
    ANSWERS_OF_TMUX,
    ASLEEP_S,
    BETWEEN_KEYS_S,
    ESCAPE_S,
    FAR_SETTLE_S,
    IF_A_SHELL,
    KNOWN_PLAIN_S,
    KNOWN_S,
    LATE_S,
    LATEST_S,
    NEW_LINE_S,
    NEW_S,
    QUESTION_S,
    RELAYED_S,
    SECRET_BY_TEXT,
    SETTLE_S,
    UNCONFIRMED_S,
    UNMOVED_S,
    Conclusion,
    Facts,
    LastLine,
    Logged,
    Settling,
    Terms,
)

CAT = Process(7, "cat", "S", "wait_woken", True, wakes=3)
LOOP = Process(7, "node", "S", "do_epoll_wait", True, wakes=3)
TICKS = replace(LOOP, time_out_s=0.08)
SLEEPS = Process(7, "sleep", "S", "hrtimer_nanosleep", False)
SSH = Process(7, "ssh", "S", "poll_schedule_timeout")

READS = waits(InputWait.LINE, CAT)
EDITS = waits(InputWait.EDITOR, LOOP)
WEAK = waits(InputWait.EDITOR, LOOP, weak="it always listens")
ASLEEP = waits(InputWait.BUSY, SLEEPS)
BUSY = waits(InputWait.BUSY, replace(SLEEPS, state="R"))
UNKNOWN = waits(InputWait.UNKNOWN)
HIDDEN = waits(InputWait.UNKNOWN, SSH, hidden=True)

PLAIN = Terms()
DESCRIBED = CompiledPattern("> ", "a caller", Searching())
ASKED = Terms(prompt_pattern=DESCRIBED, prompt_needed=True)
SET = Terms(prompt_pattern=DESCRIBED)
TYPED = Terms(sent_at=SIZE, before=CAT)
ENTERED = replace(TYPED, entered=True)

READY, QUIET = ("ready", "kernel"), ("idle", "quiet")

PROMPT = Marks(at_prompt=True)


def timer(**more: object) -> Verdict:
    return waits(InputWait.EDITOR, replace(TICKS, **more), weak="it ticks")  # type: ignore[arg-type]


STANDING: dict[str, tuple[Terms, Facts, tuple[str, str | None] | None, float]] = {
    # the kernel's word
    "a program reads a line": (PLAIN, known(READS), READY, SETTLE_S),
    "a line editor reads a key": (PLAIN, known(EDITS), READY, SETTLE_S),
    "a secret is asked for": (PLAIN, known(waits(InputWait.SECRET, CAT)), READY, SETTLE_S),
    "it computes": (PLAIN, known(BUSY), None, 0),
    "it sleeps": (PLAIN, known(ASLEEP), None, 0),
    "it is stopped": (PLAIN, known(waits(InputWait.STOPPED, replace(CAT, state="T"))), None, 0),
    "it has ended": (PLAIN, known(READS, exited=True), ("exited", None), 0),
    "after Escape": (replace(PLAIN, settle_s=ESCAPE_S), known(EDITS), READY, ESCAPE_S),
    "on another machine": (PLAIN, known(waits(InputWait.LINE, replace(CAT, pid=-7))), READY, FAR_SETTLE_S),
    "behind a relay": (PLAIN, known(READS, relays=("script",) * 1), READY, RELAYED_S * 2),
    "behind three relays": (PLAIN, known(READS, relays=("script",) * 3), READY, RELAYED_S * 4),
    # what was typed may be on its way
    "it has read nothing": (TYPED, known(READS), READY, UNMOVED_S),
    "it has woken": (TYPED, known(waits(InputWait.LINE, replace(CAT, wakes=4))), READY, SETTLE_S),
    "another reads now": (TYPED, known(waits(InputWait.LINE, replace(CAT, pid=8))), READY, SETTLE_S),
    "nothing was read behind a relay": (ENTERED, known(READS, relays=("script",) * 1), READY, UNMOVED_S * 2),
    "a program is new": (TYPED, known(waits(InputWait.LINE, replace(CAT, pid=8, age_s=0.02))), READY, NEW_S - 0.02),
    "a program was new": (TYPED, known(waits(InputWait.LINE, replace(CAT, pid=8, age_s=1.0))), READY, SETTLE_S),
    # marks
    "a prompt of ours": (PLAIN, known(EDITS, marks=PROMPT), ("ready", "marks"), SETTLE_S),
    "a new prompt of ours": (PLAIN, known(EDITS, marks=Marks(True, SIZE + 1)), ("ready", "marks"), 0),
    "our prompt is on its way": (PLAIN, known(EDITS, marks=Marks(late=True)), READY, LATE_S + SETTLE_S),
    "our prompt, and another is described": (ASKED, known(EDITS, marks=PROMPT), ("ready", "marks"), SETTLE_S),
    "our prompt, and its shell sleeps between two looks for a key": (
        PLAIN,
        known(ASLEEP, marks=Marks(between_keys=True)),
        ("ready", "marks"),
        BETWEEN_KEYS_S,
    ),
    "marks alone": (PLAIN, known(UNKNOWN, marks=Marks(alone=True)), ("ready", "marks"), UNCONFIRMED_S),
    "marks tell nothing of what hides": (PLAIN, known(UNKNOWN, marks=PROMPT), QUIET, 0.3),
    # programs that listen while they work
    "it listens always": (PLAIN, known(WEAK, "Working..."), QUIET, NEW_LINE_S),
    "it listens always, and longer silence is asked for": (Terms(idle_ms=2000), known(WEAK), QUIET, 2.0),
    "it listens, at a prompt": (PLAIN, known(WEAK, ">>> "), READY, SETTLE_S),
    "it listens, at a prompt from before": (PLAIN, known(WEAK, ">>> ", new=""), QUIET, NEW_LINE_S),
    "it listens, at a question": (PLAIN, known(WEAK, "Name? "), READY, QUESTION_S),
    "it listens, at a prompt, and wakes often": (PLAIN, known(timer(), "> "), READY, 0.12),
    "it listens, at a prompt that is edited": (PLAIN, known(WEAK, last=LastLine("> ab", edited=True)), READY, SETTLE_S),
    "it draws, and a timer runs": (PLAIN, known(timer(), draws=True), READY, SETTLE_S),
    "it has drawn nothing for a key": (Terms(sent_at=SIZE), known(timer(), draws=True), QUIET, NEW_LINE_S),
    "vim has drawn nothing for a key": (Terms(sent_at=SIZE), known(timer(name="vim"), draws=True), READY, SETTLE_S),
    "by its mode it draws": (Terms(sent_at=SIZE), known(timer(name="vim"), mode="editor"), READY, SETTLE_S),
    "its prompt has not come back": (
        PLAIN,
        known(
            EDITS, judged=KernelFacts(True, True, 0, False, 7, (LOOP,)), entered=EnteredLine("> ", 7, frozenset({7}))
        ),
        QUIET,
        NEW_LINE_S,
    ),
    # a described prompt
    "the caller's prompt is not there": (ASKED, known(EDITS, "name: "), None, 0),
    "the caller's prompt is there": (ASKED, known(WEAK, shows_prompt=True), ("ready", "prompt"), SETTLE_S),
    "that of the settings does not count": (SET, known(WEAK, shows_prompt=True), QUIET, NEW_LINE_S),
    "the caller's prompt, and all sleep": (ASKED, known(ASLEEP, shows_prompt=True), ("ready", "prompt"), ASLEEP_S),
    "the caller's prompt, and it computes": (ASKED, known(BUSY, shows_prompt=True), None, 0),
    "that of the settings, and all sleep": (SET, known(ASLEEP, shows_prompt=True), None, 0),
    "that of the settings, where nothing is known": (
        SET,
        known(HIDDEN, shows_prompt=True),
        ("ready", "prompt"),
        SETTLE_S,
    ),
    "the caller's, where nothing is known": (ASKED, known(HIDDEN, shows_prompt=True), ("ready", "prompt"), SETTLE_S),
    "the caller's is not there, where nothing is known": (ASKED, known(HIDDEN, "$ "), None, 0),
    # silence
    "nothing is known": (PLAIN, known(UNKNOWN), QUIET, 0.3),
    "it is hidden": (PLAIN, known(HIDDEN, "words"), QUIET, 0.3),
    "hidden, at a known prompt with a line editor": (
        Terms(idle_ms=5000),
        known(HIDDEN, last=LastLine("$ ", pastes=True, known=True)),
        ("ready", "prompt"),
        KNOWN_S,
    ),
    "hidden, at a known prompt": (
        Terms(idle_ms=5000),
        known(HIDDEN, last=LastLine("$ ", known=True)),
        ("ready", "prompt"),
        KNOWN_PLAIN_S,
    ),
    "hidden, at a known prompt, typed while it worked": (
        Terms(idle_ms=5000, at_rest=False),
        known(HIDDEN, last=LastLine("$ ", known=True)),
        QUIET,
        5.0,
    ),
    "hidden, and it draws": (
        Terms(idle_ms=5000),
        known(HIDDEN, last=LastLine("$ ", known=True), draws=True),
        QUIET,
        5.0,
    ),
    "hidden, an empty line after Enter": (replace(ENTERED, sent_at=SIZE - 5), known(HIDDEN), None, 0),
    "hidden, an empty line, nothing entered": (replace(TYPED, sent_at=SIZE - 5), known(HIDDEN), QUIET, 0.3),
}
"""By what stands: the terms, the facts, the answer if there is one, and after how long."""


@for_each(("terms", "facts", "answer", "after_s"), STANDING.values())
def test_what_stands(terms: Terms, facts: Facts, answer: tuple[str, str | None] | None, after_s: float):
    found = stands(Settling(terms, SIZE, 100.0), facts, begun=100.0)
    assert (found and (found[0].outcome, found[0].evidence)) == answer
    assert math.isclose(found[1] if found else 0.0, after_s, abs_tol=1e-6)


@pytest.mark.parametrize("name", STANDING)
def test_who_sleeps_as_told_hears_the_same_as_who_looks_all_the_time(name: str):
    terms, facts, _, _ = STANDING[name]
    slept = stands(Settling(terms, SIZE, 0.0), facts)
    looked = looked_at_often(Settling(terms, SIZE, 0.0), facts, longest=6.0)
    assert (slept is None) == (looked is None)
    if slept and looked:
        assert (slept[0].outcome, slept[0].evidence) == (looked[0].outcome, looked[0].evidence)
        assert 0 <= looked[1] - slept[1] + 1e-6 < 0.0021


# ---- what happens meanwhile ----------------------------------------------------------------------


def answers(settling: Settling, *moments: Moment) -> list[str | float]:
    """Outcomes, or for how long there is none, in milliseconds."""
    said = [judged(settling, each) for each in moments]
    return [
        each.outcome
        if isinstance(each, Conclusion)
        else round((each - moment.at) * 1000)
        if each < math.inf
        else math.inf
        for each, moment in zip(said, moments, strict=True)
    ]


def test_what_it_prints_begins_the_silence_anew():
    settling, facts = Settling(PLAIN, SIZE, 0.0), known(READS)
    moments = [Moment(facts), Moment(facts, 0.003, SIZE + 1), Moment(facts, 0.006, SIZE + 1)]
    assert answers(settling, *moments, Moment(facts, 0.0071, SIZE + 1)) == [4, 4, 1, "ready"]


def test_who_goes_on_for_a_moment_begins_anew():
    settling, reads = Settling(PLAIN, SIZE, 0.0), known(READS)
    moments = [Moment(reads), Moment(known(BUSY), 0.002), Moment(reads, 0.003), Moment(reads, 0.005)]
    assert answers(settling, *moments, Moment(reads, 0.0071)) == [4, math.inf, 4, 2, "ready"]


def test_a_moment_in_which_the_kernel_cannot_tell_begins_the_silence_anew():
    settling, hidden = Settling(PLAIN, SIZE, 0.0), known(HIDDEN)
    moments = [Moment(hidden), Moment(known(BUSY), 0.2), Moment(hidden, 0.29), Moment(hidden, 0.5)]
    assert answers(settling, *moments, Moment(hidden, 0.6)) == [50, math.inf, 50, 90, "idle"]


def test_the_silence_of_what_may_work_begins_when_it_listens_and_prints_no_more():
    settling = Settling(PLAIN, SIZE, 0.0)
    moments = [Moment(known(BUSY)), Moment(known(WEAK), 0.5), Moment(known(WEAK), 1.2)]
    assert answers(settling, *moments, Moment(known(WEAK), 1.5)) == [math.inf, 4, 300, "idle"]
    settling, size = Settling(PLAIN, SIZE, 0.0), SIZE + 1
    moments = [Moment(known(WEAK)), Moment(known(WEAK), 0.5, size), Moment(known(WEAK), 1.2, size)]
    assert answers(settling, *moments, Moment(known(WEAK), 1.5, size)) == [4, 4, 300, "idle"]


def test_a_new_program_that_prints_is_settled_soon():
    young = known(waits(InputWait.LINE, replace(CAT, age_s=0.01)))
    assert answers(Settling(PLAIN, SIZE, 0.0), Moment(young)) == [50]
    settling = Settling(PLAIN, SIZE, 0.0)
    assert answers(settling, Moment(young), Moment(young, 0.001, SIZE + 1)) == [50, 4]


@pytest.mark.parametrize(("relays", "entered", "expected"), [(1, True, 200), (3, True, 400), (1, False, 40)])
def test_what_relays_print_does_not_settle_a_line_that_is_on_its_way(relays: int, entered: bool, expected: int):
    settling = Settling(replace(TYPED, entered=entered), SIZE + 5, 0.0)
    assert answers(settling, Moment(known(READS, relays=("script",) * relays), 0.0, SIZE + 5)) == [expected]


@pytest.mark.parametrize(("relays", "entered", "expected"), [(1, True, 200), (0, True, 4), (1, False, 40)])
def test_a_line_typed_while_a_relay_works_may_be_on_its_way(relays: int, entered: bool, expected: int):
    """Who waits behind it was not seen then: it may have woken for something else since."""
    terms = Terms(sent_at=SIZE, before=replace(CAT, pid=6), before_seen=False, entered=entered)
    facts = known(READS, relays=("script",) * relays)
    assert answers(Settling(terms, SIZE + 5, 0.0), Moment(facts, 0.0, SIZE + 5)) == [expected]


def test_a_tmux_that_answers_late_is_waited_for():
    """What the program prints is late as well, until it has waited as long as any silence is believed."""
    settling, late = Settling(PLAIN, SIZE, 0.0), known(READS, logged=Logged(True, 0.01))
    assert answers(settling, Moment(late), Moment(late, 0.005)) == [4, 195]
    assert answers(settling, Moment(late, 0.006)) == [ANSWERS_OF_TMUX * 10 - 6]
    assert answers(settling, Moment(late, 0.041)) == ["ready"]  # it is no slower than before
    settling, later = Settling(PLAIN, SIZE, 0.0), known(READS, logged=Logged(True, 5.0))
    assert answers(settling, Moment(later), Moment(later, 0.005), Moment(later, 0.006)) == [4, 195, 194]
    assert answers(settling, Moment(later, LATEST_S + 0.001)) == ["ready"]


def test_what_is_not_in_the_log_yet_is_waited_for():
    settling, reads = Settling(PLAIN, SIZE, 0.0), known(READS)
    moments = [Moment(reads), Moment(replace(reads, logged=Logged(False)), 0.005), Moment(reads, 0.006)]
    assert answers(settling, *moments) == [4, math.inf, "ready"]
    settling, asleep = Settling(ASKED, SIZE, 0.0), known(ASLEEP, shows_prompt=True)
    moments = [Moment(replace(asleep, logged=Logged(False)), 0.11), Moment(asleep, 0.12)]
    assert answers(settling, *moments) == [math.inf, "ready"]


LAST_LOOKS = {
    "it has printed": Moment(known(READS), 0.005, last_size=SIZE + 1),
    "it has gone on": Moment(known(READS), 0.005, last=known(BUSY)),
    "it has begun to listen for a time only": Moment(known(READS), 0.005, last=known(WEAK, "words")),
}


@pytest.mark.parametrize("moment", LAST_LOOKS.values(), ids=LAST_LOOKS.keys())
def test_what_the_last_look_sees_counts(moment: Moment):
    settling = Settling(PLAIN, SIZE, 0.0)
    assert answers(settling, Moment(known(READS)), moment) == [4, math.inf]


def test_a_shell_that_comes_to_its_prompt_at_the_last_look_goes_by_its_marks():
    settling, last = Settling(PLAIN, SIZE, 0.0), known(EDITS, marks=PROMPT)
    judged(settling, Moment(known(EDITS)))
    found = judged(settling, Moment(known(EDITS), 0.005, last=last))
    assert isinstance(found, Conclusion)
    assert found.evidence == "marks"


def test_silence_alone():
    settling = Settling(Terms(idle_ms=500), SIZE, 0.0)
    assert settling.silent(SIZE, 0.1) == 0.5
    assert settling.silent(SIZE + 1, 0.4) == 0.9
    assert settling.silent(SIZE + 1, 0.8) == 0.9
    found = settling.silent(SIZE + 1, 0.9)
    assert isinstance(found, Conclusion)
    assert (found.outcome, found.evidence) == ("idle", "quiet")


# ---- what is said and remembered -----------------------------------------------------------------


def test_a_line_at_which_it_rests_is_remembered():
    found = stands(Settling(PLAIN, SIZE, 0.0), known(EDITS, ">>> "))
    assert found
    assert found[0].prompt == ">>> "


def test_silence_says_what_the_last_line_looks_like():
    for line, said in (("Password: ", SECRET_BY_TEXT), ("me@far:~$ ", IF_A_SHELL)):
        found = stands(Settling(PLAIN, SIZE, 0.0), known(HIDDEN, line))
        assert found
        assert found[0].prompt == line
        assert said in (found[0].note or "")
    found = stands(Settling(PLAIN, SIZE, 0.0), known(HIDDEN, "words"))
    assert found
    assert "300 ms" in (found[0].note or "")
    assert IF_A_SHELL not in (found[0].note or "")


def test_silence_of_what_listens_says_why():
    found = stands(Settling(PLAIN, SIZE, 0.0), known(WEAK))
    assert found
    assert found[0].doubt == "it always listens"
    assert "1000 ms. It always listens, so" in (found[0].note or "")
