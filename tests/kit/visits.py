"""How tests open the page, and look at it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.conftest import SLOW
from tests.kit import browser
from tests.kit.service import Service
from tmuxmcp.faces.page import codes

TEXT = "[...document.querySelectorAll('.screen .row')].map((row) => row.textContent).join('\\n')"
"""JavaScript that gives the text of the screen that is shown."""


def a_code(service: Service, state_dir: Path) -> str:
    return codes.make_code(state_dir, service.port)


def enter(service: Service, code: str, **headers: str) -> httpx2.Response:
    return httpx2.post(f"{service.url}/page/enter", json={"code": code}, headers=headers, timeout=20 * SLOW)


def let_in(service: Service, state_dir: Path) -> dict[str, str]:
    """The headers of a page that is let in."""
    answer = enter(service, a_code(service, state_dir))
    assert answer.status_code == 200
    return {"Authorization": f"Bearer {answer.json()['token']}"}


def open_list(page: browser.Page, service: Service, state_dir: Path) -> None:
    """Have a browser show the list of sessions; there has to be one."""
    page.go("about:blank")  # an address that differs behind its # alone loads nothing
    page.go(f"{service.url}/#code={a_code(service, state_dir)}")
    page.until("document.querySelectorAll('a.card').length > 0")


def show(page: browser.Page, session: str) -> None:
    """Go to a session, and wait for its screen."""
    page.value(f"location.hash = 'session={session}'")
    named = f"` ${{document.title}}`.includes(' {session} · ')"  # behind the number of those that need somebody
    page.until(f"{named} && document.querySelectorAll('.screen .row').length > 0")


class Told:
    """What a page knows from what it was told."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.messages: list[dict[str, Any]] = []
        self.rows: dict[str, dict[str, Any]] = {}
        self.screen: dict[int, list[dict[str, Any]]] = {}
        self.facts: list[Any] = [0, 0, False, "", ""]
        self.waits: list[dict[str, Any]] = []
        """What waits for a person."""
        self.clock_ms = 0

    def take(self) -> dict[str, Any]:
        message = json.loads(next(self._lines))
        self.messages.append(message)
        self.waits = message.get("waits", self.waits)
        self.clock_ms = message.get("now_ms", self.clock_ms)
        if message["kind"] == "list":
            self.rows |= {row["session_id"]: row for row in message["rows"]}
            assert message.get("whole", False) == (sum(each["kind"] == "list" for each in self.messages) == 1)
            for name in message["gone"]:
                del self.rows[name]
        elif message["kind"] == "screen":
            self.facts = message.get("facts", self.facts)
            self.screen |= {int(number): row for number, row in message.get("lines", {}).items()}
        return message

    def until(self, probe: Callable[[], object]) -> None:
        deadline = time.monotonic() + 20 * SLOW
        while not probe():
            assert time.monotonic() < deadline, self.messages[-3:]
            self.take()

    @property
    def text(self) -> str:
        rows = ("".join(span["t"] for span in self.screen[number]) for number in sorted(self.screen))
        return "\n".join(rows)


@contextmanager
def told(service: Service, headers: dict[str, str], session: str = "") -> Iterator[Told]:
    with (
        httpx2.Client(timeout=20 * SLOW) as client,
        client.stream("POST", f"{service.url}/page/stream", json={"session": session}, headers=headers) as answer,
    ):
        assert answer.status_code == 200, answer.read()
        yield Told(answer.iter_lines())
