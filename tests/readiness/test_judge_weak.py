"""What a last line tells of a program that may be at work, and what is remembered of the line before."""

from __future__ import annotations

from typing import cast

import pytest

from tests.kit.cases import for_each
from tests.readiness.moments import Seen
from tmuxmcp.contract.value import replace
from tmuxmcp.machine.witness.kernel import EnteredLine, InputWait, KernelFacts, Process, Verdict, entered_at
from tmuxmcp.readiness.judge import (
    QUESTION_S,
    Facts,
    LastLine,
    doubt,
    line_stands_s,
    may_be_working,
    stands_s,
    works_beside,
)
from tmuxmcp.sessions.look import Look
from tmuxmcp.terminal.modes import may_ask

LOOP = Process(7, "node", "S", "do_epoll_wait", True)
READER = Process(7, "cat", "S", "wait_woken", True)
AT_PROMPT = EnteredLine("> ", 7, frozenset({7}))

LINES = {
    "a prompt": (">>> ", None, 0.0),
    "a prompt beside a slow timer": ("> ", 8.0, 0.0),
    "a prompt beside a fast timer": ("> ", 0.08, 0.12),
    "a question": ("Name? ", None, QUESTION_S),
    "a colon": ("Resolving: ", None, None),
    "brackets": ("Fetching (registry)", None, None),
    "a question with an answer": ("? Project name (demo) ", 8.0, QUESTION_S),
    "a choice": ("Continue? [Y/n] ", None, QUESTION_S),
    "nothing": ("", None, None),
    "blanks": ("   ", None, None),
    "a spinner": ("⠙", 0.08, None),
    "words": ("Downloading", None, None),
    "dots": ("Working...", None, None),
    "percents": ("45%", None, None),
    "percents behind words": ("Receiving objects:  45 %", None, None),
    "a count": ("Installing (3/10)", None, None),
    "a bar": ("[####      ]", None, None),
}


@for_each(("line", "time_out_s", "expected"), LINES.values())
def test_how_long_a_line_must_stand(line: str, time_out_s: float | None, expected: float | None):
    assert stands_s(line, time_out_s) == pytest.approx(expected)


def facts(*processes: Process) -> KernelFacts:
    return KernelFacts(True, True, 0, False, 7, processes)


def waits(process: Process) -> Verdict:
    return Verdict(InputWait.LINE, "", process)


def test_a_prompt_that_has_not_come_back_is_doubtful_where_somebody_polls():
    assert may_be_working(waits(LOOP), facts(LOOP), "", AT_PROMPT)
    assert not may_be_working(waits(READER), facts(READER), "", AT_PROMPT)  # it can do nothing but read
    assert not may_be_working(waits(LOOP), facts(LOOP), "> ", AT_PROMPT)
    assert not may_be_working(waits(LOOP), facts(LOOP), "", EnteredLine("", 7, frozenset({7})))  # it never had one
    assert not may_be_working(waits(LOOP), facts(LOOP), "", EnteredLine("> ", 8, frozenset({8})))  # another program's
    assert not may_be_working(waits(LOOP), facts(LOOP), "", None)


def test_who_was_started_by_what_was_entered_may_be_at_work():
    worker = Process(9, "sleep", "S", "hrtimer_nanosleep", False)
    assert "sleep was started" in may_be_working(waits(READER), facts(READER, worker), "", AT_PROMPT)
    assert not may_be_working(waits(READER), facts(READER, worker), "", EnteredLine("", 7, frozenset({7, 9})))
    own = Process(9, "sleep", "S", "hrtimer_nanosleep", False, parent=7)
    assert not may_be_working(
        waits(READER), facts(READER, own), "", AT_PROMPT
    )  # `read` in a script: its job runs beside it
    assert may_be_working(waits(LOOP), facts(LOOP, own), "", AT_PROMPT)
    ended = Process(9, "sleep", "Z", None, False)
    assert not may_be_working(waits(READER), facts(READER, ended), "", AT_PROMPT)


def test_who_listens_for_a_secret_may_work_and_a_question_stands():
    secret = Verdict(InputWait.SECRET, "", LOOP, weak="its thread")
    assert may_be_working(secret, facts(LOOP), "", AT_PROMPT) == "its thread"
    look = cast(Look, Seen(secret))
    assert line_stands_s("Password: ", look, LastLine("Password: ")) == QUESTION_S
    assert line_stands_s("sending ... ", look, LastLine("sending ... ")) == float("inf")


def test_a_box_on_a_screen_that_is_drawn_whole_is_no_prompt():
    editor = Verdict(InputWait.EDITOR, "", LOOP)
    assert line_stands_s("> ", cast(Look, Seen(editor)), LastLine("> ")) == 0.0
    assert line_stands_s("> ", cast(Look, Seen(editor, draws=True)), LastLine("> ")) == float("inf")


@for_each(
    ("process", "typed_at", "doubted"),
    {
        "an event loop, after Enter": (LOOP, 50, True),
        "an event loop, after another key": (LOOP, 60, False),
        "one that reads": (READER, 50, False),
        "one that polls nothing but the terminal": (replace(LOOP, only_terminal=True), 50, False),
        "one whose screen is known": (replace(LOOP, name="htop"), 50, False),
    }.values(),
)
def test_what_draws_the_whole_screen_may_draw_its_answer_later(process: Process, typed_at: int, doubted: bool):
    seen = Seen(
        Verdict(InputWait.EDITOR, "", process), draws=True, entered=replace(AT_PROMPT, at=50), typed_at=typed_at
    )
    assert bool(doubt(Facts(cast(Look, seen)))) is doubted


def test_a_line_entered_where_no_prompt_came_back_changes_nothing():
    before = entered_at(waits(LOOP), facts(LOOP), "> ", None)
    assert before == EnteredLine(">", 7, frozenset({7}))
    worker = Process(9, "sleep", "S", "hrtimer_nanosleep", False)
    assert entered_at(waits(LOOP), facts(LOOP, worker), "", before) == before
    assert entered_at(waits(LOOP), facts(LOOP, worker), "> ", before) == EnteredLine(">", 7, frozenset({7, 9}))
    assert entered_at(Verdict(InputWait.UNKNOWN, ""), None, "> ", before) is None


def test_who_works_beside_a_program_that_polls():
    dialog = Process(7, "dialog", "S", "poll_schedule_timeout", True, parent=5)
    parent = Process(5, "sh", "S", "do_wait", False, parent=1)
    worker = Process(6, "sh", "S", "do_wait", False, parent=5)
    child = Process(8, "sort", "S", "anon_pipe_read", False, parent=7)
    assert "sh beside it" in works_beside(dialog, facts(parent, worker, dialog))
    assert not works_beside(dialog, facts(parent, dialog, child))
    reading = Process(7, "less", "S", "wait_woken", True, parent=5)
    assert not works_beside(reading, facts(parent, worker, reading))  # it has what it shows


def test_lines_that_end_as_questions_do():
    assert all(map(may_ask, ("far$ ", "Name: ", "Sure? ", "[y/N]")))
    assert not any(map(may_ask, ("45%", "Downloading", "(3/10)", "")))


def test_what_a_line_editor_draws_is_a_question():
    assert stands_s("version: (1.0.0) ", 8.0) is None
    assert stands_s("version: (1.0.0) ", 8.0, drawn=True) == QUESTION_S
    assert stands_s("Receiving 45%", 8.0, drawn=True) is None
