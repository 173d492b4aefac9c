"""Recordings that run, as agents begin and stop them: over stdio, across brokers, to the end of the session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import until_exists
from tests.kit.agent import Agent, ToolFailed, an_agent, eventually, refused
from tests.kit.fixtures import of_file
from tmuxmcp.record.directory import SessionDirectory
from tmuxmcp.terminal.film import formats
from tmuxmcp.terminal.film.film import Film, FilmExit, FilmInput, FilmMarker, FilmOutput

agent = of_file(an_agent, "bash", "--tools", "all")


def session_of(agent: Agent, name: str, **arguments: Any) -> str:
    made: str = agent.call("create_session", name=name, program="bash", **arguments)["session_id"]
    return made


def directory_of(agent: Agent, name: str) -> SessionDirectory:
    return SessionDirectory.of(agent.state_dir, name)


def film_of(path: str | Path) -> Film:
    return formats.read(Path(path).read_bytes().splitlines(keepends=True))


def printed(film: Film) -> bytes:
    return b"".join(each.data for each in film.moments if isinstance(each, FilmOutput))


def labels(film: Film) -> list[str]:
    return [each.label for each in film.moments if isinstance(each, FilmMarker)]


def closed(agent: Agent, name: str) -> dict[str, Any]:
    """The recording of a session that has ended, once somebody has brought it to its end."""
    found: list[dict[str, Any]] = []

    def is_closed() -> bool:
        found[:] = [agent.call("get_session", session_id=name)["recorded"]]
        return found[0]["state"] not in ("running", "stopped")

    eventually(is_closed, 20)
    return found[0]


# ---- begun and stopped -----------------------------------------------------------------------------


def test_a_recording_is_the_stretch_of_the_log_from_its_start_to_its_stop(agent: Agent, tmp_path: Path) -> None:
    name, path = session_of(agent, "stretch"), tmp_path / "a.cast"
    agent.run("echo before", session_id=name)
    told = agent.call("start_recording", session_id=name, path=str(path))
    assert (told["path"], told["bytes"], told["duration_s"], told["events"]) == (str(path), 0, 0, 0)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"", 0o600)
    facts = agent.call("get_session", session_id=name)
    assert facts["recording"] is True
    running = facts["recorded"]
    assert (running["state"], running["path"], running["bytes"]) == ("running", str(path), None)
    begin = agent.run("echo one; false", session_id=name)["start_offset"]
    agent.run("echo two", session_id=name)
    made = agent.call("stop_recording", session_id=name)
    agent.run("echo after", session_id=name)
    assert (made["path"], made["bytes"], made["truncated"]) == (str(path), path.stat().st_size, False)
    film = film_of(path)
    log = directory_of(agent, name).log.read_bytes()
    data = printed(film)
    at = data.index(b"one\r\n")
    assert data[at:] == log[begin:][: len(data) - at]
    assert b"before" in data[:at]  # the screen that it begins with
    assert b"after" not in data
    assert labels(film) == ["echo one; false: exit 1", "echo two: exit 0"]
    assert made["events"] == len(list(film.moments)) - 1  # which is no event of the session
    assert agent.call("get_session", session_id=name)["recorded"] is None


@pytest.mark.parametrize("format", ["cast2", "jsonl"])
def test_other_forms_are_made_beside_the_log(agent: Agent, format: str) -> None:
    name = session_of(agent, f"as-{format}")
    agent.call("start_recording", session_id=name, format=format)
    agent.run("echo one", session_id=name)
    made = Path(agent.call("stop_recording", session_id=name)["path"])
    assert made.parent == directory_of(agent, name).recordings
    assert [each.name for each in made.parent.iterdir()] == [made.name]
    lines = made.read_text().splitlines()
    if format == "cast2":
        assert json.loads(lines[0])["version"] == 2
    else:
        events = [json.loads(line) for line in lines]
        assert "one\r\n" in "".join(each["data"] for each in events if each.get("direction") == "output")
        assert {"cols": 80, "rows": 24}.items() <= events[0].items()


def test_a_recording_runs_or_it_does_not(agent: Agent) -> None:
    name = session_of(agent, "states")
    refused("RECORDING_STATE", agent.call, "stop_recording", session_id=name)
    agent.call("start_recording", session_id=name)
    with pytest.raises(ToolFailed, match="stop_recording ends that one") as failed:
        agent.call("start_recording", session_id=name)
    assert failed.value.code == "RECORDING_STATE"
    agent.call("stop_recording", session_id=name)
    with pytest.raises(ToolFailed, match="Begin one first") as failed:
        agent.call("stop_recording", session_id=name)
    assert failed.value.code == "RECORDING_STATE"
    agent.call("start_recording", session_id=name)
    agent.call("stop_recording", session_id=name)
    assert len(list(directory_of(agent, name).recordings.iterdir())) == 2


def test_a_place_that_cannot_be_had_fails_at_the_start(agent: Agent, tmp_path: Path) -> None:
    name, there = session_of(agent, "places"), tmp_path / "there"
    there.write_text("theirs")
    refused("INVALID_ARGUMENT", agent.call, "start_recording", session_id=name, path=str(there))
    refused("FILE_NOT_FOUND", agent.call, "start_recording", session_id=name, path=str(tmp_path / "no" / "x"))
    assert there.read_text() == "theirs"
    other = session_of(agent, "places-too")
    path = str(tmp_path / "x.cast")
    agent.call("start_recording", session_id=name, path=path)
    refused("INVALID_ARGUMENT", agent.call, "start_recording", session_id=other, path=path)
    assert agent.call("stop_recording", session_id=name)["path"] == path
    assert not directory_of(agent, other).recording.exists()


def test_a_place_that_was_taken_meanwhile_is_not_overwritten(agent: Agent, tmp_path: Path) -> None:
    name, path = session_of(agent, "taken"), tmp_path / "x.cast"
    agent.call("start_recording", session_id=name, path=str(path))
    agent.run("echo one", session_id=name)
    path.write_text("theirs")
    made = agent.call("stop_recording", session_id=name)
    assert path.read_text() == "theirs"
    assert Path(made["path"]).parent == directory_of(agent, name).recordings
    assert str(path) in made["note"]
    assert b"one\r\n" in printed(film_of(made["path"]))


# ---- what is typed ---------------------------------------------------------------------------------


def test_what_is_typed_is_in_it_if_that_is_wanted_and_never_a_secret(agent: Agent, tmp_path: Path) -> None:
    name, secret, path = session_of(agent, "typed"), "correct-horse-battery", tmp_path / "a.jsonl"
    agent.call("start_recording", session_id=name, input=True, path=str(path), format="jsonl")
    agent.run("echo one", session_id=name)
    agent.call("send", session_id=name, text="read -s SECRET", enter=True)
    agent.call("read", session_id=name, view="screen", wait_for="ready")
    assert agent.call("get_session", session_id=name)["mode"] == "password"
    agent.call("send", session_id=name, text=secret, enter=True)
    agent.call("send", session_id=name, text="cat", enter=True)
    agent.call("send", session_id=name, text="a line", enter=True)
    agent.call("send", session_id=name, key="C-d")
    agent.call("send", session_id=name, text=f"stty -echo; cat\n{secret}\n\x04stty echo\n", wait_for="idle")
    agent.call("stop_recording", session_id=name)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    typed = [each["data"] for each in lines if each.get("direction") == "input"]
    assert typed[:4] == ["echo one\r", "read -s SECRET\r", "cat\r", "a line\r"]
    directory = directory_of(agent, name)
    assert not any(secret in each for each in typed)
    assert secret not in directory.events.read_text()


def test_without_being_wanted_nothing_typed_is_written_down(agent: Agent) -> None:
    name = session_of(agent, "untyped")
    agent.run("echo one", session_id=name)
    agent.call("start_recording", session_id=name)
    agent.run("echo two", session_id=name)
    film = film_of(agent.call("stop_recording", session_id=name)["path"])
    assert not [each for each in film.moments if isinstance(each, FilmInput)]
    assert "shown" not in directory_of(agent, name).events.read_text()


# ---- the session ends ------------------------------------------------------------------------------


def test_a_session_that_ends_closes_its_recording(agent: Agent, tmp_path: Path) -> None:
    name, path = session_of(agent, "ends"), tmp_path / "x.cast"
    agent.call("start_recording", session_id=name, path=str(path))
    agent.run("echo last; exit 3", session_id=name)
    recording = closed(agent, name)
    assert (recording["state"], recording["path"], recording["bytes"]) == ("saved", str(path), path.stat().st_size)
    film = film_of(path)
    assert b"last\r\n" in printed(film)
    assert [each.exit_code for each in film.moments if isinstance(each, FilmExit)] == [3]
    assert agent.call("stop_recording", session_id=name)["path"] == str(path)  # what became of it can be asked for
    refused("SESSION_EXITED", agent.call, "start_recording", session_id=name)
    told = [json.loads(line) for line in directory_of(agent, name).events.read_text().splitlines()]
    assert [each["state"] for each in told if each["event"] == "recording"] == ["running", "saved"]


def test_who_destroys_a_session_is_told_of_its_recording(agent: Agent) -> None:
    name = session_of(agent, "destroyed", record=True)
    agent.run("echo from the start", session_id=name)
    recording = agent.call("destroy_session", session_id=name)["recording"]
    assert recording["state"] == "saved"
    film = film_of(recording["path"])
    assert printed(film).startswith(directory_of(agent, name).log.read_bytes()[:200])
    assert labels(film) == ["echo from the start: exit 0"]


@pytest.mark.parametrize(
    ("name", "command", "state"),
    [
        ("well", "true; exit 0", "discarded"),
        ("badly", "exit 7", "saved"),
        ("killed", "kill -9 $$", "saved"),
    ],
)
def test_on_failure_keeps_what_failed(agent: Agent, name: str, command: str, state: str) -> None:
    session_of(agent, name, record="on_failure")
    agent.run("true", session_id=name)
    agent.run(command, session_id=name)
    recording = closed(agent, name)
    assert recording["state"] == state
    left = list(directory_of(agent, name).recordings.iterdir())
    assert len(left) == (state == "saved")
    assert bool(recording["path"]) == (state == "saved")


@pytest.mark.parametrize(("command", "state"), [("true", "discarded"), ("false", "saved")])
def test_a_destroyed_session_is_judged_by_its_commands(agent: Agent, command: str, state: str) -> None:
    name = session_of(agent, f"on-{command}", record="on_failure")
    agent.run(command, session_id=name)
    agent.run("true", session_id=name)
    assert agent.call("destroy_session", session_id=name)["recording"]["state"] == state


def test_a_command_that_has_not_ended_did_not_go_well(agent: Agent) -> None:
    name = session_of(agent, "unended", record="on_failure")
    agent.call("send", session_id=name, text="sleep 99", enter=True, read="none")
    eventually(lambda: agent.call("get_session", session_id=name)["foreground"]["command"].startswith("sleep"))
    assert agent.call("destroy_session", session_id=name)["recording"]["state"] == "saved"


# ---- brokers come and go ---------------------------------------------------------------------------


def test_a_killed_broker_loses_nothing_of_a_recording(state_dir: Path, tmp_path: Path) -> None:
    path, go = tmp_path / "x.cast", tmp_path / "go"
    with Agent(state_dir, "bash", "--tools", "all") as agent:
        session_of(agent, "one")
        agent.call("start_recording", session_id="one", path=str(path))
        agent.run("echo first", session_id="one")
        session_of(agent, "two", record=True)
        agent.call("send", session_id="two", text=f"{until_exists(go)}; exit 4", enter=True, read="none")
        agent.kill()
    go.touch()
    with Agent(state_dir, "bash", "--tools", "all") as agent:
        recording = closed(agent, "two")  # it ended while nobody was there
        assert recording["state"] == "saved"
        assert [each.exit_code for each in film_of(recording["path"]).moments if isinstance(each, FilmExit)] == [4]
        agent.run("echo second", session_id="one")
        made = agent.call("stop_recording", session_id="one")
        assert made["path"] == str(path)
        assert labels(film_of(path)) == ["echo first: exit 0", "echo second: exit 0"]


def test_every_session_is_recorded_where_the_setting_says_so(state_dir: Path) -> None:
    with Agent(state_dir, "bash", "--tools", "all", TMUXMCP_RECORD="always") as agent:
        own = agent.run("echo one")["session_id"]
        assert agent.call("get_session")["recorded"]["state"] == "running"
        recording = agent.call("destroy_session", session_id=own)["recording"]
        assert labels(film_of(recording["path"])) == ["echo one: exit 0"]


def test_a_path_outside_of_the_root_is_refused(state_dir: Path, tmp_path: Path) -> None:
    root, beside = tmp_path / "root", tmp_path / "beside.cast"
    root.mkdir()
    with Agent(state_dir, "bash", "--tools", "all", TMUXMCP_FILES_ROOT=str(root)) as agent:
        refused("PATH_OUTSIDE_ROOT", agent.call, "start_recording", path=str(beside))
        assert not beside.exists()
        agent.call("start_recording", path="inside.cast")
        agent.run("echo one")
        assert agent.call("stop_recording")["path"] == str(root / "inside.cast")
        assert b"one\r\n" in printed(film_of(root / "inside.cast"))
