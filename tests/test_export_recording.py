"""`export_recording` as an agent calls it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.agent import Agent, ToolFailed
from tests.conftest import end_server
from tmuxmcp.terminal import asciicast
from tmuxmcp.terminal.film import Marked, Printed


@pytest.fixture
def agent() -> Iterator[Agent]:
    directory = Path(mkdtemp(prefix="tm-"))
    with Agent(directory, "bash", "--tools", "all") as made:
        yield made
    end_server(directory)


def test_an_agent_exports_its_session(agent: Agent, tmp_path: Path) -> None:
    agent.run("echo one")
    agent.run("seq 3; false")
    made = tmp_path / "x.cast"
    told = agent.call("export_recording", path=str(made))
    assert (told["path"], told["bytes"], told["format"]) == (str(made), made.stat().st_size, "cast")
    assert made.stat().st_mode & 0o777 == 0o600
    film = asciicast.read(made.read_bytes().splitlines(keepends=True))
    moments = list(film.moments)
    assert [each.label for each in moments if isinstance(each, Marked)] == ["echo one: exit 0", "seq 3; false: exit 1"]
    assert b"1\r\n2\r\n3\r\n" in b"".join(each.data for each in moments if isinstance(each, Printed))
    for path, code in ((made, "INVALID_ARGUMENT"), (tmp_path / "no" / "x", "FILE_NOT_FOUND")):
        with pytest.raises(ToolFailed) as failed:
            agent.call("export_recording", path=str(path))
        assert failed.value.code == code
    kept = agent.call("export_recording", command=-1, format="jsonl")["path"]
    assert Path(kept).parent.name == "recordings"
    lines = [json.loads(line) for line in Path(kept).read_text().splitlines()]
    assert "".join(each["data"] for each in lines if each.get("direction")) == "1\r\n2\r\n3\r\n"
    assert [each.name for each in Path(kept).parent.iterdir()] == [Path(kept).name]
