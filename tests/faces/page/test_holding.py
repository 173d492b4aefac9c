"""A person takes a session in a page, types and gives it back: by the routes alone, and in a real browser."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.conftest import SLOW
from tests.conftest import eventually as until
from tests.kit import browser, canaries
from tests.kit.agent import audit_lines, eventually
from tests.kit.canaries import Canaries
from tests.kit.service import TOKENS, Service, bearer
from tests.kit.visits import let_in
from tmuxmcp.broker.broker import Broker
from tmuxmcp.contract.results import HandedBack
from tmuxmcp.faces.page import codes, holding
from tmuxmcp.faces.page.holding import InputEndpoints

ONE, OTHER = 1_000_000_001, 5_294_967_295
"""Numbers of two pages."""


@pytest.fixture(scope="module")
def service(state_dir: Path) -> Iterator[Service]:
    with Service(state_dir, "--log-level", "debug", "--audit", "strict") as started:
        started.result("create_session", program="bash", name="one")
        yield started


class Hand:
    """What one page asks for, without a browser."""

    def __init__(self, service: Service, state_dir: Path) -> None:
        self.headers = let_in(service, state_dir)
        self.client = httpx2.Client(base_url=service.url, headers=self.headers, timeout=20 * SLOW)

    def ask(self, what: str, session: str = "one", page: int = ONE, **asked: Any) -> dict[str, Any]:
        """What is answered; of a refusal its error."""
        return self.client.post(f"/page/{what}", json={"session": session, "page": page, **asked}).json()

    def refused(self, what: str, session: str = "one", page: int = ONE, **asked: Any) -> str:
        """The code of the error."""
        return self.ask(what, session, page, **asked)["error"]["code"]

    def type(self, *items: str | dict[str, str], session: str = "one", page: int = ONE) -> dict[str, Any]:
        """Type texts, and keys as objects."""
        return self.ask(
            "type", session, page, items=[{"text": each} if isinstance(each, str) else each for each in items]
        )


def _item(item: str | dict[str, str]) -> dict[str, str]:
    return {"text": item} if isinstance(item, str) else item


def key(name: str) -> dict[str, str]:
    return {"key": name}


ENTER = key("Enter")


@pytest.fixture(scope="module")
def hand(service: Service, state_dir: Path) -> Iterator[Hand]:
    made = Hand(service, state_dir)
    yield made
    made.client.close()


@pytest.fixture(autouse=True)
def _free_again(hand: Hand) -> Iterator[None]:
    yield
    for page in (ONE, OTHER):
        hand.ask("give-back", page=page)


@contextmanager
def shows(hand: Hand, session: str, page: int) -> Iterator[None]:
    """A page is open."""
    with hand.client.stream("POST", "/page/stream", json={"session": session, "page": page}) as answer:
        assert answer.status_code == 200, answer.read()
        yield


def screen(service: Service, session: str = "one") -> str:
    return service.result("read", session_id=session, view="screen")["content"]


def facts(service: Service, session: str = "one") -> dict[str, Any]:
    return service.result("get_session", session_id=session)


def taken(service: Service, session: str = "one") -> dict[str, Any]:
    """The details with which an agent is kept from typing."""
    error = service.rpc("send", session_id=session, text="no")["error"]["data"]
    assert error["code"] == "SESSION_TAKEN"
    return error["details"]


def test_a_page_holds_a_session_until_it_gives_it_back(hand: Hand, service: Service):
    held = hand.ask("take")
    assert taken(service).items() >= {"by": held["by"], "since": held["since"], "via": "page"}.items()
    hand.type("echo typed 'in a' page", ENTER)
    eventually(lambda: "typed in a page\n" in screen(service))
    assert hand.ask("give-back") == {"given_back": True}
    assert hand.ask("give-back") == {"given_back": False}
    ran = service.result("run", session_id="one", command="echo agent")
    assert ran["output"] == "agent\n"
    back = ran["handed_back"]
    assert (back["by"], back["reason"]) == (held["by"], "release")
    assert [(each["text"], each["by"]) for each in back["commands"]] == [("echo typed 'in a' page", "person")]


def test_only_the_page_that_holds_it_types(hand: Hand, service: Service):
    before = screen(service)
    assert hand.refused("type", items=[{"text": "x"}]) == "PERMISSION_DENIED"
    assert hand.refused("paste", text="x") == "PERMISSION_DENIED"
    hand.ask("take")
    assert hand.refused("type", page=OTHER, items=[{"text": "x"}]) == "SESSION_TAKEN"
    assert hand.refused("paste", page=OTHER, text="x") == "SESSION_TAKEN"
    assert hand.ask("give-back", page=OTHER) == {"given_back": False}
    hand.ask("take", page=OTHER)  # the same person, elsewhere
    assert hand.refused("type", items=[{"text": "x"}]) == "SESSION_TAKEN"
    assert screen(service) == before


@pytest.mark.parametrize("what", ["take", "give-back", "type", "paste", "pause", "resume"])
def test_tokens_of_clients_have_no_hands(service: Service, what: str):
    asked = {"session": "one", "page": ONE, "items": [{"text": "x"}], "text": "x"}
    for name in TOKENS.keys() - {"gateway"} | {""}:
        answer = httpx2.post(f"{service.url}/page/{what}", json=asked, headers=bearer(name), timeout=20 * SLOW)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHORIZED")
    assert facts(service)["taken_over"] is None


READS = """
import os, sys, tty
tty.setraw(0)
print("reads", end="", flush=True)
data = b""
while not data.endswith(b"."):
    data += os.read(0, 100)
open(sys.argv[1], "wb").write(data)
"""


def test_keys_and_text_of_all_scripts_arrive_in_their_order(hand: Hand, service: Service, tmp_path: Path):
    file = tmp_path / "read"
    service.result("create_session", program="python3", args=["-c", READS, str(file)], name="keys")
    eventually(lambda: "reads" in screen(service, "keys"))
    hand.ask("take", "keys")
    names = ("Up", "C-c", "M-x", "F5", "S-Tab", "Escape", "BSpace", "C-Left", "no such key", "Down*9", "M-é")
    hand.type("漢字 é", *map(key, names), "🙂.", session="keys")
    keys = b"\x1b[A\x03\x1bx\x1b[15~\x1b[Z\x1b\x7f\x1b[1;5D\x1b" + "é".encode()
    eventually(lambda: file.read_bytes() == "漢字 é".encode() + keys + "🙂.".encode())


def test_a_paste_is_one_and_ends_nothing(hand: Hand, service: Service):
    hand.ask("take")
    answer = hand.ask("paste", text="echo first\r\necho second\x1b[201~\ttab")
    assert answer == {"left_out": True}
    eventually(lambda: "echo second[201~" in screen(service))
    assert "\nfirst" not in screen(service)  # bash was told that it is a paste
    hand.type(ENTER)
    eventually(lambda: "\nfirst\nsecond[201~ tab\n" in screen(service))


def test_a_paste_arrives_whole_and_what_would_be_cut_is_refused(hand: Hand, service: Service, tmp_path: Path):
    file = tmp_path / "read"
    service.result("create_session", program="python3", args=["-c", READS, str(file)], name="pasted")
    service.result("create_session", program="cat", name="canonical")
    hand.ask("take", "pasted")
    eventually(lambda: "reads" in screen(service, "pasted"))
    assert hand.refused("paste", "pasted", text="x" * (holding.MOST_PASTE + 1)) == "RESOURCE_LIMIT"
    text = "é\n" * (holding.MOST_PASTE // 3) + "."
    assert hand.ask("paste", "pasted", text=text) == {"left_out": False}
    eventually(lambda: file.read_bytes() == text.replace("\n", "\r").encode())
    hand.ask("take", "canonical")
    assert hand.refused("paste", "canonical", text="x" * 5000) == "INVALID_ARGUMENT"
    hand.ask("give-back", "canonical")


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("take", {"page": 0}),
    ("take", {"page": 7}),
    ("take", {"page": 10**10}),
    ("take", {"page": "1000000001"}),
    ("take", {"session": 1}),
    ("type", {"items": "x"}),
    ("type", {"items": ["x"]}),
    ("type", {"items": [{}]}),
    ("type", {"items": [{"key": 1}]}),
    ("type", {"items": [{"text": "a\nb"}]}),
    ("type", {"items": [{"text": "\x1b"}]}),
    ("paste", {}),
]


@pytest.mark.parametrize(("what", "asked"), WRONG)
def test_what_is_no_request_is_refused(hand: Hand, what: str, asked: dict[str, Any]):
    hand.ask("take")
    assert hand.refused(what, **asked) == "INVALID_ARGUMENT"


def test_half_a_character_is_refused(hand: Hand):
    hand.ask("take")
    body = json.dumps({"session": "one", "page": ONE, "items": [{"text": "\ud800"}]})
    answer = hand.client.post("/page/type", content=body, headers={"Content-Type": "application/json"})
    assert answer.json()["error"]["code"] == "INVALID_ARGUMENT"


def test_too_much_at_once_is_refused(hand: Hand, service: Service):
    hand.ask("take")
    before = screen(service)
    assert hand.refused("type", items=[{"text": "x" * (holding.MOST_TEXT + 1)}]) == "RESOURCE_LIMIT"
    assert hand.refused("type", items=[ENTER] * (holding.MOST_ITEMS + 1)) == "RESOURCE_LIMIT"
    assert hand.refused("take", "nobody") == "SESSION_NOT_FOUND"
    assert hand.ask("type", items=[]) == {"typed": 0}
    assert screen(service) == before


def test_pages_are_viewers(hand: Hand, service: Service):
    assert facts(service)["viewers"] == []
    with shows(hand, "one", ONE), shows(hand, "one", OTHER):
        eventually(lambda: len(facts(service)["viewers"]) == 2)
        hand.ask("take", page=OTHER)
        first, second = facts(service)["viewers"]
        assert (first["kind"], first["may_type"], second["may_type"]) == ("page", False, True)
        assert first["name"] == facts(service)["taken_over"]["by"]
        assert first["since"] <= second["since"]
    eventually(lambda: facts(service)["viewers"] == [])


def test_agents_are_paused_and_resumed(hand: Hand, service: Service, state_dir: Path):
    assert hand.ask("pause") == {"paused": ["one"]}
    assert taken(service)["by"] == "pause"
    hand.ask("take")  # a person may, all the same
    hand.type("echo typed while paused", ENTER)
    eventually(lambda: "\ntyped while paused\n" in screen(service))
    hand.ask("give-back")
    assert hand.ask("resume") == {"resumed": ["one"]}
    assert "one" in hand.ask("pause", "")["paused"]
    assert taken(service)["by"] == "pause"
    assert hand.ask("resume") == {"resumed": []}  # with all others
    assert "one" in hand.ask("resume", "")["resumed"]
    assert service.result("run", session_id="one", command="echo yes")["output"] == "yes\n"
    told = [(line["tool"], line["session_id"], line.get("via")) for line in audit_lines(state_dir)]
    assert {("pause", "one", "page"), ("pause", "", "page"), ("resume", "", "page"), ("take", "one", "page")} <= set(
        told
    )


ASKS = """
import getpass, hashlib
got = getpass.getpass("1:") + getpass.getpass("2:")
print(hashlib.sha256(got.encode()).hexdigest())
"""


def test_a_secret_that_is_typed_or_pasted_is_nowhere(hand: Hand, service: Service, state_dir: Path):
    secrets = Canaries()
    service.result("create_session", program="python3", args=["-c", ASKS], name="asks")
    hand.ask("take", "asks")
    eventually(lambda: facts(service, "asks")["mode"] == "password")
    typed, pasted = secrets.awkward("typed"), secrets.awkward("pasted")
    with canaries.watched_processes(secrets) as seen:
        for char in typed:
            hand.type(char, session="asks")
        hand.type(ENTER, session="asks")
        eventually(lambda: "2:" in screen(service, "asks"))
        eventually(lambda: facts(service, "asks")["mode"] == "password")
        hand.ask("paste", "asks", text=pasted)
        hand.type(ENTER, session="asks")
        digest = hashlib.sha256((typed + pasted).encode()).hexdigest()
        eventually(lambda: digest in screen(service, "asks").replace("\n", ""))
    assert not seen
    hand.ask("give-back", "asks")
    told = ((name, json.dumps(service.rpc(name, **asked))) for name, asked in canaries.calls("asks"))
    assert secrets.found(told) == {}
    assert secrets.found(canaries.files(state_dir)) == {}
    assert secrets.found(canaries.kept_by_tmux(state_dir)) == {}
    service.read_stderr()
    assert secrets.found([("its log", service.said)]) == {}


async def test_a_page_that_is_gone_gives_back(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(holding, "PAGE_GONE_S", 0.2)
    await broker.create_session("bash", name="a")
    handling = InputEndpoints(broker)
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(handling.run)
        await anyio.wait_all_tasks_blocked()
        with handling.connected(ONE):
            await broker.hands.take("a", ONE)
            with handling.connected(ONE):
                pass
            await anyio.sleep(0.4)
            assert (await broker.get_session("a")).taken_over
        with handling.connected(OTHER):
            pass
        back = await until(lambda: handed_back(broker))
        task_group.cancel_scope.cancel()
    assert back.reason == "detach"


async def handed_back(broker: Broker) -> HandedBack | None:
    return (await broker.get_session("a")).handed_back


# ---- in a browser ------------------------------------------------------------------------------


needs_browser = pytest.mark.skipif(not browser.CHROMIUM, reason="needs a browser")

CODES = {"Enter": 13, "Escape": 27, "Tab": 9, "Backspace": 8, "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37}
ALT, CTRL, SHIFT = 1, 2, 8
"""Modifiers, as the browser's protocol has them."""

SCREEN = "[...document.querySelectorAll('.screen .row')].map((row) => row.textContent.trimEnd()).join('\\n')"
TOGGLE, HOLDER = (f"document.querySelector('.bar .{name}')" for name in ("take", "holder"))


def open_page(service: Service, state_dir: Path, shown: browser.Page, session: str = "one") -> None:
    shown.call("Emulation.setFocusEmulationEnabled", enabled=True)
    shown.go(f"{service.url}/#session={session}&code={codes.make_code(state_dir, service.port)}")
    shown.until(f"document.querySelectorAll('.screen .row').length > 0 && !{TOGGLE}.hidden")


@pytest.fixture(scope="module")
def page(service: Service, state_dir: Path) -> Iterator[browser.Page]:
    with browser.page() as shown:
        open_page(service, state_dir, shown)
        yield shown


@pytest.fixture
def held(page: browser.Page, service: Service, request: pytest.FixtureRequest) -> Iterator[browser.Page]:
    """A page that holds a session of its own, which is named like the test."""
    session = request.node.name.removeprefix("test_")[:40]
    service.result("create_session", program="bash", name=session)
    page.value(f"location.hash = 'session={session}'")
    page.until(f"document.title.startsWith('{session}') && !{TOGGLE}.hidden")
    take(page)
    yield page
    page.value(f"{TOGGLE}.textContent == 'Give back' && {TOGGLE}.click()")
    service.result("destroy_session", session_id=session, force=True)


def take(page: browser.Page) -> None:
    page.value(f"{TOGGLE}.click()")
    page.until(f"{HOLDER}.textContent == 'You type here'")


def press(page: browser.Page, name: str, modifiers: int = 0) -> None:
    """Press and release a key."""
    letter = len(name) == 1
    code = f"Key{name.upper()}" if letter and name.isalpha() else "" if letter else name
    number = ord(name.upper()) if letter and name.isascii() and name.isalnum() else CODES.get(name, 0)
    asked: dict[str, Any] = {"key": name, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers}
    text = {"text": name} if letter and not modifiers else {}
    page.call("Input.dispatchKeyEvent", type="keyDown", **asked, **text)
    page.call("Input.dispatchKeyEvent", type="keyUp", **asked)


def type_line(page: browser.Page, line: str) -> None:
    """Type key by key, and Enter."""
    for char in line:
        press(page, char)
    press(page, "Enter")


PASTES = """
(() => {
  const data = new DataTransfer();
  data.setData('text/plain', %s);
  const event = new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true});
  document.activeElement.dispatchEvent(event);
})()
"""


def paste(page: browser.Page, text: str) -> None:
    page.value(PASTES % json.dumps(text))


@needs_browser
def test_a_person_takes_types_and_gives_back(page: browser.Page, service: Service):
    page.value("document.activeElement.blur()")
    press(page, "G", CTRL | SHIFT)
    page.until(f"{HOLDER}.textContent == 'You type here'")
    assert taken(service)["via"] == "page"
    page.until("document.querySelector('.screen').matches('.mine:focus-within')")
    type_line(page, "echo héllo 漢字")
    page.until(f"{SCREEN}.includes('\\nhéllo 漢字\\n')")
    press(page, "G", CTRL | SHIFT)
    page.until(f"{TOGGLE}.textContent == 'Take'")
    page.until("document.querySelector('.hands').textContent.includes('agents may type again')")
    ran = service.result("run", session_id="one", command="echo agent")
    assert [each["text"] for each in ran["handed_back"]["commands"]] == ["echo héllo 漢字"]
    for char in "jx":
        press(page, char)
    assert "jx" not in service.result("run", session_id="one", command="true")["output"] + screen(service)


@needs_browser
def test_arrows_and_keys_of_a_full_screen_program(held: browser.Page, service: Service, tmp_path: Path):
    file = tmp_path / "file"
    type_line(held, f"cd {tmp_path}; clear; vim -Nu NONE file")
    held.until(f"{SCREEN}.includes('~\\n~')")
    press(held, "i")
    type_line(held, "one")
    for char in "three":
        press(held, char)
    press(held, "ArrowUp")
    press(held, "Escape")
    press(held, "o")
    for char in "two":
        press(held, char)
    press(held, "Backspace")
    press(held, "o")
    press(held, "Escape")
    type_line(held, ":wq")
    eventually(lambda: file.read_text() == "one\ntwo\nthree\n")
    assert held.value("location.hash").startswith("#session="), "Escape left the session"


@needs_browser
def test_ctrl_alt_tab_and_history(held: browser.Page, service: Service):
    session = held.value("document.title").partition(" ")[0]
    type_line(held, "sleep 1000")
    held.until("document.querySelector('.bar .state').textContent == 'running'")
    # Between fork and exec a child handles the signal as its shell does, which drops it.
    eventually(lambda: (facts(service, session)["foreground"] or {}).get("command") == "sleep 1000")
    press(held, "c", CTRL)
    held.until(f"{SCREEN}.includes('^C')")
    type_line(held, "echo one two")
    held.until(f"{SCREEN}.includes('\\none two\\n')")
    press(held, "ArrowUp")
    press(held, "b", ALT)
    press(held, "k", CTRL)
    for char in "three; cd /et":
        press(held, char)
    press(held, "Tab")
    type_line(held, "")
    held.until(f"{SCREEN}.includes('echo one three; cd /etc/\\none three\\n')")


@needs_browser
def test_what_an_input_method_makes_arrives_once(held: browser.Page):
    for char in "echo ":
        press(held, char)
    held.call("Page.bringToFront")

    def composing() -> bool:
        # A window that the browser still brings to the front has no input method: it drops what one makes.
        held.call("Input.imeSetComposition", text="にほ", selectionStart=2, selectionEnd=2)
        return bool(held.value("document.querySelector('.typing').classList.contains('composing')"))

    eventually(composing)
    held.call("Input.insertText", text="日本")
    type_line(held, "")
    held.until(f"{SCREEN}.includes('\\n日本\\n')")
    assert "にほ" not in held.value(SCREEN)


@needs_browser
def test_lines_are_pasted_as_one(held: browser.Page):
    paste(held, "echo first\necho second\n")
    held.until(f"{SCREEN}.includes('echo second')")
    assert "\nfirst" not in held.value(SCREEN)
    press(held, "Enter")
    held.until(f"{SCREEN}.includes('\\nfirst\\nsecond\\n')")
    paste(held, "x" * (holding.MOST_PASTE + 1))
    held.until("document.querySelector('.hands').textContent.includes('65,537 bytes')")
    assert "xxx" not in held.value(SCREEN)


SLOWLY = """
window.asks = fetch;
window.fetch = async (...words) => {
  await new Promise((go) => setTimeout(go, 150));
  return asks(...words);
};
1
"""


@needs_browser
def test_keys_that_are_typed_while_others_are_on_their_way_keep_their_order(held: browser.Page):
    held.value(SLOWLY)
    text = "".join(map(str, range(60)))
    type_line(held, f"clear; echo {text}")
    held.until(f"{SCREEN}.replaceAll('\\n', '').startsWith('{text}')")
    held.value("window.fetch = window.asks; 1")


PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
TOO_WIDE = """
[...document.querySelectorAll('body *')].filter((each) => each.getBoundingClientRect().right > innerWidth + 0.5)
  .map((each) => each.outerHTML.slice(0, 80))
"""
TOO_LOW = """
[...document.querySelectorAll('button, select')].map((each) => [each.textContent, each.getBoundingClientRect().height])
  .filter(([, height]) => height && height < 40)
"""


@pytest.fixture
def phone(service: Service, state_dir: Path) -> Iterator[browser.Page]:
    """A page on a phone."""
    with browser.page() as shown:
        shown.call("Emulation.setDeviceMetricsOverride", **PHONE)
        shown.call("Emulation.setTouchEmulationEnabled", enabled=True)
        open_page(service, state_dir, shown)
        yield shown
        assert not shown.complaints


def tap(page: browser.Page, text: str) -> None:
    """Touch the middle of a button, once it stands still: what is printed may move it."""
    button = f"[...document.querySelectorAll('button')].find((each) => each.textContent == '{text}')"
    page.value(f"{button}.scrollIntoView({{block: 'nearest'}})")
    drawn = f"new Promise((done) => requestAnimationFrame(() => done({button}.getBoundingClientRect().toJSON())))"
    boxes = [page.value(drawn)]
    eventually(lambda: boxes.append(page.value(drawn)) or boxes[-1] == boxes[-2])  # type: ignore[func-returns-value]
    box = boxes[-1]
    at = {"x": box["left"] + box["width"] / 2, "y": box["top"] + box["height"] / 2}
    page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[at])
    page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])


@needs_browser
def test_keys_that_a_phone_lacks_are_tapped(phone: browser.Page, service: Service, tmp_path: Path):
    file = tmp_path / "read"
    service.result("create_session", program="python3", args=["-c", READS, str(file)], name="tapped", cols=80)
    phone.value("location.hash = 'session=tapped'")
    phone.until(f"{SCREEN}.includes('reads') && !{TOGGLE}.hidden")
    tap(phone, "Take")
    phone.until(f"{HOLDER}.textContent == 'You type here'")
    for look in ("light", "dark"):
        phone.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": look}])
        assert phone.value("[innerWidth, document.documentElement.scrollWidth]") == [390, 390]
        assert (phone.value(TOO_WIDE), phone.value(TOO_LOW)) == ([], [])
    for key in ("Esc", "Tab", "Ctrl"):
        tap(phone, key)
    phone.until("document.querySelector('.touch-keys [aria-pressed=true]')?.textContent == 'Ctrl'")
    phone.call("Input.insertText", text="c")  # as a keyboard on the screen types: no key is told
    assert phone.value("document.querySelector('.touch-keys [aria-pressed=true]')") is None
    for key in "←↓↑→":
        tap(phone, key)
    tap(phone, "Ctrl")
    tap(phone, "←")
    assert phone.value("document.activeElement.matches('.typing')"), "the keyboard has gone"
    phone.call("Input.insertText", text="c.")
    typed = eventually(file.read_bytes)
    # Arrows repeat while they are held for 400 ms, as they may be on a slow machine.
    arrows = rb"(\x1b\[D)+(\x1b\[B)+(\x1b\[A)+(\x1b\[C)+\x1b\[1;5D(\x1b\[D)*"
    assert re.fullmatch(rb"\x1b\t\x03" + arrows + rb"c\.", typed), typed
    tap(phone, "Give back")
    phone.until(f"{TOGGLE}.textContent == 'Take' || {TOGGLE}.hidden")


@needs_browser
def test_another_page_sees_who_holds_it(held: browser.Page, service: Service, state_dir: Path):
    session = held.value("document.title").partition(" ")[0]
    with browser.page() as other:
        open_page(service, state_dir, other, session)
        other.until(f"{HOLDER}.textContent.includes('holds it in another page')")
        assert other.value(f"{TOGGLE}.textContent") == "Take it here"
        for char in "nothing":
            press(other, char)
        type_line(held, "echo from here")
        other.until(f"{SCREEN}.includes('\\nfrom here\\n')")
        assert "nothing" not in other.value(SCREEN)
        take(other)
        held.until("document.querySelector('.hands').textContent.includes('taken elsewhere')")
        other.value(f"{TOGGLE}.click()")
        held.until(f"{TOGGLE}.textContent == 'Take'")


HELD = "document.querySelector('.wait.about-held:not([hidden])')"


@needs_browser
def test_a_session_is_given_back_in_the_list(held: browser.Page, service: Service, hand: Hand):
    session = held.value("document.title").partition(" ")[0]
    held.value("location.hash = ''")
    held.until(f"{HELD}?.innerText.includes('{session}')")
    held.value(f"{HELD}.querySelector('button').click()")
    held.until(f"{HELD} === null && !document.querySelector('a.card[href$={session}] .badge.taken')")
    assert facts(service, session)["taken_over"] is None
    hand.ask("take", session)
    held.until(f"{HELD}?.innerText.includes('You hold it in another page')")
    held.value(f"{HELD}.querySelector('button').click()")
    held.until(f"{HELD} === null")
    assert facts(service, session)["taken_over"] is None
    held.value(f"location.hash = 'session={session}'")
    held.until(f"{TOGGLE}?.textContent == 'Take'")


@needs_browser
def test_a_page_that_loads_anew_holds_on(held: browser.Page):
    held.call("Page.reload")
    held.wait("Page.loadEventFired")
    held.until(f"{TOGGLE}?.textContent == 'Give back'")
    held.value("document.querySelector('.screen').click()")
    type_line(held, "echo still here")
    held.until(f"{SCREEN}.includes('\\nstill here\\n')")


@needs_browser
def test_agents_are_paused_by_a_button(page: browser.Page, service: Service):
    page.value("location.hash = 'session=one'")
    button = "document.querySelector('.bar .pause')"
    page.until(f"{button}?.textContent == 'Pause agents'")
    page.value(f"{button}.click()")
    page.until(f"{button}.textContent == 'Resume agents' && !{button}.disabled")
    assert taken(service)["by"] == "pause"
    page.value(f"{button}.click()")
    page.until(f"{button}.textContent == 'Pause agents'")
    page.value("location.hash = ''")
    everywhere = "document.querySelector('.top .pause')"
    page.until(f"!{everywhere}.hidden")
    page.value(f"{everywhere}.click()")
    page.until(f"{everywhere}.textContent == 'Resume all agents' && !{everywhere}.disabled")
    page.until("[...document.querySelectorAll('.badge')].some((each) => each.textContent == 'paused')")
    page.value(f"{everywhere}.click()")
    page.until(f"{everywhere}.textContent == 'Pause all agents'")
    service.result("run", session_id="one", command="true")


@needs_browser
def test_a_password_that_is_typed_in_a_page_is_nowhere(held: browser.Page, service: Service, state_dir: Path):
    secrets = Canaries()
    secret = secrets["in the page"]
    type_line(held, 'read -rs x; echo "${#x} characters"')
    held.until("document.querySelector('.bar .state').textContent == 'asks for a secret'")
    with canaries.watched_processes(secrets) as seen:
        type_line(held, secret)
        held.until(f"{SCREEN}.includes('{len(secret)} characters')")
    assert not seen
    assert secrets.found(canaries.files(state_dir)) == {}
    assert secrets.found(canaries.kept_by_tmux(state_dir)) == {}
    assert secrets.found([("the page", held.value("document.documentElement.outerHTML"))]) == {}
    assert held.value("document.querySelector('.typing').value") == ""
