"""What is written down of what happened to a session."""

from __future__ import annotations

import json
from pathlib import Path

from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import Events, Resized


def test_changes_of_size_are_read_from_the_events(tmp_path: Path) -> None:
    resizes = Events(SessionDirectory(tmp_path)).resizes
    assert resizes() == []
    events = [
        json.dumps({"offset": 5, "event": "input", "bytes": 1}),
        json.dumps({"offset": 7, "event": "resize", "cols": 90, "rows": 30}),
        '{"event": "resize"',
        '{"event": "resize"}',
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(events))
    assert resizes() == [Resized(7, 90, 30)]
