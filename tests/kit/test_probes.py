"""A wait that was in vain says what it waited for, and what was there instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import eventually
from tests.kit import agent
from tests.kit.probes import explained


async def mode() -> str:
    return "running"


def test_a_lambda_is_told_with_what_its_parts_give():
    seen, wanted = ["one"], 2
    assert explained(lambda: len(seen) == wanted) == "len(seen) == wanted\n    len(seen) is 1\n    wanted is 2"
    assert explained(lambda: not seen) == "not seen\n    seen is ['one']"
    told = explained(lambda: seen[0] == "one" and "x" in seen[1])
    assert told == "seen[0] == 'one' and 'x' in seen[1]\n    seen[0] is 'one'"
    assert explained(lambda name="a": name == "b") == "name == 'b'\n    name is 'a'"


def test_what_gives_no_value_at_once_is_told_without(tmp_path: Path):
    assert explained(lambda: mode()) == "mode()"
    assert explained((tmp_path / "x").exists).startswith("<bound method")
    assert explained(mode) == f"mode, {__file__}:{mode.__code__.co_firstlineno}"
    assert explained("the prompt is there") == "the prompt is there"


def test_a_wait_in_vain_says_what_was_there():
    seen = ["one"]
    with pytest.raises(AssertionError, match=r"not within .* s: 'two' in seen\n    seen is \['one'\]"):
        agent.eventually(lambda: "two" in seen, timeout=0)


async def test_a_wait_in_vain_of_a_task_says_it_as_well():
    seen = ["one"]
    with pytest.raises(AssertionError, match=r"seen is \['one'\]"):
        await eventually(lambda: "two" in seen, timeout=0)
