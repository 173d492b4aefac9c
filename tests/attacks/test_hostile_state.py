"""A state directory in which somebody has put something else in the place of a file of ours.

Whatever it is, calls answer, the server ends when it is told to, and nothing that lies outside is read or changed.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from tests.conftest import SLOW, a_state_dir
from tests.kit.agent import Agent, an_agent, command_line, eventually
from tests.kit.fixtures import of_file
from tests.kit.repositories import digest
from tmuxmcp.record.directory import DIRECTORY_ENTRIES, SessionDirectory

SECRET = "CANARY"
ANSWER_S = 8 * SLOW
"""In so many seconds each call answers, and the server ends."""


def put_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "file")


def put_link_to_a_directory(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "directory")


def put_dangling_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "nothing")


def put_link_to_a_device(path: Path, _: Path) -> None:
    path.symlink_to("/dev/zero")


def put_pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def put_socket(path: Path, _: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def put_directory(path: Path, _: Path) -> None:
    path.mkdir()
    (path / "x").touch()


def put_garbage(path: Path, _: Path) -> None:
    path.write_bytes(bytes(range(256)) * 8 + b"\n\xff\n")


def put_deep_json(path: Path, _: Path) -> None:
    path.write_text("[" * 100_000 + "]" * 100_000 + "\n" + '{"a":' * 100_000 + "\n")


def put_huge_file(path: Path, _: Path) -> None:
    path.touch()
    if path.name != SessionDirectory.log.name:  # the only one that may have any size
        os.truncate(path, 1 << 40)


KINDS: dict[str, Callable[[Path, Path], None]] = {
    "link": put_link,
    "link to a directory": put_link_to_a_directory,
    "dangling link": put_dangling_link,
    "pipe": put_pipe,
    "directory": put_directory,
    "garbage": put_garbage,
    "deep JSON": put_deep_json,
    "link to a device": put_link_to_a_device,
    "socket": put_socket,
    "huge file": put_huge_file,
}
ONE_BY_ONE = ("link", "link to a directory", "dangling link", "pipe", "directory", "deep JSON")

IN_SESSION = [each.name for each in DIRECTORY_ENTRIES if each.writers != ("shell",)]
"""But for what programs in the session write alone: whatever they do there, they do themselves."""

IN_STATE = (
    *("audit.jsonl", "audit.lock", "callers", "confirmations", "id", "page", "page/port", "page/servers", "processes"),
    *("request_ids", "request_ids/person", "sessions.lock", "status.lock", "tmux.lock", "tmux.pid", "tmux", "libtmux"),
)
"""What lies in the state directory beside `sessions/` and the socket, at one time or another."""


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What must stay as it is, and unread."""
    place = tmp_path / "outside"
    (place / "directory" / "person").mkdir(parents=True)
    for name in ("file", "directory/client", "directory/default", "directory/x.json", "directory/person/file"):
        (place / name).write_text(f'{{"{SECRET}": 1}}\n')
    return place


agent = of_file(an_agent, "--program", "bash")


def bounded(agent: Agent, tool: str, **arguments: Any) -> str:
    """What a tool answers, whatever that is, in time."""

    async def call() -> Any:
        with anyio.fail_after(ANSWER_S):
            return await agent.client.call_tool(tool, arguments)

    answer = agent.portal.call(call)
    text = json.dumps(answer.structured_content) + "".join(each.text for each in answer.content)
    assert SECRET not in text
    if answer.is_error:
        assert answer.meta["tmuxmcp/error"]["code"] != "INTERNAL", text
    return text


def replaced(path: Path, kind: str, outside: Path) -> Path | None:
    """Put something in the place of a file; where that lies now, if there was one."""
    aside = path.with_name(f"{path.name}.aside")
    if path.parent.is_symlink() or not path.parent.is_dir():
        return None
    if os.path.lexists(path):
        path.rename(aside)
    KINDS[kind](path, outside)
    return aside


def put_back(path: Path, aside: Path | None) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
    if aside and os.path.lexists(aside):
        aside.rename(path)


def calls(agent: Agent, name: str) -> None:
    bounded(agent, "run", command="echo a", session_id=name, timeout_ms=300)
    bounded(agent, "read", view="new", session_id=name)
    bounded(agent, "list_sessions")


@pytest.mark.parametrize("kind", ONE_BY_ONE)
def test_whatever_is_in_the_place_of_one_file_calls_answer(agent: Agent, outside: Path, kind: str):
    before, name = digest(outside), kind.replace(" ", "-")
    bounded(agent, "create_session", program="bash", name=name)
    calls(agent, name)
    place = agent.state_dir / "sessions" / name
    # The log last: with another one in its place, the session knows no more what its shell does.
    others = [place / each for each in IN_SESSION if each != SessionDirectory.log.name]
    for path in [*others, *(agent.state_dir / each for each in IN_STATE), place / SessionDirectory.log.name]:
        aside = replaced(path, kind, outside)
        try:
            calls(agent, name)
        except TimeoutError:
            pytest.fail(f"no answer with a {kind} in the place of {path.name}")
        finally:
            put_back(path, aside)
        assert digest(outside) == before, path.name
    bounded(agent, "destroy_session", session_id=name)


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "garbage", "huge file"])
@pytest.mark.parametrize("file", ["events.jsonl", "sink.pid", "out.base"])
def test_whatever_is_in_the_place_of_a_file_a_program_that_ends_has_ended(
    agent: Agent, outside: Path, kind: str, file: str
):
    before, name = digest(outside), f"{kind}-{file}".replace(" ", "-").replace(".", "-")
    bounded(agent, "create_session", program="bash", name=name)
    calls(agent, name)
    replaced(agent.state_dir / "sessions" / name / file, kind, outside)
    bounded(agent, "send", text="exit", keys=["Enter"], session_id=name, read="none")

    def has_ended() -> bool:
        return '"exited": true' in bounded(agent, "get_session", session_id=name)

    eventually(has_ended, 15)
    assert digest(outside) == before
    bounded(agent, "destroy_session", session_id=name)


@pytest.mark.parametrize("kind", ["link", "pipe", "garbage", "huge file"])
def test_whatever_is_in_the_place_of_its_first_offset_a_log_is_written_on(agent: Agent, outside: Path, kind: str):
    name = f"on-{kind}".replace(" ", "-")
    bounded(agent, "create_session", program="bash", name=name)
    calls(agent, name)
    place = agent.state_dir / "sessions" / name
    replaced(place / "out.base", kind, outside)
    psutil.Process(int((place / "sink.pid").read_text().split()[0])).kill()
    eventually(lambda: '"output": "a\\n"' in bounded(agent, "run", command="echo a", session_id=name), 15)
    bounded(agent, "destroy_session", session_id=name)


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_in_the_place_of_all_files_calls_answer_and_the_server_ends(outside: Path, kind: str):
    before = digest(outside)
    with an_agent("--program", "bash") as agent:
        for name in ("a", "b"):
            bounded(agent, "create_session", program="bash", name=name)
            calls(agent, name)
            for each in IN_SESSION:
                replaced(agent.state_dir / "sessions" / name / each, kind, outside)
            calls(agent, name)
        bounded(agent, "list_commands", session_id="a")
        bounded(agent, "search", pattern="a", session_id="a")
        bounded(agent, "get_session", session_id="a")
        bounded(agent, "destroy_session", session_id="a")
        try:
            for each in IN_STATE:
                replaced(agent.state_dir / each, kind, outside)
            calls(agent, "b")
            agent.server.terminate()
            agent.server.wait(ANSWER_S)
            argv, env = command_line(agent.state_dir, "list")
            done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=ANSWER_S, check=False)
            assert SECRET not in done.stdout + done.stderr
            assert "INTERNAL" not in done.stderr, done.stderr
        finally:  # who cleans up goes by these
            for path in [agent.state_dir / each for each in IN_STATE]:
                put_back(path, path.with_name(f"{path.name}.aside"))
        assert digest(outside) == before


@pytest.mark.parametrize("kind", ["link to a directory", "pipe"])
def test_a_client_that_cannot_be_told_apart_is_told_why(outside: Path, kind: str):
    """Where the directory is in which clients have their names."""
    before = digest(outside)
    with a_state_dir() as state_dir:
        KINDS[kind](state_dir / "callers", outside)
        with Agent(state_dir, "--program", "bash") as agent:
            assert str(state_dir / "callers") in bounded(agent, "run", command="true")
    assert digest(outside) == before
