from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tmuxmcp.gate.audit import AUDIT_LINE_BYTES, KEPT_FILES, Audit, as_line


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_lines_are_private_json(tmp_path: Path):
    audit = Audit(tmp_path)
    audit.write({"n": 1, "text": "a\nb é \ud800"})
    audit.write({"n": 2})
    assert lines(audit.path) == [{"n": 1, "text": "a\nb é \ud800"}, {"n": 2}]
    assert stat.S_IMODE(audit.path.stat().st_mode) == 0o600


def test_open_line_is_there_before_and_filled_in_after(tmp_path: Path):
    audit = Audit(tmp_path)
    first = audit.begin({"n": 1, "outcome": "started"})
    audit.write({"n": 2})
    second = audit.begin({"n": 3, "outcome": "started"})
    assert [each.get("outcome") for each in lines(audit.path)] == ["started", None, "started"]
    second.finish({"n": 3, "outcome": "ok"})
    first.finish({"n": 1, "outcome": "error", "error_code": "X" * 500})
    assert [each.get("outcome") for each in lines(audit.path)] == ["error", None, "ok"]


def test_line_that_outgrows_its_room_stays_as_it_was(tmp_path: Path):
    line = Audit(tmp_path).begin({"outcome": "started"})
    line.finish({"outcome": "ok", "reason": "x" * 4000})
    assert lines(tmp_path / "audit.jsonl") == [{"outcome": "started"}]


def test_full_file_is_put_aside_and_the_oldest_goes(tmp_path: Path):
    audit = Audit(tmp_path, file_bytes=1000)
    for number in range(205):
        audit.write({"n": number, "text": "x" * 90})
    kept = sorted(tmp_path.glob("audit.jsonl*"))
    assert [path.name for path in kept] == ["audit.jsonl", *(f"audit.jsonl.{n}" for n in range(1, KEPT_FILES))]
    numbers = [each["n"] for path in [*kept[:0:-1], kept[0]] for each in lines(path)]
    assert numbers == list(range(205 - len(numbers), 205))
    assert all(path.stat().st_size < 1200 for path in kept)


def test_open_line_is_filled_in_although_its_file_was_put_aside(tmp_path: Path):
    audit = Audit(tmp_path, file_bytes=1000)
    line = audit.begin({"n": 0, "outcome": "started"})
    audit.write({"text": "x" * 900})
    line.finish({"n": 0, "outcome": "ok"})
    assert lines(tmp_path / "audit.jsonl.1")[0]["outcome"] == "ok"


def test_several_brokers_lose_and_mix_nothing(tmp_path: Path):
    code = (
        "import sys; from pathlib import Path; from tmuxmcp.gate.audit import Audit\n"
        "a = Audit(Path(sys.argv[1]), 500_000)\n"
        "for n in range(300):\n"
        "    a.write({'who': sys.argv[2], 'n': n, 'text': 'x' * (n % 700)})\n"
        "    a.begin({'who': sys.argv[2], 'm': n}).finish({'who': sys.argv[2], 'm': n, 'done': 1})\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(who)]) for who in range(3)]
    assert [each.wait(60) for each in running] == [0, 0, 0]
    found = [each for path in tmp_path.glob("audit.jsonl*") for each in lines(path)]
    for who in range(3):
        mine = [each for each in found if each["who"] == str(who)]
        assert sorted(each["n"] for each in mine if "n" in each) == list(range(300))
        assert sorted(each["m"] for each in mine if each.get("done")) == list(range(300))


def test_link_in_its_place_is_refused(tmp_path: Path):
    (tmp_path / "audit.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        Audit(tmp_path).write({})
    assert not os.path.exists(tmp_path / "elsewhere")


json_values = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner)
)


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(["argv", "command", "env", "cwd", "keys"]), json_values))
def test_line_is_bounded_json_on_one_line(entry: dict[str, object]):
    line = as_line(entry)
    assert line.count(b"\n") == 1
    assert len(line) <= AUDIT_LINE_BYTES
    json.loads(line)


@pytest.mark.parametrize("value", ["é" * 100_000, ["é" * 10_000] * 1000, ["x"] * 100_000])
def test_long_values_are_cut_and_say_so(value: object):
    line = as_line({"argv": value, "command": "é" * 100_000, "env": ["é" * 100_000] * 300})
    assert len(line) <= AUDIT_LINE_BYTES
    assert b"characters)" in line or b"words)" in line
