"""What is kept of calls with a `request_id`, for how long, and how much."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tmuxmcp.contract.errors import ResourceLimit
from tmuxmcp.record import notedcalls
from tmuxmcp.record.notedcalls import NotedCalls


def done(calls: NotedCalls, request_id: str, at: float) -> Path:
    """A call that is done, as if at that time."""
    file = calls.file("", request_id)
    assert file.take()
    file.write(acts={"digest": f"of {request_id}", "session_id": "a", "number": 3})
    file.write(result={"output": "out"})
    file.close()
    path = calls._path / "person" / request_id
    os.utime(path, (at, at))
    return path


def test_one_holds_it_and_what_is_refused_leaves_nothing(tmp_path: Path):
    calls = NotedCalls(tmp_path, 1)
    first, second = calls.file("", "the-id-1"), calls.file("", "the-id-1")
    assert first.take()
    assert not second.take()
    assert second.read() is None
    first.write(acts={"digest": "d", "step": 0})
    assert second.read().acts == {"digest": "d", "step": 0}
    first.forget()
    first.close()
    assert second.take()
    assert second.read() is None
    second.close()
    assert not (tmp_path / "request_ids/person/the-id-1").exists()
    assert not calls.file("somebody", "the-id-1").read(), "another client's"


def test_torn_lines_are_no_lines(tmp_path: Path):
    calls = NotedCalls(tmp_path, 1)
    path = done(calls, "the-id-1", time.time())
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        noted = calls.file("", "the-id-1").read()
        lines = whole[:size].count(b"\n")
        assert (noted is not None, bool(noted and noted.result)) == (lines > 0, lines > 1)
    file = calls.file("", "the-id-1")
    assert file.take()
    file.write(result={"output": "again"})
    assert file.read().result == {"output": "again"}
    file.close()


def test_older_ones_are_kept_in_short_and_then_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(notedcalls, "MOST_WHOLE", 3)
    monkeypatch.setattr(notedcalls, "SHORTENED_AT_ONCE", 4)
    calls, now = NotedCalls(tmp_path, 1), time.time()
    paths = [done(calls, f"call-{number:04}", now - 1000 + number) for number in range(20)]
    unfinished = calls.file("", "unfinished")
    assert unfinished.take()
    unfinished.write(acts={"digest": "d"})
    unfinished.close()
    os.utime(tmp_path / "request_ids/person/unfinished", (now - 2000, now - 2000))
    held = calls.file("", "call-0000")
    assert held.take()
    calls.tidy()
    assert [each.exists() for each in paths] == [True] + [False] * 16 + [True] * 3, "who is held stays"
    assert calls.file("", "unfinished").read() is not None, "what is not done stays whole"
    held.close()
    for number in (1, 16):
        noted = calls.file("", f"call-{number:04}").read()
        assert (noted.digest, noted.result, noted.acts["session_id"]) == (f"of call-{number:04}", None, "a")
        assert noted.done_at.endswith("Z")
    assert calls.file("", "call-0019").read().result == {"output": "out"}
    # A day later
    for path in (tmp_path / "request_ids/person").iterdir():
        os.utime(path, (now - 100_000, now - 100_000))
    text = (tmp_path / "request_ids/person/.done").read_text()
    (tmp_path / "request_ids/person/.done").write_text(text.replace(f'"at": {int(now - 999)}', '"at": 1'))
    os.utime(tmp_path / "request_ids/person/.done", (now - 100_000, now - 100_000))
    for _ in range(2):
        calls._tidied = 0.0
        calls.tidy()
    assert {each.name for each in (tmp_path / "request_ids/person").iterdir()} <= {".lock"}


def test_no_more_are_kept_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(notedcalls, "MOST_WHOLE", 0)
    monkeypatch.setattr(notedcalls, "MOST_DONE_BYTES", 500)
    calls = NotedCalls(tmp_path, 1)

    def many() -> None:
        for number in range(100):
            done(calls, f"call-{number:04}", time.time())
            calls._tidied = 0.0
            calls.tidy()

    with pytest.raises(ResourceLimit):
        many()
    assert calls.file("", "call-0000").read() is not None, "nothing is forgotten before its time"
