"""The questions of `scripts/bench ways`, which the README's table counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.common import workshop
from benchmarks.ways import QUESTIONS, Pipe, Tmuxmcp, score


@pytest.mark.slow
def test_every_answer_of_run_is_exact():
    assert score(Tmuxmcp, count=1).wrong == []


def test_questions_tell_right_from_wrong():
    with workshop() as (_, env):
        home = Path(env["HOME"])
        way = Pipe(home, env)
        try:
            assert QUESTIONS["an exit code"](way, home)
            assert not QUESTIONS["a terminal"](way, home)
        finally:
            way.close()
