"""A person settles in the page what waits for them: routes of a real server, programs that ask, a real browser."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conftest import SLOW
from tests.kit import browser
from tests.kit.agent import audit_lines, eventually, run_command_line
from tests.kit.asking import Asked
from tests.kit.canaries import Canaries, files, kept_by_tmux, processes, watched_processes
from tests.kit.service import Service, bearer
from tests.kit.visits import Told, let_in, open_list

POLICY = [
    {"program": "touch", "action": "confirm", "reason": "it makes a file"},
    {"program": "rmdir", "action": "confirm", "reason": "it removes a directory"},
]


@pytest.fixture(scope="module")
def service(state_dir: Path) -> Iterator[Service]:
    with Service(state_dir, "--log-level", "debug", TMUXMCP_POLICY=json.dumps(POLICY)) as started:
        started.result("create_session", program="bash", name="a")
        yield started


@pytest.fixture(scope="module")
def person(service: Service, state_dir: Path) -> Iterator[httpx2.Client]:
    """What a page that is let in asks with."""
    with httpx2.Client(base_url=service.url, headers=let_in(service, state_dir), timeout=20 * SLOW) as client:
        yield client


@pytest.fixture
def ask(service: Service, threads: ThreadPoolExecutor) -> Callable[..., Asked]:
    return lambda **arguments: Asked(service, threads, **arguments)


def post(person: httpx2.Client, path: str, **asked: Any) -> dict[str, Any]:
    answer = person.post(f"/page/{path}", json=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(person: httpx2.Client, path: str, **asked: Any) -> str:
    answer = person.post(f"/page/{path}", json=asked)
    assert answer.status_code >= 400, answer.text
    return answer.json()["error"]["code"]


def mode(service: Service) -> str:
    return service.result("get_session", session_id="a")["mode"]


def reads(service: Service, command: str) -> None:
    """Have the session's shell ask, and wait until it does."""
    service.result("send", session_id="a", text=command, enter=True, read="none")
    eventually(lambda: mode(service) in ("line_input", "password"))


def value(service: Service) -> str:
    """What was read into x."""
    return service.result("run", session_id="a", command='echo "$x"')["output"]


@contextmanager
def told(person: httpx2.Client) -> Iterator[Told]:
    with person.stream("POST", "/page/stream", json={"session": ""}) as answer:
        yield Told(answer.iter_lines())


# ---- what waits --------------------------------------------------------------------------------


def test_page_is_told_what_waits_and_what_no_longer_does(
    service: Service, person: httpx2.Client, ask: Callable[..., Asked], state_dir: Path
):
    with told(person) as page:
        page.until(lambda: page.clock_ms)
        assert page.waits == []
        first = ask(message="Red\x1b[31m \u202eor blue?")
        page.until(lambda: page.waits)
        [wait] = page.waits
        assert (wait["id"], wait["kind"], wait["session_id"]) == (first.id, "input", "a")
        assert wait["message"] == "Red<U+001B>[31m <U+202E>or blue?"
        assert 290_000 < wait["until_ms"] - page.clock_ms <= 300_000
        second = ask(secret=True)
        page.until(lambda: [each["kind"] for each in page.waits] == ["input", "secret"])
        post(person, "settle", **first.named, outcome="declined")
        page.until(lambda: [each["id"] for each in page.waits] == [second.id])
        post(person, "settle", **second.named, outcome="declined")
        page.until(lambda: page.waits == [])
        short = ask(timeout_s=1)
        page.until(lambda: page.waits)
        page.until(lambda: page.waits == [])
        assert short.result()["outcome"] == "timeout"


def test_page_is_told_which_sessions_the_person_holds(person: httpx2.Client, state_dir: Path):
    with told(person) as page:
        run_command_line(state_dir, "take", "a")
        page.until(lambda: [(each["kind"], each["session_id"]) for each in page.waits] == [("held", "a")])
        run_command_line(state_dir, "release", "a")
        page.until(lambda: page.waits == [])


# ---- requests ----------------------------------------------------------------------------------


def test_a_line_is_typed_with_enter(
    service: Service, person: httpx2.Client, ask: Callable[..., Asked], state_dir: Path
):
    reads(service, "IFS= read -r x")
    asked = ask()
    assert post(person, "answer", **asked.named, line="it's $HOME; `é`") == {
        "first": True, "typed": True, "became": None
    }  # fmt: skip
    assert asked.result()["outcome"] == "done"
    assert value(service) == "it's $HOME; `é`\n"
    events = map(json.loads, (state_dir / "sessions/a/events.jsonl").read_text().splitlines())
    [answered] = [each for each in events if each.get("request_id") == asked.id and each["event"] == "answered"]
    assert (answered["outcome"], answered["via"], bool(answered["by"])) == ("done", "page", True)
    [line] = [each for each in audit_lines(state_dir) if each.get("request_id") == asked.id and "via" in each]
    assert (line["tool"], line["via"], line["answer"]) == ("answer", "page", "done")


@pytest.mark.parametrize("outcome", ["done", "declined"])
def test_a_request_is_settled_without_typing(person: httpx2.Client, ask: Callable[..., Asked], outcome: str):
    asked = ask()
    assert post(person, "settle", **asked.named, outcome=outcome)["first"]
    assert asked.result()["outcome"] == outcome


def test_who_comes_second_is_told_and_types_nothing(
    service: Service, person: httpx2.Client, ask: Callable[..., Asked], state_dir: Path
):
    asked = ask()
    run_command_line(state_dir, "answer", asked.id, "--decline")
    offset = (state_dir / "sessions/a/out.raw").stat().st_size
    for path, more in (("answer", {"line": "x"}), ("settle", {"outcome": "done"}), ("became", {})):
        second = post(person, path, **asked.named, **more)
        assert (second["first"], second["typed"]) == (False, False)
        assert (second["became"]["outcome"], second["became"]["via"]) == ("declined", "answer")
    assert asked.result()["outcome"] == "declined"
    assert (state_dir / "sessions/a/out.raw").stat().st_size == offset


def test_nobody_answers_what_somebody_is_answering(service: Service, person: httpx2.Client, ask: Callable[..., Asked]):
    asked = ask()
    with asked.file.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert refused(person, "answer", **asked.named, line="x") == "SESSION_BUSY"
        assert refused(person, "settle", **asked.named, outcome="declined") == "SESSION_BUSY"
        assert post(person, "became", **asked.named)["became"] is None
    assert post(person, "settle", **asked.named, outcome="declined")["first"]


def test_what_is_no_answer_is_refused(person: httpx2.Client, ask: Callable[..., Asked]):
    asked = ask()
    for path, more, code in [
        ("answer", {}, "INVALID_ARGUMENT"),
        ("answer", {"line": "a\x1bb"}, "INVALID_ARGUMENT"),
        ("answer", {"line": "a\nb"}, "INVALID_ARGUMENT"),
        ("answer", {"line": "x" * 5000}, "INVALID_ARGUMENT"),
        ("settle", {"outcome": "timeout"}, "INVALID_ARGUMENT"),
        ("settle", {"outcome": "done", "request": "of-nobody"}, "SESSION_NOT_FOUND"),
        ("settle", {"outcome": "done", "request": "../../../x"}, "SESSION_NOT_FOUND"),
        ("settle", {"outcome": "done", "session": "nobody"}, "SESSION_NOT_FOUND"),
        ("agree", {"question": "c_00000000", "answer": "yes"}, "INVALID_ARGUMENT"),
    ]:
        assert refused(person, path, **(asked.named | more)) == code, (path, more)
    assert asked.waits
    assert post(person, "settle", **asked.named, outcome="declined")["first"]


@pytest.mark.parametrize("path", ["answer", "settle", "became", "agree"])
def test_nobody_but_the_person_answers(service: Service, path: str):
    for token in ("", "boss", "agent"):
        answer = httpx2.post(f"{service.url}/page/{path}", json={}, headers=bearer(token), timeout=20 * SLOW)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHORIZED")


# ---- secrets -----------------------------------------------------------------------------------


def test_a_secret_is_typed_and_is_nowhere(
    service: Service, person: httpx2.Client, ask: Callable[..., Asked], state_dir: Path
):
    """Right and wrong lines alike: refused ones are in no answer and no log."""
    canaries, answers = Canaries(), []

    def types(asked: Asked, line: str) -> httpx2.Response:
        body = json.dumps(asked.named | {"line": line})
        answer = person.post("/page/answer", content=body, headers={"Content-Type": "application/json"})
        answers.append(answer.text)
        return answer

    with watched_processes(canaries) as seen, told(person) as page:
        reads(service, "printf 'Password: '; read -r x")
        asked = ask(secret=True)
        shown = types(asked, canaries.awkward("where it would be shown"))
        assert (shown.status_code, shown.json()["error"]["code"]) == (409, "WRONG_MODE")
        service.result("send", session_id="a", key="C-c")
        reads(service, "IFS= read -rs x")
        for wrong in ("\ud800", "\x1b", "x" * 5000):
            assert types(asked, canaries["wrong"] + wrong).status_code == 400
        assert types(asked, "").status_code == 400
        broken = person.post("/page/answer", content=canaries["broken"], headers={"Content-Type": "application/json"})
        answers.append(broken.text)
        assert asked.waits
        assert types(asked, canaries.awkward("right")).json() == {"first": True, "typed": True, "became": None}
        page.until(lambda: not page.waits)
    assert asked.result()["outcome"] == "done"
    answers += [json.dumps(page.messages), json.dumps(service.result("read", session_id="a", view="scrollback"))]
    eventually(lambda: mode(service) == "shell_prompt")
    service.read_stderr()
    places = [*files(state_dir), *kept_by_tmux(state_dir), *processes(), ("stderr", service.said)]
    assert not canaries.found(places)
    assert not canaries.found((f"answer {number}", text) for number, text in enumerate(answers))
    assert not seen
    assert value(service) == canaries.awkward("right") + "\n"


# ---- questions of the policy -------------------------------------------------------------------


def may(service: Service, command: str) -> str:
    """Have the agent try it; the id of the question that waits then."""
    failed = service.rpc("run", session_id="a", command=command)["error"]["data"]
    assert failed["code"] == "POLICY_DENIED", failed
    return failed["details"]["confirmation"]


def test_a_question_is_answered_once_and_for_the_session(service: Service, person: httpx2.Client):
    question = may(service, "touch one")
    with told(person) as page:
        page.until(lambda: [(each["id"], each["kind"], each["for_session"]) for each in page.waits])
        assert [(each["id"], each["kind"], each["for_session"]) for each in page.waits] == [(question, "policy", True)]
        assert "touch one" in page.waits[0]["message"]
        assert post(person, "agree", question=question, answer="once") == {"first": True}
        page.until(lambda: page.waits == [])
    assert post(person, "agree", question=question, answer="session") == {"first": False}
    assert service.result("run", session_id="a", command="touch one")["exit_code"] == 0
    question = may(service, "touch one")
    assert post(person, "agree", question=question, answer="session") == {"first": True}
    for name in ("one", "two"):
        assert service.result("run", session_id="a", command=f"touch {name}")["exit_code"] == 0
    question = may(service, "rmdir none")
    assert post(person, "agree", question=question, answer="declined") == {"first": True}
    assert post(person, "agree", question=question, answer="once") == {"first": False}
    again = may(service, "rmdir none")
    assert again != question
    assert post(person, "agree", question=again, answer="declined") == {"first": True}


# ---- in a browser ------------------------------------------------------------------------------

needs_browser = pytest.mark.skipif(not browser.CHROMIUM, reason="needs a browser")


@pytest.fixture(scope="module")
def page(service: Service, state_dir: Path) -> Iterator[browser.Page]:
    with browser.page() as shown:
        open_list(shown, service, state_dir)
        yield shown


def press_enter(page: browser.Page) -> None:
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")


KEPT = """JSON.stringify([location.href, document.documentElement.outerHTML, history.state, document.cookie,
[...Object.values(sessionStorage)], [...Object.values(localStorage)],
[...document.querySelectorAll('input')].map((each) => each.value),
performance.getEntries().map((each) => each.name)])"""


@needs_browser
def test_a_secret_is_typed_in_the_browser_which_keeps_nothing(
    service: Service, page: browser.Page, ask: Callable[..., Asked]
):
    canaries = Canaries()
    reads(service, "IFS= read -rs x")
    asked = ask(secret=True, message="<img src=x onerror=window.bad=1>")
    page.value(f"location.hash = 'session=a&request={asked.id}'")
    page.until("document.activeElement.matches('.wait.meant.about-secret input')")
    assert page.value("document.title") == "(1) a · tmuxmcp"
    field = "document.activeElement"
    assert page.value(f"[{field}.type, {field}.autocomplete, {field}.name]") == ["password", "off", ""]
    page.until("document.querySelector('.wait.about-secret .note').textContent.includes('shows nothing')")
    page.call("Input.insertText", text=canaries["typed"])
    press_enter(page)
    page.until("document.querySelector('.wait .note').textContent == 'Typed.'")
    assert not canaries.found_in(page.value(KEPT))
    assert page.value("document.querySelector('.wait .said').textContent") == "<img src=x onerror=window.bad=1>"
    assert page.value("window.bad") is None
    assert asked.result()["outcome"] == "done"
    page.until("document.title == 'a · tmuxmcp'")
    assert value(service) == canaries["typed"] + "\n"


# The page is told of its answer late, as over a slow network, and of all else at once.
ANSWERED_LATE = """const asks = window.fetch;
window.fetch = async (path, ...more) => {
  const answer = await asks(path, ...more);
  if (path === '/page/answer') while (!window.answered) await new Promise((again) => setTimeout(again, 20));
  return answer;
}"""


@needs_browser
def test_what_was_settled_asks_no_more_though_its_answer_comes_late(
    service: Service, page: browser.Page, ask: Callable[..., Asked]
):
    reads(service, "IFS= read -r x")
    asked = ask(message="say it")
    page.value(f"location.hash = 'session=a&request={asked.id}'")
    page.until("document.activeElement.matches('.wait.meant.about-input input')")
    page.value(ANSWERED_LATE)
    page.call("Input.insertText", text="said")
    press_enter(page)
    assert asked.result()["outcome"] == "done"
    states = "[document.querySelector('.session .state, main .state').textContent, "
    states += "document.querySelector('header.top').dataset.state]"
    assert page.value(states) == ["asks you", "needs"]
    eventually(lambda: mode(service) == "shell_prompt")
    page.until("document.body.innerText.includes('a: at its prompt')")
    page.value("window.answered = true")
    page.until("document.title == 'a · tmuxmcp'")
    assert page.value(states) == ["at its prompt", "ready"]


@needs_browser
def test_a_request_that_the_page_knows_has_the_focus_too(
    service: Service, page: browser.Page, ask: Callable[..., Asked], state_dir: Path
):
    page.value("location.hash = ''")
    asked = ask(message="known before")
    page.until("[...document.querySelectorAll('.wait .said')].some((each) => each.textContent == 'known before')")
    page.value(f"location.hash = 'session=a&request={asked.id}'")
    page.until("document.activeElement.matches('.wait.meant.about-input input')")
    run_command_line(state_dir, "answer", asked.id, "--decline")
    assert asked.result()["outcome"] == "declined"


@needs_browser
def test_what_somebody_else_settled_is_told(
    service: Service, page: browser.Page, ask: Callable[..., Asked], state_dir: Path
):
    page.value("location.hash = ''")
    reads(service, "read -r x")
    asked = ask(secret=True)
    page.until(
        "document.querySelector('.wait.about-secret:not(.settled) .note')?.textContent.includes('shows what is typed')"
    )
    page.value("document.querySelector('.wait.about-secret:not(.settled) input').focus()")
    page.call("Input.insertText", text="hunter2")
    press_enter(page)
    page.until(
        "document.querySelector('.wait.about-secret:not(.settled) .note').textContent.includes('Nothing was typed')"
    )
    assert page.value("document.querySelector('.wait.about-secret:not(.settled) input').value") == ""
    run_command_line(state_dir, "answer", asked.id, "--decline")
    page.until("[...document.querySelectorAll('.wait .note')].some((each) => each.textContent.includes('terminal'))")
    assert "hunter2" not in service.result("read", session_id="a", view="screen")["content"]
    service.result("send", session_id="a", key="C-c")


@needs_browser
def test_a_question_is_agreed_to_after_a_moment(service: Service, page: browser.Page):
    service.result("create_session", program="bash", name="elsewhere")
    page.value("location.hash = 'session=elsewhere'")
    page.until("document.querySelectorAll('.screen .row').length > 0")
    question = may(service, "rmdir nothing")
    page.until("document.querySelector('.wait.about-policy:not(.settled)') !== null")
    allow = "document.querySelector('.wait.about-policy:not(.settled) .main')"
    assert page.value(f"[{allow}.disabled, {allow}.closest('.wait').hidden]") == [True, True]
    other = (
        "window.other = new BroadcastChannel('tmuxmcp'); other.onmessage = ({data}) => { window.told = data.shown }; "
    )
    page.value(f"{other} other.postMessage({{request: '{question}'}})")
    page.until(f"window.told == '{question}' && !{allow}.closest('.wait').hidden")
    page.until(f"!{allow}.disabled")
    page.value(f"{allow}.click()")
    page.until("[...document.querySelectorAll('.wait .note')].some((each) => each.textContent == 'Allowed once.')")
    assert service.result("run", session_id="a", command="rmdir nothing")["exit_code"] == 1
