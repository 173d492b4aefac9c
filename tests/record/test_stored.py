"""Files that brokers of several versions share: what is written is as it was, byte for byte, and is read back.

`TMUXMCP_TEST_GOLDEN=write` writes the files in `tests/record/stored` anew: only for a new format.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tmuxmcp.record import commands, notedcalls
from tmuxmcp.record.commands import CommandFile, EndedCommand, TypedInput
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import (
    AnsweredEvent,
    Events,
    ExitedEvent,
    GapEvent,
    GivenBackEvent,
    InputEvent,
    ResizedEvent,
    SizeUnknownEvent,
    TakenEvent,
)
from tmuxmcp.record.inputrequests import InputRequest, InputRequests, RequestAnswer
from tmuxmcp.record.levels import AdoptionStage, Checkpoint, Level, LevelFile
from tmuxmcp.record.meta import Cursors, Meta, QueuedInput, RecordingNote, ReportedCallers, ReportedCommands, WhyEnded
from tmuxmcp.record.notedcalls import NotedCall, NotedCalls
from tmuxmcp.record.past.checkpoints import Checkpoints, RecordKind
from tmuxmcp.record.past.timing import Times, TimingStep, TimingWriter
from tmuxmcp.terminal.marks import Numbers, Promise, ShellTrack

KEPT = Path(__file__).with_name("stored")

TIME = "2026-01-02T03:04:05.678Z"

META = Meta(
    session_id="a",
    program="bash",
    args=["-c", "echo ä"],
    created_at=TIME,
    owner="me",
    nonce="0123456789abcdef",
    marks=True,
    cwd="/tmp",
    cols=80,
    rows=24,
    scrollback_lines=2000,
    generation=3,
    bounds={"duration_s": 1000},
    booted={"boot_id": "b", "at_s": 1.5},
    env_names=["LANG"],
    tmux="3.4",
    made_by="me",
)

WHY = WhyEnded("duration", "", TIME, "duration_s = 1000")

NOTE = RecordingNote("0a1b2c3d", "cast", "/tmp/ä.cast", "", (1, 2), 3, 4, TIME, input=True, by="me", note="ä")

TRACK = ShellTrack()

CHECKPOINTS = {
    "marks.json": Checkpoint("0123456789abcdef", 1234, TRACK, {}, Numbers(TRACK.number), (1200, "job")),
    "marks.2.json": Checkpoint("0123456789abcdef", 1234, TRACK, {"aa": TRACK}, Numbers(3, {"aa": 2})),
}

LEVELS = (
    Level("aa", 1, 5, AdoptionStage.ASKED, where="nested"),
    Level("bb", 2, 9, kind="dash", version="0.5", dialect="posix", where="remote", host="h", until=12, exit_code=1),
)

REQUEST = InputRequest("request-1", "Type ä", True, "me", 1.5, 60, "digest")
ANSWER = RequestAnswer("done", "somebody", "page", 2.5)

EVENTS = [
    InputEvent(TIME, 1, 2, 3),
    ResizedEvent(TIME, 4, 100, 30),
    SizeUnknownEvent(TIME, 4, 9),
    TakenEvent(TIME, 10, "somebody", "cli"),
    GapEvent(TIME, 11),
    GivenBackEvent(TIME, 12, "somebody", TIME, TIME, "key"),
    AnsweredEvent(TIME, 13, "request-1", "done", "ä", "page"),
    ExitedEvent(TIME, 14, 0, None),
]

TYPED = [
    TypedInput(7, "echo ä\n", True, "job", Promise("d", "p"), stdin=True, caller="me", lines=2, read_by=1),
    TypedInput(9, None, by="person"),
]


def command(number: int) -> EndedCommand:
    return EndedCommand(number, f"echo {number} ä", "agent", 0, 1.5, None, "/a", number * 100, number * 100 + 50)


class Stored(NamedTuple):
    """A file of a session, or of a state directory."""

    name: str
    write: Callable[[SessionDirectory], object]
    read: Callable[[SessionDirectory], object]
    value: object


def write_commands(directory: SessionDirectory) -> None:
    file = CommandFile(directory)
    for typed in TYPED:
        assert file.type(typed)
    assert file.end([command(number) for number in range(1, 12)])
    assert file.end([command(number) for number in range(12, 20)])
    assert file.type(TYPED[1])


def read_commands(directory: SessionDirectory) -> Any:
    file = CommandFile(directory)
    file.read_on()
    return list(file.ended.values()), list(file.typed), file.forgotten, file.first


def write_full(directory: SessionDirectory) -> None:
    """So many commands that the file is put aside; then so many inputs that it is written anew."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(commands, "COMMANDS_FILE_BYTES", 2000)
        file = CommandFile(directory)
        for number in range(1, 16):
            assert file.type(TYPED[1])
            assert file.end([command(number)])
        for _ in range(80):
            assert file.type(TYPED[1])


def write_events(directory: SessionDirectory) -> None:
    events = Events(directory)
    for event in EVENTS:
        events.append(event)


def read_events(directory: SessionDirectory) -> Any:
    events = Events(directory)
    return list(events.read()), events.gaps_and_resizes(), events.leases(), events.size_unknown(5)


def write_levels(directory: SessionDirectory) -> None:
    file = LevelFile(directory)
    for level in LEVELS:
        file.put(level)


def read_levels(directory: SessionDirectory) -> object:
    file = LevelFile(directory)
    assert file.read()
    return file.value


def write_request(directory: SessionDirectory) -> None:
    requests = InputRequests(directory)
    requests.put(REQUEST)
    assert requests.settle(REQUEST.id, ANSWER)
    assert not requests.settle(REQUEST.id, ANSWER)


def read_request(directory: SessionDirectory) -> object:
    requests = InputRequests(directory)
    return requests.find(REQUEST.id), requests.answer(REQUEST.id)


def write_times(directory: SessionDirectory) -> None:
    writer = TimingWriter.take(directory)
    assert writer
    writer.note(10, 100)
    writer.note(1000, 200, known=False, unchanged_ms=150)
    writer.close(300)


def write_call(directory: SessionDirectory) -> None:
    file = NotedCalls(directory.path, 1).file("", "the-id-1")
    assert file.take()
    file.write(acts={"digest": "d", "text": "ä"})
    file.write(step={"number": 1})
    file.write(result={"output": "out"})
    file.close()


def write_done(directory: SessionDirectory) -> None:
    """A call of which no more is kept than that it was done."""
    write_call(directory)
    os.utime(directory.path / "request_ids" / "person" / "the-id-1", (1_700_000_000, 1_700_000_000))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(notedcalls, "MOST_WHOLE", 0)
        NotedCalls(directory.path, 1e6).tidy()


STORED = [
    Stored("meta.json", META.save, Meta.load, META),
    Stored("ended.json", WHY.save, WhyEnded.load, WHY),
    Stored("recording.json", NOTE.save, RecordingNote.load, NOTE),
    Stored("marks.json", CHECKPOINTS["marks.json"].save, Checkpoint.load, CHECKPOINTS["marks.json"]),
    Stored("marks.2.json", CHECKPOINTS["marks.2.json"].save, Checkpoint.load, CHECKPOINTS["marks.2.json"]),
    Stored("levels.json", write_levels, read_levels, LEVELS),
    Stored("requests", write_request, read_request, (REQUEST, ANSWER)),
    Stored("events.jsonl", write_events, read_events, (EVENTS, [EVENTS[1], EVENTS[4]], [EVENTS[3], EVENTS[5]], True)),
    Stored(
        "commands.jsonl",
        write_commands,
        read_commands,
        ([command(number) for number in range(1, 20)], [*TYPED, TYPED[1]], 0, 0),
    ),
    Stored(
        "commands.full",
        write_full,
        read_commands,
        ([command(number) for number in range(9, 16)], [TYPED[1]] * 35, 8, 9),
    ),
    Stored(
        "cursors",
        lambda directory: Cursors(directory, directory.cursors).move("me", 12345),
        lambda directory: Cursors(directory, directory.cursors).of("me"),
        12345,
    ),
    Stored(
        "told",
        lambda directory: ReportedCallers(directory).tell("me", ReportedCommands(3, frozenset({5, 900}))),
        lambda directory: ReportedCallers(directory).of("me"),
        ReportedCommands(3, frozenset({5, 900})),
    ),
    Stored(
        "typed",
        lambda directory: setattr(QueuedInput(directory), "bytes", 5000),
        lambda directory: QueuedInput(directory).bytes,
        5000,
    ),
    Stored(
        "timing",
        write_times,
        lambda directory: [*Times(directory).steps(0, 1000)],
        [TimingStep(10, 100), TimingStep(10, 150), TimingStep(1000, 200, known=False)],
    ),
    Stored(
        "screens",
        lambda directory: Checkpoints(directory).add(RecordKind.TOLD, 5, b"packed", cost_ms=7, happened=2),
        lambda directory: [Checkpoints(directory).value(each) for each in Checkpoints(directory).records()],
        [b"packed"],
    ),
    Stored(
        "request_ids",
        write_call,
        lambda directory: NotedCalls(directory.path, 1).file("", "the-id-1").read(),
        NotedCall("d", {"digest": "d", "text": "ä"}, ({"number": 1},), {"output": "out"}),
    ),
    Stored(
        "request_ids.done",
        write_done,
        lambda directory: NotedCalls(directory.path, 1).file("", "the-id-1").read(),
        NotedCall(
            "d",
            {"id": "the-id-1", "digest": "d", "at": 1.7e9, "session_id": None, "generation": None, "number": None},
            done_at="2023-11-14T22:13:20Z",
        ),
    ),
]


def contents(path: Path) -> dict[str, bytes]:
    """The files that lie there, by their paths in it."""
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


@pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored.name)
def test_files_are_written_as_they_were(tmp_path: Path, stored: Stored):
    stored.write(SessionDirectory(tmp_path))
    kept = KEPT / stored.name
    if os.environ.get("TMUXMCP_TEST_GOLDEN") == "write":
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(tmp_path, kept)
    assert contents(tmp_path) == contents(kept)
    assert stored.read(SessionDirectory(tmp_path)) == stored.value


@pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored.name)
def test_files_that_were_kept_are_read(tmp_path: Path, stored: Stored):
    shutil.copytree(KEPT / stored.name, tmp_path, dirs_exist_ok=True)
    assert stored.read(SessionDirectory(tmp_path)) == stored.value
