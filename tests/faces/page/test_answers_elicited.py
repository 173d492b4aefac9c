"""A client that opens addresses sends the person to the page for a secret; what it answers settles nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from tests.conftest import SLOW, a_state_dir
from tests.kit.agent import Agent, eventually
from tmuxmcp.faces.page import codes

ERAS = ["legacy", "auto"]
SECRET = "canary-only-in-the-page"


@pytest.fixture
def state_dir() -> Iterator[Path]:
    with a_state_dir() as directory:  # each test's own
        yield directory


def asks_in(agent: Agent) -> None:
    """Make a session whose program asks for a secret, as soon as the page is there."""
    agent.call("create_session", program="bash", name="a")
    eventually(lambda: agent.call("get_session", session_id="a")["watch_url"])
    agent.call("send", session_id="a", text="IFS= read -rs x", enter=True, read="none")
    eventually(lambda: agent.call("get_session", session_id="a")["mode"] == "password")


def ask(agent: Agent, **arguments: Any) -> dict[str, Any]:
    return agent.call("request_user_input", **({"session_id": "a", "message": "The key.", "secret": True} | arguments))


@pytest.mark.parametrize("mode", ERAS)
def test_a_secret_is_typed_in_the_page(state_dir: Path, threads: ThreadPoolExecutor, mode: str):
    with Agent(state_dir, "bash", mode=mode, person=lambda message: "accept", TMUXMCP_PAGE="true") as agent:
        asks_in(agent)
        answer = threads.submit(ask, agent)
        eventually(lambda: agent.asked)
        [asked] = agent.asked
        url = urlsplit(asked.url)
        [request] = (state_dir / "sessions/a/requests").glob("*.json")
        assert asked.mode == "url"
        assert parse_qs(url.fragment) == {"session": ["a"], "request": [request.stem]}
        assert (url.path, url.query) == ("/", "")
        assert "    The key." in asked.message
        with httpx2.Client(base_url=f"http://{url.netloc}", timeout=20 * SLOW) as person:
            named = {"session": "a", "request": request.stem}
            assert person.post("/page/answer", json=named | {"line": SECRET}).status_code == 401
            code = {"code": codes.make_code(state_dir, url.port or 0)}
            token = person.post("/page/enter", json=code).json()["token"]
            person.headers["Authorization"] = f"Bearer {token}"
            assert person.post("/page/became", json=named).json()["became"] is None, "accepting settles nothing"
            assert person.post("/page/answer", json=named | {"line": SECRET}).json()["first"]
        assert answer.result(20 * SLOW)["outcome"] == "done"
        assert len(agent.asked) == 1
        kept = [each for each in state_dir.rglob("*") if each.is_file() and SECRET.encode() in each.read_bytes()]
        assert not kept
        assert agent.run(f'test "$x" = {SECRET}; echo $?', session_id="a")["output"] == "0\n"


@pytest.mark.parametrize("mode", ERAS)
def test_who_went_to_the_page_is_not_sent_there_again(state_dir: Path, mode: str):
    answers = iter(["cancel", "accept", "decline"])
    own = {"TMUXMCP_PAGE": "true"}
    with Agent(state_dir, "--max-wait-ms", "300", "bash", mode=mode, person=lambda _: next(answers), **own) as agent:
        asks_in(agent)
        waits = ask(agent)
        assert (waits["outcome"], len(agent.asked)) == ("waiting", 1), "put away"
        for _ in range(2):
            assert ask(agent, message="", secret=False, request_id=waits["request_id"])["outcome"] == "waiting"
        assert len(agent.asked) == 2, "went there"
        assert ask(agent, message="Another.")["outcome"] == "declined"
        [line] = [each for each in events(state_dir) if each["event"] == "answered"]
        assert (line["outcome"], line["via"]) == ("declined", "client")


def events(state_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (state_dir / "sessions/a/events.jsonl").read_text().splitlines()]
