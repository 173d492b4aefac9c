"""How tests open the page, and look at it."""

from __future__ import annotations

from pathlib import Path

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
