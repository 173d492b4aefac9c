"""Screens that callers were shown, so that they can be told what has changed since.

A screen's id is made of what it shows: equal screens have equal ids, whoever looked. Kept in memory only, and
bounded: whoever comes with an id that is no longer known is shown the whole screen.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from hashlib import blake2b

from tmuxmcp.contract.latedataclass import dataclass
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.emulator.capture import Capture, KnownRows, Styled
from tmuxmcp.terminal.emulator.redraw import changed_rows
from tmuxmcp.terminal.widths import TmuxVersion
from tmuxmcp.tmux import panes

SHOWN_KEPT_BYTES = 8 * 1024 * 1024
"""Size of all screens that are kept: about 1,000 usual ones."""

KEPT_LOOKS = 1024
"""Callers' last looks that are kept."""


@dataclass(frozen=True)
class ShownScreen:
    """What a terminal shows at one moment."""

    cols: int
    rows: int
    lines: Sequence[str]
    """As `capture-pane -e` printed them."""
    cursor: tuple[int, int, bool]
    """Row, column, and whether it can be seen."""
    known: KnownRows = field(default_factory=KnownRows, compare=False, repr=False)
    """Rows of its session that were read before."""

    @cached_property
    def id(self) -> str:
        """Its screen id: two screens with the same id look the same, cursor and all."""
        what = f"{self.cols}x{self.rows} {self.cursor}\n" + "\n".join(self.lines)
        return blake2b(what.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()

    @property
    def version(self) -> TmuxVersion:
        """Of the tmux that counts its columns."""
        return self.known.version

    @cached_property
    def capture(self) -> Capture:
        """Its rows as text."""
        return self.known.capture(self.lines)

    @property
    def styled(self) -> list[Styled]:
        """Its rows with their looks: a line for each row of the screen."""
        lines = list(self.lines[: self.rows])
        return self.known.styled(lines + [""] * (self.rows - len(lines)))

    @property
    def texts(self) -> list[str]:
        """The text of each row, as the program wrote it: nothing made visible."""
        return ["".join([text for _, text in row]) for row in self.styled]

    @property
    def size(self) -> int:
        """Bytes that it takes in memory, about."""
        return 500 + sum(160 + 2 * len(line) for line in self.lines)


NOTHING_SHOWN = ShownScreen(0, 0, (), (0, 0, False))
"""What a lost session shows."""


async def shown_by(session: Session) -> ShownScreen | None:
    """What a session shows now, and take in what tmux says of its pane; None when that is gone."""
    captured = await panes.capture_pane(session.tmux, session.pane) if session.pane else None
    if captured is None:
        await session.refresh()
        return None
    pane, lines = captured
    await session.take_in(pane)
    cursor = (pane.cursor_row, pane.shown_cursor_col, pane.cursor_visible)
    return ShownScreen(pane.cols, pane.rows, lines, cursor, session.screen_rows)


class Screens:
    """The screens that were shown lately, and which of them each caller saw last."""

    def __init__(self, most_bytes: int = SHOWN_KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._screens: OrderedDict[str, ShownScreen] = OrderedDict()
        self._last: OrderedDict[tuple[str, str], str] = OrderedDict()

    def find(self, screen_id: str) -> ShownScreen | None:
        """The screen of this id, if it is still known."""
        return self._screens.get(screen_id)

    def last(self, session_id: str, caller: str) -> str:
        """Id of the screen that this caller saw last of a session; empty when that is not known."""
        return self._last.get((session_id, caller), "")

    def showed(self, session_id: str, caller: str, shown: ShownScreen) -> None:
        """Remember that this caller has seen it."""
        self._screens.setdefault(shown.id, shown)
        if self._screens[shown.id] is shown:
            self._bytes += shown.size
        self._screens.move_to_end(shown.id)
        while self._bytes > self._most_bytes and len(self._screens) > 1:
            self._bytes -= self._screens.popitem(last=False)[1].size
        self._last[session_id, caller] = shown.id
        self._last.move_to_end((session_id, caller))
        if len(self._last) > KEPT_LOOKS:
            self._last.popitem(last=False)

    def forget(self, session_id: str, caller: str) -> None:
        """The caller has left what it saw last: the next screen is a new one to it."""
        self._last.pop((session_id, caller), None)


@dataclass(frozen=True)
class ScreenChange:
    """What has changed between a screen seen before and one seen now."""

    rows: list[int] | None
    """The changed rows; None when the whole screen is to be shown."""
    note: str | None = None
    """Why it is the whole screen, or that nothing has changed."""


def change(before: ShownScreen | None, now: ShownScreen, since: str) -> ScreenChange:
    """Compare.

    Args:
        since: the id of `before`, which may no longer be known; empty for a first look.
    """
    if before is None:
        why = f"screen_id {since} is not known any more" if since else "no earlier look of yours is known"
    elif (before.cols, before.rows) != (now.cols, now.rows):
        why = "its size has changed"
    else:
        rows = changed_rows(before.styled, now.styled)
        if len(rows) * 2 <= now.rows:
            return ScreenChange(rows, None if rows else "No row has changed.")
        why = "most of it has changed"
    return ScreenChange(None, f"This is the whole screen: {why}.")
