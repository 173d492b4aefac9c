"""Which pages show which session: those of this server. Another server of the state directory does not know of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tmuxmcp.contract.latedataclass import dataclass


@dataclass(frozen=True, eq=False)
class PageViewer:
    """A page that shows a session."""

    session_id: str
    page: int
    """Its number, which its lease has; 0: it has none."""
    since_s: float
    """In seconds since 1970."""


class OpenPages:
    """The pages of one server."""

    def __init__(self) -> None:
        self._open: list[PageViewer] = []

    @contextmanager
    def shown(self, session_id: str, page: int) -> Iterator[None]:
        """Have a page show a session while this is open."""
        viewer = PageViewer(session_id, page, time.time())
        self._open.append(viewer)
        try:
            yield
        finally:
            self._open.remove(viewer)

    def of(self, session_id: str) -> list[PageViewer]:
        """Those that show a session, the first first."""
        return [each for each in self._open if each.session_id == session_id]
