"""The page of a gateway: the sessions of all machines, what they showed, and a person's hands and answers there."""

from __future__ import annotations

import json
import secrets
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.conftest import SLOW, a_state_dir
from tests.kit import browser
from tests.kit.agent import an_agent, eventually
from tests.kit.fixtures import of_file
from tests.kit.service import TOKENS, Service, a_service, bearer
from tests.kit.visits import TEXT, Told, let_in, open_list, show, told
from tests.nodes.brokers import Brokers, three_brokers
from tmuxmcp.nodes.fleetfile import proof

POLICY = [{"program": "touch", "action": "confirm", "reason": "it makes a file"}]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Three brokers that ask a person before a file is made."""
    directory = tmp_path_factory.mktemp("fleet")
    (directory / "secret").touch(mode=0o600)
    (directory / "secret").write_text(secrets.token_hex(32))
    with three_brokers(directory, TMUXMCP_POLICY=json.dumps(POLICY), TMUXMCP_FLEET_SECRET=f"{directory}/secret") as all:
        yield all


gateway_dir = of_file(a_state_dir)


@pytest.fixture(scope="module")
def gateway(brokers: Brokers, gateway_dir: Path) -> Iterator[Service]:
    """A gateway, with the session `one` on two machines."""
    with Service(gateway_dir, "--fleet", str(brokers.file), **brokers.variables) as started:
        for node in ("n1", "n2"):
            started.result("create_session", program="bash", name="one", placement={"node": node})
            started.result("run", session_id=f"one@{node}", command=f"clear; echo on {node}")
        yield started


@pytest.fixture(scope="module")
def headers(gateway: Service, gateway_dir: Path) -> dict[str, str]:
    """The headers of a page that is let in."""
    return let_in(gateway, gateway_dir)


def ask(gateway: Service, headers: dict[str, str], name: str, **asked: Any) -> httpx2.Response:
    return httpx2.post(f"{gateway.url}/page/{name}", json=asked, headers=headers, timeout=60 * SLOW)


def tail(page: Told, session: str) -> str:
    return "\n".join("".join(span["t"] for span in row) for row in page.rows[session]["tail"])


def missing(page: Told) -> list[str]:
    """The machines that are missing, as they were told last."""
    return next(
        ([each["node"] for each in told["missing"]] for told in reversed(page.messages) if "missing" in told), []
    )


def test_sessions_of_all_machines_are_one_list(gateway: Service, headers: dict[str, str]):
    with told(gateway, headers) as page:
        page.until(lambda: {"one@n1", "one@n2"} <= page.rows.keys())
        page.until(lambda: [tail(page, f"one@{node}").split("\n")[0] for node in ("n1", "n2")] == ["on n1", "on n2"])
        assert (page.rows["one@n1"]["node"], missing(page)) == ("n1", [])
        assert gateway.result("get_session", session_id="one@n1")["watch_url"] == f"{gateway.url}/#session=one@n1"
        gateway.result("create_session", program="bash", name="brief", placement={"node": "n3"})
        page.until(lambda: "brief@n3" in page.rows)
        gateway.result("destroy_session", session_id="brief@n3", force=True)
        page.until(lambda: (page.rows["brief@n3"]["ended"] or {}).get("reason") == "destroyed")


def test_a_screen_is_that_of_its_machine(gateway: Service, headers: dict[str, str]):
    with told(gateway, headers, "one@n2") as page:
        page.until(lambda: "on n2" in page.text)
        gateway.result("run", session_id="one@n1", command="echo elsewhere")
        gateway.result("run", session_id="one@n2", command="echo here")
        page.until(lambda: "\nhere" in page.text)
        assert {each["session"] for each in page.messages if each["kind"] == "screen"} == {"one@n2"}
        assert "elsewhere" not in page.text


def test_what_a_machine_that_is_away_showed_is_not_shown(gateway: Service, headers: dict[str, str], brokers: Brokers):
    with told(gateway, headers, "one@n2") as page:
        page.until(lambda: "one@n2" in page.rows and "on n2" in page.text)
        brokers.kill("n2")
        page.until(lambda: missing(page) == ["n2"] and "one@n2" not in page.rows)
        page.until(lambda: any("error" in each for each in page.messages))
        assert "one@n1" in page.rows
        refused = ask(gateway, headers, "commands", session="one@n2")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "NODE_UNREACHABLE")
        assert refused.json()["error"]["details"]["node"] == "n2"
        brokers.start_again("n2")
        page.until(lambda: missing(page) == [] and "one@n2" in page.rows)
        page.until(lambda: [each for each in page.messages if each["kind"] == "screen"][-1].get("lines"))


def test_a_machine_that_hangs_is_missing(gateway: Service, headers: dict[str, str], brokers: Brokers):
    with told(gateway, headers) as page:
        page.until(lambda: "one@n1" in page.rows)
        brokers.process("n1").send_signal(signal.SIGSTOP)
        try:
            page.until(lambda: missing(page) == ["n1"] and "one@n1" not in page.rows)
        finally:
            brokers.process("n1").send_signal(signal.SIGCONT)
        page.until(lambda: missing(page) == [] and "one@n1" in page.rows)


def test_a_gateway_without_a_persons_token_is_told_so(gateway: Service, headers: dict[str, str], brokers: Brokers):
    text = brokers.file.read_text()
    try:
        brokers.file.write_text(text.replace('person_token_file = "person"\n', "", 1))
        with told(gateway, headers) as page:
            page.until(lambda: missing(page) == ["n1"] and "one@n2" in page.rows)
        (brokers.directory / "person").write_text(TOKENS["boss"])
        refused = ask(gateway, headers, "take", session="one@n2", page=1_000_000_001)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
        assert "fleet's secret" in refused_by_a_gateway_without_it(brokers)
    finally:
        (brokers.directory / "person").write_text(TOKENS["gateway"])
        brokers.write()


def refused_by_a_gateway_without_it(brokers: Brokers) -> str:
    """What is said of a machine in the page of a gateway that does not know the fleet's secret."""
    brokers.write()
    with a_service("--fleet", str(brokers.file)) as gateway:
        refused = ask(gateway, let_in(gateway, gateway.state_dir), "commands", session="one@n2")
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
        return refused.json()["error"]["message"]


def test_only_a_persons_token_opens_a_machines_page_and_it_opens_nothing_else(brokers: Brokers):
    service = brokers.services["n1"]
    shows = proof((brokers.directory / "secret").read_text(), TOKENS["gateway"])
    with service.http("gateway") as client:
        assert client.post("/page/commands", json={"session": "none"}).status_code == 401
    with service.http("gateway", **{"tmuxmcp-fleet": shows}) as client:
        assert client.post("/page/commands", json={"session": "none"}).status_code == 404
        call = {"jsonrpc": "2.0", "id": 1, "method": "list_sessions", "params": {}}
        assert [client.post(path, json=call).status_code for path in ("/rpc", "/mcp")] == [401, 401]
        assert client.get("/metrics").status_code == 401
    for other in ("agent", "viewer", "boss"):
        with service.http(other, **{"tmuxmcp-fleet": shows}) as client:
            assert client.post("/page/commands", json={"session": "none"}).status_code == 401


def test_who_is_not_let_in_at_the_gateway_gets_to_no_machine(gateway: Service):
    for name in ("", "agent", "boss"):
        answer = httpx2.post(f"{gateway.url}/page/commands", json={"session": "one@n1"}, headers=bearer(name))
        assert answer.status_code == 401


# ---- what a page asks --------------------------------------------------------------------------


def value(gateway: Service, headers: dict[str, str], name: str, **asked: Any) -> Any:
    answer = ask(gateway, headers, name, **asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_what_a_session_did_is_asked_of_its_machine(gateway: Service, headers: dict[str, str]):
    gateway.result("create_session", program="bash", name="did", placement={"node": "n1"})
    gateway.result("run", session_id="did@n1", command="echo first line")
    told = value(gateway, headers, "commands", session="did@n1")
    assert (told["session_id"], [each["text"] for each in told["commands"]]) == ("did@n1", ["echo first line"])
    number = told["commands"][0]["number"]
    assert value(gateway, headers, "output", session="did@n1", command=number)["content"] == "first line\n"
    [match] = value(gateway, headers, "search", session="did@n1", pattern="^first line$")["matches"]
    gateway.result("run", session_id="did@n1", command="clear; echo second")
    past = value(gateway, headers, "past", session="did@n1", offset=match["offset"])
    shown = ["".join(span["t"] for span in row) for row in past["lines"].values()]
    assert ("first line" in shown, "second" in shown) == (True, False)
    assert value(gateway, headers, "activity", session="did@n1")["end_ms"] > 0
    gateway.result("destroy_session", session_id="did@n1", force=True)
    gateway.result("create_session", program="bash", name="did", placement={"node": "n1"})
    assert [each["generation"] for each in value(gateway, headers, "generations", session="did@n1")] == [1, 2]
    earlier = value(gateway, headers, "commands", session="did@n1.1")["commands"]
    assert earlier[0]["text"] == "echo first line"
    gateway.result("destroy_session", session_id="did@n1", force=True)


def test_a_recording_is_downloaded_from_its_machine(gateway: Service, headers: dict[str, str], brokers: Brokers):
    gateway.result("run", session_id="one@n2", command="echo for the film")
    answer = ask(gateway, headers, "export", session="one@n2", format="txt")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/octet-stream")
    assert b"for the film" in answer.content
    there = brokers.services["n2"]
    own = let_in(there, there.state_dir)
    assert answer.content == ask(there, own, "export", session="one", format="txt").content
    refused = ask(gateway, headers, "export", session="one@n2", format="none")
    assert refused.json()["error"]["code"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize("session", ["one", "one@", "one@N 1", "@n1", "one@n1.x", "one@n9", ""])
def test_what_is_no_session_of_a_machine_is_refused(gateway: Service, headers: dict[str, str], session: str):
    answer = ask(gateway, headers, "commands", session=session)
    assert answer.status_code in (400, 404), answer.text


def test_a_gateway_on_stdin_and_stdout_shows_the_page(brokers: Brokers, gateway: Service):
    with an_agent("--fleet", str(brokers.file), "bash", TMUXMCP_PAGE="true", **brokers.variables) as agent:

        def watch_url() -> str:
            return agent.call("get_session", session_id="one@n1")["watch_url"] or ""

        eventually(watch_url)
        url = urlsplit(watch_url())
        assert url.fragment == "session=one@n1"
        answer = httpx2.post(f"http://{url.netloc}/page/commands", json={"session": "one@n1"}, timeout=20 * SLOW)
        assert answer.status_code == 401


# ---- hands -------------------------------------------------------------------------------------

ONE, OTHER = 1_000_000_001, 1_000_000_002


def test_a_person_types_into_a_session_of_a_machine(gateway: Service, headers: dict[str, str]):
    one = {"session": "one@n2", "page": ONE}
    assert ask(gateway, headers, "type", **one, items=[{"text": "x"}]).json()["error"]["code"] == "PERMISSION_DENIED"
    held = value(gateway, headers, "take", **one)
    try:
        error = gateway.rpc("send", session_id="one@n2", text="no")["error"]["data"]
        assert (error["code"], error["details"]["by"]) == ("SESSION_TAKEN", held["by"])
        assert "error" not in gateway.rpc("send", session_id="one@n1", text="", keys=["C-u"])  # the one of that name
        value(gateway, headers, "type", **one, items=[{"text": "x=typed; "}])
        value(gateway, headers, "paste", **one, text="echo $x here")
        value(gateway, headers, "type", **one, items=[{"key": "Enter"}])
        with told(gateway, headers, "one@n2") as page:
            page.until(lambda: "typed here" in page.text and "one@n2" in page.rows)
            assert page.rows["one@n2"]["taken_over"]["page"] == ONE
        refused = ask(gateway, headers, "type", session="one@n2", page=OTHER, items=[{"text": "x"}])
        assert refused.json()["error"]["code"] == "SESSION_TAKEN"
    finally:
        assert value(gateway, headers, "give-back", **one) == {"given_back": True}
    done = gateway.result("run", session_id="one@n2", command="echo agent")
    assert (done["output"], done["handed_back"]["reason"]) == ("agent\n", "release")


def test_agents_are_paused_in_one_session_and_everywhere(gateway: Service, headers: dict[str, str], brokers: Brokers):
    assert value(gateway, headers, "pause", session="one@n2") == {"paused": ["one@n2"]}
    assert gateway.rpc("send", session_id="one@n2", text="no")["error"]["data"]["code"] == "SESSION_TAKEN"
    assert "result" in gateway.rpc("send", session_id="one@n1", keys=["C-u"])
    assert value(gateway, headers, "resume", session="one@n2") == {"resumed": ["one@n2"]}
    try:
        paused = value(gateway, headers, "pause", session="")["paused"]
        assert {"one@n1", "one@n2"} <= set(paused)
        for name in ("one@n1", "one@n2"):
            assert gateway.rpc("send", session_id=name, text="no")["error"]["data"]["code"] == "SESSION_TAKEN"
    finally:
        brokers.kill("n3")
        error = ask(gateway, headers, "resume", session="").json()["error"]
        brokers.start_again("n3")
        assert (error["code"], error["details"]["missing"]) == ("NODE_UNREACHABLE", ["n3"])
        assert "error" not in value(gateway, headers, "resume", session="")
    assert gateway.result("run", session_id="one@n1", command="echo agent")["output"] == "agent\n"


# ---- answers -----------------------------------------------------------------------------------


def waits(page: Told) -> list[dict[str, Any]]:
    return next((each["waits"] for each in reversed(page.messages) if "waits" in each), [])


def test_a_person_answers_what_an_agent_asks_on_a_machine(gateway: Service, headers: dict[str, str]):
    gateway.result("send", session_id="one@n2", text="read x; echo got $x", enter=True, read="none")
    with ThreadPoolExecutor(1) as threads, told(gateway, headers) as page:
        asked = threads.submit(gateway.result, "request_user_input", session_id="one@n2", message="Which?")
        page.until(lambda: waits(page))
        [wait] = waits(page)
        assert (wait["kind"], wait["session_id"], wait["message"]) == ("input", "one@n2", "Which?")
        assert 0 < wait["until_ms"] - time.time() * 1000 <= 300_000
        named = {"session": "one@n2", "request": wait["id"]}
        other = ask(gateway, headers, "answer", session="one@n1", request=wait["id"], line="x")
        assert other.json()["error"]["code"] == "INVALID_ARGUMENT"
        assert value(gateway, headers, "answer", **named, line="this one")["first"]
        assert asked.result(20 * SLOW)["outcome"] == "done"
        page.until(lambda: not waits(page))
        assert value(gateway, headers, "became", **named)["became"]["outcome"] == "done"
    printed = gateway.result("read", session_id="one@n2", since=0, wait_for="pattern", pattern="got this one")
    assert printed["outcome"] == "matched"


def test_a_person_agrees_to_what_a_machines_policy_asks(gateway: Service, headers: dict[str, str]):
    tried = gateway.rpc("run", session_id="one@n2", command="touch it")["error"]["data"]
    assert tried["code"] == "POLICY_DENIED"
    with told(gateway, headers) as page:
        page.until(lambda: waits(page))
        [wait] = waits(page)
        assert (wait["kind"], wait["session_id"]) == ("policy", "one@n2")
        assert value(gateway, headers, "agree", question=wait["id"], answer="once") == {"first": True}
        page.until(lambda: not waits(page))
    assert value(gateway, headers, "agree", question=wait["id"], answer="once") == {"first": False}
    assert gateway.result("run", session_id="one@n2", command="touch it")["exit_code"] == 0


# ---- in a browser ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(gateway: Service, gateway_dir: Path) -> Iterator[browser.Page]:
    """A browser with the list of all machines' sessions."""
    if not browser.CHROMIUM:
        pytest.skip("needs Chromium: scripts/browser installs it")
    with browser.page() as shown:
        open_list(shown, gateway, gateway_dir)
        yield shown


def test_a_browser_shows_who_is_missing(page: browser.Page, gateway: Service, brokers: Brokers):
    cards = "[...document.querySelectorAll('a.card h3')].map((each) => each.textContent)"
    page.until(f"{cards}.includes('one@n1') && {cards}.includes('one@n2')")
    show(page, "one@n2")
    gateway.result("run", session_id="one@n2", command="clear; echo in the browser")
    page.until(f"{TEXT}.includes('in the browser')")
    commands = "[...document.querySelectorAll('.commands .line')].map((each) => each.innerText).join('|')"
    page.until(f"{commands}.includes('echo in the browser')")
    assert page.value("document.querySelector('.missing').hidden")
    brokers.kill("n2")
    page.until("document.querySelector('.missing').innerText.startsWith('Nothing is shown of n2.')")
    page.until("document.querySelector('.bar .state').textContent == 'its machine does not answer'")
    page.until("document.querySelector('.screen.unknown') !== null")
    page.value("location.hash = ''")
    page.until(f"{cards}.includes('one@n1') && !{cards}.includes('one@n2')")
    show(page, "one@n1")
    brokers.start_again("n2")
    page.until("document.querySelector('.missing').hidden")
    show(page, "one@n2")
    page.until(f"{TEXT}.includes('in the browser') && document.querySelector('.screen.unknown') === null")


def test_a_person_types_in_the_browser(page: browser.Page, gateway: Service):
    show(page, "one@n1")
    page.value("document.querySelector('button.take').click()")
    page.until("document.querySelector('.holder.mine') !== null")
    page.value("document.querySelector('textarea.typing').focus()")
    page.call("Input.insertText", text="echo by 'hand'")
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    page.until(f"{TEXT}.split('\\n').some((row) => row.trim() == 'by hand')")
    page.value("location.hash = ''")
    held = "[...document.querySelectorAll('.wait.about-held')].find((each) => each.innerText.includes('one@n1'))"
    page.until(f"{held} !== undefined")
    page.value(f"{held}.querySelector('button').click()")
    page.until(f"{held} === undefined")
    back = gateway.result("run", session_id="one@n1", command="echo agent")["handed_back"]
    assert [each["text"] for each in back["commands"]] == ["echo by 'hand'"]
