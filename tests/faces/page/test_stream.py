"""What an open page is told: the list and a screen, changes alone; a real server."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx2
import pytest

from tests.conftest import SLOW, TMUX
from tests.conftest import eventually as until
from tests.kit.service import Service
from tests.kit.visits import let_in, told
from tmuxmcp.broker.broker import Broker
from tmuxmcp.broker.listing import SessionOverview
from tmuxmcp.contract.errors import TmuxFailed
from tmuxmcp.faces.page import routes
from tmuxmcp.faces.page.codes import AccessSecrets
from tmuxmcp.faces.page.lookups import OwnDesk
from tmuxmcp.faces.page.overview import Overview
from tmuxmcp.faces.tokens import bearer


def test_list_says_how_each_session_stands(service: Service, headers: dict[str, str]):
    with told(service, headers) as page:
        page.until(lambda: page.rows.get("one", {}).get("mode") == "shell_prompt")
        service.result("run", session_id="one", command="echo first; false")
        page.until(lambda: (page.rows["one"]["command"] or {}).get("exit_code") == 1)
        assert page.rows["one"]["command"]["text"] == "echo first; false"
        page.until(lambda: any(span["t"] == "first" for row in page.rows["one"]["tail"] for span in row))


def test_sessions_come_and_go(service: Service, headers: dict[str, str]):
    with told(service, headers) as page:
        page.until(lambda: "one" in page.rows)
        service.result("create_session", program="bash", name="brief")
        page.until(lambda: "brief" in page.rows)
        service.result("destroy_session", session_id="brief")
        page.until(lambda: (page.rows["brief"]["ended"] or {}).get("reason") == "destroyed")


def test_screen_is_sent_whole_and_then_what_changes(service: Service, headers: dict[str, str]):
    service.result("create_session", program="bash", name="screen")
    with told(service, headers, "screen") as page:
        page.until(lambda: len(page.screen) == 24)
        before = len(page.messages)
        service.result("run", session_id="screen", command="printf '\\033[1;31mred\\033[0m \\xe6\\xbc\\xa2\\n'")
        page.until(lambda: "red" in page.text)
        changes = [each for each in page.messages[before:] if each["kind"] == "screen"]
        assert all(0 < len(each["lines"]) < 24 or "facts" in each for each in changes)
        (row,) = (row for row in page.screen.values() if row and row[0]["t"] == "red")
        assert row[0]["a"] == "b"
        assert row[0]["f"].startswith("#")
        assert {"t": "漢", "w": 2} in row
        service.result("resize", session_id="screen", rows=10, cols=50)
        page.until(lambda: page.messages[-1].get("size") == [50, 10])


def test_address_behind_text_is_told_where_tmux_tells_it(service: Service, headers: dict[str, str]):
    link = "\\033]8;;{}\\033\\\\%s\\033]8;;\\033\\\\"
    good, bad = link.format("https://example.org/a") % "good", link.format("javascript:alert(1)") % "bad"
    with told(service, headers, "one") as page:
        service.result("run", session_id="one", command=f"clear; printf '{good} {bad} none\\n'")
        page.until(lambda: "good bad none" in page.text)
        behind = {span["t"].strip(): span.get("h") for row in page.screen.values() for span in row}
    version = subprocess.run([TMUX, "-V"], capture_output=True, text=True, check=True).stdout
    if "next" in version or tuple(map(int, re.findall(r"\d+", version)[:2])) >= (3, 4):
        assert (behind["good"], behind["bad none"]) == ("https://example.org/a", None)
    else:
        assert behind["good bad none"] is None


def test_shape_of_the_cursor_is_told(service: Service, headers: dict[str, str]):
    with told(service, headers, "one") as page:
        for number, shape in ((5, "bar"), (4, "underline"), (0, "block")):
            service.result("run", session_id="one", command=f"printf '\\033[{number} q'")
            page.until(lambda shape=shape: page.facts[4] == shape)


def test_end_is_told(service: Service, headers: dict[str, str]):
    service.result("create_session", program="bash", name="ends")
    with told(service, headers, "ends") as page:
        page.until(lambda: len(page.screen) == 24)
        service.result("send", session_id="ends", text="exit 3", enter=True)
        page.until(lambda: page.messages[-1].get("over"))
        page.until(lambda: page.rows["ends"]["exit_code"] == 3)


def test_hostile_output_is_text(service: Service, headers: dict[str, str]):
    service.result("create_session", program="bash", name="hostile")
    with told(service, headers, "hostile") as page:
        page.until(lambda: len(page.screen) == 24)
        title, link = "\\033]2;<img onerror=x>\\007", "\\033]8;;javascript:x\\007link\\033]8;;\\007"
        text = f"<script>alert(1)</script>{title}{link}\\u202egpj"
        service.result("run", session_id="hostile", command=f"clear; printf '{text}\\n'")
        page.until(lambda: "<script>alert(1)</script>link" in page.text)
        assert "\u202e" not in page.text
        # Only of what stands there now: before, the line as it was typed may have been shown.
        assert "javascript" not in json.dumps(page.screen)
        page.until(lambda: page.messages[-1].get("facts", [0, 0, 0, ""])[3] == "<img onerror=x>")


def test_a_slow_page_gets_the_latest_and_no_queue(service: Service, headers: dict[str, str]):
    service.result("create_session", program="bash", name="flood")
    with told(service, headers, "flood") as page:
        page.until(lambda: len(page.screen) == 24)
        command = "for i in {1..300}; do echo $i; printf '%s\\n' $RANDOM{1..80}; done; clear; echo the last"
        service.result("run", session_id="flood", command=command, timeout_ms=60_000)
        before = len(page.messages)  # all this time nothing was taken
        page.until(lambda: "the last" in page.text)
        assert len(page.messages) - before < 400


def test_number_of_open_pages_is_bounded(service: Service, headers: dict[str, str]):
    with httpx2.Client(timeout=20 * SLOW) as client:
        opened = [
            client.send(
                client.build_request("POST", f"{service.url}/page/stream", json={"session": ""}, headers=headers),
                stream=True,
            )
            for _ in range(routes.MOST_PAGES)
        ]
        one_more = client.post(f"{service.url}/page/stream", json={"session": ""}, headers=headers)
        assert (one_more.status_code, one_more.json()["error"]["code"]) == (503, "RESOURCE_LIMIT")
        for each in opened:
            each.close()


def test_who_leaves_is_told_nothing_more(service: Service, state_dir: Path):
    headers = let_in(service, state_dir)
    with told(service, headers) as page:
        page.until(lambda: "one" in page.rows)
        assert httpx2.post(f"{service.url}/page/leave", json={}, headers=headers).status_code == 200
        with pytest.raises(StopIteration):
            page.until(lambda: False)


def test_an_unknown_session_is_an_error_in_the_stream(service: Service, headers: dict[str, str]):
    with told(service, headers, "nobody") as page:
        page.until(lambda: page.messages and page.messages[-1].get("error", {}).get("code") == "SESSION_NOT_FOUND")


async def test_a_page_that_comes_while_the_last_one_leaves_is_told(broker: Broker):
    await broker.create_session("bash", name="a")
    overview = Overview(broker)
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(overview.run)
        for steps in range(8):
            async with overview.looked_at():
                await anyio.sleep(0.02)  # what was under way has ended
                await until(lambda: "a" in overview.rows)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
        task_group.cancel_scope.cancel()


async def test_a_session_that_could_not_be_looked_at_is_looked_at_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
):
    await broker.create_session("bash", name="late")
    overview = Overview(broker)
    seeing, tries = overview._seeing, []
    sight = seeing.sight

    async def late(session_id: str) -> SessionOverview | None:
        tries.append(session_id)
        if tries.count(session_id) <= 3:  # more than a new session is looked at by itself
            raise TmuxFailed("tmux did not answer.")
        return await sight(session_id)

    monkeypatch.setattr(seeing, "sight", late)
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(overview.run)
        async with overview.looked_at():
            await until(lambda: "late" in overview.rows)
        task_group.cancel_scope.cancel()


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"session": 1}', b"{}"])
def test_what_is_no_request_is_refused(service: Service, headers: dict[str, str], body: bytes):
    answer = httpx2.post(
        f"{service.url}/page/stream", content=body, headers=headers | {"Content-Type": "application/json"}
    )
    assert answer.status_code == 400


async def test_no_two_routes_have_one_path(broker: Broker, state_dir: Path):
    page = routes.Page(OwnDesk(broker), AccessSecrets(state_dir, 1), bearer)
    paths = [route.path for route in page.routes()]
    assert sorted(paths) == sorted(set(paths))
