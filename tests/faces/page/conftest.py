"""What the tests of a file share: a server with a session, who is let in, and a browser with the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import a_state_dir
from tests.kit import browser, visits
from tests.kit.fixtures import of_file
from tests.kit.service import Service

state_dir = of_file(a_state_dir)


@pytest.fixture(scope="module")
def service(state_dir: Path) -> Iterator[Service]:
    """A server with a session named one."""
    with Service(state_dir) as started:
        started.result("create_session", program="bash", name="one")
        yield started


@pytest.fixture(scope="module")
def headers(service: Service, state_dir: Path) -> dict[str, str]:
    """The headers of a page that is let in."""
    return visits.let_in(service, state_dir)


@pytest.fixture(scope="module")
def page(service: Service, state_dir: Path) -> Iterator[browser.Page]:
    """A browser with the list of sessions."""
    if not browser.CHROMIUM:
        pytest.skip("needs Chromium: scripts/browser installs it")
    with browser.page() as shown:
        visits.open_list(shown, service, state_dir)
        yield shown
        assert not shown.complaints
