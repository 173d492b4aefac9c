"""What is written down of what happened to a session: one codec, one writer beside the scripts, one reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmuxmcp.contract.value import fields as fields_of
from tmuxmcp.record import documents
from tmuxmcp.record import events as module
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import (
    EVENTS_FILE_BYTES,
    AnsweredEvent,
    AskedEvent,
    Event,
    Events,
    ExitedEvent,
    GapEvent,
    InputEvent,
    RecordingEvent,
    ResizedEvent,
    ShownEvent,
    UnknownEvent,
    decode,
    encode,
)

TIME = "2026-01-02T03:04:05.678Z"
sizes = st.integers(0, 1 << 60)
happened: st.SearchStrategy[Event] = st.one_of(
    st.builds(InputEvent, st.text(), sizes, sizes, sizes),
    st.builds(ShownEvent, st.text(), sizes, st.text()),
    st.builds(RecordingEvent, st.text(), sizes, st.text(), st.text()),
    st.builds(ResizedEvent, st.text(), sizes, sizes, sizes),
    st.builds(GapEvent, st.text(), sizes),
    st.builds(AskedEvent, st.text(), sizes, st.text(), st.integers(0, 1)),
    st.builds(AnsweredEvent, st.text(), sizes, st.text(), st.text(), st.text(), st.text()),
    st.builds(ExitedEvent, st.text(), sizes, st.none() | st.integers(0, 255), st.none() | st.text()),
)


def append(directory: SessionDirectory, *lines: bytes) -> None:
    """As a script, or a broker of another version, does."""
    with directory.events.open("ab") as file:
        file.write(b"".join(lines))


# ---- the codec ---------------------------------------------------------------------------------------


@given(happened)
def test_event_is_decoded_as_it_was_encoded(event: Event) -> None:
    line = encode(event)
    assert decode(line) == event
    assert line.count(b"\n") == 1


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (InputEvent(TIME, 5, 4, 1), '"event": "input", "bytes": 4, "keys": 1'),
        (ResizedEvent(TIME, 5, 90, 30), '"event": "resize", "cols": 90, "rows": 30'),
        (GapEvent(TIME, 5), '"event": "gap"'),
        (ExitedEvent(TIME, 5, None, "KILL"), '"event": "exit", "exit_code": null, "exit_signal": "KILL"'),
    ],
)
def test_lines_are_as_they_always_were(event: Event, line: str) -> None:
    """Other versions read them, and scripts of other people's."""
    assert encode(event).decode() == f'{{"time": "{TIME}", "offset": 5, {line}}}\n'


@given(st.binary() | st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_garbage_is_no_event_and_no_error(line: bytes | str) -> None:
    decode(line if isinstance(line, bytes) else line.encode())


@given(happened, st.data())
def test_torn_line_is_no_event_and_no_error(event: Event, data: st.DataObject) -> None:
    line = encode(event)
    assert decode(line[: data.draw(st.integers(0, len(line) - 2))]) is None


@pytest.mark.parametrize("field", ["offset", "cols", "rows"])
@pytest.mark.parametrize("value", [None, "5", 5.0, True, [5]])
def test_field_of_another_type_makes_it_no_event(field: str, value: object) -> None:
    values = {"time": TIME, "offset": 5, "event": "resize", "cols": 80, "rows": 24, field: value}
    assert decode(json.dumps(values).encode()) is None
    newer = {**values, "format": module.EVENT_FORMAT + 1}
    assert decode(json.dumps(newer).encode()) == UnknownEvent("resize", newer)


def test_line_that_nests_deeply_is_no_event() -> None:
    assert decode(b"[" * 100_000) is None


def test_event_of_another_kind_is_kept_apart() -> None:
    values = {"time": TIME, "offset": 5, "event": "lease", "by": "me"}
    assert decode(json.dumps(values).encode()) == UnknownEvent("lease", values)


def test_what_a_newer_version_adds_to_a_known_kind_is_passed_over() -> None:
    values = {"format": module.EVENT_FORMAT + 1, "time": TIME, "offset": 5, "event": "gap", "why": {"disk": "full"}}
    assert decode(json.dumps(values).encode()) == GapEvent(TIME, 5)


def test_page_tells_the_fields_of_every_kind() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "files.md").read_text().split("### Events")[1]
    for kind in get_args(Event):
        fields = [f"`{each}`" for each in fields_of(kind) if each not in ("time", "offset")]
        assert f"| `{kind.kind}` | {', '.join(fields)}".rstrip() + " |" in page


# ---- the file ----------------------------------------------------------------------------------------


def test_there_need_be_no_file(directory: SessionDirectory) -> None:
    events = Events(directory)
    assert (list(events.read()), events.gaps(0, 99), events.resizes()) == ([], [], [])


def test_what_others_append_is_seen_at_once(directory: SessionDirectory) -> None:
    ours, others = Events(directory), Events(directory)
    others.append(GapEvent(TIME, 10))
    assert ours.gaps(0, 99) == [10]
    ours.append(InputEvent(TIME, 11, 1, 0))
    append(directory, encode(GapEvent(TIME, 20)), encode(ResizedEvent(TIME, 21, 90, 30)))
    assert (ours.gaps(0, 99), ours.gaps(11, 19), ours.gaps(20, 20)) == ([10, 20], [], [20])
    assert ours.resizes() == others.resizes() == [ResizedEvent(TIME, 21, 90, 30)]
    assert [event.kind for event in others.read()] == ["gap", "input", "gap", "resize"]


def test_line_is_read_when_it_has_its_end(directory: SessionDirectory) -> None:
    events, line = Events(directory), encode(GapEvent(TIME, 10))
    for begin in range(0, len(line), 7):
        assert events.gaps(0, 99) == []
        append(directory, line[begin : begin + 7])
    assert events.gaps(0, 99) == [10]


def test_gap_after_a_line_that_the_full_disk_cut_is_told(directory: SessionDirectory) -> None:
    append(
        directory,
        encode(InputEvent(TIME, 5, 1, 0))[:40],
        encode(GapEvent(TIME, 10)),
        b"\0\0garbage\n",
        encode(GapEvent(TIME, 20)),
    )
    assert Events(directory).gaps(0, 99) == [10, 20]
    assert list(Events(directory).read()) == [GapEvent(TIME, 10), GapEvent(TIME, 20)]


def test_only_what_is_new_is_read(directory: SessionDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    append(directory, *[encode(GapEvent(TIME, offset)) for offset in range(1000)])
    events, read = Events(directory), list[bytes]()
    assert len(events.gaps(0, 9999)) == 1000
    monkeypatch.setattr(module, "decode", lambda line: read.append(line) or decode(line))
    assert len(events.gaps(0, 9999)) == 1000
    assert read == []
    append(directory, encode(GapEvent(TIME, 5000)), encode(InputEvent(TIME, 1, 1, 1)))
    assert len(events.gaps(0, 9999)) == 1001
    assert len(read) == 1


def test_file_that_somebody_removed_is_read_anew(directory: SessionDirectory) -> None:
    events = Events(directory)
    append(directory, encode(GapEvent(TIME, 10)), encode(GapEvent(TIME, 11)))
    assert events.gaps(0, 99) == [10, 11]
    directory.events.unlink()
    assert events.gaps(0, 99) == []
    append(directory, encode(GapEvent(TIME, 20)))
    assert events.gaps(0, 99) == [20]


def test_of_what_comes_after_the_limit_gaps_and_sizes_alone_are_written_down(directory: SessionDirectory) -> None:
    events = Events(directory)
    directory.events.write_bytes(b" " * (EVENTS_FILE_BYTES - 1) + b"\n")
    kept = [ResizedEvent(TIME, 1, 90, 30), GapEvent(TIME, 1)]
    for event in (InputEvent(TIME, 1, 1, 1), *kept):
        events.append(event)
    assert list(events.read()) == kept
    assert directory.events.stat().st_size == EVENTS_FILE_BYTES + sum(len(encode(each)) for each in kept)


def test_sizes_are_written_down_for_longer_and_then_said_to_be_unknown(directory: SessionDirectory) -> None:
    events = Events(directory)
    directory.events.write_bytes(b" " * (EVENTS_FILE_BYTES - 1) + b"\n")
    events.append(ResizedEvent(TIME, 5, 100, 30))
    assert [each.cols for each in events.resizes()] == [100]
    assert not events.size_unknown(10**9)
    directory.events.write_bytes(b" " * (2 * EVENTS_FILE_BYTES - 1) + b"\n")
    events = Events(directory)
    for number in range(3):
        events.append(ResizedEvent(TIME, 7 + number, 101, 30))
    assert directory.events.read_bytes().count(b"size_unknown") == 1
    assert not events.resizes()
    assert events.size_unknown(10**9)
    assert not events.size_unknown(6)


def test_no_event_is_earlier_than_the_one_before(directory: SessionDirectory) -> None:
    early, whole, late = (f"2026-01-02T03:04:05.{part}Z" for part in ("100", "000", "900"))
    append(directory, *(encode(GapEvent(time, at)) for at, time in enumerate((early, whole, "", late, whole))))
    assert [event.time for event in Events(directory).read() if isinstance(event, GapEvent)] == [
        early,
        early,
        "",
        late,
        late,
    ]


def test_what_was_shown_keeps_the_time_at_which_it_was_typed(directory: SessionDirectory) -> None:
    early, late = "2026-01-02T03:04:05.100Z", "2026-01-02T03:04:05.900Z"
    append(directory, encode(GapEvent(late, 5)), encode(ShownEvent(early, 1, "ls\r")), encode(GapEvent(early, 9)))
    assert [event.time for event in Events(directory).read() if not isinstance(event, UnknownEvent)] == [
        late,
        early,
        late,
    ]


def test_an_input_of_our_own_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events, other = Events(SessionDirectory(tmp_path)), Events(SessionDirectory(tmp_path))
    events.append(InputEvent(TIME, 1, 2, 3))
    other.append(GapEvent(TIME, 4))
    events.append(InputEvent(TIME, 5, 6, 7))
    assert events.gaps(0, 10) == [4], "what another one wrote in between is read"
    monkeypatch.setattr(documents, "lines_of", lambda *_: pytest.fail("it was read again"))
    events.append(InputEvent(TIME, 8, 9, 10))
    assert events.gaps(0, 10) == [4]
    monkeypatch.undo()
    events.append(GapEvent(TIME, 9))
    assert events.gaps(0, 10) == [4, 9]
