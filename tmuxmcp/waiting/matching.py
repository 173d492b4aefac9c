"""Where a wait looks for its pattern: in what was printed since it began, without the echo, and on the screen.

What a full-screen program draws is no text of the log, so its screen is looked at as soon as it is there. Blanks at
the end of the line that the cursor is in count: a prompt mostly ends with one.
"""

from __future__ import annotations

import re
from dataclasses import field, replace

from tmuxmcp.latedataclass import dataclass
from tmuxmcp.machine.searching import CompiledPattern
from tmuxmcp.sessions.look import Scan
from tmuxmcp.sessions.screens import ShownScreen, shown_by
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.marks import ShellState
from tmuxmcp.terminal.unechoed import LAST_LINE_BYTES, Echo, Printed, edited_in, padded, unechoed, with_blanks
from tmuxmcp.terminal.widths import text_width
from tmuxmcp.waiting.looking import NewText, ScreenLooks

PATTERN_BYTES = 256 * 1024
"""Raw bytes back from the end of the log in which a pattern is looked for."""

COLUMN_BYTES = 16
"""Of the sequence that puts the cursor into a column."""

MOST_PROMPTS = 8
"""Behind so many prompts the echo of what was typed is looked for."""

_TO_COLUMN = re.compile(rb"\x1b\[\d+G$")


def printed_since(scan: Scan, offset: int, echo: Echo) -> str:
    """What was printed since an offset, or the end of it, as clean text without the echo of what was typed there."""
    start = max(offset, scan.size - PATTERN_BYTES, scan.log.head())
    data = b"".join(scan.log.pieces(start, scan.size))
    edited = _edited_since(scan, start, data) if echo.typed else ()
    return unechoed(Printed(data, scan.cols, scan.rows, edited), echo)


def _edited_since(scan: Scan, start: int, data: bytes) -> tuple[tuple[int, int], ...]:
    """Where line editors showed what they read, from behind a prompt to its end; the first few of them.

    Args:
        data: what was printed since `start`.
    """
    if scan.marks:
        shell = scan.shell
        shown = [(each.echo_start - start, each.echo_end - start) for each in scan.commands]
        if shell.state is not ShellState.STARTING:
            end = shell.echo_end if shell.state is ShellState.RUNNING else scan.size
            shown.append((shell.prompt_end - start, end - start))
    else:
        shown = edited_in(data)
    return tuple((begin, end) for begin, end in shown if 0 < begin < end)[:MOST_PROMPTS]


def line_of_cursor(scan: Scan) -> str:
    """The line that the cursor is in, with its blanks up to there."""
    data = scan.log.read(max(scan.size - LAST_LINE_BYTES, 0), min(scan.size, LAST_LINE_BYTES))
    return with_blanks(scan.last_text, data, scan.cols).rpartition("\n")[2]


def line_since(scan: Scan, offset: int, typed: str) -> str:
    """The line that the cursor is in, as far as it was printed since an offset and is no echo of what was typed."""
    if scan.size <= offset:
        return ""
    return printed_since(scan, offset, Echo(typed)).rpartition("\n")[2]


def takes_pastes(scan: Scan) -> bool:
    """Whether the last word on pastes in brackets switched them on: a line editor is at work."""
    start = max(scan.size - LAST_LINE_BYTES, scan.log.head(), 0)
    return scan.log.read(start, scan.size - start).rpartition(b"\x1b[?2004")[2].startswith(b"h")


def puts_cursor(scan: Scan) -> bool:
    """Whether the last thing printed put the cursor into a column, as line editors do behind their prompt."""
    start = max(scan.size - COLUMN_BYTES, scan.log.head(), 0)
    return _TO_COLUMN.search(scan.log.read(start, scan.size - start)) is not None


def draws(session: Session, scan: Scan) -> bool:
    """Whether a full-screen program draws, as far as tmux was asked or the log tells."""
    return scan.alternate_screen or session.reader.draws_at(scan.size)


def screen_text(shown: ShownScreen) -> str:
    """A screen's rows, that of the cursor with its blanks up to there."""
    rows, (row, col, _) = list(shown.capture.rows), shown.cursor
    if row < len(rows):
        rows[row] = padded(rows[row], text_width(rows[row]), col)
    return "\n".join(rows)


def row_of_cursor(shown: ShownScreen) -> str:
    """The row that the cursor is in, with its blanks up to there."""
    row = shown.cursor[0]
    return "".join(screen_text(shown).split("\n")[row : row + 1])


@dataclass
class Prompt:
    """Looks for a described prompt in the line that the cursor is in, once for each growth of the log."""

    pattern: CompiledPattern | None = None
    """None: no prompt is described."""
    sent_at: int | None = None
    """Size of the log when something was typed, if it was: a prompt from before does not count."""
    typed: str = ""
    """What was typed: its echo is no prompt."""
    _looked_at: int = -1
    _shown: bool = False

    async def shown(self, session: Session, scan: Scan) -> bool:
        """Whether it is there now."""
        if self.pattern is None or scan.size == self._looked_at:
            return self._shown
        line = await self._line(session, scan)
        self._looked_at = scan.size
        self._shown = bool(line) and await self.pattern.search(line) is not None
        return self._shown

    async def _line(self, session: Session, scan: Scan) -> str:
        if draws(session, scan):
            shown = await shown_by(session)
            return row_of_cursor(shown) if shown else ""
        if self.sent_at is None:
            return line_of_cursor(scan)
        return line_since(scan, self.sent_at, self.typed)


@dataclass
class Matching:
    """Looks for one pattern in a session, and in nothing twice."""

    pattern: CompiledPattern | None = None
    """None: nothing is looked for."""
    start: int = 0
    """New text begins at this offset."""
    echo: Echo = Echo("")
    """What was just typed: its echo matches nothing."""
    screen: bool = True
    """The pattern may also match a screen that no full-screen program draws."""
    _new: NewText = field(init=False)
    _looks: ScreenLooks = field(default_factory=ScreenLooks)

    def __post_init__(self) -> None:
        self._new = NewText(self.start, echoes=bool(self.echo.typed))

    async def found(self, session: Session, scan: Scan, now: float) -> str | None:
        """What the pattern matches now."""
        if self.pattern is None:
            return None
        found = await self._in_text(self.pattern, scan, now)
        return found if found is not None else await self._on_screen(self.pattern, session, scan, now)

    async def _in_text(self, pattern: CompiledPattern, scan: Scan, now: float) -> str | None:
        if not self._new.feed(scan.size, now, exited=scan.exited):
            return None
        echo = replace(self.echo, drawn=self._new.stands)
        return await pattern.search(printed_since(scan, self.start, echo))

    async def _on_screen(self, pattern: CompiledPattern, session: Session, scan: Scan, now: float) -> str | None:
        if not self._looks.due(scan.size, now) or not (self.screen or draws(session, scan)):
            return None
        self._looks.looked(scan.size, now)
        shown = await shown_by(session)
        if shown is None or not (self.screen or (session.pane and session.pane.alternate_screen)):
            return None
        return await pattern.search(screen_text(shown), "\n".join(shown.capture.rows))
