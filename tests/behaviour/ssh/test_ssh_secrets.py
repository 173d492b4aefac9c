"""The password of an account elsewhere, typed by its name: ssh asks for it here, and sudo and the like ask there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import end_server
from tests.kit import canaries
from tests.kit.agent import Agent, eventually
from tests.kit.canaries import Canaries, person_at, watched_processes
from tests.kit.programs import PATH
from tests.kit.sshd import PASSWORD, Box

ASKS = "IFS= read -rsp Word: x; echo; echo got ${#x}"


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def near(box: Box, state_dir: Path, asked: list[str]) -> Iterator[Agent]:
    """One whose ssh knows the box, and that has the account's password by name."""
    if not box.as_root:
        pytest.skip("only root can make accounts")
    file = state_dir / "home" / "keep" / "value"
    file.parent.mkdir(parents=True)
    file.touch(mode=0o600)
    file.write_text(PASSWORD)
    ssh = shutil.which("ssh", path=PATH)
    rows = {"box": {"source": f"file:{file}", "for": [ssh], "ask": False}, "there": {"source": f"file:{file}"}}

    def person(message: str) -> str:
        asked.append(message)
        return "accept"

    with Agent(
        state_dir, "--secrets", json.dumps(rows), "--tools", "all", "bash", person=person, PATH=box.path
    ) as agent:
        yield agent
    end_server(state_dir)


def test_ssh_is_given_it_and_what_asks_at_the_far_end_is_known_to_nobody_here(near: Agent, box: Box, asked: list[str]):
    secrets = Canaries()
    secrets.add("password", PASSWORD)
    made = near.call("create_session", host=f"{box.user()}asks", ready_timeout_ms=20_000)
    session = made["session_id"]
    assert made["mode"] == "password", made
    with watched_processes(secrets) as seen:
        sent = near.call("send", session_id=session, secret="box", timeout_ms=20_000)
    assert sent["result"]["mode"] != "password", sent
    other = near.call("create_session", host=f"{box.user()}asks", ready_timeout_ms=20_000)["session_id"]
    with watched_processes(secrets) as also_seen, person_at(near.state_dir, other) as person:
        person.type(PASSWORD)
        eventually(lambda: near.call("get_session", session_id=other)["mode"] != "password")
    assert also_seen == {}
    assert secrets.found_in(bytes(person.seen)) == []
    near.call("send", session_id=session, text=ASKS, enter=True, timeout_ms=20_000)
    assert near.call("get_session", session_id=session)["mode"] == "password"
    assert near.raw("send", session_id=session, secret="box").meta["tmuxmcp/error"]["code"] == "PERMISSION_DENIED"
    assert not asked
    got = near.call("send", session_id=session, secret="there", timeout_ms=20_000)["result"]
    assert f"got {len(PASSWORD)}" in got["content"]
    [question] = asked
    assert f"on {box.user()}asks" in question
    assert seen == {}
    places = [*canaries.files(near.state_dir, but=[near.state_dir / "home" / "keep" / "value"])]
    assert secrets.found([*places, *canaries.kept_by_tmux(near.state_dir)]) == {}
    assert secrets.found(canaries.answers(near, canaries.calls(session))) == {}
