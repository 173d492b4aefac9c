"""The runner that measures readiness: it must find false answers, and must invent none."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("benchmarks", reason="a source distribution holds no benchmarks")

from benchmarks.torture.__main__ import chosen, figures
from benchmarks.torture.run import Judged, torture
from benchmarks.torture.server import adapter, fill
from benchmarks.torture.table import programs
from benchmarks.torture.truth import Growth, Watch, plain

READY = {"outcome": "outcome", "means": {"ready": ["ready"]}}
HASTY: dict[str, Any] = {
    "command": [sys.executable, str(Path(__file__).with_name("hasty_server.py"))],
    "log": "{work}/{session}.log",
    "start": [{"tool": "start", "arguments": {"name": "{session}", "argv": "{argv}", "log": "{log}"}, **READY}],
    "text": [{"tool": "send", "arguments": {"name": "{session}", "text": "{text}", "enter": "{enter}"}, **READY}],
    "end": [{"tool": "end", "arguments": {"name": "{session}"}}],
}
TABLE = """
[[group]]
name = "cheap"
[[group.program]]
name = "cat"
argv = ["cat"]
steps = [["hello", 'hello\\r\\nhello'], ["again", 'again\\r\\nagain']]
[[group.program]]
name = "question"
argv = ["sh", "-c", "printf 'Name? '; read x; sleep 0.5; printf 'Age? '; read x; sleep 60"]
mode = "line_input"
start = { shows = 'Name\\? ' }
steps = [{ line = "bob", shows = 'Age\\? ', works_ms = 500 }, { line = "7", busy = true, timeout_ms = 300 }]
[[group.program]]
name = "probe"
argv = ["sh", "-c", "printf 'Name? '; read x; sleep 0.3; : >>$PROBE; echo >>$PROBE; read x"]
start = { shows = 'Name\\? ' }
steps = [{ line = "bob", probe = true, works_ms = 300 }]
"""


def measured(tmp_path: Path, server: dict[str, Any], *names: str) -> list[Judged]:
    file = tmp_path / "programs.toml"
    file.write_text(TABLE)
    heard: list[Judged] = []
    found = torture(server, chosen(",".join(names), programs(file)), 1, heard.append)
    assert heard == found
    return found


def test_steps_of_three_programs_are_judged_right(tmp_path: Path) -> None:
    found = measured(tmp_path, adapter("tmuxmcp"), "cheap")
    assert {step.verdict for step in found} == {"right"}, found
    assert [step.sent for step in found if step.program == "question"] == ["(start)", "bob", "7"]
    assert figures(found)["steps"] == len(found) == 8
    # The half second of silence is what waiting for silence takes for the end.
    (bob,) = [step for step in found if step.sent == "bob" and step.program == "question"]
    assert bob.true_ms is not None
    assert bob.true_ms >= 480
    assert bob.quiet_ms < bob.true_ms <= bob.said_ms
    (probed,) = [step for step in found if step.sent == "bob" and step.program == "probe"]
    assert probed.true_ms is not None
    assert probed.true_ms >= 280


def test_a_server_that_says_ready_at_once_is_found_out(tmp_path: Path) -> None:
    found = measured(tmp_path, HASTY, "question")
    # Whether the start was false too depends on how soon sh prints its question.
    assert [step.verdict for step in found[1:]] == ["false", "false"], found
    assert figures(found)["false"] >= 2


def test_growth_tells_what_silence_and_a_prompt_would_have_said(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"before$ ")
    watch = Watch(log)
    watch.stop()
    log.write_bytes(b"before$ make\r\nworking\r\n\x1b[1m$ \x1b[0m")
    begun = watch.begun
    watch.grown = [Growth(begun + at, size) for at, size in ((0.1, 14), (0.2, 23), (0.9, log.stat().st_size))]
    assert watch.text() == "make\r\nworking\r\n$ "
    assert watch.quiet_at() - begun == pytest.approx(0.5)
    assert watch.prompt_at() == begun + 0.9
    assert watch.ready_at(re.compile("working")) == begun + 0.2
    assert watch.ready_at(re.compile("never")) is None


def test_plain_text_has_no_escape_sequences() -> None:
    assert plain(b"\x1b]0;title\x07a\x1b(B\x1b[1;31mb\x1b[m\x1bPq\x1b\\c\x1b>") == "abc"


def test_templates_keep_the_type_of_a_whole_value() -> None:
    values = {"args": ["a", "b"], "name": "t1"}
    assert fill({"args": "{args}", "log": "/{name}.log"}, values) == {"args": ["a", "b"], "log": "/t1.log"}
