"""A broker among the files of a newer version: it reads what it knows, works with the session, and loses nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import end_server
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.errors import SessionExited
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.record.events import GapEvent, UnknownEvent

NUMBER = 1000


def make_newer(directory: SessionDirectory) -> None:
    """Rewrite a real session's files as a newer version would have written them."""
    meta = json.loads(directory.meta.read_text())
    meta["bounds"] |= {"colour": "green"}
    directory.meta.write_text(json.dumps({"format": NUMBER, **meta, "parents": [{"id": "b"}]}))
    marks = json.loads(directory.checkpoint.read_text()) if directory.checkpoint.exists() else {}
    directory.checkpoint.write_text(json.dumps({"format": NUMBER, **marks, "zones": [1, 2]}))
    time = "2026-01-02T03:04:05.678Z"
    with directory.events.open("a") as file:
        for event in (
            {"event": "gap", "offset": 1, "why": {"disk": "full"}},
            {"event": "lease", "offset": 2, "by": "me"},
            {"event": "resize", "offset": {"line": 3}},
        ):
            file.write(json.dumps({"format": NUMBER, "time": time, **event}) + "\n")


def contents(directory: SessionDirectory) -> tuple[bytes, bytes]:
    return directory.meta.read_bytes(), directory.checkpoint.read_bytes()


async def ids(broker: Broker) -> list[str]:
    """The sessions that were not destroyed."""
    rows = (await broker.list_sessions()).sessions
    return [row.session_id for row in rows if row.ended is None or row.ended.reason != "destroyed"]


async def test_session_of_a_newer_version_can_be_used_and_destroyed(broker: Broker):
    await broker.create_session("bash", name="a", limits={"duration_s": 1000})
    before = await broker.run("echo before", "a")
    directory = broker.registry.directory("a")
    make_newer(directory)
    newer, events = contents(directory), directory.events.read_bytes()
    async with Broker.open(broker.settings) as other:
        assert await ids(other) == ["a"]
        got = await other.get_session("a")
        assert (got.program, [each.name for each in got.limits]) == ("bash", ["duration_s"])
        assert (await other.run("echo after", "a")).output == "after\n"
        read = await other.read("new", "a", since=0)
        assert "before" in read.content
        assert "lost at offset 1:" in (read.note or "")
        assert (await other.read("screen", "a")).content.count("after") >= 1
        assert [type(each) for each in other.registry.sessions["a"].events.read()][1:4] == [
            GapEvent,
            UnknownEvent,
            UnknownEvent,
        ]
        await other.destroy_session("a")
        assert (await ids(other), await ids(broker)) == ([], [])
        with pytest.raises(SessionExited, match="was destroyed"):
            await other.run("true", "a")
    assert before.exit_code == 0
    assert contents(directory) == newer
    assert directory.events.read_bytes().startswith(events)


async def test_lost_session_of_a_newer_version_goes_for_all_when_one_destroys_it(broker: Broker):
    await broker.create_session("bash", name="a")
    directory = broker.registry.directory("a")
    make_newer(directory)
    newer = contents(directory)
    end_server(broker.settings.state_dir)
    async with Broker.open(broker.settings) as other:
        assert (await ids(other), await ids(broker)) == (["a"], ["a"])
        await other.destroy_session("a")
        assert (await ids(other), await ids(broker)) == ([], [])
        assert contents(directory) == newer
        await other.create_session("bash", name="a")
        assert await ids(other) == ["a"]
    assert contents(SessionDirectory.of(broker.settings.state_dir, "a.1")) == newer


async def test_default_session_of_a_newer_version_is_made_anew(broker: Broker):
    first = await broker.run("true")
    directory = broker.registry.directory(first.session_id)
    await broker.send("exit", enter=True, wait_for="exit")
    make_newer(directory)
    newer = contents(directory)
    async with Broker.open(broker.settings) as other:
        second = await other.run("true")
        assert second.session_id != first.session_id
        assert (await other.run("true")).session_id == second.session_id
    assert contents(directory) == newer


async def test_session_whose_newer_file_is_not_understood_is_known_from_its_pane(broker: Broker, state_dir: Path):
    await broker.create_session("bash", name="a")
    directory = SessionDirectory.of(state_dir, "a")
    directory.meta.write_text(json.dumps({"format": NUMBER, "everything": "elsewhere"}))
    newer = directory.meta.read_bytes()
    async with Broker.open(broker.settings) as other:
        assert await ids(other) == ["a"]
        assert (await other.run("echo there", "a")).output == "there\n"
        await other.destroy_session("a")
        assert (await ids(other), await ids(broker)) == ([], [])
    assert directory.meta.read_bytes() == newer
