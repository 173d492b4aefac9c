"""docs/reference/other-designs.md: every row is a call, and its answer is as the row says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.agent import Agent, ToolFailed, an_agent
from tests.kit.programs import PATH, need

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "other-designs.md"
ROW = re.compile(
    r"^\| (?P<there>.+?) \| .+? \| `(?P<tool>\w+) (?P<arguments>\{.*\})` \| `(?P<answer>.+?)` \|$", re.MULTILINE
)
WANTED = re.compile(r"([\w.]+)([=~])(.*?)(?= [\w.]+[=~]|$)")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    config = tmp_path_factory.mktemp("c") / "config.toml"
    rule = '[[policy]]\ntool = "run_process"\nprogram = "forbidden"\naction = "deny"\n'
    config.write_text('program = "bash"\ntools = ["all"]\n' + rule)
    with an_agent("--config", str(config), PATH=PATH) as agent:
        yield agent


def field(answer: Any, path: str) -> Any:
    for name in path.split("."):
        answer = answer[int(name) if name.isdecimal() else name]
    return answer


def value_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.replace("\\n", "\n")


def check(agent: Agent, row: re.Match[str]) -> str:
    """What is wrong with a row; empty: nothing."""
    try:
        answer = agent.call(row["tool"], **json.loads(row["arguments"]))
    except ToolFailed as error:
        return "" if error.code == row["answer"] else str(error)
    wanted = WANTED.findall(row["answer"])
    assert wanted, f"{row['there']}: no error, {answer}"
    for path, how, text in wanted:
        got = field(answer, path)
        if how == "~" and text not in got:
            return f"{path} is {got!r}"
        if how == "=" and text and got != value_of(text):
            return f"{path} is {got!r}"
    return ""


def test_every_row_is_answered_as_it_says(agent: Agent):
    need("vim", "less")
    rows = list(ROW.finditer(PAGE.read_text()))
    wrong = [(row["there"], row["tool"], problem) for row in rows if (problem := check(agent, row))]
    assert not wrong, "\n".join(map(str, wrong))


def test_no_row_is_without_a_call():
    text = PAGE.read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| there", "| ---"))]
    assert [line for line in rows if not ROW.match(line)] == []
    assert len(rows) > 90
