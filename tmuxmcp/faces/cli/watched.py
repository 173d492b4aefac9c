"""A session that somebody watches from the command line: what it shows now, and when that has changed."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any, Literal

from tmuxmcp.contract.errors import SessionNotFound
from tmuxmcp.contract.follow import Destroyed, Exit, Lost
from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.faces.cli import output
from tmuxmcp.faces.cli.calling import UNCUT_BYTES

if TYPE_CHECKING:
    from tmuxmcp.broker.broker import Broker
    from tmuxmcp.contract import results as r
    from tmuxmcp.sessions.follow import Event

WATCH_FRAME_S = 0.05
"""The screen is drawn at most so often; programs draw in many small steps."""


@dataclass(frozen=True)
class SessionView:
    """What a session shows at one moment."""

    result: r.ReadResult

    @property
    def identity(self) -> tuple[Any, ...]:
        """What makes it another view."""
        return self.result.content, self.result.rows, self.result.cols, self.result.mode, self.result.exited

    @property
    def facts(self) -> str:
        """The session in a few words."""
        result = self.result
        words = [result.session_id, f"{result.cols}x{result.rows}", result.mode or ""]
        return "  ".join([*words, output.visible(result.title)] if result.title else words)


class WatchedSession:
    """A session that is watched, and how far that has come."""

    def __init__(self, broker: Broker, name: str, format: Literal["plain", "ansi"]) -> None:
        self._broker, self._name, self._format = broker, name, format
        self._following = broker.follow(name, output=False)
        self._last: Event | None = None

    async def change(self) -> None:
        """Wait until something has changed; the first time, take in how it stands."""
        events = await self._following.batch()
        self._last = events[-1] if events else self._last

    @property
    def over(self) -> bool:
        """Nothing will change any more."""
        return isinstance(self._last, Exit | Lost | Destroyed)

    async def view(self) -> SessionView | None:
        """What it shows now; None when it is gone."""
        if isinstance(self._last, Destroyed):
            return None
        try:
            result = await self._broker.read("screen", self._name, format=self._format, max_bytes=UNCUT_BYTES)
        except SessionNotFound:
            return None
        return SessionView(result)


def end_sentence(session_id: str, last: SessionView | None) -> str:
    """How a session ended, as a sentence."""
    code = last.result.exit_code if last else None
    if last is None or not last.result.exited:
        return f"session {session_id} is gone: somebody ended it"
    return f"session {session_id} has ended" + (f" with exit code {code}" if code is not None else "")


def print_view(view: SessionView, options: argparse.Namespace) -> None:
    """Put a screen on stdout, as JSON or as text; with the time above it where more follow."""
    if options.json:
        output.write_result(view.result)
    else:
        heading = "" if options.once else f"--- {time.strftime('%H:%M:%S')}  {view.facts}\n"
        output.write(heading + view.result.content + "\n")
    sys.stdout.flush()
