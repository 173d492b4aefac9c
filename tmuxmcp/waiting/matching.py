"""Where a wait looks for its pattern: in what was printed since it began, without the echo, and on the screen.

What a full-screen program draws is no text of the log, so its screen is looked at as soon as it is there. Blanks at
the end of the line that the cursor is in count: a prompt mostly ends with one.
"""

from __future__ import annotations

import re

from tmuxmcp.latedataclass import dataclass
from tmuxmcp.machine.searching import CompiledPattern
from tmuxmcp.sessions.look import Scan
from tmuxmcp.sessions.screens import ShownScreen, shown_by
from tmuxmcp.sessions.session import Session
from tmuxmcp.terminal.forward import column_behind
from tmuxmcp.terminal.marks import ShellState
from tmuxmcp.terminal.plain import needs_grid, plain, without_left_out
from tmuxmcp.terminal.widths import text_width

PATTERN_BYTES = 256 * 1024
"""Raw bytes back from the end of the log in which a pattern is looked for."""

LINE_BYTES = 4096
"""Raw bytes at the log's end that hold the line that the cursor is in."""

COLUMN_BYTES = 16
"""Of the sequence that puts the cursor into a column."""

MOST_PROMPTS = 8
"""Behind so many prompts the echo of what was typed is looked for."""

_LINE_EDITOR_STRETCH = re.compile(rb"\x1b\[\?2004h.*?(?:\x1b\[\?2004l|\Z)", re.DOTALL)
"""From where a line editor begins to read a line to where it has read it."""

_TO_COLUMN = re.compile(rb"\x1b\[\d+G$")

SCREEN_EVERY_S = 0.05
"""Least time between two looks at the screen."""

UNPRINTED_S = 0.25
"""The same when nothing was printed: only a new size changes it then."""


def without_echo(text: str, typed: str) -> str:
    """`text` without the echo of what was typed, also while that is still being drawn.

    Blanks and line breaks do not count: a line editor wraps and indents what it echoes.
    """
    wanted = "".join(typed.split())
    if not wanted:
        return text
    places = [at for at, char in enumerate(text) if not char.isspace()]
    seen = "".join(text[at] for at in places)
    begin = seen.find(wanted)
    if begin >= 0:
        return text[: places[begin]] + text[places[begin + len(wanted) - 1] + 1 :]
    for length in range(min(len(wanted) - 1, len(seen)), 0, -1):
        if seen.endswith(wanted[:length]):
            return text[: places[len(seen) - length]]
    return text


def printed_since(scan: Scan, offset: int, typed: str) -> str:
    """What was printed since an offset, or the end of it, as clean text without the echo of what was typed there.

    What is typed while a command runs is echoed twice: by the terminal at once, then by the line editor behind the
    prompt at which it is read.
    """
    start = max(offset, scan.size - PATTERN_BYTES, scan.log.head())
    data = b"".join(scan.log.pieces(start, scan.size))
    text = _clean(scan, data)
    before, left = "", ""
    for begin, end in _edited_since(scan, start, data) if typed else ():
        upto, edited = _clean(scan, data[: begin - start]), _clean(scan, data[: end - start])
        if not (text.startswith(edited) and edited.startswith(upto) and upto.startswith(before)):
            break  # what was printed later has changed it
        printed, shown = upto.removeprefix(before), edited.removeprefix(upto)
        left += (printed if before else without_echo(printed, typed)) + without_echo(shown, typed)
        before = edited
    rest = text.removeprefix(before)
    text = left + rest if before else without_echo(text, typed)
    return _with_blanks(text, data[-LINE_BYTES:], scan.cols)


def _clean(scan: Scan, data: bytes) -> str:
    return without_left_out(plain(data, scan.cols, scan.rows).text)


def _edited_since(scan: Scan, start: int, data: bytes) -> list[tuple[int, int]]:
    """Where line editors showed what they read, from behind a prompt to its end; the first few of them.

    Args:
        data: what was printed since `start`.
    """
    if scan.marks:
        shell = scan.shell
        shown = [(each.echo_start, each.echo_end) for each in scan.commands]
        if shell.state is not ShellState.STARTING:
            shown.append((shell.prompt_end, shell.echo_end if shell.state is ShellState.RUNNING else scan.size))
    else:
        shown = [(start + found.start(), start + found.end()) for found in _LINE_EDITOR_STRETCH.finditer(data)]
    return [(begin, end) for begin, end in shown if start < begin < end][:MOST_PROMPTS]


def line_of_cursor(scan: Scan) -> str:
    """The line that the cursor is in, with its blanks up to there."""
    data = scan.log.read(max(scan.size - LINE_BYTES, 0), min(scan.size, LINE_BYTES))
    return _with_blanks(scan.last_text, data, scan.cols).rpartition("\n")[2]


def line_since(scan: Scan, offset: int, typed: str) -> str:
    """The line that the cursor is in, as far as it was printed since an offset and is no echo of what was typed."""
    if scan.size <= offset:
        return ""
    return printed_since(scan, offset, typed).rpartition("\n")[2]


def takes_pastes(scan: Scan) -> bool:
    """Whether the last word on pastes in brackets switched them on: a line editor is at work."""
    start = max(scan.size - LINE_BYTES, scan.log.head(), 0)
    return scan.log.read(start, scan.size - start).rpartition(b"\x1b[?2004")[2].startswith(b"h")


def puts_cursor(scan: Scan) -> bool:
    """Whether the last thing printed put the cursor into a column, as line editors do behind their prompt."""
    start = max(scan.size - COLUMN_BYTES, scan.log.head(), 0)
    return _TO_COLUMN.search(scan.log.read(start, scan.size - start)) is not None


def draws(session: Session, scan: Scan) -> bool:
    """Whether a full-screen program draws, as far as tmux was asked or the log tells."""
    return scan.alternate_screen or session.reader.draws_at(scan.size)


def _with_blanks(text: str, data: bytes, cols: int) -> str:
    """Put back the blanks behind a line that was edited, as far as the cursor is behind them."""
    line = data[data.rfind(b"\n") + 1 :]
    if not line or text.endswith("\n") or needs_grid(line):
        return text
    return _padded(text, text_width(text.rpartition("\n")[2]), column_behind(line, cols))


def _padded(text: str, width: int, col: int) -> str:
    return text + " " * (col - width)


def screen_text(shown: ShownScreen) -> str:
    """A screen's rows, that of the cursor with its blanks up to there."""
    rows, (row, col, _) = list(shown.capture.rows), shown.cursor
    if row < len(rows):
        rows[row] = _padded(rows[row], text_width(rows[row]), col)
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
    typed: str = ""
    """What was just typed: its echo matches nothing."""
    screen: bool = True
    """The pattern may also match a screen that no full-screen program draws."""
    _searched: int = -1
    """Size of the log when the new text was last searched."""
    _screen_at: float = 0.0
    _screen_of: int = -1
    """Size of the log when the screen was last looked at."""

    async def found(self, session: Session, scan: Scan, now: float) -> str | None:
        """What the pattern matches now."""
        if self.pattern is None:
            return None
        found = await self._in_text(self.pattern, scan)
        return found if found is not None else await self._on_screen(self.pattern, session, scan, now)

    async def _in_text(self, pattern: CompiledPattern, scan: Scan) -> str | None:
        if scan.size == self._searched or scan.size <= self.start:
            return None
        self._searched = scan.size
        return await pattern.search(printed_since(scan, self.start, self.typed))

    async def _on_screen(self, pattern: CompiledPattern, session: Session, scan: Scan, now: float) -> str | None:
        due = SCREEN_EVERY_S if scan.size != self._screen_of else UNPRINTED_S
        if now - self._screen_at < due or not (self.screen or draws(session, scan)):
            return None
        self._screen_at, self._screen_of = now, scan.size
        shown = await shown_by(session)
        if shown is None or not (self.screen or (session.pane and session.pane.alternate_screen)):
            return None
        return await pattern.search(screen_text(shown), "\n".join(shown.capture.rows))
