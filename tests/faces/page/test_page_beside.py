"""The page of a server on stdin and stdout: `page = true`."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from tests.conftest import SLOW
from tests.kit.agent import Agent, eventually
from tmuxmcp.faces.page import codes


def watch_url(agent: Agent) -> str:
    return agent.call("get_session").get("watch_url") or ""


def test_facts_of_a_session_tell_where_a_person_can_watch(state_dir: Path):
    with Agent(state_dir, "bash", TMUXMCP_PAGE="true") as agent:
        agent.run("true")
        eventually(lambda: watch_url(agent))
        url = urlsplit(watch_url(agent))
        assert url.hostname == "127.0.0.1"
        assert url.fragment == f"session={agent.call('get_session')['session_id']}"  # and no code
        base = f"http://{url.netloc}"
        assert httpx2.get(base, timeout=20 * SLOW).status_code == 200
        assert httpx2.post(f"{base}/page/commands", json={}, timeout=20 * SLOW).status_code == 401
        assert httpx2.post(f"{base}/rpc", json={}, timeout=20 * SLOW).status_code == 401
        assert [each.url for each in codes.running(state_dir)] == [base]
        entered = {"code": codes.make_code(state_dir, url.port or 0)}
        token = httpx2.post(f"{base}/page/enter", json=entered, timeout=20 * SLOW).json()["token"]
        headers = {"Authorization": f"Bearer {token}"}
        asked = {"session": url.fragment.partition("=")[2]}
        told = httpx2.post(f"{base}/page/commands", json=asked, headers=headers, timeout=20 * SLOW).json()
        assert [command["text"] for command in told["commands"]] == ["true"]
        with Agent(state_dir, "bash", TMUXMCP_PAGE="true") as other:
            other.run("true")
            eventually(lambda: watch_url(other))
            assert urlsplit(watch_url(other)).port != url.port
    with Agent(state_dir, "bash", TMUXMCP_PAGE="true") as agent:
        agent.run("true")
        eventually(lambda: watch_url(agent))
        assert urlsplit(watch_url(agent)).port == url.port  # an open page finds it again
        answer = httpx2.post(f"{base}/page/commands", json=asked, headers=headers, timeout=20 * SLOW)
        assert answer.status_code == 200


def test_without_the_setting_there_is_no_page(state_dir: Path):
    with Agent(state_dir, "bash") as agent:
        agent.run("true")
        assert watch_url(agent) == ""
        assert codes.running(state_dir) == []
