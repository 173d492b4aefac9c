"""The files of recordings: what is done where they cannot be whole, or cannot lie where they were to lie."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.conftest import eventually
from tmuxmcp.broker.broker import Broker
from tmuxmcp.broker.recorder import FILE_MOST_TRIES, Recorder
from tmuxmcp.contract.call import iso
from tmuxmcp.contract.errors import IoError, RecordingState
from tmuxmcp.contract.settings import BrokerSettings
from tmuxmcp.record.events import GapEvent
from tmuxmcp.record.meta import RecordingNote


def mode_of(path: str) -> int:
    return os.stat(path).st_mode & 0o777


def content(path: str) -> bytes:
    return Path(path).read_bytes()


async def test_a_file_that_is_full_ends_and_the_result_says_so(broker: Broker, tmp_path: Path) -> None:
    await broker.create_session("bash", name="a")
    await broker.start_recording("a", str(tmp_path / "x.cast"))
    broker.services.part(Recorder).most_bytes = 20_000
    for _ in range(10):
        await broker.run("seq 1000", "a")
    made = await broker.stop_recording("a")
    assert made.truncated
    assert made.bytes == (tmp_path / "x.cast").stat().st_size <= 20_000
    assert "20,000 bytes" in (made.note or "")
    assert b"the recording ends here" in (tmp_path / "x.cast").read_bytes()


async def test_a_path_that_leads_elsewhere_by_now_is_not_written_to(broker: Broker, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    await broker.create_session("bash", name="a")
    await broker.start_recording("a", str(here / "x.cast"))
    here.rename(tmp_path / "away")
    here.symlink_to(there)
    made = await broker.stop_recording("a")
    assert list(there.iterdir()) == []
    assert Path(made.path).parent == broker.registry.directory("a").recordings
    assert mode_of(made.path) == 0o600
    assert str(here / "x.cast") in (made.note or "")


async def test_a_recording_whose_beginning_is_gone_says_so(state_dir: Path) -> None:
    settings = BrokerSettings(state_dir=state_dir, program="bash", log_max_bytes=1 << 20)
    async with Broker.open(settings) as broker:
        await broker.create_session("bash", name="a")
        await broker.start_recording("a")
        await broker.run("head -c 6000000 /dev/zero | tr '\\0' x | fold -w 79", "a", timeout_ms=50_000)
        session = broker.registry.sessions["a"]
        await eventually(lambda: session.log.head() > 0, 20)
        made = await broker.stop_recording("a")
        assert made.approximate
        assert "no longer kept" in (made.note or "")
        exported = await broker.export_recording("a", format="txt")
        assert "no longer kept" in (exported.note or "")


async def test_lost_output_is_told_of_an_export(broker: Broker) -> None:
    await broker.create_session("bash", name="a")
    await broker.run("echo one", "a")
    session = broker.registry.sessions["a"]
    session.events.append(GapEvent(iso(time.time()), session.log.size()))
    await broker.run("echo two", "a")
    exported = await broker.export_recording("a", format="txt")
    assert "Output was lost at offset" in (exported.note or "")
    exported = await broker.export_recording("a", format="txt", command=1)
    assert not exported.note


async def test_a_file_that_cannot_be_made_can_be_asked_for_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create_session("bash", name="a")
    await broker.start_recording("a")
    await broker.run("echo one", "a")
    replace = os.replace

    def full(source: str | Path, target: str | Path) -> None:
        if str(target).endswith(".cast"):
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    directory = broker.registry.directory("a")
    for tries in range(FILE_MOST_TRIES):
        with pytest.raises(IoError, match="No space"):
            await broker.stop_recording("a")
        note = RecordingNote.load(directory)
        assert note
        assert (note.tries, note.state) == (tries + 1, "failed" if tries + 1 == FILE_MOST_TRIES else "stopped")
    monkeypatch.setattr(os, "replace", replace)
    await broker.run("echo two", "a")  # after the stop: no part of it
    data = content((await broker.stop_recording("a")).path)
    assert (b"one" in data, b"two" in data) == (True, False)
    assert [each.name for each in directory.recordings.iterdir()] == [note.name]
    with pytest.raises(RecordingState):
        await broker.stop_recording("a")


@pytest.mark.parametrize(("program", "args", "state"), [("dash", [], "saved"), ("cat", [], "discarded")])
async def test_a_shell_that_does_not_tell_of_its_commands_may_have_failed(
    broker: Broker, program: str, args: list[str], state: str
) -> None:
    await broker.create_session(program, args, name="a", record="on_failure")
    gone = await broker.destroy_session("a")
    assert gone.recording
    assert gone.recording.state == state


async def test_what_is_not_kept_leaves_its_place(broker: Broker, tmp_path: Path) -> None:
    await broker.create_session("bash", name="a")
    await broker.start_recording("a", str(tmp_path / "x.cast"))
    directory = broker.registry.directory("a")
    note = RecordingNote.load(directory)
    assert note
    RecordingNote(**{**vars(note), "keep": "on_failure"}).save(directory)
    gone = await broker.destroy_session("a")
    assert gone.recording
    assert (gone.recording.state, gone.recording.path) == ("discarded", None)
    assert "x.cast" not in os.listdir(tmp_path)
