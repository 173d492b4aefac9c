"""`export_recording` as an agent calls it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.agent import Agent, an_agent, refused
from tmuxmcp.terminal.film import formats
from tmuxmcp.terminal.film.film import FilmMarker, FilmOutput
from tmuxmcp.terminal.film.player import Player


@pytest.fixture
def agent() -> Iterator[Agent]:
    with an_agent("bash", "--tools", "all") as made:
        yield made


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
def test_history_and_recording_are_resources(tmp_path: Path, mode: str) -> None:
    with an_agent("bash", mode=mode) as agent:
        name = agent.call("run", command="echo one; (exit 3)")["session_id"]
        uri = f"tmux://sessions/{name}"
        (history,) = agent.portal.call(agent.client.read_resource, f"{uri}/history").contents
        (cast,) = agent.portal.call(agent.client.read_resource, f"{uri}/recording").contents
    (command,) = json.loads(history.text)["commands"]
    assert (command["text"], command["exit_code"], command["by"]) == ("echo one; (exit 3)", 3, "agent")
    moments = list(formats.read(cast.text.encode().splitlines(keepends=True)).moments)
    assert [each.label for each in moments if isinstance(each, FilmMarker)] == ["echo one; (exit 3): exit 3"]


def test_an_agent_exports_its_session(agent: Agent, tmp_path: Path) -> None:
    agent.run("echo one")
    agent.run("seq 3; false")
    made = tmp_path / "x.cast"
    told = agent.call("export_recording", path=str(made))
    assert (told["path"], told["bytes"], told["format"]) == (str(made), made.stat().st_size, "cast")
    assert made.stat().st_mode & 0o777 == 0o600
    film = formats.read(made.read_bytes().splitlines(keepends=True))
    moments = list(film.moments)
    assert [each.label for each in moments if isinstance(each, FilmMarker)] == [
        "echo one: exit 0",
        "seq 3; false: exit 1",
    ]
    assert b"1\r\n2\r\n3\r\n" in b"".join(each.data for each in moments if isinstance(each, FilmOutput))
    for path, code in ((made, "INVALID_ARGUMENT"), (tmp_path / "no" / "x", "FILE_NOT_FOUND")):
        refused(code, agent.call, "export_recording", path=str(path))
    kept = agent.call("export_recording", command=-1, format="jsonl")["path"]
    assert Path(kept).parent.name == "recordings"
    lines = [json.loads(line) for line in Path(kept).read_text().splitlines()]
    assert "".join(each["data"] for each in lines if each.get("direction")) == "1\r\n2\r\n3\r\n"
    assert [each.name for each in Path(kept).parent.iterdir()] == [Path(kept).name]


def test_an_earlier_session_of_a_name_is_exported(agent: Agent) -> None:
    for words in ("old", "new"):
        agent.call("create_session", name="again", program="bash")
        agent.run(f"echo the {words} one", session_id="again")
        agent.call("destroy_session", session_id="again")
    for generation, words in ((1, "old"), (2, "new")):
        told = agent.call("export_recording", session_id="again", generation=generation, command=-1, format="txt")
        assert Path(told["path"]).read_text() == f"the {words} one\n"
    refused("SESSION_NOT_FOUND", agent.call, "export_recording", session_id="again", generation=3)


def test_a_film_has_what_tmux_showed_right_after_another_size(agent: Agent, tmp_path: Path) -> None:
    # A shell would draw its prompt anew, at some moment afterwards.
    agent.call("create_session", name="still", program="sh", args=["-c", "seq -s ' ' 60; exec sleep 600"])
    agent.call("read", session_id="still", wait_for="pattern", pattern=" 60\n")
    agent.call("resize", session_id="still", rows=20, cols=50)
    screen = agent.call("read", session_id="still", view="screen")["content"]
    made = tmp_path / "x.jsonl"
    agent.call("export_recording", session_id="still", path=str(made), format="cast")
    film = formats.read(made.read_bytes().splitlines(keepends=True))
    player = Player(film)
    player.seek(player.duration_ms)
    while player.seeks:
        player.work()
    shown = "\n".join(player.snapshot.text_rows())
    assert shown.rstrip() == screen.rstrip()
    assert "r" in {json.loads(line)[1] for line in made.read_text().splitlines()[1:]}
